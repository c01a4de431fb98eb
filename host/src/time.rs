//! Instants, and the clock that gives them. The only file that reads the wall clock.
//!
//! Everything else is handed a [`Timestamp`], so that it can be tested and replayed.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

/// An instant in UTC, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant that can be named; used where a wait has no end.
    pub const FAR: Self = Self(253_402_207_199_000_000);

    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::FAR`].
    fn add(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(Self::FAR.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// RFC 3339 in UTC with microseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{} µs", self.0),
        }
    }
}

/// The text is not an RFC 3339 instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an RFC 3339 instant such as `2030-01-31T12:00:00Z`")]
pub struct TimestampError {
    text: String,
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|instant| Self(instant.as_microsecond()))
            .map_err(|_| TimestampError { text: text.chars().take(80).collect() })
    }
}

/// Where the host takes the time from.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock, kept from running backwards within this process. When it is set back, time goes on from
/// where it was: a clock that stood still would let no budget end.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
    /// How far the wall clock was ahead of the time since the start, at most, in microseconds.
    ahead: std::sync::atomic::AtomicI64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: std::time::Instant::now(), ahead: std::sync::atomic::AtomicI64::new(i64::MIN) }
    }
}

impl SystemClock {
    fn at(&self, wall: Timestamp, since_start: Duration) -> Timestamp {
        let elapsed = i64::try_from(since_start.as_micros()).unwrap_or(i64::MAX);
        let ahead = wall.0.saturating_sub(elapsed);
        let most = self.ahead.fetch_max(ahead, std::sync::atomic::Ordering::SeqCst).max(ahead);
        Timestamp(most.saturating_add(elapsed))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // In this order: whatever comes between the two must not count as a step forward.
        let wall = Timestamp(jiff::Timestamp::now().as_microsecond());
        self.at(wall, self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_instant_agree() {
        let at: Timestamp = "2030-01-31T12:00:00.5Z".parse().unwrap();
        assert_eq!(at.to_string(), "2030-01-31T12:00:00.500000Z");
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on_and_one_that_is_set_forward_is_followed() {
        let clock = SystemClock::default();
        let told = |wall: i64, since_start| clock.at(Timestamp(wall), Duration::from_micros(since_start)).0;
        assert_eq!(told(1_000, 0), 1_000);
        assert_eq!(told(1_050, 50), 1_050);
        assert_eq!(told(200, 100), 1_100, "set back by 900");
        assert_eq!(told(300, 200), 1_200);
        assert_eq!(told(9_000, 300), 9_000);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::FAR + Duration::MAX, Timestamp::FAR);
        assert_eq!(Timestamp::default().since(Timestamp::FAR), Duration::ZERO);
    }
}
