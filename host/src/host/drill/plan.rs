//! At which moments of its run a task is stopped. Pure: the same run and the same seed give the same moments.

use std::time::Duration;

use super::Moment;

/// Stops at host calls, and at other moments of the run.
const CALLS_MAX: u64 = 32;
/// So many of the first calls are all taken: a run's beginning differs most from call to call.
const CALLS_FIRST: u64 = 8;
const MOMENTS: usize = 16;
/// A run that is shorter than this is over before a timer could point into it.
const TIMED_LEAST: Duration = Duration::from_millis(2);

/// The moments for a task that ran so long and made so many calls, in an order that leaves a good sample wherever it is cut.
pub(super) fn moments(calls: u64, wall: Duration, seed: u64) -> Vec<Moment> {
    let mut chance = Chance(seed);
    let mut moments: Vec<_> = call_numbers(calls).map(Moment::Call).collect();
    if wall >= TIMED_LEAST {
        let micros = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        moments.extend((0..MOMENTS).map(|_| Moment::After(Duration::from_micros(chance.below(micros)))));
    }
    for last in (1..moments.len()).rev() {
        let other = usize::try_from(chance.below(last as u64 + 1)).unwrap_or(0);
        moments.swap(last, other);
    }
    moments.insert(0, Moment::Entry);
    moments
}

/// All calls if they are few; else the first ones, and others spread evenly up to the last.
fn call_numbers(calls: u64) -> impl Iterator<Item = u64> {
    let first = if calls <= CALLS_MAX { calls } else { CALLS_FIRST };
    let rest = if calls <= CALLS_MAX { 0 } else { CALLS_MAX - CALLS_FIRST };
    let spread = move |step: u64| {
        let far = u128::from(calls - first) * u128::from(step) / u128::from(rest.max(1));
        first + u64::try_from(far).unwrap_or(u64::MAX)
    };
    (1..=first).chain((1..=rest).map(spread))
}

/// Numbers that look like chance: a linear congruence with Knuth's factor for 64 bits.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper bits are the better ones.
        let spread = u128::from(self.0) * u128::from(end.max(1));
        u64::try_from(spread >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn calls(moments: &[Moment]) -> Vec<u64> {
        let mut calls: Vec<_> = moments
            .iter()
            .filter_map(|moment| if let Moment::Call(number) = moment { Some(*number) } else { None })
            .collect();
        calls.sort_unstable();
        calls
    }

    #[test]
    fn few_calls_are_all_taken_and_many_are_spread_to_the_last() {
        assert_eq!(calls(&moments(5, Duration::ZERO, 0)), [1, 2, 3, 4, 5]);
        assert_eq!(calls(&moments(0, Duration::ZERO, 0)), [0; 0]);
        for many in [33, 1_000, u64::MAX] {
            let taken = calls(&moments(many, Duration::ZERO, 0));
            assert_eq!(taken.len() as u64, CALLS_MAX);
            assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "each once: {taken:?}");
            assert_eq!((taken[0], taken.last()), (1, Some(&many)));
        }
    }

    #[test]
    fn a_run_that_is_too_short_for_timers_has_no_moments() {
        assert_eq!(moments(0, Duration::from_micros(30), 0), [Moment::Entry]);
        assert_eq!(moments(0, SECOND, 0).len(), 1 + MOMENTS);
    }

    #[test]
    fn the_same_seed_gives_the_same_moments_and_another_gives_others() {
        assert_eq!(moments(9, SECOND, 7), moments(9, SECOND, 7));
        assert_ne!(moments(9, SECOND, 7), moments(9, SECOND, 8));
        let within = |moment: &Moment| !matches!(moment, Moment::After(span) if *span >= SECOND);
        assert!(moments(9, SECOND, 7).iter().all(within));
    }
}
