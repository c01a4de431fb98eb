//! How well a task stops, as one letter. Pure: what was seen goes in, the grade and its reason come out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{How, Stop};
use crate::task::Ending;

/// From the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Every time over by itself, within a tenth of the grace.
    A,
    /// Every time over by itself within the grace.
    B,
    /// Sometimes needs force.
    C,
    /// Never looks whether it is asked to stop, goes on every time though it was told, or failed before anybody could see.
    D,
    /// It does not fit, it dies of a defect though nobody disturbs it, or the host could not stop it as it should.
    F,
}

/// A grade, and what led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub grade: Grade,
    pub why: &'static str,
}

impl Grade {
    /// Each of them once, the best first.
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::C, Self::D, Self::F];

    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::F => "F",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for Grade {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|grade| grade.code().eq_ignore_ascii_case(text))
            .ok_or_else(|| "expected a grade: A, B, C, D or F".to_owned())
    }
}

/// The grade of a task that fits. The first rule that holds counts, from the worst to the best.
#[must_use]
pub fn grade(undisturbed: Option<&Ending>, stops: &[Stop], grace: Duration) -> Verdict {
    let verdict = |grade, why| Verdict { grade, why };
    let any = |wanted: &dyn Fn(&Stop) -> bool| stops.iter().any(wanted);
    let forced = stops.iter().filter(|stop| stop.how == How::Forced).count();
    if any(&|stop| matches!(stop.how, How::Left | How::HostFailed)) {
        return verdict(Grade::F, "the host could not stop it as it should");
    }
    if matches!(undisturbed, Some(Ending::Died { .. })) {
        return verdict(Grade::F, "it dies of a defect though nobody disturbs it");
    }
    let failed = matches!(undisturbed, Some(Ending::Failed { .. }));
    if failed && !stops.is_empty() && stops.iter().all(|stop| stop.how == How::Finished) {
        return verdict(
            Grade::D,
            "it failed at once, so that no stop was seen: give it an input that it can work with",
        );
    }
    if forced > 0 && !any(&|stop| stop.seen.is_some()) {
        return verdict(Grade::D, "it never looks whether it is asked to stop");
    }
    if forced > 0 && forced == stops.len() {
        return verdict(Grade::D, "it needs force every time, though it was told");
    }
    if forced > 0 {
        return verdict(Grade::C, "it sometimes needs force");
    }
    if any(&|stop| stop.how == How::Died) {
        return verdict(Grade::B, "it needs no force, but being stopped made it die of a defect");
    }
    if any(&|stop| stop.took > grace / 10) {
        return verdict(Grade::B, "it needs no force, but sometimes more than a tenth of the grace");
    }
    let why = if any(&|stop| stop.how == How::Stopped) {
        "it stops by itself, every time and quickly"
    } else if any(&|stop| stop.how == How::Failed) {
        "it ends by itself, every time and quickly"
    } else {
        "it was done before it had to stop"
    };
    verdict(Grade::A, why)
}

#[cfg(test)]
mod tests {
    use super::super::Moment;
    use super::*;

    const GRACE: Duration = Duration::from_secs(1);

    /// A stop that took this many milliseconds.
    fn stop(how: How, took: u64, seen: bool) -> Stop {
        Stop {
            at: Moment::Entry,
            how,
            took: Duration::from_millis(took),
            force: None,
            seen: seen.then_some(Duration::ZERO),
            place: None,
            detail: None,
        }
    }

    fn graded(stops: &[Stop]) -> Grade {
        grade(Some(&Ending::Succeeded), stops, GRACE).grade
    }

    #[test]
    fn who_stops_by_itself_and_quickly_is_of_the_best() {
        let quick = [stop(How::Stopped, 1, true), stop(How::Stopped, 100, true), stop(How::Finished, 5, false)];
        assert_eq!(graded(&quick), Grade::A);
        assert_eq!(graded(&[stop(How::Finished, 5, false)]), Grade::A);
        assert_eq!(graded(&[stop(How::Failed, 5, true)]), Grade::A);
        assert_eq!(graded(&[]), Grade::A);
    }

    #[test]
    fn who_takes_its_time_is_of_the_second() {
        assert_eq!(graded(&[stop(How::Stopped, 1, true), stop(How::Stopped, 101, true)]), Grade::B);
        assert_eq!(graded(&[stop(How::Finished, 900, false)]), Grade::B);
    }

    #[test]
    fn a_death_under_a_stop_spoils_the_best_grade() {
        assert_eq!(graded(&[stop(How::Stopped, 1, true), stop(How::Died, 1, true)]), Grade::B);
    }

    #[test]
    fn force_makes_it_the_third_and_force_alone_the_fourth() {
        let sometimes = [stop(How::Stopped, 1, true), stop(How::Forced, 1_001, false)];
        assert_eq!(graded(&sometimes), Grade::C);
        assert_eq!(graded(&[stop(How::Forced, 1_001, true)]), Grade::D, "it saw it, and went on");
        let luck = [stop(How::Finished, 1, false), stop(How::Forced, 1_001, false)];
        assert_eq!(graded(&luck), Grade::D, "it was only done before it had to stop, it did not look");
    }

    #[test]
    fn what_the_host_could_not_do_is_the_last_whatever_else_went_well() {
        for how in [How::Left, How::HostFailed] {
            assert_eq!(graded(&[stop(How::Stopped, 1, true), stop(how, 1, false)]), Grade::F);
        }
    }

    #[test]
    fn who_dies_undisturbed_does_not_pass() {
        let died = Ending::Died { cause: crate::task::Death::Trap, message: String::new() };
        assert_eq!(grade(Some(&died), &[stop(How::Finished, 1, false)], GRACE).grade, Grade::F);
        assert_eq!(grade(None, &[stop(How::Stopped, 1, true)], GRACE).grade, Grade::A, "it goes on until it is told");
    }

    #[test]
    fn grades_are_ordered_and_read_back() {
        assert!(Grade::ALL.is_sorted());
        assert!(Grade::ALL.iter().all(|grade| grade.code().parse() == Ok(*grade)));
        assert_eq!("b".parse(), Ok(Grade::B));
        assert!("E".parse::<Grade>().is_err());
    }
}
