//! Who waits where, since when, and until when.

use std::time::Duration;

use super::support::{
    at, cancel, change, id, newborn, put_component, read, spec, submit, submit_all, submit_to_start, write,
};
use crate::store::{Backend, Line, Pause};
use crate::task::{Spec, Terms};

fn line(queue: &str, priority: i8) -> Line {
    Line { queue: queue.parse().unwrap(), priority }
}

fn in_line(millis: i64, queue: &str, priority: i8) -> Spec {
    Spec { queue: queue.parse().unwrap(), priority, ..spec(millis) }
}

pub(super) fn lines_are_those_with_pending_tasks(backend: &dyn Backend) {
    let lines = || {
        let seen = read(backend, |view| view.lines());
        assert_eq!(write(backend, |tx| tx.lines()).unwrap(), seen, "the writer knows the same");
        seen
    };
    assert_eq!(lines(), []);
    let scheduled = Spec { run_after: Some(at(5_000)), ..in_line(9, "z", 0) };
    let specs =
        [in_line(1, "b", -100), in_line(2, "b", 100), in_line(3, "b", 0), in_line(4, "a", 7), in_line(5, "a", 7)];
    submit_all(backend, specs.into_iter().chain([scheduled]));
    assert_eq!(lines(), [line("a", 7), line("b", -100), line("b", 0), line("b", 100), line("z", 0)]);
    for n in [2, 4] {
        change(backend, id(n), &cancel(), at(20));
    }
    assert_eq!(lines(), [line("a", 7), line("b", -100), line("b", 0), line("z", 0)]);
}

pub(super) fn a_line_is_in_the_order_of_readiness(backend: &dyn Backend) {
    let later = |millis, after| Spec { run_after: Some(at(after)), ..spec(millis) };
    submit_all(backend, [spec(5), later(1, 40), spec(3), later(2, 40), later(4, 30), in_line(6, "default", 1)]);
    let ready = |now, limit| {
        let found = read(backend, |view| view.ready_in(&line("default", 0), at(now), limit));
        assert!(found.iter().all(|candidate| candidate.priority == 0 && candidate.ready_at <= at(now)));
        found.into_iter().map(|candidate| candidate.id).collect::<Vec<_>>()
    };
    assert_eq!(ready(40, 9), [id(3), id(5), id(4), id(1), id(2)], "ties by id");
    assert_eq!(ready(39, 9), [id(3), id(5), id(4)]);
    assert_eq!(ready(39, 2), [id(3), id(5)]);
    assert_eq!(ready(2, 9), []);
    let next = |now| read(backend, |view| view.next_ready_in(&line("default", 0), at(now)));
    assert_eq!([next(0), next(5), next(30), next(40)], [Some(at(3)), Some(at(30)), Some(at(40)), None]);
    assert_eq!(read(backend, |view| view.ready_in(&line("none", 0), at(99), 9)), []);
}

pub(super) fn alarms_are_those_of_pending_tasks(backend: &dyn Backend) {
    put_component(backend);
    let alarm = || read(backend, |view| view.next_alarm_at());
    assert_eq!(alarm(), None);
    let within = |millis, queue_ms, age_ms| {
        let (queue_timeout, max_age) = (Duration::from_millis(queue_ms), Duration::from_millis(age_ms));
        Spec { terms: Terms { queue_timeout, max_age, ..super::support::terms() }, ..spec(millis) }
    };
    submit_all(backend, [within(1, 100, 900), within(2, 900, 50), within(3, 100, 900), within(4, 98, 900)]);
    assert_eq!(alarm(), Some(at(52)), "the end of a life comes before the end of a wait");
    let due = |now, limit| read(backend, |view| view.due(at(now), limit));
    assert_eq!(due(51, 9), []);
    assert_eq!(due(103, 9), [id(2), id(1), id(4), id(3)], "soonest first, ties by id");
    assert_eq!(due(103, 2), [id(2), id(1)]);
    change(backend, id(2), &cancel(), at(5));
    assert_eq!(alarm(), Some(at(101)));
    let running = super::support::claim(backend, 9, 0, at(6));
    assert_eq!(running.len(), 3);
    assert_eq!((alarm(), due(9_999, 9)), (None, vec![]), "what runs is watched by its node");
}

pub(super) fn a_pause_stands_until_it_is_lifted(backend: &dyn Backend) {
    let queue = "mail".parse().unwrap();
    let of = || read(backend, |view| view.pause(&queue));
    assert_eq!(of(), None);
    let pause = Pause { below: Some(-7), by: "ann".into(), why: "the mail host is down".into(), at: at(3) };
    let whole = Pause { below: None, by: "bob".into(), ..pause.clone() };
    for pause in [pause, whole] {
        write(backend, |tx| tx.set_pause(&queue, Some(&pause))).unwrap();
        assert_eq!(of(), Some(pause.clone()));
        assert_eq!(write(backend, |tx| tx.pause(&queue)).unwrap(), Some(pause));
    }
    assert_eq!(read(backend, |view| view.pause(&"other".parse().unwrap())), None);
    for _ in 0..2 {
        write(backend, |tx| tx.set_pause(&queue, None)).unwrap();
        assert_eq!(of(), None);
    }
}

pub(super) fn queues_are_counted(backend: &dyn Backend) {
    put_component(backend);
    submit_to_start(backend, in_line(1, "a", 0));
    let scheduled = Spec { run_after: Some(at(500)), ..in_line(4, "b", 3) };
    submit_all(backend, [in_line(2, "b", 9), in_line(3, "b", 0), scheduled, in_line(5, "gone", 0)]);
    change(backend, id(5), &cancel(), at(6));
    let pause = Pause { below: None, by: "ann".into(), why: "".into(), at: at(7) };
    write(backend, |tx| tx.set_pause(&"idle".parse().unwrap(), Some(&pause))).unwrap();
    let rows = read(backend, |view| view.queues());
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_str(), row.pending, row.running, row.oldest_ready_at, row.pause.is_some()))
        .collect();
    assert_eq!(
        told,
        [("a", 0, 1, None, false), ("b", 3, 0, Some(at(2)), false), ("idle", 0, 0, None, true)],
        "paused or live, by name"
    );
    for (queue, count) in [("a", 0), ("b", 3), ("none", 0)] {
        let queue = queue.parse().unwrap();
        assert_eq!(read(backend, |view| view.pending_count(&queue)), count);
        assert_eq!(write(backend, |tx| tx.pending_count(&queue)).unwrap(), count);
    }
    assert_eq!(read(backend, |view| view.running()).len(), 1);
}

pub(super) fn a_key_is_held_once_for_each_type(backend: &dyn Backend) {
    let keyed = |millis| Spec { dedup_key: Some("k".into()), ..spec(millis) };
    let other_type = Spec { task_type: "other".parse().unwrap(), ..keyed(2) };
    submit(backend, keyed(1));
    submit(backend, other_type.clone());
    let holder = |of: &Spec, key| read(backend, |view| view.holder_of(&of.task_type, key)).map(|task| task.spec.id);
    assert_eq!(holder(&keyed(1), "k"), Some(id(1)));
    assert_eq!(holder(&other_type, "k"), Some(id(2)));
    assert_eq!((holder(&keyed(1), "K"), holder(&keyed(1), "")), (None, None));
    let second = newborn(keyed(3));
    assert!(write(backend, |tx| tx.insert(&second, None, true)).is_err(), "the store itself refuses a second holder");
    write(backend, |tx| tx.insert(&second, None, false)).unwrap();
    assert_eq!(holder(&keyed(1), "k"), Some(id(1)), "one that does not take the key may be there");
    let next = crate::task::Task { version: 2, ..second };
    assert!(write(backend, |tx| tx.replace(&next, 1, true)).is_err());
}
