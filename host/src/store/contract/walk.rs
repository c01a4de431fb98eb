//! A random walk: the same events through both backends, which must answer alike at every step.

use std::sync::Arc;
use std::time::Duration;

use super::support::{NODE, ask, at, component, ended, everything, on_disk, put_component, read, spec, write};
use crate::id::TaskId;
use crate::store::life::{self, Submission};
use crate::store::memory::Memory;
use crate::store::sqlite::Sqlite;
use crate::store::{Backend, Pause, StoreError, TaskFilter, Write};
use crate::task::{
    DedupScope, Ending, Event, FailureClass, Kind, LogLevel, LogLine, Loss, Rejection, RetryPolicy, Spec, Terms,
};

/// The generator `SplitMix64` (<https://prng.di.unimi.it/splitmix64.c>).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.roll(from.len() as u64)).unwrap()].clone()
    }
}

struct Walk {
    dice: Dice,
    now: i64,
    ids: Vec<TaskId>,
}

impl Walk {
    fn spec(&mut self) -> Spec {
        self.now += 1;
        let dice = &mut self.dice;
        let retry = RetryPolicy {
            max_retries: u32::try_from(dice.roll(3)).unwrap(),
            base: Duration::from_millis(7),
            cap: Duration::from_millis(30),
            retry_timeouts: dice.roll(2) == 0,
        };
        let terms = Terms {
            queue_timeout: Duration::from_millis(20 + dice.roll(200)),
            max_age: Duration::from_millis(50 + dice.roll(500)),
            grace: Duration::from_millis(dice.roll(9)),
            retry,
            ..super::support::terms()
        };
        let spec = Spec {
            task_type: dice.pick(&["a", "b"]).parse().unwrap(),
            component: dice.pick(&[Some((1, component().digest)), Some((2, component().digest)), None]),
            queue: dice.pick(&["default", "mail", "z"]).parse().unwrap(),
            priority: dice.pick(&[-100, -1, 0, 0, 0, 100]),
            dedup_key: dice.pick(&[None, None, Some("k".into()), Some("l".into())]),
            dedup_scope: dice.pick(&[DedupScope::Record, DedupScope::Live, DedupScope::Live]),
            creator: dice.pick(&[None, Some("ann".into())]),
            labels: dice.pick(&[
                vec![],
                vec![("x".into(), "1".into())],
                vec![("x".into(), "2".into()), ("y".into(), "1".into())],
            ]),
            run_after: dice.pick(&[None, None, Some(at(self.now + 15)), Some(at(self.now + 300))]),
            terms,
            ..spec(self.now)
        };
        self.ids.push(spec.id);
        spec
    }

    fn event(&mut self, attempt: u32) -> Event {
        let ask = || ask("a walk");
        match self.dice.roll(9) {
            0 | 1 => Event::CancelAsked { ask: ask(), grace: Some(Duration::from_millis(self.dice.roll(4))) },
            2 => Event::FailAsked { ask: ask() },
            3 => Event::ShutdownBegan { attempt, grace_max: Duration::from_millis(2) },
            4 => Event::AgeSpent,
            5 => Event::HeartbeatMissed { attempt },
            6 => Event::GiveUpAsked { ask: ask() },
            7 => Event::GraceSpent { attempt },
            _ => Event::RerunAsked { ask: ask(), force: self.dice.roll(2) == 0 },
        }
    }

    fn ending(&mut self) -> Ending {
        let failed = |class| Ending::Failed { class, message: "no".into(), retry_after: None };
        match self.dice.roll(8) {
            0..=2 => Ending::Succeeded,
            3 => failed(FailureClass::System),
            4 => failed(FailureClass::Business),
            5 => Ending::Stopped,
            6 => lost(Loss::Executor),
            _ => lost(Loss::Node),
        }
    }

    /// The next thing that happens, as a function that can happen to both backends.
    fn step(&mut self) -> impl Fn(&mut dyn Write) -> Result<String, StoreError> + use<> {
        self.now += i64::try_from(self.dice.roll(4)).unwrap();
        let now = at(self.now);
        let submission = {
            let claim = (self.dice.roll(2) == 0).then_some(NODE);
            let refusal = (self.dice.roll(9) == 0).then(|| (Rejection::InputInvalid, "why not".to_owned()));
            (self.dice.roll(2) == 0 || self.ids.is_empty()).then(|| Submission {
                spec: Arc::new(self.spec()),
                input: Some("[]".into()),
                refusal,
                claim,
            })
        };
        let task = self.dice.pick(&self.ids);
        let attempt = u32::try_from(1 + self.dice.roll(3)).unwrap();
        let (kind, slots) = (self.dice.roll(9), usize::try_from(self.dice.roll(4)).unwrap());
        let (event, report) = (self.event(attempt), ended(task, attempt, self.ending(), now));
        let below = self.dice.pick(&[None, None, Some(None), Some(Some(0)), Some(Some(1))]);
        let queue = self.dice.pick(&["default", "mail", "z"]).parse().unwrap();
        let keep_from = self.dice.roll(5);
        let first = self.dice.roll(6);
        move |tx| {
            if let Some(submission) = &submission {
                return Ok(format!("{:?}", life::submit(tx, submission)?));
            }
            Ok(match kind {
                0 | 1 => format!("{:?}", life::claim(tx, NODE, slots, keep_from * 3, now)?),
                2..=4 => format!("{:?}", life::finish(tx, &report, now)?),
                5 | 6 => format!("{:?}", life::change(tx, task, event.clone(), now)?),
                7 => {
                    let pause = below.map(|below| Pause { below, by: "ann".into(), why: "".into(), at: now });
                    tx.set_pause(&queue, pause.as_ref())?;
                    let line = |number| LogLine { number, at: now, level: LogLevel::Info, message: "m".into() };
                    tx.append_logs(task, attempt, &(first..first + 3).map(line).collect::<Vec<_>>(), keep_from)?;
                    format!("{:?} {:?}", tx.queues()?, tx.lines()?)
                }
                _ => format!("{:?}", life::expire_due(tx, now, slots)?),
            })
        }
    }

    fn filter(&mut self) -> TaskFilter {
        let dice = &mut self.dice;
        TaskFilter {
            kinds: dice.pick(&[vec![], vec![Kind::Pending, Kind::Cancelled], vec![Kind::Success], Kind::ALL.to_vec()]),
            task_type: dice.pick(&[None, "a".parse().ok()]),
            queue: dice.pick(&[None, None, "default".parse().ok(), "mail".parse().ok()]),
            label: dice.pick(&[None, None, Some(("x".into(), "2".into()))]),
            creator: dice.pick(&[None, None, Some("ann".into())]),
            trace_id: None,
            created_from: dice.pick(&[None, Some(at(self.now / 3))]),
            created_to: dice.pick(&[None, Some(at(self.now / 2))]),
        }
    }
}

fn lost(loss: Loss) -> Ending {
    Ending::Lost { loss, message: "its executor is gone".to_owned() }
}

fn walk(seed: u64, rounds: usize) {
    let memory = Memory::default();
    let (mut sqlite, folder) = on_disk();
    put_component(&memory);
    put_component(&sqlite);
    let mut walk = Walk { dice: Dice(seed), now: 0, ids: Vec::new() };
    for round in 0..rounds {
        let steps: Vec<_> = (0..12).map(|_| walk.step()).collect();
        let fails = walk.dice.roll(5) == 0;
        let run = |backend: &dyn Backend| {
            let outcome = write(backend, |tx| {
                let told = steps.iter().map(|step| step(tx)).collect::<Result<Vec<_>, _>>()?;
                if fails { Err(StoreError::Closed) } else { Ok(told) }
            });
            format!("{outcome:#?}")
        };
        assert_eq!(run(&memory), run(&sqlite), "seed {seed}, round {round}");
        let now = at(walk.now);
        assert_eq!(everything(&memory, &walk.ids, now), everything(&sqlite, &walk.ids, now), "seed {seed}, {round}");
        for _ in 0..4 {
            let (filter, before, limit) = (walk.filter(), walk.dice.pick(&walk.ids), 3);
            let list = |backend: &dyn Backend| read(backend, |view| view.tasks(&filter, Some(before), limit));
            assert_eq!(list(&memory), list(&sqlite), "seed {seed}, round {round}, {filter:?}");
        }
        if round % 9 == 8 {
            drop(sqlite);
            sqlite = Sqlite::open(folder.path()).unwrap();
        }
    }
}

#[test]
fn backends_answer_alike_whatever_happens() {
    for seed in 1..=6 {
        walk(seed, 30);
    }
}
