//! What a guest finds of WASI.

use super::bed::Bed;
use crate::task::{Death, Ending, LogLevel};

/// Prints, and waits on a pollable for `nanoseconds`.
fn printer(nanoseconds: u64) -> Vec<u8> {
    let text = include_str!("wasi.wat").replace("(;NANOSECONDS;)", &nanoseconds.to_string());
    wat::parse_str(text).unwrap()
}

#[test]
fn what_a_guest_prints_are_lines_of_its_log() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&printer(1));
    assert_eq!(ended.ending, Ending::Succeeded, "{:?}", ended.scene);
    let mut lines = bed.logged_in_beats();
    lines.extend(ended.last.log);
    let lines: Vec<_> = lines.iter().map(|line| (line.level, line.message.as_str())).collect();
    assert_eq!(lines, [(LogLevel::Info, "Hello,"), (LogLevel::Info, "world")]);
}

#[test]
fn a_wait_on_a_pollable_ends_with_the_kill_and_is_named() {
    let mut bed = Bed::new();
    let component = bed.push(&printer(u64::MAX));
    let key = bed.start(component);
    bed.entered(key);
    bed.settle();
    bed.kill(key);
    let ended = bed.ended();
    assert_eq!(ended.ending, Ending::Killed);
    assert_eq!(ended.scene.unwrap().host_call.as_deref(), Some("wasi:io/poll"));
}

/// Makes one call.
fn caller(parts: [(&str, &str); 5]) -> Vec<u8> {
    let text = include_str!("wasi_call.wat").to_owned();
    wat::parse_str(parts.iter().fold(text, |text, (place, part)| text.replace(place, part))).unwrap()
}

#[test]
fn an_exit_is_no_way_to_end_a_task() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&caller([
        ("INTERFACE", "wasi:cli/exit@0.2.6"),
        ("FUNCTION", "exit"),
        ("TYPE", "(param \"status\" (result))"),
        ("PARAMS", "(param i32)"),
        ("ARGUMENTS", "(i32.const 0)"),
    ]));
    let Ending::Died { cause: Death::Trap, message } = ended.ending else { panic!("{:?}", ended.ending) };
    assert!(message.contains("exit(0)"), "{message}");
    assert_eq!(ended.scene.unwrap().host_call.as_deref(), Some("wasi:cli/exit"));
}

#[test]
fn a_bomb_of_random_bytes_does_not_go_off() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&caller([
        ("INTERFACE", "wasi:random/random@0.2.6"),
        ("FUNCTION", "get-random-bytes"),
        ("TYPE", "(param \"len\" u64) (result (list u8))"),
        ("PARAMS", "(param i64 i32)"),
        ("ARGUMENTS", "(i64.const 1000000) (i32.const 16)"),
    ]));
    assert!(matches!(ended.ending, Ending::Died { cause: Death::HostCallLimit, .. }), "{:?}", ended.ending);
}
