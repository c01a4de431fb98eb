//! A task's state as flat fields, for stores and for the edge. The way back checks every invariant:
//! what breaks one is [`Corrupt`], never a [`State`].

use std::sync::Arc;

use super::event::Reason;
use super::state::{Ended, Hold, Kind, Manner, Pending, Running, State, Stop, Stopping, Tally, Wait, lawful};
use crate::id::NodeId;
use crate::time::Timestamp;

/// The fields of a state. Which of them are there follows from `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The state's name.
    pub kind: Kind,
    /// See [`Tally::generation`].
    pub generation: u32,
    /// See [`Tally::generation_at`].
    pub generation_at: Timestamp,
    /// See [`Tally::attempts`].
    pub attempts: u32,
    /// See [`Tally::retries`].
    pub retries: u32,
    /// Only while pending.
    pub wait: Option<Wait>,
    /// Only while pending.
    pub ready_at: Option<Timestamp>,
    /// Only while running.
    pub node: Option<NodeId>,
    /// Only while running.
    pub claimed_at: Option<Timestamp>,
    /// Only while running, and asked to stop.
    pub stop: Option<Stop>,
    /// Only when ended.
    pub reason: Option<Reason>,
    /// Only when ended.
    pub manner: Option<Manner>,
    /// Only when ended.
    pub ended_at: Option<Timestamp>,
    /// Empty unless ended.
    pub detail: Arc<str>,
}

/// Fields that no state has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored {} task breaks an invariant: {rule}", kind.code())]
pub struct Corrupt {
    /// The state that the row names.
    pub kind: Kind,
    /// The invariant that it breaks.
    pub rule: &'static str,
}

impl From<&State> for Record {
    fn from(state: &State) -> Self {
        let tally = state.tally();
        let blank = Self {
            kind: state.kind(),
            generation: tally.generation,
            generation_at: tally.generation_at,
            attempts: tally.attempts,
            retries: tally.retries,
            wait: None,
            ready_at: None,
            node: None,
            claimed_at: None,
            stop: None,
            reason: None,
            manner: None,
            ended_at: None,
            detail: "".into(),
        };
        let in_hand = |hold: Hold, stop: Option<Stop>| Self {
            node: Some(hold.node),
            claimed_at: Some(hold.claimed_at),
            stop,
            ..blank.clone()
        };
        match state {
            State::Pending(s) => Self { wait: Some(s.wait()), ready_at: Some(s.ready_at()), ..blank },
            State::Running(s) => in_hand(s.hold(), None),
            State::Stopping(s) => in_hand(s.hold(), Some(s.stop().clone())),
            State::Ended(s) => Self {
                reason: Some(s.reason()),
                manner: Some(s.manner()),
                ended_at: Some(s.at()),
                detail: s.detail().into(),
                ..blank
            },
        }
    }
}

impl TryFrom<Record> for State {
    type Error = Corrupt;

    fn try_from(record: Record) -> Result<Self, Corrupt> {
        let kind = record.kind;
        let holds = |ok: bool, rule: &'static str| if ok { Ok(()) } else { Err(Corrupt { kind, rule }) };
        let waits = record.wait.is_some() && record.ready_at.is_some();
        let waits_not = record.wait.is_none() && record.ready_at.is_none();
        let taken = record.node.is_some() && record.claimed_at.is_some();
        let taken_not = record.node.is_none() && record.claimed_at.is_none() && record.stop.is_none();
        let over = record.reason.is_some() && record.manner.is_some() && record.ended_at.is_some();
        let over_not = record.reason.is_none() && record.manner.is_none() && record.ended_at.is_none();
        holds(record.generation >= 1, "generations count from 1")?;
        holds(record.retries <= record.attempts, "there are no more retries than attempts")?;
        holds(waits == (kind == Kind::Pending) && (waits || waits_not), "PENDING, and nothing else, has a wait")?;
        holds(taken == (kind == Kind::Running) && (taken || taken_not), "RUNNING, and nothing else, has a node")?;
        holds(over == kind.is_terminal() && (over || over_not), "an ended task, and no other, has a reason")?;
        holds(kind != Kind::Running || record.attempts >= 1, "attempts count from 1")?;
        holds(kind.is_terminal() || record.detail.is_empty(), "only an ended task has a detail")?;

        let tally = Tally {
            generation: record.generation,
            generation_at: record.generation_at,
            attempts: record.attempts,
            retries: record.retries,
        };
        if let (Some(wait), Some(ready_at)) = (record.wait, record.ready_at) {
            let waited = match wait {
                Wait::Ready => true,
                Wait::Scheduled => record.attempts == 0,
                Wait::Retry => record.retries >= 1,
            };
            holds(waited, "what a task waits for fits what it has behind it")?;
            return Ok(Pending::restored(tally, wait, ready_at).into());
        }
        if let (Some(node), Some(claimed_at)) = (record.node, record.claimed_at) {
            let hold = Hold { node, claimed_at };
            return Ok(match record.stop {
                None => Running::restored(tally, hold).into(),
                Some(stop) => Stopping::restored(tally, hold, stop).into(),
            });
        }
        if let (Some(reason), Some(manner), Some(at)) = (record.reason, record.manner, record.ended_at) {
            holds(lawful(kind, reason, manner), "an ending has a reason and a manner that can be")?;
            holds(manner == Manner::NotRunning || record.attempts >= 1, "no guest ends before its first attempt")?;
            return Ok(Ended::new(tally, kind, reason, manner, at, record.detail).into());
        }
        Err(Corrupt { kind, rule: "every state has fields of its own" })
    }
}
