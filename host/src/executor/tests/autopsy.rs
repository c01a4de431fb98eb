//! Every way to die leaves a scene that tells where the guest was, and a receipt that is right; and a core dump, if asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmparser::{CoreDumpStackSection, DataKind, KnownCustom, Operator, Parser, Payload};

use super::bed::Bed;
use super::guest;
use crate::executor::protocol::{AttemptKey, Ended, Start};
use crate::executor::{Dumps, ExecutorConfig};
use crate::task::{CoreDump, Death, Ending, Phase, Scene};
use crate::time::SystemClock;

/// A guest that is killed in what it does, and what is told of it: its phase, a frame, its host call.
const KILLED: [(&str, Phase, &str, Option<&str>); 9] = [
    ("spin", Phase::Running, "run", None),
    ("spin-tail-call", Phase::Running, "", None),
    ("spin-start", Phase::Instantiating, "", None),
    ("spin-realloc", Phase::Running, "make_room", None),
    ("spin-post-return", Phase::Running, "", None),
    ("sleep-forever", Phase::Running, "run", Some("atropos:task/lifecycle.sleep")),
    ("check-flood", Phase::Running, "run", None),
    ("fill", Phase::Running, "run", None),
    ("memory-hog", Phase::Running, "run", None),
];

/// A guest that dies of itself, and what is told of it.
const DEAD: [(&str, Phase, &str); 9] = [
    ("trap", Phase::Running, "sink"),
    ("recurse", Phase::Running, "… and more"),
    ("recurse-hostcall", Phase::Running, "… and more"),
    ("oom", Phase::Running, "run"),
    ("giant-log", Phase::Running, "run"),
    ("handle-flood", Phase::Running, "run"),
    ("not-json", Phase::Returning, ""),
    ("giant-result", Phase::Returning, ""),
    ("bad-pointer", Phase::Returning, ""),
];

fn scene(ended: &Ended) -> &Scene {
    ended.scene.as_ref().unwrap_or_else(|| panic!("no scene: {ended:?}"))
}

fn assert_frame(name: &str, scene: &Scene, frame: &str) {
    let there = scene.backtrace.iter().any(|named| named.contains(frame));
    assert!(if frame.is_empty() { true } else { there }, "{name}: {scene:?}");
    assert!(scene.backtrace.len() <= 21 && scene.at.is_some(), "{name}: {scene:?}");
}

/// Runs it until it is known to be where it stays, and kills it there.
fn killed(bed: &mut Bed, name: &str, change: impl FnOnce(&mut Start)) -> Ended {
    let component = bed.push(&guest::file(name));
    let key = bed.start_as(component, change);
    bed.entered(key);
    bed.settle();
    bed.kill(key);
    bed.ended()
}

#[test]
fn whoever_is_killed_tells_where_it_was() {
    let mut bed = Bed::new();
    for (name, phase, frame, call) in KILLED {
        let ended = killed(&mut bed, name, |_| {});
        assert_eq!(ended.ending, Ending::Killed, "{name}");
        let scene = scene(&ended);
        assert_eq!(scene.phase, Some(phase), "{name}: {scene:?}");
        assert!(!scene.backtrace.is_empty(), "{name}: {scene:?}");
        assert_frame(name, scene, frame);
        if let Some(call) = call {
            assert_eq!(scene.host_call.as_deref(), Some(call), "{name}");
        }
    }
}

#[test]
fn whoever_dies_of_itself_tells_where() {
    let mut bed = Bed::new();
    for (name, phase, frame) in DEAD {
        let ended = bed.end_of(&guest::file(name));
        assert!(matches!(ended.ending, Ending::Died { .. }), "{name}: {:?}", ended.ending);
        let scene = scene(&ended);
        assert_eq!(scene.phase, Some(phase), "{name}: {scene:?}");
        assert_frame(name, scene, frame);
    }
}

#[test]
fn whoever_spends_its_fuel_tells_where_and_how_much() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("spin"));
    bed.start_as(component, |start| start.fuel = Some(10_000));
    let ended = bed.ended();
    assert_eq!((&ended.ending, ended.cost.fuel), (&Ending::FuelSpent, Some(10_000)));
    assert_frame("spin", scene(&ended), "run");
}

#[test]
fn who_had_not_come_so_far_says_so() {
    let mut bed = Bed::with(Bed::config(1), Arc::new(SystemClock::default()));
    let component = bed.push(&guest::file("sleep-forever"));
    let first = bed.start(component);
    bed.entered(first);
    // The only slot is taken, so this one waits. It may not have been polled yet.
    let second = bed.start(component);
    bed.kill(second);
    let ended = bed.ended();
    assert!(matches!(scene(&ended).phase, Some(Phase::Loading | Phase::Waiting)), "{ended:?}");
    bed.kill(first);
    assert_eq!(scene(&bed.ended()).phase, Some(Phase::Running));
    let unknown = crate::id::Digest::of(b"nothing");
    bed.start(unknown);
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::Unloadable, .. }), "{ended:?}");
    assert_eq!(scene(&ended).phase, Some(Phase::Loading));
}

#[test]
fn a_panic_of_the_host_tells_under_which_call() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("polite"));
    bed.start_watched(component, Box::new(|number, _| assert!(number < 2, "the host fails, as this test wants it")));
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::HostFault, .. }), "{ended:?}");
    let scene = scene(&ended);
    assert_eq!(scene.host_call.as_deref(), Some("atropos:task/lifecycle.sleep"), "{scene:?}");
    assert_eq!(ended.cost.host_calls, 2);
}

#[test]
fn a_watch_hears_the_entry_and_each_call_in_order() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("log-lines"));
    let (told, heard) = std::sync::mpsc::channel();
    bed.start_watched(component, Box::new(move |number, call| told.send((number, call)).unwrap()));
    assert_eq!(bed.ended().ending, Ending::Succeeded);
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(heard[0], (0, ""));
    assert!(heard[1..].iter().zip(1..).all(|(call, number)| *call == (number, "atropos:task/log.write")), "{heard:?}");
    assert_eq!(heard.len(), 6);
}

#[test]
fn the_receipt_is_right_however_it_ends() {
    let mut bed = Bed::new();
    let ended = killed(&mut bed, "sleep-forever", |_| {});
    let cost = &ended.cost;
    assert_eq!((cost.host_calls, cost.memory_bytes_peak, cost.fuel), (1, 65_536, None), "{cost:?}");
    assert_eq!((cost.bytes_in, cost.bytes_out, cost.log_lines), (8, 0, 0), "{cost:?}");
    assert!(cost.wall_micros > 0 && cost.cpu_micros > 0 && cost.cpu_micros < cost.wall_micros, "{cost:?}");

    let ended = killed(&mut bed, "spin", |start| start.fuel = Some(u64::MAX / 4));
    assert!(ended.cost.fuel.is_some_and(|fuel| fuel > 0), "a killed guest pays for what it used: {:?}", ended.cost);

    let ended = bed.end_of(&guest::file("trap"));
    let cost = &ended.cost;
    assert_eq!((cost.host_calls, cost.bytes_in, cost.bytes_out, cost.log_lines), (0, 8, 0, 0), "{cost:?}");
    assert!(cost.wall_micros > 0 && cost.cpu_micros > 0, "{cost:?}");

    let ended = bed.end_of(&guest::file("not-json"));
    assert!(ended.cost.bytes_out > 0, "what it returned has come out, though it is no result: {:?}", ended.cost);
}

// Core dumps.

/// What stands in a core dump.
#[derive(Debug, Default)]
struct Found {
    /// How many frames, the places in their functions, and whether there is a section that says what it is.
    named: bool,
    frames: Vec<(u32, u32)>,
    modules: usize,
    instances: usize,
    memory_pages: Vec<u64>,
    globals: Vec<i32>,
    /// Bytes of memory by where they begin.
    data: BTreeMap<i32, Vec<u8>>,
}

fn read(dump: &[u8]) -> Found {
    let mut found = Found::default();
    for payload in Parser::new(0).parse_all(dump) {
        match payload.unwrap() {
            Payload::MemorySection(memories) => {
                found.memory_pages = memories.into_iter().map(|memory| memory.unwrap().initial).collect();
            }
            Payload::GlobalSection(globals) => {
                for global in globals {
                    if let Operator::I32Const { value } =
                        global.unwrap().init_expr.get_operators_reader().read().unwrap()
                    {
                        found.globals.push(value);
                    }
                }
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    let segment = segment.unwrap();
                    let DataKind::Active { offset_expr, .. } = segment.kind else { panic!("{:?}", segment.kind) };
                    let Operator::I32Const { value } = offset_expr.get_operators_reader().read().unwrap() else {
                        panic!("an offset")
                    };
                    found.data.insert(value, segment.data.to_vec());
                }
            }
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::CoreDump(_) => found.named = true,
                KnownCustom::CoreDumpStack(stack) => found.frames = frames(&stack),
                KnownCustom::CoreDumpModules(modules) => found.modules = modules.modules.len(),
                KnownCustom::CoreDumpInstances(instances) => found.instances = instances.instances.len(),
                _ => {}
            },
            _ => {}
        }
    }
    found
}

fn frames(stack: &CoreDumpStackSection<'_>) -> Vec<(u32, u32)> {
    stack.frames.iter().map(|frame| (frame.funcidx, frame.codeoffset)).collect()
}

/// A bed that keeps dumps, and where it keeps them.
fn with_dumps() -> (Bed, Dumps, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("dumps");
    let config = ExecutorConfig { dumps: Some(folder.clone()), ..Bed::config(10) };
    (Bed::with(config, Arc::new(SystemClock::default())), Dumps::new(folder), place)
}

fn dump(dumps: &Dumps, ended: &Ended) -> Found {
    let AttemptKey { task, attempt } = ended.last.key;
    let bytes = dumps.find(task, attempt).unwrap().unwrap_or_else(|| panic!("no dump: {:?}", ended.scene));
    assert_eq!(scene(ended).core_dump, Some(CoreDump::Kept { bytes: bytes.len() as u64 }));
    read(&bytes)
}

#[test]
fn a_trap_leaves_a_core_dump_that_can_be_read() {
    let (mut bed, dumps, _place) = with_dumps();
    let sink = "(global $depth (mut i32) (i32.const 41))
        (func $sink (result i32)
            (global.set $depth (i32.const 42)) (i32.store (i32.const 512) (i32.const 7)) unreachable)";
    let text = guest::text("trap").replacen("(func $sink (result i32) unreachable)", sink, 1);
    let component = bed.push(&wat::parse_str(&text).unwrap());
    bed.start_as(component, |start| start.core_dump = true);
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::Trap, .. }), "{ended:?}");
    let found = dump(&dumps, &ended);
    assert!(found.named && found.frames.len() == 3 && found.modules >= 1 && found.instances >= 1, "{found:?}");
    assert_eq!((&found.memory_pages[..], &found.globals[..]), (&[1][..], &[42][..]), "{found:?}");
    assert!(
        found.data.iter().any(|(at, bytes)| usize::try_from(512 - at).is_ok_and(|place| bytes.get(place) == Some(&7))),
        "{found:?}"
    );
}

#[test]
fn whoever_is_killed_leaves_a_core_dump() {
    let (mut bed, dumps, _place) = with_dumps();
    for name in ["spin", "sleep-forever", "spin-start"] {
        let ended = killed(&mut bed, name, |start| start.core_dump = true);
        assert_eq!(ended.ending, Ending::Killed, "{name}");
        assert!(!dump(&dumps, &ended).frames.is_empty(), "{name}");
        assert!(!scene(&ended).backtrace.is_empty(), "{name}");
    }
}

#[test]
fn fuel_is_counted_where_dumps_are_made() {
    let (mut bed, dumps, _place) = with_dumps();
    let component = bed.push(&guest::file("spin"));
    bed.start_as(component, |start| (start.fuel, start.core_dump) = (Some(10_000), true));
    let ended = bed.ended();
    assert_eq!((&ended.ending, ended.cost.fuel), (&Ending::FuelSpent, Some(10_000)));
    assert!(!dump(&dumps, &ended).frames.is_empty());
}

#[test]
fn who_does_well_leaves_none_and_who_does_not_ask_gets_none() {
    let (mut bed, dumps, _place) = with_dumps();
    let echo = bed.push(&guest::file("echo"));
    bed.start_as(echo, |start| start.core_dump = true);
    let ended = bed.ended();
    assert_eq!((&ended.ending, &ended.scene), (&Ending::Succeeded, &None));
    let ended = bed.end_of(&guest::file("trap"));
    assert_eq!(scene(&ended).core_dump, None);
    assert_eq!(dumps.find(ended.last.key.task, 1).unwrap(), None);
}

#[test]
fn a_dump_that_cannot_be_made_hinders_nothing() {
    let (mut bed, dumps, place) = with_dumps();
    // It holds more than a dump may.
    let ended = killed(&mut bed, "fill", |start| start.core_dump = true);
    assert_eq!(ended.ending, Ending::Killed);
    let Some(CoreDump::Missing { why }) = &scene(&ended).core_dump else { panic!("{ended:?}") };
    assert!(why.contains("bytes of memory"), "{why}");
    assert_eq!(dumps.find(ended.last.key.task, 1).unwrap(), None);
    // The folder cannot be made.
    std::fs::write(place.path().join("dumps"), "a file").unwrap();
    let trap = bed.push(&guest::file("trap"));
    bed.start_as(trap, |start| start.core_dump = true);
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::Trap, .. }), "{ended:?}");
    assert!(matches!(scene(&ended).core_dump, Some(CoreDump::Missing { .. })), "{ended:?}");
    // This executor has none.
    let mut bed = Bed::new();
    let trap = bed.push(&guest::file("trap"));
    bed.start_as(trap, |start| start.core_dump = true);
    assert!(matches!(scene(&bed.ended()).core_dump, Some(CoreDump::Missing { .. })));
}
