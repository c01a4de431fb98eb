//! Guests that want too much.

use std::sync::Arc;

use super::bed::Bed;
use super::guest;
use crate::executor::protocol::{Ended, Start};
use crate::executor::{Counts, ExecutorConfig};
use crate::task::{Death, Ending, FailureClass};
use crate::time::SystemClock;

fn end_as(bed: &mut Bed, name: &str, change: impl FnOnce(&mut Start)) -> Ended {
    let component = bed.push(&guest::file(name));
    bed.start_as(component, change);
    bed.ended()
}

fn died(name: &str, expected: Death) -> String {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, name, |_| {});
    match ended.ending {
        Ending::Died { cause, message } if cause == expected => message,
        other => panic!("{name}: {other:?} {:?}", ended.scene),
    }
}

#[test]
fn a_guest_dies_of_what_it_does() {
    died("recurse", Death::StackOverflow);
    died("recurse-hostcall", Death::StackOverflow);
    died("bad-string", Death::BadResult);
    died("bad-utf8", Death::BadResult);
    died("not-json", Death::BadResult);
    died("giant-result", Death::BadResult);
    died("giant-log", Death::HostCallLimit);
    died("giant-note", Death::HostCallLimit);
    died("handle-flood", Death::HostCallLimit);
    died("bad-pointer", Death::BadResult);
}

#[test]
fn memory_is_refused_at_the_limit_and_the_death_says_so() {
    let message = died("oom", Death::OutOfMemory);
    assert!(message.contains("`memory_bytes_max` is 67108864"), "{message}");
}

#[test]
fn a_guest_that_takes_a_refusal_well_lives() {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, "grow", |_| {});
    assert_eq!((ended.ending, ended.result.as_deref()), (Ending::Succeeded, Some("1024")));
    assert_eq!(ended.cost.memory_bytes_peak, 64 << 20);
}

#[test]
fn memories_are_counted_together() {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, "many-memories", |_| {});
    let pages: u64 = ended.result.unwrap().parse().unwrap();
    assert!(pages <= 1024 && pages > 900, "{pages}");
}

#[test]
fn tables_are_limited() {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, "table-grow", |start| start.limits.table_elements_max = 10_000);
    let elements: u64 = ended.result.unwrap().parse().unwrap();
    assert!(elements <= 10_000, "{elements}");
}

#[test]
fn a_memory_that_is_too_large_from_the_start_is_no_memory() {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, "giant-note", |start| start.limits.memory_bytes_max = 1 << 20);
    assert!(matches!(ended.ending, Ending::Died { cause: Death::OutOfMemory, .. }), "{:?}", ended.ending);
}

#[test]
fn too_many_instances_do_not_start() {
    let mut bed = Bed::new();
    let ended = end_as(&mut bed, "many-memories", |start| start.limits.instances_max = 4);
    assert!(matches!(ended.ending, Ending::Died { cause: Death::Unloadable, .. }), "{:?}", ended.ending);
}

#[test]
fn want_of_memory_in_the_node_is_not_the_guests_fault() {
    let config = ExecutorConfig { memory_bytes_max: 16 << 20, ..Bed::config(10) };
    let mut bed = Bed::with(config, Arc::new(SystemClock::default()));
    let ended = end_as(&mut bed, "oom", |_| {});
    assert!(matches!(ended.ending, Ending::Failed { class: FailureClass::System, .. }), "{:?}", ended.ending);
    assert_eq!(bed.counts(), Counts::default());
}

#[test]
fn fuel_runs_out_at_the_same_place_every_time() {
    let mut bed = Bed::new();
    for name in ["spin", "check-flood", "spin-start"] {
        let ended = end_as(&mut bed, name, |start| start.fuel = Some(1_000_000));
        assert_eq!((ended.ending, ended.cost.fuel), (Ending::FuelSpent, Some(1_000_000)), "{name}");
    }
    let used: Vec<_> =
        (0..3).map(|_| end_as(&mut bed, "grow", |start| start.fuel = Some(1_000_000)).cost.fuel).collect();
    assert!(used[0] > Some(1_000) && used.iter().all(|fuel| *fuel == used[0]), "{used:?}");
}

#[test]
fn a_flood_of_lines_is_bounded_and_the_last_are_kept() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("log-flood"));
    let key = bed.start_as(component, |start| start.limits.log_lines_max = 50);
    bed.beat(|beat| beat.log.last().is_some_and(|line| line.number > 1_000));
    bed.kill(key);
    let ended = bed.ended();
    assert!(ended.last.log.len() <= 50);
    let mut lines = bed.logged_in_beats();
    lines.extend(ended.last.log);
    assert!(lines.is_sorted_by_key(|line| line.number), "{lines:?}");
    assert!(ended.cost.log_lines_dropped > ended.cost.log_lines / 2, "{:?}", ended.cost);
    // The beat that was waited for was taken out of those that are kept.
    let last = lines.last().map_or(0, |line| line.number);
    assert!(last == ended.cost.log_lines || lines.is_empty(), "{last} {:?}", ended.cost);
}
