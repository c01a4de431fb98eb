//! How a task ends without a result.
//!
//! Knows nothing of who called whom: it only names the classes, and says which one an error belongs to.

use std::error::Error;
use std::fmt::{self, Display};
use std::time::Duration;

use crate::Stopped;

/// How a task ends without a result. The class decides what follows: see the [crate's documentation](crate#failing).
///
/// Any error converts into a failure with `?`. One that is [`Stopped`], or was caused by it, becomes
/// [`Failure::Stopped`]. Any other becomes [`Failure::Fatal`]: an error that the task's author did not think of is a
/// defect until somebody says otherwise, and repeating a defect does not mend it.
///
/// ```
/// use atropos_guest::Failure;
///
/// fn port(text: &str) -> Result<u16, Failure> {
///     if text.is_empty() {
///         return Err(Failure::business("a port is needed"));
///     }
///     Ok(text.parse()?)
/// }
///
/// assert!(matches!(port(""), Err(Failure::Business(_))));
/// assert!(matches!(port("80 or so"), Err(Failure::Fatal(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The task wound up because the host asked it to.
    Stopped,
    /// The business said no: the account is closed, the range is empty, the input makes no sense. Never retried.
    Business(String),
    /// Something that the task depends on faltered. Retried while retries are left.
    System {
        /// What faltered, for people.
        message: String,
        /// How long the other side asked to be left alone, if it did.
        retry_after: Option<Duration>,
    },
    /// A defect: the scene is kept for a person. Never retried.
    Fatal(String),
}

impl Failure {
    /// The business said no. Never retried.
    pub fn business(message: impl Display) -> Self {
        Self::Business(message.to_string())
    }

    /// Something that the task depends on faltered. Retried with growing delays while retries are left.
    pub fn system(message: impl Display) -> Self {
        Self::System { message: message.to_string(), retry_after: None }
    }

    /// Like [`Failure::system`], with the other side's own wish, such as an HTTP `Retry-After`. The longer of this and
    /// the host's own delay is waited.
    pub fn system_retry_after(message: impl Display, retry_after: Duration) -> Self {
        Self::System { message: message.to_string(), retry_after: Some(retry_after) }
    }

    /// A defect. Never retried.
    pub fn fatal(message: impl Display) -> Self {
        Self::Fatal(message.to_string())
    }

    /// What `?` does, for what is no [`Error`] itself: boxed errors, and those of `anyhow` and `eyre`.
    ///
    /// ```
    /// use atropos_guest::Failure;
    ///
    /// fn helper() -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    ///     Ok("7".parse()?)
    /// }
    ///
    /// fn run(_: ()) -> Result<u32, Failure> {
    ///     Ok(helper().map_err(Failure::unforeseen)?)
    /// }
    /// # assert_eq!(run(()), Ok(7));
    /// ```
    pub fn unforeseen(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(&*error.into())
    }

    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = String::new();
        let mut next = Some(error);
        while let Some(cause) = next {
            if cause.is::<Stopped>() {
                return Self::Stopped;
            }
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        Self::Fatal(text)
    }
}

// `Failure` is itself no `Error`, and must not become one: that is what lets this conversion exist.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Business(message) => write!(f, "business failure: {message}"),
            Self::System { message, retry_after: None } => write!(f, "system failure: {message}"),
            Self::System { message, retry_after: Some(after) } => {
                write!(f, "system failure: {message} (retry after {after:?})")
            }
            Self::Fatal(message) => write!(f, "fatal failure: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StopReason, StopRequest};

    #[derive(Debug)]
    struct Wrapped<E>(&'static str, E);

    impl<E: Error> Display for Wrapped<E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl<E: Error + 'static> Error for Wrapped<E> {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    fn stopped() -> Stopped {
        Stopped(StopRequest { reason: StopReason::Cancelled, grace: Duration::from_secs(5), message: String::new() })
    }

    #[test]
    fn a_stop_stays_a_stop_however_deep_it_is_wrapped() {
        assert_eq!(Failure::from(stopped()), Failure::Stopped);
        assert_eq!(Failure::from(Wrapped("outer", Wrapped("inner", stopped()))), Failure::Stopped);
        assert_eq!(Failure::unforeseen(Wrapped("outer", stopped())), Failure::Stopped);
    }

    #[test]
    fn an_unforeseen_error_is_fatal_and_tells_all_its_causes() {
        let number = "x".parse::<u8>().unwrap_err();
        assert_eq!(
            Failure::from(Wrapped("reading the limit", number)),
            Failure::Fatal("reading the limit: invalid digit found in string".to_owned())
        );
        assert_eq!(Failure::unforeseen("just a text"), Failure::Fatal("just a text".to_owned()));
    }

    #[test]
    fn a_failure_is_shown_with_its_class() {
        assert_eq!(Failure::business("no").to_string(), "business failure: no");
        assert_eq!(
            Failure::system_retry_after("busy", Duration::from_millis(1500)).to_string(),
            "system failure: busy (retry after 1.5s)"
        );
    }
}
