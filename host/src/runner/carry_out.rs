//! Carries out what a decision asked for, once it is on disk. Runs on the store's writer thread, so that effects happen
//! in the order of the commits; nothing here waits.

use std::sync::Arc;

use super::Runner;
use crate::executor::protocol::{AttemptKey, Order, Start, StopOrder};
use crate::store::life::Change;
use crate::task::{Effect, State, Task, Transition, Vitals};
use crate::time::Timestamp;

impl Runner {
    /// What follows from a change. `input` is there if a guest is to be started.
    pub(super) fn follow(&self, change: &Change, input: Option<&Arc<str>>) {
        if let Change::Done { task, effects, trail } = change {
            self.follow_up(task, effects, trail, input);
        }
    }

    pub(super) fn follow_up(&self, task: &Task, effects: &[Effect], trail: &[Transition], input: Option<&Arc<str>>) {
        trail.iter().for_each(|line| narrate(task, line));
        for effect in effects {
            match *effect {
                Effect::StartGuest { attempt } => {
                    self.start_guest(task, attempt, input.cloned().unwrap_or_else(|| "null".into()));
                }
                Effect::TellGuest { attempt } => self.tell_guest(task, attempt),
                Effect::KillGuest { attempt } => self.kill_guest(AttemptKey { task: task.spec.id, attempt }),
            }
        }
        match &task.state {
            State::Pending(pending) => {
                let alarm_at = task.alarm(Vitals::default()).map_or(Timestamp::FAR, |(at, _)| at);
                if pending.ready_at() <= self.clock.now() {
                    self.offer_work();
                    self.timer.no_later_than(alarm_at);
                } else {
                    self.timer.no_later_than(pending.ready_at().min(alarm_at));
                }
            }
            State::Running(_) | State::Stopping(_) => {}
            State::Ended(_) => self.waiters.ring(task),
        }
    }

    fn start_guest(&self, task: &Task, attempt: u32, input: Arc<str>) {
        let key = AttemptKey { task: task.spec.id, attempt };
        let Some((_, component)) = task.spec.component else { return };
        let alarm_at = self.live.insert(task.clone(), key);
        self.watch_from(alarm_at);
        let spec = &task.spec;
        self.executors.order(Order::Start(Box::new(Start {
            key,
            component,
            input,
            task_type: spec.task_type.clone(),
            trace: spec.trace.clone(),
            creator: spec.creator.clone(),
            run_timeout: spec.terms.run_timeout,
            fuel: spec.terms.fuel,
            core_dump: spec.terms.core_dump,
            limits: spec.terms.limits.clone(),
            grants: Arc::clone(&spec.terms.grants),
        })));
    }

    /// Tells the guest what the record says, and kills it at once if it has no grace.
    pub(super) fn tell_guest(&self, task: &Task, attempt: u32) {
        let key = AttemptKey { task: task.spec.id, attempt };
        let State::Stopping(stopping) = &task.state else { return };
        let stop = stopping.stop();
        let mut current = true;
        let alarm_at = self.live.with_alarm(key, |live| current = live.renew(task));
        if !current {
            return;
        }
        let order = StopOrder { reason: stop.reason, kill_at: stop.kill_at, message: stop.why.clone() };
        self.executors.order(Order::Stop { key, stop: order });
        if stop.kill_at <= self.clock.now() {
            self.kill_guest(key);
        } else {
            self.watch_from(alarm_at);
        }
    }

    /// Uses force. The alarm that follows looks whether it helped.
    pub(super) fn kill_guest(&self, key: AttemptKey) {
        let now = self.clock.now();
        if self.live.with(key, |live| live.killed_at = live.killed_at.or(Some(now))).is_some() {
            self.live.remind(key, now + self.config.kill_bound);
            self.watch_from(Some(now + self.config.kill_bound));
        }
        self.executors.order(Order::Kill { key });
    }

    /// A task is ready: the claim loop shall look.
    pub(super) fn offer_work(&self) {
        self.slots.work_waits();
        self.claim_wake.notify_one();
    }
}

/// Every change is one line in the node's log.
fn narrate(task: &Task, line: &Transition) {
    tracing::info!(
        task = %task.spec.id,
        trace = task.spec.trace.trace_id(),
        from = line.from.map_or("-", crate::task::Kind::code),
        to = line.to.code(),
        reason = line.reason.code(),
        by = &*line.by,
        attempt = line.attempt,
        "task changed"
    );
}
