//! The one way in which a task changes: load, decide, replace, and tell. All of it in the caller's transaction.
//!
//! Every backend gets its audit, outbox and attempts through here, so that none can forget them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{AttemptRow, AuditRow, Line, OutboxRow, ResultRow, StoreError, Write};
use crate::id::{NodeId, TaskId};
use crate::schedule::{self, Candidate};
use crate::task::{
    CostReceipt, DedupScope, Effect, Ending, Event, Kind, Objection, Progress, Reason, Rejection, Ring, Scene, Spec,
    State, Step, StopReceipt, Task, Transition, apply, birth,
};
use crate::time::Timestamp;

/// What became of an event.
#[derive(Clone, Debug)]
pub enum Change {
    /// There is no such task.
    Missing,
    /// The state said no, and nothing was written.
    Refused { task: Task, event: &'static str, why: Objection },
    /// Decided; written if there was anything to write.
    Done { task: Task, effects: Vec<Effect>, trail: Vec<Transition> },
}

/// A task that is to be born.
#[derive(Clone, Debug)]
pub struct Submission {
    pub spec: Arc<Spec>,
    /// Absent only if it is refused for its size.
    pub input: Option<Arc<str>>,
    pub refusal: Option<(Rejection, String)>,
    /// A node with a free slot, which takes the task at once if nothing stands before it.
    pub claim: Option<NodeId>,
}

/// What became of a submission.
#[derive(Clone, Debug)]
pub enum Born {
    /// The key was taken: this is the task that holds it, and nothing was written.
    Existing(Task),
    New {
        task: Task,
        effects: Vec<Effect>,
        trail: Vec<Transition>,
    },
}

/// What is known of an attempt that is over.
#[derive(Clone, Debug)]
pub struct Finish {
    pub task: TaskId,
    pub attempt: u32,
    pub ending: Ending,
    /// What the attempt was stopped for, and when, if the store had not taken it at the time.
    pub owed: Option<(Event, Timestamp)>,
    /// If and only if it succeeded.
    pub result: Option<Arc<str>>,
    pub cost: CostReceipt,
    pub scene: Option<Scene>,
    pub progress: Option<Progress>,
    pub entered_at: Option<Timestamp>,
    pub heartbeat_at: Option<Timestamp>,
    pub told_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    pub killed_at: Option<Timestamp>,
    pub gone_at: Timestamp,
}

/// A task is submitted.
///
/// # Errors
/// The store failed.
pub fn submit(tx: &mut dyn Write, submission: &Submission) -> Result<Born, StoreError> {
    let spec = &submission.spec;
    if let Some(key) = &spec.dedup_key
        && let Some(holder) = tx.holder_of(&spec.task_type, key)?
    {
        return Ok(Born::Existing(holder));
    }
    let refusal = submission.refusal.as_ref().map(|(rejection, detail)| (*rejection, detail.as_str()));
    let mut step = birth(spec, refusal);
    if let Some(node) = submission.claim
        && stands_first(tx, spec, &step.state)?
    {
        let cx = crate::task::Context { id: spec.id, now: spec.created_at, terms: &spec.terms };
        step = match apply(step.state, Event::Claimed { node }, &cx) {
            Ok(claimed) => Step { trail: [step.trail, claimed.trail].concat(), ..claimed },
            Err(refused) => Step { state: refused.state, ..step },
        };
    }
    let task = Task { spec: Arc::clone(spec), state: step.state, version: 1 };
    tx.insert(&task, submission.input.as_deref(), keeps_key(&task))?;
    tell(tx, &task, &step.trail, spec.created_at)?;
    Ok(Born::New { task, effects: step.effects, trail: step.trail })
}

/// Whether a newborn task may be claimed past the queue: nothing is ready before it, and nothing holds it back.
fn stands_first(tx: &dyn Write, spec: &Spec, state: &State) -> Result<bool, StoreError> {
    let State::Pending(pending) = state else { return Ok(false) };
    if pending.ready_at() > spec.created_at || spec.component.is_none() {
        return Ok(false);
    }
    if tx.pause(&spec.queue)?.is_some_and(|pause| pause.holds(spec.priority)) {
        return Ok(false);
    }
    for line in open_lines(tx)? {
        if !tx.ready_in(&line, spec.created_at, 1)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Something happens to a task.
///
/// # Errors
/// The store failed.
pub fn change(tx: &mut dyn Write, id: TaskId, event: Event, now: Timestamp) -> Result<Change, StoreError> {
    match tx.task(id)? {
        None => Ok(Change::Missing),
        Some(task) => change_loaded(tx, task, event, now),
    }
}

fn change_loaded(tx: &mut dyn Write, task: Task, event: Event, now: Timestamp) -> Result<Change, StoreError> {
    let name = event.name();
    let Task { spec, state, version } = task;
    let was = state.kind();
    let cx = crate::task::Context { id: spec.id, now, terms: &spec.terms };
    let step = match apply(state, event, &cx) {
        Err(refused) => {
            let task = Task { spec, state: refused.state, version };
            return Ok(Change::Refused { task, event: name, why: refused.why });
        }
        Ok(step) => step,
    };
    let changes = step.changes();
    let Step { state, trail, effects } = step;
    if let (Some(key), Kind::Pending, true) = (&spec.dedup_key, state.kind(), was.is_terminal())
        && let Some(other) = tx.holder_of(&spec.task_type, key)?
        && other.spec.id != spec.id
    {
        let task = tx.task(spec.id)?.unwrap_or(Task { spec, state, version });
        return Ok(Change::Refused { task, event: name, why: Objection::KeyTaken });
    }
    if !changes {
        return Ok(Change::Done { task: Task { spec, state, version }, effects, trail });
    }
    let task = Task { spec, state, version: version + 1 };
    if !tx.replace(&task, version, keeps_key(&task))? {
        return Err(StoreError::Conflict { id: task.spec.id });
    }
    tell(tx, &task, &trail, now)?;
    Ok(Change::Done { task, effects, trail })
}

/// An attempt is over: the task moves on, and what the attempt left is kept. A late report changes nothing.
///
/// # Errors
/// The store failed.
pub fn finish(tx: &mut dyn Write, finish: &Finish, now: Timestamp) -> Result<Change, StoreError> {
    if let Some((owed, at)) = &finish.owed {
        // Refused if the task has been stopped for a weightier reason since: that stands.
        change(tx, finish.task, owed.clone(), *at)?;
    }
    let Some(before) = tx.task(finish.task)? else { return Ok(Change::Missing) };
    let (hold, stop) = match &before.state {
        State::Running(s) => (Some(s.hold()), None),
        State::Stopping(s) => (Some(s.hold()), Some(s.stop().clone())),
        State::Pending(_) | State::Ended(_) => (None, None),
    };
    let generation = before.state.tally().generation;
    let event = Event::AttemptEnded { attempt: finish.attempt, ending: finish.ending.clone() };
    let change = change_loaded(tx, before, event, now)?;
    let Change::Done { trail, .. } = &change else { return Ok(change) };
    let (Some(hold), Some(over)) = (hold, trail.first()) else { return Ok(change) };
    let ring = ring_of(finish);
    let stop = stop.map(|stop| StopReceipt {
        asked_at: stop.asked_at,
        told_at: finish.told_at,
        seen_at: finish.seen_at,
        killed_at: finish.killed_at,
        gone_at: finish.gone_at,
        written_at: now,
        ring,
    });
    tx.append_attempt(&AttemptRow {
        task: finish.task,
        attempt: finish.attempt,
        generation,
        node: hold.node,
        claimed_at: hold.claimed_at,
        entered_at: finish.entered_at,
        heartbeat_at: finish.heartbeat_at,
        ended_at: finish.gone_at,
        outcome: over.to,
        reason: over.reason,
        detail: over.detail.clone(),
        cost: finish.cost.clone(),
        stop,
        scene: finish.scene.clone(),
        progress: finish.progress.clone(),
    })?;
    if over.to == Kind::Success
        && let Some(result) = &finish.result
    {
        tx.put_result(&ResultRow { task: finish.task, attempt: finish.attempt, result: Arc::clone(result), at: now })?;
    }
    Ok(change)
}

/// Which force the end of an attempt took, if it was asked to stop.
const fn ring_of(finish: &Finish) -> Ring {
    match finish.ending {
        Ending::Lost { .. } => Ring::ExecutorKilled,
        _ if finish.killed_at.is_some() => Ring::Killed,
        _ => Ring::Asked,
    }
}

/// Claims up to `slots` tasks for a node, the first to start first. Tasks whose budgets are spent are ended on the way.
///
/// # Errors
/// The store failed.
pub fn claim(
    tx: &mut dyn Write,
    node: NodeId,
    slots: usize,
    claims: u64,
    now: Timestamp,
) -> Result<Vec<Change>, StoreError> {
    let candidates = ready(tx, now, slots)?;
    let picked = schedule::pick(candidates, slots, claims);
    // Most of a batch share a few components.
    let mut loadable = HashMap::new();
    let mut changes = Vec::with_capacity(picked.len());
    for id in picked {
        let Some(task) = tx.task(id)? else { continue };
        let known = match task.spec.component {
            None => false,
            Some((_, digest)) => match loadable.entry(digest) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => *place.insert(tx.component(digest)?.is_some()),
            },
        };
        changes.push(claim_one(tx, task, known, node, now)?);
    }
    Ok(changes)
}

fn claim_one(
    tx: &mut dyn Write,
    task: Task,
    loadable: bool,
    node: NodeId,
    now: Timestamp,
) -> Result<Change, StoreError> {
    let event = if loadable { Event::Claimed { node } } else { Event::PrecheckFailed(Rejection::ComponentMissing) };
    match change_loaded(tx, task, event, now)? {
        Change::Refused { task, why: Objection::TooLate, .. } => expire(tx, task, now),
        other => Ok(other),
    }
}

/// Lets the alarms of pending tasks go off that are due.
///
/// # Errors
/// The store failed.
pub fn expire_due(tx: &mut dyn Write, now: Timestamp, limit: usize) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    for id in tx.due(now, limit)? {
        if let Some(task) = tx.task(id)? {
            changes.push(expire(tx, task, now)?);
        }
    }
    Ok(changes)
}

fn expire(tx: &mut dyn Write, task: Task, now: Timestamp) -> Result<Change, StoreError> {
    let alarm = task.alarm(crate::task::Vitals::default());
    match alarm {
        Some((at, event)) if at <= now => change_loaded(tx, task, event, now),
        _ => Ok(Change::Done { task, effects: Vec::new(), trail: Vec::new() }),
    }
}

/// Tasks that could start now: of each line that is not paused, the first `per_line`.
fn ready(tx: &dyn Write, now: Timestamp, per_line: usize) -> Result<Vec<Candidate>, StoreError> {
    let mut candidates = Vec::new();
    for line in open_lines(tx)? {
        candidates.extend(tx.ready_in(&line, now, per_line)?);
    }
    Ok(candidates)
}

/// The lines that no pause holds back.
fn open_lines(tx: &(impl super::Read + ?Sized)) -> Result<Vec<Line>, StoreError> {
    let mut open = Vec::new();
    for line in tx.lines()? {
        if tx.pause(&line.queue)?.is_none_or(|pause| !pause.holds(line.priority)) {
            open.push(line);
        }
    }
    Ok(open)
}

/// When the next pending task becomes ready or is over, if nobody does anything.
///
/// # Errors
/// The store failed.
pub fn next_wake_at(tx: &dyn super::Read, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let mut soonest = tx.next_alarm_at()?;
    for line in open_lines(tx)? {
        soonest = soonest.into_iter().chain(tx.next_ready_in(&line, now)?).min();
    }
    Ok(soonest)
}

/// Whether the task holds its deduplication key in the state it is in.
fn keeps_key(task: &Task) -> bool {
    let kind = task.state.kind();
    match task.spec.dedup_scope {
        DedupScope::Record => kind != Kind::Rejected,
        DedupScope::Live => !kind.is_terminal(),
    }
}

/// The audit and the outbox of a change.
fn tell(tx: &mut dyn Write, task: &Task, trail: &[Transition], at: Timestamp) -> Result<(), StoreError> {
    let generation = task.state.tally().generation;
    for (place, line) in trail.iter().enumerate() {
        let goes_on = trail.get(place + 1).is_some();
        let number = tx.append_audit(&AuditRow {
            number: 0,
            task: task.spec.id,
            at,
            from: line.from,
            to: line.to,
            reason: line.reason,
            by: line.by.clone(),
            detail: line.detail.clone(),
            attempt: line.attempt,
            generation,
            trace: task.spec.trace.clone(),
        })?;
        tx.append_outbox(&OutboxRow {
            number: 0,
            task: task.spec.id,
            event: event_name(line, goes_on).into(),
            audit: number,
            created_at: at,
        })?;
    }
    Ok(())
}

/// At most one ending is told in each generation: an attempt that is followed by another is only an attempt.
fn event_name(line: &Transition, goes_on: bool) -> &'static str {
    if goes_on && line.to.is_terminal() {
        return "task.attempt_ended";
    }
    match (line.from, line.to, line.reason) {
        (None, Kind::Pending, _) => "task.created",
        (_, _, Reason::StopAsked(_)) => "task.stopping",
        (_, Kind::Pending, _) => "task.pending",
        (_, Kind::Running, _) => "task.running",
        (_, Kind::Success, _) => "task.success",
        (_, Kind::Failed, _) => "task.failed",
        (_, Kind::Cancelled, _) => "task.cancelled",
        (_, Kind::TimedOut, _) => "task.timed_out",
        (_, Kind::Interrupted, _) => "task.interrupted",
        (_, Kind::Rejected, _) => "task.rejected",
    }
}
