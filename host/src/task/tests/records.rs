//! The way to the store and back, and the codes that are written on it.

use std::collections::BTreeSet;

use super::world::{all_states, at, everywhere};
use crate::id::NodeId;
use crate::task::{
    FailureClass, Kind, LogLevel, Manner, Objection, Reason, Record, Ring, State, Stop, StopReason, Wait,
};

#[test]
fn every_state_comes_back_from_its_record() {
    for state in all_states() {
        assert_eq!(State::try_from(Record::from(&state)).unwrap(), state);
    }
    everywhere(|case| {
        if let Some(step) = case.step() {
            assert_eq!(State::try_from(Record::from(&step.state)).as_ref(), Ok(&step.state), "{}", case.shown());
        }
    });
}

/// The record with one field made into what its state cannot have, each time another one.
fn broken(sound: &Record) -> Vec<(&'static str, Record)> {
    let kind = sound.kind;
    let stop =
        Stop { reason: StopReason::Cancelled, by: "ann".into(), why: "".into(), asked_at: at(1), kill_at: at(2) };
    let ended = kind.is_terminal();
    let flip_reason = if ended { None } else { Some(Reason::Business) };
    let mut broken = vec![
        ("generation", Record { generation: 0, ..sound.clone() }),
        ("retries", Record { retries: sound.attempts + 1, ..sound.clone() }),
        ("wait", Record { wait: if sound.wait.is_some() { None } else { Some(Wait::Ready) }, ..sound.clone() }),
        ("ready_at", Record { ready_at: if sound.ready_at.is_some() { None } else { Some(at(0)) }, ..sound.clone() }),
        ("node", Record { node: sound.node.is_none().then(|| NodeId::from_bytes([2; 16])), ..sound.clone() }),
        ("claimed_at", Record { claimed_at: sound.claimed_at.is_none().then(|| at(0)), ..sound.clone() }),
        ("reason", Record { reason: flip_reason, ..sound.clone() }),
        ("manner", Record { manner: if ended { None } else { Some(Manner::Killed) }, ..sound.clone() }),
        ("ended_at", Record { ended_at: if ended { None } else { Some(at(0)) }, ..sound.clone() }),
    ];
    if kind != Kind::Running {
        broken.push(("stop", Record { stop: Some(stop), ..sound.clone() }));
    }
    if !ended {
        broken.push(("detail", Record { detail: "so".into(), ..sound.clone() }));
    }
    let ran = sound.manner.is_some_and(|manner| manner != Manner::NotRunning);
    if kind == Kind::Running || ran || sound.retries > 0 {
        broken.push(("attempts", Record { attempts: 0, ..sound.clone() }));
    }
    if sound.wait == Some(Wait::Retry) {
        broken.push(("retries", Record { retries: 0, ..sound.clone() }));
    }
    if sound.wait == Some(Wait::Scheduled) {
        broken.push(("attempts", Record { attempts: 1, ..sound.clone() }));
    }
    if ended {
        broken.push(("reason", Record { reason: Some(Reason::Claimed), ..sound.clone() }));
    }
    let others = Kind::ALL.into_iter().filter(|other| *other != kind);
    broken.extend(others.map(|kind| ("kind", Record { kind, ..sound.clone() })));
    broken
}

#[test]
fn a_record_with_one_field_broken_is_corrupt() {
    for state in all_states() {
        for (field, record) in broken(&Record::from(&state)) {
            let told = State::try_from(record.clone());
            assert_eq!(told.as_ref().err().map(|corrupt| corrupt.kind), Some(record.kind), "{field} of {state:?}");
        }
    }
}

#[test]
fn a_corrupt_record_says_which_rule_it_breaks() {
    let state = all_states().remove(0);
    let corrupt = State::try_from(Record { generation: 0, ..Record::from(&state) }).unwrap_err();
    assert_eq!(corrupt.to_string(), "a stored PENDING task breaks an invariant: generations count from 1");
}

/// Codes are unique, and each is read back as what it was written for.
fn unique<T: PartialEq + std::fmt::Debug>(all: impl IntoIterator<Item = (T, Option<T>, &'static str)>) {
    let mut seen = BTreeSet::new();
    for (value, read, code) in all {
        assert_eq!(read.as_ref(), Some(&value), "`{code}`");
        assert!(seen.insert(code), "`{code}` is given twice");
    }
}

#[test]
fn codes_are_unique_and_read_back() {
    unique(Kind::ALL.map(|v| (v, Kind::parse(v.code()), v.code())));
    unique(Wait::ALL.map(|v| (v, Wait::parse(v.code()), v.code())));
    unique(Manner::ALL.map(|v| (v, Manner::parse(v.code()), v.code())));
    unique(StopReason::ALL.map(|v| (v, StopReason::parse(v.code()), v.code())));
    unique(FailureClass::ALL.map(|v| (v, FailureClass::parse(v.code()), v.code())));
    unique(LogLevel::ALL.map(|v| (v, LogLevel::parse(v.code()), v.code())));
    unique(Reason::all().map(|v| (v, Reason::parse(v.code()), v.code())));
    unique(Objection::ALL.map(|v| (v, Some(v), v.code())));
    assert_eq!(Ring::ALL.map(|ring| Ring::parse(ring.number())), Ring::ALL.map(Some));
}

#[test]
fn the_other_spellings_of_two_states_are_understood() {
    assert_eq!(Kind::parse("CANCELED"), Some(Kind::Cancelled));
    assert_eq!(Kind::parse("TIMEOUT"), Some(Kind::TimedOut));
    assert_eq!(Kind::parse("DONE"), None);
}
