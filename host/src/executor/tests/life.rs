//! What a guest says and does while nobody stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::bed::{Bed, small};
use super::guest;
use crate::task::{Death, Ending, FailureClass, LogLevel};
use crate::time::{Clock, SystemClock, Timestamp};

#[test]
fn a_guest_returns_what_it_makes_of_its_input() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&guest::file("echo"));
    assert_eq!(ended.ending, Ending::Succeeded);
    assert_eq!(ended.result.as_deref(), Some("{\"n\": 1}"));
    assert!(ended.last.entered_at.is_some() && ended.killed_at.is_none() && ended.scene.is_none());
    assert_eq!((ended.cost.bytes_in, ended.cost.bytes_out), (8, 8));
    assert!(ended.cost.memory_bytes_peak >= 65_536 && ended.cost.fuel.is_none());
}

#[test]
fn a_large_input_comes_through() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("echo"));
    let input: Arc<str> = format!("\"{}\"", "ü".repeat(100_000)).into();
    bed.start_as(component, |start| start.input = Arc::clone(&input));
    assert_eq!(bed.ended().result.as_deref(), Some(&*input));
}

#[test]
fn a_guest_ends_as_it_says() {
    let mut bed = Bed::new();
    let cases = [
        ("fail-business", FailureClass::Business, None),
        ("fail-system", FailureClass::System, None),
        ("fail-system-retry-after", FailureClass::System, Some(Duration::from_millis(1500))),
        ("fail-fatal", FailureClass::Fatal, None),
    ];
    for (name, expected, wish) in cases {
        let ended = bed.end_of(&guest::file(name));
        let Ending::Failed { class, message, retry_after } = ended.ending else { panic!("{name}: {:?}", ended.ending) };
        assert_eq!((class, retry_after, ended.result), (expected, wish, None), "{name}");
        assert!(!message.is_empty(), "{name}");
    }
    assert_eq!(bed.end_of(&guest::file("stopped-unasked")).ending, Ending::Stopped);
}

#[test]
fn a_trap_leaves_a_scene_with_names() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&guest::file("trap"));
    let Ending::Died { cause: Death::Trap, message } = &ended.ending else { panic!("{:?}", ended.ending) };
    assert!(message.contains("unreachable"), "{message}");
    let scene = ended.scene.unwrap();
    let names: Vec<&str> = scene.backtrace.iter().map(|frame| frame.rsplit('!').next().unwrap()).collect();
    assert_eq!(names, ["sink", "sail", "run"]);
    assert_eq!(scene.host_call, None);
}

#[test]
fn log_lines_come_in_order_with_their_levels() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&guest::file("log-lines"));
    let mut lines = bed.logged_in_beats();
    lines.extend(ended.last.log);
    assert_eq!(lines.iter().map(|line| line.level).collect::<Vec<_>>(), LogLevel::ALL);
    assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!((ended.cost.host_calls, ended.cost.log_lines, ended.cost.log_lines_dropped), (5, 5, 0));
}

#[test]
fn a_beat_tells_progress_while_the_guest_runs() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("beat"));
    let key = bed.start(component);
    let beat = bed.beat(|beat| beat.progress.as_ref().is_some_and(|progress| progress.done >= 3.0));
    assert!(beat.key == key && beat.heartbeat_at > beat.entered_at);
    bed.stop(key);
    assert_eq!(bed.ended().ending, Ending::Stopped);
}

#[test]
fn numbers_that_are_no_progress_are_ignored_but_the_heartbeat_counts() {
    let mut bed = Bed::new();
    let ended = bed.end_of(&guest::file("odd-progress"));
    assert_eq!(ended.ending, Ending::Succeeded);
    assert!(ended.last.progress.is_none() && ended.last.heartbeat_at.is_some());
}

#[test]
fn tasks_in_rust_run() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::example("hello"));
    bed.start_as(component, |start| start.input = "{\"name\": \"Clotho\"}".into());
    let ended = bed.ended();
    assert_eq!(ended.ending, Ending::Succeeded, "{:?}", ended.scene);
    assert!(ended.result.unwrap().contains("Clotho"));
}

#[test]
fn more_starts_than_slots_wait_for_their_turn() {
    let mut bed = Bed::with(super::bed::Bed::config(2), Arc::new(SystemClock::default()));
    let component = bed.push(&guest::file("echo"));
    let mut started: Vec<_> = (0..50).map(|_| bed.start(component)).collect();
    while !started.is_empty() {
        let ended = bed.ended();
        assert_eq!(ended.ending, Ending::Succeeded);
        started.retain(|key| *key != ended.last.key);
    }
}

#[test]
fn a_key_that_is_held_is_not_started_again_and_an_unknown_one_is_ignored() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("polite"));
    let key = bed.start(component);
    bed.start_as(component, |start| start.key = key);
    bed.kill(small::key());
    bed.stop(small::key());
    bed.stop(key);
    assert_eq!(bed.ended().ending, Ending::Stopped);
}

/// A clock that fails in the hands of a guest.
#[derive(Default)]
struct Broken {
    clock: SystemClock,
    armed: AtomicBool,
}

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        let guest = std::thread::current().name().is_some_and(|name| name.starts_with("atropos-guest"));
        // Once: to tell of it, the time is needed too.
        assert!(!guest || !self.armed.swap(false, Ordering::SeqCst), "the clock is broken (a test wants this)");
        self.clock.now()
    }
}

#[test]
fn a_panic_of_the_host_ends_only_the_guest_under_which_it_happened() {
    let clock = Arc::new(Broken::default());
    let mut bed = Bed::with(Bed::config(10), Arc::clone(&clock) as Arc<dyn Clock>);
    let component = bed.push(&guest::file("beat"));
    let key = bed.start(component);
    bed.entered(key);
    clock.armed.store(true, Ordering::SeqCst);
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::HostFault, .. }), "{:?}", ended.ending);
    assert_eq!(bed.end_of(&guest::file("echo")).ending, Ending::Succeeded);
}

#[test]
fn the_smallest_and_the_largest_executor_start() {
    for slots in [1, 4096] {
        let mut bed = Bed::with(Bed::config(slots), Arc::new(SystemClock::default()));
        let component = bed.push(&guest::file("echo"));
        bed.start_as(component, |start| start.fuel = Some(1_000_000));
        assert_eq!(bed.ended().ending, Ending::Succeeded);
    }
}
