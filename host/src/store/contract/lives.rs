//! The one way in which a task changes, on every backend.

use std::time::Duration;

use super::support::{
    NODE, ask, at, cancel, change, claim, ended, everything, finish, id, kind, load, put_component, read, spec,
    submission, submit, submit_all, submit_to_start, terms, write,
};
use crate::id::TaskId;
use crate::store::life::{self, Born, Change, Finish, Submission};
use crate::store::{Backend, Pause};
use crate::task::{
    DedupScope, Ending, Event, FailureClass, Kind, Objection, Reason, Rejection, Ring, Scene, Spec, StopReceipt, Terms,
};

/// The audit of a task as `from>to reason`, and the events of its outbox.
fn told(backend: &dyn Backend, id: TaskId) -> (Vec<String>, Vec<String>) {
    let audit = read(backend, |view| view.audit(id, 0, 99));
    let outbox: Vec<_> = read(backend, |view| view.outbox(0, 999)).into_iter().filter(|row| row.task == id).collect();
    assert!(audit.iter().map(|row| row.number).eq(outbox.iter().map(|row| row.audit)), "one event for each line");
    let line = |row: &crate::store::AuditRow| {
        let from = row.from.map_or("", Kind::code);
        format!("{from}>{} {}", row.to.code(), row.reason.code())
    };
    (audit.iter().map(line).collect(), outbox.into_iter().map(|row| row.event.to_string()).collect())
}

fn pause(backend: &dyn Backend, queue: &str, below: Option<i8>) {
    let pause = Pause { below, by: "ann".into(), why: "a test".into(), at: at(0) };
    write(backend, |tx| tx.set_pause(&queue.parse().unwrap(), Some(&pause))).unwrap();
}

fn lost() -> Ending {
    Ending::Lost { loss: crate::task::Loss::Executor, message: String::new() }
}

fn short(millis: i64, queue_ms: u64) -> Spec {
    Spec { terms: Terms { queue_timeout: Duration::from_millis(queue_ms), ..terms() }, ..spec(millis) }
}

pub(super) fn a_newborn_that_stands_first_is_claimed_at_once(backend: &dyn Backend) {
    let task = submit_to_start(backend, spec(1));
    assert_eq!((task.state.kind(), task.version, task.state.tally().attempts), (Kind::Running, 1, 1));
    assert_eq!(load(backend, id(1)), task);
    let (audit, outbox) = told(backend, id(1));
    assert_eq!(audit, [">PENDING submitted", "PENDING>RUNNING claimed"]);
    assert_eq!(outbox, ["task.created", "task.running"]);
    // What waits for a later time stands before nobody.
    submit(backend, Spec { run_after: Some(at(50)), ..spec(2) });
    assert_eq!(submit_to_start(backend, spec(3)).state.kind(), Kind::Running);
}

pub(super) fn a_newborn_does_not_pass_what_is_ready_before_it(backend: &dyn Backend) {
    submit(backend, Spec { priority: -100, queue: "mail".parse().unwrap(), ..spec(1) });
    assert_eq!(submit_to_start(backend, Spec { priority: 100, ..spec(2) }).state.kind(), Kind::Pending);
    pause(backend, "mail", None);
    change(backend, id(2), &cancel(), at(3));
    assert_eq!(submit_to_start(backend, spec(4)).state.kind(), Kind::Running, "what is paused is not before it");
}

pub(super) fn a_newborn_is_not_claimed_if_it_is_held_back(backend: &dyn Backend) {
    pause(backend, "mail", Some(5));
    let mail = |millis, priority| Spec { queue: "mail".parse().unwrap(), priority, ..spec(millis) };
    assert_eq!(submit_to_start(backend, mail(1, 4)).state.kind(), Kind::Pending);
    assert_eq!(submit_to_start(backend, mail(2, 5)).state.kind(), Kind::Running);
    assert_eq!(submit_to_start(backend, Spec { run_after: Some(at(9)), ..spec(3) }).state.kind(), Kind::Pending);
    assert_eq!(submit_to_start(backend, Spec { component: None, ..spec(4) }).state.kind(), Kind::Pending);
}

pub(super) fn a_known_key_gives_the_task_that_holds_it_and_writes_nothing(backend: &dyn Backend) {
    let keyed = |millis| Spec { dedup_key: Some("k".into()), ..spec(millis) };
    submit(backend, keyed(1));
    change(backend, id(1), &cancel(), at(2));
    let before = everything(backend, &[id(1), id(3)], at(9));
    let Born::Existing(task) = submit(backend, keyed(3)) else { panic!("a second one") };
    assert_eq!(task, load(backend, id(1)), "the record keeps its key beyond its end");
    assert_eq!(everything(backend, &[id(1), id(3)], at(9)), before);
}

pub(super) fn a_refused_task_has_a_record_and_leaves_its_key_free(backend: &dyn Backend) {
    let keyed = |millis| Spec { dedup_key: Some("k".into()), ..spec(millis) };
    let refusal = Some((Rejection::InputInvalid, "no such field".to_owned()));
    let refused = Submission { refusal, input: None, claim: Some(NODE), ..submission(keyed(1)) };
    write(backend, |tx| life::submit(tx, &refused)).unwrap();
    assert_eq!(kind(backend, id(1)), Kind::Rejected);
    let (audit, outbox) = told(backend, id(1));
    assert_eq!((audit, outbox), (vec![">REJECTED input_invalid".to_owned()], vec!["task.rejected".to_owned()]));
    assert!(matches!(submit(backend, keyed(2)), Born::New { .. }));
}

pub(super) fn a_live_key_is_free_again_when_the_task_ends(backend: &dyn Backend) {
    let keyed = |millis| Spec { dedup_key: Some("k".into()), dedup_scope: DedupScope::Live, ..spec(millis) };
    submit_to_start(backend, keyed(1));
    assert!(matches!(submit(backend, keyed(2)), Born::Existing(_)));
    finish(backend, &ended(id(1), 1, Ending::Succeeded, at(5)));
    assert!(matches!(submit(backend, keyed(6)), Born::New { .. }));
}

pub(super) fn a_rerun_is_refused_if_its_key_was_taken_meanwhile(backend: &dyn Backend) {
    let keyed = |millis| Spec { dedup_key: Some("k".into()), dedup_scope: DedupScope::Live, ..short(millis, 5) };
    submit(backend, keyed(1));
    write(backend, |tx| life::expire_due(tx, at(6), 9)).unwrap();
    assert_eq!(kind(backend, id(1)), Kind::TimedOut);
    submit(backend, keyed(7));
    let before = everything(backend, &[id(1), id(7)], at(9));
    let rerun = Event::RerunAsked { ask: ask("once more"), force: false };
    let refused = change(backend, id(1), &rerun, at(8));
    let Change::Refused { task, why: Objection::KeyTaken, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(task, load(backend, id(1)));
    assert_eq!(everything(backend, &[id(1), id(7)], at(9)), before);
    change(backend, id(7), &cancel(), at(9));
    assert!(matches!(change(backend, id(1), &rerun, at(9)), Change::Done { .. }));
    assert!(matches!(submit(backend, keyed(10)), Born::Existing(_)), "it holds its key again");
}

pub(super) fn claims_follow_priority_and_then_the_wait(backend: &dyn Backend) {
    put_component(backend);
    let specs = [(1, "a", 0), (2, "b", 5), (3, "a", 5), (4, "b", -5), (5, "a", 0)];
    submit_all(backend, specs.map(|(n, queue, priority)| Spec { queue: queue.parse().unwrap(), priority, ..spec(n) }));
    assert_eq!(claim(backend, 2, 0, at(9)), [id(2), id(3)]);
    assert_eq!(claim(backend, 9, 2, at(9)), [id(1), id(5), id(4)]);
    assert_eq!(claim(backend, 9, 5, at(9)), []);
    let (audit, outbox) = told(backend, id(4));
    assert_eq!(audit, [">PENDING submitted", "PENDING>RUNNING claimed"]);
    assert_eq!(outbox, ["task.created", "task.running"]);
    assert_eq!(read(backend, |view| view.running()).len(), 5);
}

pub(super) fn one_claim_in_ten_takes_the_oldest(backend: &dyn Backend) {
    put_component(backend);
    let specs = [spec(1)].into_iter().chain((2..30).map(|n| Spec { priority: 100, ..spec(n) }));
    submit_all(backend, specs);
    assert_eq!(claim(backend, 1, 8, at(99)), [id(2)]);
    assert_eq!(claim(backend, 1, 9, at(99)), [id(1)]);
}

pub(super) fn a_claim_leaves_what_is_paused_or_not_ready(backend: &dyn Backend) {
    put_component(backend);
    pause(backend, "whole", None);
    pause(backend, "below", Some(0));
    let lined = |n, queue: &str, priority| Spec { queue: queue.parse().unwrap(), priority, ..spec(n) };
    let scheduled = Spec { run_after: Some(at(50)), ..spec(5) };
    let specs = [lined(1, "whole", 100), lined(2, "below", -1), lined(3, "below", 0), scheduled];
    submit_all(backend, specs);
    assert_eq!(claim(backend, 9, 0, at(49)), [id(3)]);
    assert_eq!(claim(backend, 9, 0, at(50)), [id(5)]);
    write(backend, |tx| tx.set_pause(&"whole".parse().unwrap(), None)).unwrap();
    assert_eq!(claim(backend, 9, 0, at(50)), [id(1)]);
    assert_eq!(kind(backend, id(2)), Kind::Pending);
}

pub(super) fn a_claim_ends_what_cannot_start(backend: &dyn Backend) {
    submit_all(backend, [short(1, 5), Spec { component: None, ..spec(2) }, spec(3)]);
    assert_eq!(claim(backend, 9, 0, at(7)).len(), 3);
    assert_eq!(kind(backend, id(2)), Kind::Rejected);
    assert_eq!(kind(backend, id(3)), Kind::Rejected, "its component is not there");
    assert_eq!(told(backend, id(3)).0[1], "PENDING>REJECTED component_missing");
    put_component(backend);
    submit_all(backend, [short(11, 5)]);
    claim(backend, 9, 0, at(20));
    assert_eq!(told(backend, id(11)).0[1], "PENDING>TIMED_OUT queue_wait_spent");
}

pub(super) fn a_refused_event_writes_nothing(backend: &dyn Backend) {
    submit(backend, spec(1));
    let before = everything(backend, &[id(1)], at(9));
    let refused = change(backend, id(1), &Event::WaitSpent, at(2));
    let Change::Refused { task, why: Objection::TooEarly, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(task, load(backend, id(1)));
    assert!(matches!(change(backend, id(2), &cancel(), at(2)), Change::Missing));
    assert_eq!(everything(backend, &[id(1)], at(9)), before);
}

pub(super) fn success_keeps_result_attempt_and_audit(backend: &dyn Backend) {
    submit_to_start(backend, spec(1));
    let report = Finish { entered_at: Some(at(2)), ..ended(id(1), 1, Ending::Succeeded, at(5)) };
    let Change::Done { task, .. } = finish(backend, &report) else { panic!("refused") };
    assert_eq!((task.state.kind(), task.version), (Kind::Success, 2));
    assert_eq!(load(backend, id(1)), task);
    let result = read(backend, |view| view.result(id(1))).unwrap();
    assert_eq!((&*result.result, result.attempt, result.at), ("[1]", 1, at(5)));
    let attempts = read(backend, |view| view.attempts(id(1)));
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].outcome, attempts[0].reason, attempts[0].node), (Kind::Success, Reason::Completed, NODE));
    assert_eq!((attempts[0].claimed_at, attempts[0].entered_at, attempts[0].stop.clone()), (at(1), Some(at(2)), None));
    let (audit, outbox) = told(backend, id(1));
    assert_eq!(audit[2..], ["RUNNING>SUCCESS completed"]);
    assert_eq!(outbox[2..], ["task.success"]);
}

pub(super) fn a_late_report_changes_nothing(backend: &dyn Backend) {
    put_component(backend);
    submit_to_start(backend, spec(1));
    finish(backend, &ended(id(1), 1, lost(), at(3)));
    assert_eq!(claim(backend, 1, 0, at(4)), [id(1)]);
    let stale = || ended(id(1), 1, Ending::Succeeded, at(5));
    let before = everything(backend, &[id(1)], at(9));
    assert!(matches!(finish(backend, &stale()), Change::Refused { why: Objection::StaleAttempt, .. }));
    assert_eq!(everything(backend, &[id(1)], at(9)), before, "the second attempt runs on");
    finish(backend, &ended(id(1), 2, Ending::Succeeded, at(6)));
    let before = everything(backend, &[id(1)], at(9));
    for attempt in [1, 2, 3] {
        let late = ended(id(1), attempt, Ending::Stopped, at(7));
        assert!(matches!(finish(backend, &late), Change::Refused { .. }));
        assert_eq!(everything(backend, &[id(1)], at(9)), before);
    }
    assert!(matches!(finish(backend, &ended(id(2), 1, Ending::Stopped, at(7))), Change::Missing));
}

pub(super) fn a_retry_is_two_lines_of_audit_and_a_second_attempt(backend: &dyn Backend) {
    put_component(backend);
    submit_to_start(backend, spec(1));
    let system = Ending::Failed { class: FailureClass::System, message: "the bank is down".into(), retry_after: None };
    let scene = Some(Scene { backtrace: vec!["f".into()], ..Scene::default() });
    finish(backend, &Finish { scene: scene.clone(), ..ended(id(1), 1, system, at(5)) });
    assert_eq!(kind(backend, id(1)), Kind::Pending);
    let (audit, outbox) = told(backend, id(1));
    assert_eq!(audit[2..], ["RUNNING>FAILED system", "FAILED>PENDING retry"]);
    assert_eq!(outbox[2..], ["task.attempt_ended", "task.pending"]);
    let first = read(backend, |view| view.attempts(id(1)));
    assert_eq!((first[0].outcome, &*first[0].detail, &first[0].scene), (Kind::Failed, "the bank is down", &scene));
    let ready_at = read(backend, |view| life::next_wake_at(view, at(5))).unwrap();
    assert_eq!(claim(backend, 1, 0, ready_at - Duration::from_micros(1)), []);
    assert_eq!(claim(backend, 1, 0, ready_at), [id(1)]);
    finish(backend, &ended(id(1), 2, Ending::Succeeded, ready_at));
    let attempts = read(backend, |view| view.attempts(id(1)));
    assert_eq!(
        attempts.iter().map(|row| (row.attempt, row.outcome)).collect::<Vec<_>>(),
        [(1, Kind::Failed), (2, Kind::Success)]
    );
}

pub(super) fn a_stop_leaves_its_receipt(backend: &dyn Backend) {
    let endings = [(1, None, Ending::Stopped, Ring::Asked), (2, Some(at(16)), Ending::Killed, Ring::Killed)];
    let lost = (3, Some(at(16)), lost(), Ring::ExecutorKilled);
    for (n, killed_at, ending, ring) in endings.into_iter().chain([lost]) {
        submit_to_start(backend, spec(n));
        change(backend, id(n), &cancel(), at(10));
        assert_eq!(told(backend, id(n)).1.last().map(String::as_str), Some("task.stopping"));
        let report =
            Finish { told_at: Some(at(12)), seen_at: Some(at(13)), killed_at, ..ended(id(n), 1, ending, at(17)) };
        write(backend, |tx| life::finish(tx, &report, at(18))).unwrap();
        assert_eq!(kind(backend, id(n)), Kind::Cancelled);
        let receipt = StopReceipt {
            asked_at: at(10),
            told_at: Some(at(12)),
            seen_at: Some(at(13)),
            killed_at,
            gone_at: at(17),
            written_at: at(18),
            ring,
        };
        assert_eq!(read(backend, |view| view.attempts(id(n)))[0].stop, Some(receipt));
    }
}

pub(super) fn spent_waits_end_when_their_time_comes(backend: &dyn Backend) {
    let young = Spec { terms: Terms { max_age: Duration::from_millis(3), ..terms() }, ..spec(2) };
    submit_all(backend, [short(1, 9), young, short(3, 9), spec(4)]);
    let expire = |now, limit| {
        let changes = write(backend, |tx| life::expire_due(tx, at(now), limit)).unwrap();
        changes
            .into_iter()
            .map(|change| match change {
                Change::Done { task, .. } => task.spec.id,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(expire(4, 9), []);
    assert_eq!(expire(12, 2), [id(2), id(1)]);
    assert_eq!(expire(12, 2), [id(3)]);
    assert_eq!(expire(12, 2), []);
    assert_eq!(told(backend, id(1)).0[1], "PENDING>TIMED_OUT queue_wait_spent");
    assert_eq!(told(backend, id(2)).0[1], "PENDING>TIMED_OUT life_spent");
    assert_eq!(kind(backend, id(4)), Kind::Pending);
}

pub(super) fn the_next_wake_up_is_the_soonest_of_all(backend: &dyn Backend) {
    let wake = |now| read(backend, |view| life::next_wake_at(view, at(now)));
    assert_eq!(wake(0), None);
    submit_all(backend, [short(1, 80), Spec { run_after: Some(at(30)), ..spec(2) }]);
    let held = Spec { run_after: Some(at(20)), queue: "held".parse().unwrap(), ..spec(3) };
    submit_all(backend, [held]);
    pause(backend, "held", None);
    assert_eq!(wake(5), Some(at(30)), "a paused line wakes nobody");
    assert_eq!(wake(30), Some(at(81)));
}
