//! Which attempt is where.

use std::collections::{HashMap, VecDeque};

use crate::executor::protocol::{AttemptKey, Beat, Ended, Start, StopOrder};
use crate::executor::wire::FromNode;
use crate::id::Digest;
use crate::sandbox::Metering;
use crate::task::{CostReceipt, Ending, Phase, Scene};
use crate::time::Timestamp;

/// An attempt that a fleet was given.
pub(super) struct Placed {
    start: Start,
    /// The process that has it. None: it waits for one.
    pub(super) member: Option<usize>,
    pub(super) stop: Option<StopOrder>,
    /// When the process was sent the first stop order.
    pub(super) told_at: Option<Timestamp>,
    pub(super) killed_at: Option<Timestamp>,
    pub(super) entered_at: Option<Timestamp>,
    /// How often a process found no compiled code for it.
    unprepared: u32,
}

impl Placed {
    pub(super) fn new(start: Start) -> Self {
        Self { start, member: None, stop: None, told_at: None, killed_at: None, entered_at: None, unprepared: 0 }
    }

    pub(super) fn key(&self) -> AttemptKey {
        self.start.key
    }

    /// Its end, when nobody is left to report it.
    pub(super) fn ended(&self, ending: Ending, gone_at: Timestamp) -> Ended {
        let wall = self.entered_at.map_or(0, |entered_at| gone_at.since(entered_at).as_micros());
        Ended {
            last: Beat {
                key: self.key(),
                entered_at: self.entered_at,
                heartbeat_at: None,
                stop_seen_at: None,
                progress: None,
                log: Vec::new(),
            },
            ending,
            result: None,
            cost: CostReceipt { wall_micros: u64::try_from(wall).unwrap_or(u64::MAX), ..CostReceipt::default() },
            scene: None,
            told_at: self.told_at,
            killed_at: self.killed_at,
            gone_at,
            unprepared: false,
        }
    }

    /// How far it has come while no process has it.
    pub(super) fn scene(&self, at: Timestamp) -> Scene {
        let phase = if self.unprepared == 0 { Phase::Waiting } else { Phase::Loading };
        Scene { phase: Some(phase), at: Some(at), ..Scene::default() }
    }
}

#[derive(Default)]
pub(super) struct Attempts {
    all: HashMap<AttemptKey, Placed>,
    /// Of those that no process has, the first to come first. May hold some that are over.
    waiting: VecDeque<AttemptKey>,
    /// How many each process has.
    counts: HashMap<usize, usize>,
}

impl Attempts {
    /// Whether the key was new.
    pub(super) fn insert(&mut self, placed: Placed) -> bool {
        let key = placed.key();
        if self.all.contains_key(&key) {
            return false;
        }
        self.all.insert(key, placed);
        true
    }

    pub(super) fn get_mut(&mut self, key: AttemptKey) -> Option<&mut Placed> {
        self.all.get_mut(&key)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many a process has.
    pub(super) fn at(&self, member: usize) -> usize {
        self.counts.get(&member).copied().unwrap_or(0)
    }

    /// It has to wait for a process.
    pub(super) fn wait(&mut self, key: AttemptKey) {
        self.waiting.push_back(key);
    }

    pub(super) fn take_waiting(&mut self) -> VecDeque<AttemptKey> {
        std::mem::take(&mut self.waiting)
    }

    /// Notes that a process has it; gives what the process has to be told.
    pub(super) fn place(&mut self, key: AttemptKey, member: usize) -> Option<Vec<FromNode>> {
        let placed = self.all.get_mut(&key).filter(|placed| placed.member.is_none())?;
        placed.member = Some(member);
        *self.counts.entry(member).or_default() += 1;
        let mut messages = vec![FromNode::Start(Box::new((&placed.start).into()))];
        messages.extend(placed.stop.as_ref().map(|stop| FromNode::Stop(key.into(), stop.into())));
        Some(messages)
    }

    /// Takes it back from its process; gives what it needs, and how often that was so.
    pub(super) fn unplace(&mut self, key: AttemptKey) -> Option<(Digest, Metering, u32)> {
        let placed = self.all.get_mut(&key)?;
        let member = placed.member.take();
        placed.unprepared += 1;
        let metering = if placed.start.fuel.is_some() { Metering::Fuel } else { Metering::Off };
        let needs = (placed.start.component, metering, placed.unprepared);
        self.leave(member);
        Some(needs)
    }

    pub(super) fn is_killed(&self, key: AttemptKey) -> bool {
        self.all.get(&key).is_some_and(|placed| placed.killed_at.is_some())
    }

    /// Whether the process has it.
    pub(super) fn is_at(&self, key: AttemptKey, member: usize) -> bool {
        self.all.get(&key).is_some_and(|placed| placed.member == Some(member))
    }

    pub(super) fn remove(&mut self, key: AttemptKey) -> Option<Placed> {
        let placed = self.all.remove(&key)?;
        self.leave(placed.member);
        Some(placed)
    }

    fn leave(&mut self, member: Option<usize>) {
        if let Some(count) = member.and_then(|member| self.counts.get_mut(&member)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Those of a process that is gone.
    pub(super) fn take_of(&mut self, member: usize) -> Vec<Placed> {
        let keys: Vec<_> =
            self.all.iter().filter(|(_, placed)| placed.member == Some(member)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }
}
