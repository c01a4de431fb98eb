//! Guests that are told to stop, and guests that are killed.

use super::bed::Bed;
use super::guest;
use crate::task::Ending;

/// Guests that do not end by themselves, each stuck in another place.
const STUCK: [&str; 16] = [
    "spin",
    "spin-tail-call",
    "spin-start",
    "spin-realloc",
    "spin-post-return",
    "spin-destructor",
    "sleep-forever",
    "check-flood",
    "log-flood",
    "polite",
    "memory-hog",
    "fill",
    "copy",
    "copy-up",
    "table-fill",
    "table-copy",
];

#[test]
fn a_guest_is_killed_wherever_it_is() {
    let mut bed = Bed::new();
    for name in STUCK {
        let component = bed.push(&guest::file(name));
        let key = bed.start(component);
        bed.entered(key);
        bed.kill(key);
        let ended = bed.ended();
        assert_eq!((ended.last.key, ended.ending), (key, Ending::Killed), "{name}");
        assert!(ended.killed_at.is_some_and(|at| at <= ended.gone_at), "{name}");
        assert_eq!((bed.counts().sandboxes, bed.counts().guest_memory_bytes), (0, 0), "{name}");
    }
}

#[test]
fn a_kill_may_come_at_any_moment() {
    let mut bed = Bed::new();
    for name in STUCK {
        let component = bed.push(&guest::file(name));
        // Right after the start: it is queued, or being instantiated, or just entered.
        let keys: Vec<_> = (0..20).map(|_| bed.start(component)).collect();
        for key in &keys {
            bed.kill(*key);
        }
        for _ in &keys {
            assert_eq!(bed.ended().ending, Ending::Killed, "{name}");
        }
    }
}

#[test]
fn a_straight_line_of_host_calls_is_cut() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::straight_line());
    let mut killed = 0;
    for _ in 0..20 {
        let key = bed.start(component);
        bed.kill(key);
        killed += u32::from(bed.ended().ending == Ending::Killed);
    }
    assert!(killed > 0, "none was killed before it came to its end");
}

#[test]
fn a_killed_guest_tells_where_it_was() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("sleep-forever"));
    let key = bed.start(component);
    bed.entered(key);
    // Having slept, it is known to be inside the call.
    bed.settle();
    bed.kill(key);
    let scene = bed.ended().scene.unwrap();
    assert_eq!(scene.host_call.as_deref(), Some("atropos:task/lifecycle.sleep"));
    assert!(scene.backtrace.iter().any(|frame| frame.ends_with("run")), "{scene:?}");
}

#[test]
fn a_spinner_that_is_killed_tells_where_it_span() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("spin"));
    let key = bed.start(component);
    bed.entered(key);
    bed.kill(key);
    let scene = bed.ended().scene.unwrap();
    assert!(scene.backtrace.iter().any(|frame| frame.ends_with("run")), "{scene:?}");
    assert_eq!(scene.host_call, None);
}

#[test]
fn a_guest_that_listens_returns_stopped() {
    let mut bed = Bed::new();
    for name in ["polite", "polite-check", "beat"] {
        let component = bed.push(&guest::file(name));
        let key = bed.start(component);
        bed.entered(key);
        bed.stop(key);
        let ended = bed.ended();
        assert_eq!(ended.ending, Ending::Stopped, "{name}");
        assert!(
            ended.told_at.is_some() && ended.last.stop_seen_at >= ended.told_at && ended.killed_at.is_none(),
            "{name}"
        );
    }
}

#[test]
fn work_that_is_done_is_done_though_a_stop_was_asked_for() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("polite-ok"));
    let key = bed.start(component);
    bed.stop(key);
    let ended = bed.ended();
    assert_eq!((ended.ending, ended.result.as_deref()), (Ending::Succeeded, Some("\"done\"")));
}

#[test]
fn a_stop_wakes_a_sleeper_and_a_kill_ends_it() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("sleep-forever"));
    let key = bed.start(component);
    bed.entered(key);
    bed.stop(key);
    bed.beat(|beat| beat.stop_seen_at.is_some());
    bed.kill(key);
    let ended = bed.ended();
    assert_eq!(ended.ending, Ending::Killed);
    assert!(ended.told_at <= ended.last.stop_seen_at && ended.last.stop_seen_at <= ended.killed_at);
}

#[test]
fn a_guest_that_spins_after_the_stop_is_killed() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("spin-after-stop"));
    let key = bed.start(component);
    bed.stop(key);
    bed.beat(|beat| beat.stop_seen_at.is_some());
    bed.kill(key);
    assert_eq!(bed.ended().ending, Ending::Killed);
}

#[test]
fn sixty_four_spinners_die_and_others_get_their_turn_meanwhile() {
    let mut bed = Bed::new();
    let (spin, echo) = (bed.push(&guest::file("spin")), bed.push(&guest::file("echo")));
    let keys: Vec<_> = (0..64).map(|_| bed.start(spin)).collect();
    for key in &keys {
        bed.entered(*key);
    }
    bed.start(echo);
    assert_eq!(bed.ended().ending, Ending::Succeeded);
    assert_eq!(bed.counts().attempts, 64);
    for key in &keys {
        bed.kill(*key);
    }
    for _ in &keys {
        assert_eq!(bed.ended().ending, Ending::Killed);
    }
}

#[test]
fn thirty_two_guests_that_fill_their_memory_die() {
    let mut bed = Bed::new();
    let fill = bed.push(&guest::file("fill"));
    let keys: Vec<_> = (0..32).map(|_| bed.start(fill)).collect();
    for key in &keys {
        bed.entered(*key);
    }
    for key in &keys {
        bed.kill(*key);
    }
    for _ in &keys {
        assert_eq!(bed.ended().ending, Ending::Killed);
    }
    assert_eq!(bed.counts().guest_memory_bytes, 0);
}

#[test]
fn a_second_kill_changes_nothing() {
    let mut bed = Bed::new();
    let component = bed.push(&guest::file("spin"));
    let key = bed.start(component);
    for _ in 0..5 {
        bed.kill(key);
    }
    assert_eq!(bed.ended().ending, Ending::Killed);
    bed.kill(key);
}

#[test]
fn closing_kills_what_runs() {
    let bed = Bed::new();
    let component = bed.push(&guest::file("spin"));
    for _ in 0..5 {
        bed.start(component);
    }
    bed.close();
}

#[test]
fn every_attempt_ends_once_whatever_comes_when() {
    let mut bed = Bed::new();
    let components =
        ["ok", "echo", "sleep-once", "polite", "spin", "sleep-forever"].map(|name| bed.push(&guest::file(name)));
    let mut left = std::collections::HashSet::new();
    // Any order will do that mixes them: a linear congruence, the same in every run.
    let mut chance = 7_u32;
    for round in 0..600 {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = bed.start(components[(chance >> 16) as usize % components.len()]);
        left.insert(key);
        if round % 3 == 0 {
            bed.stop(key);
        }
        if round % 2 == 0 {
            bed.kill(key);
        }
    }
    for key in &left {
        bed.kill(*key);
    }
    while !left.is_empty() {
        let ended = bed.ended();
        assert!(left.remove(&ended.last.key), "ended twice: {ended:?}");
    }
}
