//! Which tasks a list shows, and in what order.

use super::support::{at, cancel, change, id, newborn, read, spec, submit_all, trace, write};
use crate::id::TaskId;
use crate::store::{Backend, TaskFilter};
use crate::task::{Kind, Spec};

fn shown(backend: &dyn Backend, filter: &TaskFilter) -> Vec<TaskId> {
    read(backend, |view| view.tasks(filter, None, 1_000)).into_iter().map(|task| task.spec.id).collect()
}

fn ids(millis: &[i64]) -> Vec<TaskId> {
    millis.iter().map(|millis| id(*millis)).collect()
}

/// Nine tasks of many kinds: even ones are `mail`, each third is Ann's, the fifth and the tenth are cancelled.
fn many(backend: &dyn Backend) {
    let spec = |n: i64| Spec {
        task_type: if n > 6 { "late" } else { "early" }.parse().unwrap(),
        queue: if n % 2 == 0 { "mail" } else { "default" }.parse().unwrap(),
        creator: (n % 3 == 0).then(|| "ann".into()),
        labels: if n % 4 == 0 { vec![("team".into(), "red".into()), ("year".into(), "2030".into())] } else { vec![] },
        trace: if n < 4 { trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") } else { spec(n).trace },
        ..spec(n)
    };
    submit_all(backend, (1..=10).map(spec));
    for n in [5, 10] {
        change(backend, id(n), &cancel(), at(20));
    }
}

pub(super) fn tasks_are_listed_newest_first(backend: &dyn Backend) {
    // Born in another order than they were written in.
    submit_all(backend, [3, 1, 2].map(spec));
    assert_eq!(shown(backend, &TaskFilter::default()), ids(&[3, 2, 1]));
    assert_eq!(read(backend, |view| view.tasks(&TaskFilter::default(), None, 0)), []);
}

pub(super) fn every_filter_shows_what_it_names_and_nothing_else(backend: &dyn Backend) {
    many(backend);
    let all = TaskFilter::default;
    let label = |name: &str, value: &str| TaskFilter { label: Some((name.into(), value.into())), ..all() };
    let kinds = |kinds: &[Kind]| TaskFilter { kinds: kinds.to_vec(), ..all() };
    let queue = |name: &str| TaskFilter { queue: name.parse().ok(), ..all() };
    let of_type = |name: &str| TaskFilter { task_type: name.parse().ok(), ..all() };
    let creator = |name: &str| TaskFilter { creator: Some(name.into()), ..all() };
    let trace = |id: &str| TaskFilter { trace_id: Some(id.into()), ..all() };
    let cases = [
        (kinds(&[Kind::Cancelled]), vec![10, 5]),
        (kinds(&[Kind::Pending]), vec![9, 8, 7, 6, 4, 3, 2, 1]),
        (kinds(&[Kind::Cancelled, Kind::Pending, Kind::Success]), vec![10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (kinds(&[Kind::Cancelled, Kind::Cancelled]), vec![10, 5]),
        (kinds(&[Kind::Failed]), vec![]),
        (queue("mail"), vec![10, 8, 6, 4, 2]),
        (queue("default"), vec![9, 7, 5, 3, 1]),
        (queue("none"), vec![]),
        (of_type("late"), vec![10, 9, 8, 7]),
        (creator("ann"), vec![9, 6, 3]),
        (creator("an"), vec![]),
        (label("team", "red"), vec![8, 4]),
        (label("year", "2030"), vec![8, 4]),
        (label("team", "2030"), vec![]),
        (trace("4bf92f3577b34da6a3ce929d0e0e4736"), vec![3, 2, 1]),
        (trace("4BF92F3577B34DA6A3CE929D0E0E4736"), vec![3, 2, 1]),
        (trace("00000000000000000000000000000007"), vec![7]),
        (trace("7"), vec![]),
        (trace("' OR 1 = 1; --"), vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(shown(backend, &filter), ids(&expected), "{filter:?}");
    }
}

pub(super) fn filters_narrow_each_other(backend: &dyn Backend) {
    many(backend);
    let filter = TaskFilter {
        kinds: vec![Kind::Cancelled, Kind::Pending],
        task_type: "late".parse().ok(),
        queue: "mail".parse().ok(),
        ..TaskFilter::default()
    };
    assert_eq!(shown(backend, &filter), ids(&[10, 8]));
    let label = TaskFilter { label: Some(("team".into(), "red".into())), ..filter.clone() };
    assert_eq!(shown(backend, &label), ids(&[8]));
    assert_eq!(shown(backend, &TaskFilter { creator: Some("ann".into()), ..filter.clone() }), []);
    let cancelled = TaskFilter { kinds: vec![Kind::Cancelled], created_to: Some(at(10)), ..TaskFilter::default() };
    assert_eq!(shown(backend, &cancelled), ids(&[5]));
    let trace = TaskFilter {
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        creator: Some("ann".into()),
        created_from: Some(at(2)),
        ..TaskFilter::default()
    };
    assert_eq!(shown(backend, &trace), ids(&[3]));
}

pub(super) fn pages_follow_each_other_without_gap_or_repeat(backend: &dyn Backend) {
    many(backend);
    let all = TaskFilter::default;
    let filters = [
        all(),
        TaskFilter { kinds: vec![Kind::Pending, Kind::Cancelled], ..all() },
        TaskFilter { kinds: vec![Kind::Pending], creator: Some("ann".into()), ..all() },
        TaskFilter { queue: "mail".parse().ok(), ..all() },
        TaskFilter { queue: "default".parse().ok(), ..all() },
        TaskFilter { label: Some(("team".into(), "red".into())), ..all() },
        TaskFilter { trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()), ..all() },
        TaskFilter { created_from: Some(at(3)), created_to: Some(at(9)), ..all() },
    ];
    for filter in filters {
        let whole = shown(backend, &filter);
        assert!(!whole.is_empty(), "{filter:?}");
        for size in [1, 2, 3] {
            let (mut pages, mut before) = (Vec::new(), None);
            loop {
                let page = read(backend, |view| view.tasks(&filter, before, size));
                assert!(page.len() <= size);
                let Some(last) = page.last() else { break };
                before = Some(last.spec.id);
                pages.extend(page.into_iter().map(|task| task.spec.id));
            }
            assert_eq!(pages, whole, "{filter:?} by {size}");
        }
    }
}

pub(super) fn a_span_of_time_is_found_whatever_the_ids_say(backend: &dyn Backend) {
    let span = |from: Option<i64>, to: Option<i64>| TaskFilter {
        created_from: from.map(at),
        created_to: to.map(at),
        ..TaskFilter::default()
    };
    submit_all(backend, (1..=5).map(spec));
    assert_eq!(shown(backend, &span(Some(2), Some(4))), ids(&[3, 2]), "from is in, to is not");
    // An id that was made elsewhere, at another time.
    let odd = newborn(Spec { id: TaskId::from_bytes([0xff; 16]), ..spec(3) });
    let old = newborn(Spec { id: TaskId::from_bytes([0; 16]), ..spec(4) });
    write(backend, |tx| {
        tx.insert(&odd, None, false)?;
        tx.insert(&old, None, false)
    })
    .unwrap();
    assert_eq!(shown(backend, &span(Some(3), Some(4))), [odd.spec.id, id(3)]);
    assert_eq!(shown(backend, &span(Some(4), None)), [id(5), id(4), old.spec.id]);
    assert_eq!(shown(backend, &span(None, Some(2))), ids(&[1]));
    assert_eq!(shown(backend, &span(Some(4), Some(4))), []);
}
