//! Whole lives by chance: events come in any order, and what must hold over a life holds.

use std::time::Duration;

use super::world::{TASK, all_terms, at, attempt_of, events, left_alone};
use crate::task::{Context, Effect, Event, Kind, Record, State, StopReason, Terms, apply, birth};
use crate::time::Timestamp;

/// Steele, Lea and Flood's `SplitMix64` (<https://doi.org/10.1145/2714064.2660195>).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    /// Mostly an event that can happen in the state, sometimes any.
    fn event(&mut self, state: &State) -> Event {
        let current = state.tally().attempts;
        let mut all = events(current);
        if self.below(8) > 0 {
            all.retain(|event| match state {
                State::Pending(_) => matches!(event, Event::Claimed { .. }),
                State::Running(_) | State::Stopping(_) => attempt_of(event) == Some(current),
                State::Ended(_) => matches!(event, Event::RerunAsked { .. }),
            });
        }
        all.swap_remove(self.below(all.len()))
    }
}

/// One life, and what is known of it.
struct Life<'a> {
    state: State,
    now: Timestamp,
    terms: &'a Terms,
    /// The attempt whose guest is not gone yet.
    live: Option<u32>,
    started: u32,
    ends_in_generation: u32,
    cancelled: bool,
}

impl Life<'_> {
    fn meet(&mut self, event: &Event) {
        let cx = Context { id: TASK, now: self.now, terms: self.terms };
        let before = self.state.clone();
        let step = match apply(before.clone(), event.clone(), &cx) {
            Ok(step) => step,
            Err(refused) => {
                assert_eq!(refused.state, before);
                return;
            }
        };
        if let Event::AttemptEnded { attempt, .. } = event {
            assert_eq!(self.live.take(), Some(*attempt), "an attempt ends once");
        }
        for effect in &step.effects {
            match effect {
                Effect::StartGuest { attempt } => {
                    assert_eq!(self.live.replace(*attempt), None, "two guests at a time");
                    assert!(*attempt > self.started, "attempt {attempt} twice");
                    assert!(!self.cancelled, "a cancelled task runs again");
                    self.started = *attempt;
                }
                Effect::TellGuest { attempt } | Effect::KillGuest { attempt } => {
                    assert_eq!(self.live, Some(*attempt), "an order for a guest that is gone");
                }
            }
        }
        if step.state.tally().generation > before.tally().generation {
            self.ends_in_generation = 0;
        }
        if step.state.kind().is_terminal() && !before.kind().is_terminal() {
            self.ends_in_generation += 1;
        }
        assert!(self.ends_in_generation <= 1, "it dies twice");
        assert!(self.live.is_none() || step.state.kind() == Kind::Running, "{:?} while a guest lives", step.state);
        assert!(step.state.tally().retries <= self.terms.retry.max_retries, "too many retries");
        assert_eq!(State::try_from(Record::from(&step.state)).as_ref(), Ok(&step.state));
        self.cancelled |= match &step.state {
            State::Stopping(s) => s.stop().reason == StopReason::Cancelled,
            State::Ended(s) => s.kind() == Kind::Cancelled,
            State::Pending(_) | State::Running(_) => false,
        };
        self.state = step.state;
    }
}

#[test]
fn a_life_by_chance_keeps_every_promise() {
    let (mut runs, mut reruns) = (0, 0);
    for seed in 0..400 {
        let mut chance = Chance(seed);
        let terms = all_terms().swap_remove(chance.below(4));
        let run_after = [None, Some(at(10))][chance.below(2)];
        let state = birth(&super::script::spec(at(0), run_after, terms.clone()), None).state;
        let mut life =
            Life { state, now: at(0), terms: &terms, live: None, started: 0, ends_in_generation: 0, cancelled: false };
        for _ in 0..60 {
            life.now = life.now + Duration::from_millis([0, 1, 900, 15_000, 60_000][chance.below(5)]);
            let event = chance.event(&life.state);
            life.meet(&event);
        }
        runs += life.started;
        reruns += life.state.tally().generation - 1;
        let end = left_alone(life.state, life.now, &terms);
        assert!(end.kind().is_terminal(), "seed {seed}");
    }
    assert!(runs > 1_000 && reruns > 200, "the walks go nowhere: {runs} runs, {reruns} reruns");
}
