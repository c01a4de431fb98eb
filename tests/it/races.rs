//! Two hands on one task, ten thousand times: never two terminal states, never an answer that lies.

use std::sync::Arc;
use std::time::Duration;

use atropos::host::{AttemptView, Error, NewTask, NewType};
use atropos::id::{QueueName, TaskId};
use atropos::task::{Ask, Kind, Objection, TermsDraft};
use atropos::{Config, Host};

use crate::bed::assert_nothing_is_left;
use crate::support::{PATIENCE, guest};

fn ask() -> Ask {
    Ask { by: "user:ada".into(), why: "a race".into() }
}

async fn host(data: &std::path::Path) -> Host {
    let host = Host::start(Config { data_dir: Some(data.to_owned()), ..Config::default() }).await.expect("it starts");
    let component = host.push(guest("ok"), "test".into()).await.expect("it fits").digest;
    let terms = TermsDraft { run_timeout: Some(Duration::from_mins(1)), ..TermsDraft::default() };
    let name = "ok".parse().expect("a name");
    host.put_type(NewType { name, component, terms, input_schema: None, by: "test".into() }).await.expect("a type");
    host
}

fn new_task() -> NewTask {
    NewTask::new("ok".parse().expect("a name"), "null")
}

/// What the answer to a cancel promised must be what came to be.
async fn assert_true(host: &Host, id: TaskId, answer: Result<Kind, Objection>) {
    let view = host.wait(id, PATIENCE).await.expect("it is there");
    let kind = view.task.state.kind();
    let lawful = match answer {
        // It never ran: CANCELLED there and then.
        Ok(Kind::Cancelled) => kind == Kind::Cancelled,
        // It was told, and may have been done by then.
        Ok(Kind::Running) => matches!(kind, Kind::Cancelled | Kind::Success),
        Err(Objection::Ended) => kind == Kind::Success,
        Ok(_) | Err(_) => false,
    };
    assert!(lawful, "answered {answer:?}, became {kind:?}");
    let audit = host.audit(id).await.expect("its audit");
    assert_eq!(audit.iter().filter(|row| row.to.is_terminal()).count(), 1, "{audit:?}");
    assert_eq!(audit.last().map(|row| row.to), Some(kind));
    let chained = audit.windows(2).all(|pair| pair[1].from == Some(pair[0].to));
    assert!(chained && audit[0].from.is_none(), "{audit:?}");
    let attempts = host.attempts(id).await.expect("its attempts");
    assert!(attempts.iter().all(|attempt| matches!(attempt, AttemptView::Over(_))), "{attempts:?}");
    if answer == Ok(Kind::Cancelled) {
        assert!(attempts.is_empty(), "cancelled before it started, and yet it ran");
    }
}

async fn cancel(host: Host, id: TaskId) -> (TaskId, Result<Kind, Objection>) {
    let answer = match host.cancel(id, ask(), Some(Duration::ZERO)).await {
        Ok(view) => Ok(view.task.state.kind()),
        Err(Error::Refused { why, .. }) => Err(why),
        Err(other) => panic!("{other}"),
    };
    (id, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_claim_together_ten_thousand_times() {
    let data = tempfile::tempdir().expect("a folder");
    let host = host(data.path()).await;
    let queue = QueueName::default();
    for _ in 0..100 {
        host.pause(queue.clone(), None, ask()).await.expect("it is paused");
        let born = host.submit_many(vec![new_task(); 100]).await.map_err(|(_, error)| error).expect("they are taken");
        let cancels: Vec<_> = born.iter().map(|task| tokio::spawn(cancel(host.clone(), task.task.spec.id))).collect();
        host.resume(queue.clone()).await.expect("it goes on");
        for cancelled in cancels {
            let (id, answer) = cancelled.await.expect("no panic");
            assert_true(&host, id, answer).await;
        }
    }
    assert_nothing_is_left(&host).await;
    host.shut_down().await.expect("it goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_completion_together_ten_thousand_times() {
    let data = tempfile::tempdir().expect("a folder");
    let host = host(data.path()).await;
    let turns = Arc::new(std::sync::atomic::AtomicUsize::new(10_000));
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let (host, turns) = (host.clone(), Arc::clone(&turns));
            tokio::spawn(async move {
                let take = |n: usize| n.checked_sub(1);
                let order = std::sync::atomic::Ordering::Relaxed;
                while turns.fetch_update(order, order, take).is_ok() {
                    let id = host.submit(new_task()).await.expect("it is taken").task.spec.id;
                    let (id, answer) = cancel(host.clone(), id).await;
                    assert_true(&host, id, answer).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    assert_nothing_is_left(&host).await;
    host.shut_down().await.expect("it goes down");
}
