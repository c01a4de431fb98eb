//! A task as it is shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::attempts::Progress;
use super::grants::Grants;
use super::queues::Pause;
use super::submit::Scope;
use super::terms::Terms;
use crate::host::TaskView;
use crate::id::{Digest, NodeId, QueueName, TaskId, TraceParent, TypeName};
use crate::task::{Event, Hold, Kind, Manner, Reason, State, Stop, StopReason, Vitals, Wait};
use crate::time::Timestamp;

/// A task: what it is, and where it is in its life. Fields that its state does not have are absent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Task {
    pub id: TaskId,
    /// Its task type.
    #[serde(rename = "type")]
    pub task_type: TypeName,
    /// The version it was born with; absent if the type was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_version: Option<u32>,
    /// The component of that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<Digest>,
    pub state: Kind,
    /// What a pending task waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Where a running task runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// There while a running task is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// When an ended task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The failure's message, or the words of who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How the guest was when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Manner>,
    /// Whether an ended task may be rerun, or given up, without force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<bool>,
    pub queue: QueueName,
    /// −100 to 100, higher first.
    pub priority: i8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// There with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_scope: Option<Scope>,
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub traceparent: TraceParent,
    /// The 32 hexadecimal digits that all spans of the trace share.
    pub trace_id: String,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_after: Option<Timestamp>,
    /// 1 at birth; each rerun begins a new one.
    pub generation: u32,
    /// Attempts so far, over all generations.
    pub attempts: u32,
    /// Retries used in this generation.
    pub retries: u32,
    /// Its budgets, retries and limits, complete. Absent for a task that was refused at birth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
    /// What its guest may reach, by the version of its type. Absent: nothing.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// When `max_age` is spent. Absent once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life_ends_at: Option<Timestamp>,
    /// What happens next by itself, at the latest. Absent once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// What a pending task waits for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    #[serde(rename = "for")]
    pub what: WaitingFor,
    /// From when on it may start.
    pub ready_at: Timestamp,
    /// When `queue_timeout` is spent.
    pub wait_ends_at: Timestamp,
    /// The pause of its queue, if that is what holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Pause>,
}

/// The kinds of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// For a free slot.
    Ready,
    /// For its `run_after`.
    Scheduled,
    /// For the end of the delay before a retry.
    Retry,
    /// For the end of its queue's pause, whatever else it waits for.
    Held,
}

/// An attempt in the hands of a node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Running {
    pub node: NodeId,
    pub claimed_at: Timestamp,
    /// When the first instruction of the guest could run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered_at: Option<Timestamp>,
    /// When the guest last called `heartbeat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// A request to stop that is being carried out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    pub reason: StopReason,
    pub by: String,
    /// In the words of who asked; may be empty.
    pub why: String,
    pub asked_at: Timestamp,
    /// When the guest was first given the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// When it will be killed.
    pub kill_at: Timestamp,
    /// When it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_at: Option<Timestamp>,
}

/// What happens by itself if nothing else happens before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct Next {
    pub at: Timestamp,
    pub what: NextStep,
}

/// What can happen to a task by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextStep {
    /// `queue_timeout` is spent: `TIMED_OUT`.
    WaitSpent,
    /// `max_age` is spent: stopped, `TIMED_OUT`.
    LifeSpent,
    /// `run_timeout` is spent: stopped.
    RunTimeSpent,
    /// `heartbeat_timeout` is spent: stopped.
    HeartbeatExpired,
    /// The grace is spent: killed.
    Kill,
}

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskPage {
    pub items: Vec<Task>,
    /// Give this as `cursor` to get the next page. Absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What follows from the state alone.
#[derive(Default)]
struct Phase {
    waiting: Option<Waiting>,
    running: Option<Running>,
    stopping: Option<Stopping>,
    ended_at: Option<Timestamp>,
    reason: Option<Reason>,
    detail: Option<String>,
    ended: Option<Manner>,
    recoverable: Option<bool>,
}

impl Task {
    /// As it is at `now`.
    pub(crate) fn of(view: &TaskView, now: Timestamp) -> Self {
        let spec = &view.task.spec;
        let tally = view.task.state.tally();
        let kind = view.task.state.kind();
        let phase = Phase::of(view, now);
        let next = next(view);
        let text = |text: &std::sync::Arc<str>| text.to_string();
        Self {
            id: spec.id,
            task_type: spec.task_type.clone(),
            type_version: spec.component.map(|(version, _)| version),
            component: spec.component.map(|(_, digest)| digest),
            state: kind,
            waiting: phase.waiting,
            running: phase.running,
            stopping: phase.stopping,
            ended_at: phase.ended_at,
            reason: phase.reason,
            detail: phase.detail,
            ended: phase.ended,
            recoverable: phase.recoverable,
            queue: spec.queue.clone(),
            priority: spec.priority,
            dedup_key: spec.dedup_key.as_ref().map(text),
            dedup_scope: spec.dedup_key.as_ref().map(|_| spec.dedup_scope.into()),
            labels: spec.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            creator: spec.creator.as_ref().map(text),
            request_id: spec.request_id.as_ref().map(text),
            traceparent: spec.trace.clone(),
            trace_id: spec.trace.trace_id().to_owned(),
            created_at: spec.created_at,
            run_after: spec.run_after,
            generation: tally.generation,
            attempts: tally.attempts,
            retries: tally.retries,
            terms: (kind != Kind::Rejected).then(|| (&spec.terms).into()),
            grants: (&*spec.terms.grants).into(),
            life_ends_at: (!kind.is_terminal()).then(|| tally.generation_at + spec.terms.max_age),
            next,
        }
    }
}

impl Phase {
    fn of(view: &TaskView, now: Timestamp) -> Self {
        let blank = Self::default();
        match &view.task.state {
            State::Pending(s) => {
                let what = match s.wait() {
                    _ if view.held.is_some() => WaitingFor::Held,
                    Wait::Scheduled if s.ready_at() > now => WaitingFor::Scheduled,
                    Wait::Retry if s.ready_at() > now => WaitingFor::Retry,
                    Wait::Ready | Wait::Scheduled | Wait::Retry => WaitingFor::Ready,
                };
                let wait_ends_at = s.ready_at() + view.task.spec.terms.queue_timeout;
                let held = view.held.as_ref().map(Into::into);
                Self { waiting: Some(Waiting { what, ready_at: s.ready_at(), wait_ends_at, held }), ..blank }
            }
            State::Running(s) => Self { running: Some(running(view, s.hold())), ..blank },
            State::Stopping(s) => {
                Self { running: Some(running(view, s.hold())), stopping: Some(stopping(view, s.stop())), ..blank }
            }
            State::Ended(s) => Self {
                ended_at: Some(s.at()),
                reason: Some(s.reason()),
                detail: Some(s.detail().to_owned()).filter(|detail| !detail.is_empty()),
                ended: Some(s.manner()),
                recoverable: Some(s.recoverable()),
                ..blank
            },
        }
    }
}

fn running(view: &TaskView, hold: Hold) -> Running {
    let live = view.live.as_ref();
    Running {
        node: hold.node,
        claimed_at: hold.claimed_at,
        entered_at: live.and_then(|live| live.entered_at),
        heartbeat_at: live.and_then(|live| live.heartbeat_at),
        progress: live.and_then(|live| live.progress.as_ref()).map(Into::into),
    }
}

fn stopping(view: &TaskView, stop: &Stop) -> Stopping {
    let live = view.live.as_ref();
    Stopping {
        reason: stop.reason,
        by: stop.by.to_string(),
        why: stop.why.to_string(),
        asked_at: stop.asked_at,
        seen_at: live.and_then(|live| live.stop_seen_at),
        kill_at: stop.kill_at,
        killed_at: live.and_then(|live| live.killed_at),
    }
}

fn next(view: &TaskView) -> Option<Next> {
    let live = view.live.as_ref();
    let vitals = Vitals {
        entered_at: live.and_then(|live| live.entered_at),
        heartbeat_at: live.and_then(|live| live.heartbeat_at),
    };
    let (at, event) = view.task.alarm(vitals)?;
    let what = match event {
        Event::WaitSpent => NextStep::WaitSpent,
        Event::AgeSpent => NextStep::LifeSpent,
        Event::RunSpent { .. } => NextStep::RunTimeSpent,
        Event::HeartbeatMissed { .. } => NextStep::HeartbeatExpired,
        Event::GraceSpent { .. } => NextStep::Kill,
        Event::Claimed { .. }
        | Event::PrecheckFailed(_)
        | Event::CancelAsked { .. }
        | Event::FailAsked { .. }
        | Event::ShutdownBegan { .. }
        | Event::AttemptEnded { .. }
        | Event::RerunAsked { .. }
        | Event::GiveUpAsked { .. } => return None,
    };
    Some(Next { at, what })
}
