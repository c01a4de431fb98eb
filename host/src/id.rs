//! Names of things, as types that parse. Nothing here knows what the things do.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;
use uuid::Uuid;

/// A text that is not the name it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct IdError {
    given: String,
    expected: &'static str,
}

impl IdError {
    fn new(given: &str, expected: &'static str) -> Self {
        Self { given: given.chars().take(80).collect(), expected }
    }
}

/// A task, from birth on. A UUID of version 7: sorts by birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Uuid);

impl TaskId {
    /// A fresh id.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each call gives another id")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self).map_err(|_| IdError::new(text, "a task id (a UUID)"))
    }
}

/// One process that owns slots. A new one at every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Uuid);

impl NodeId {
    /// A fresh id.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each call gives another id")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The SHA-256 of a component's bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Of everything that is still to be read.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_rest(source: &mut impl std::io::Read) -> std::io::Result<Self> {
        let mut hash = sha2::Sha256::new();
        let mut part = vec![0; 256 << 10];
        loop {
            match source.read(&mut part) {
                Ok(0) => return Ok(Self(hash.finalize().into())),
                Ok(count) => hash.update(&part[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || IdError::new(text, "a component digest (64 hexadecimal digits)");
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if is_name(text) { Ok(Self(text.into())) } else { Err(IdError::new(text, $expected)) }
            }
        }
    };
}

name!(
    /// A task type: 1 to 64 of `A-Z a-z 0-9 _ - .`, the first a letter or digit.
    TypeName,
    "a task type (1 to 64 of A-Z a-z 0-9 _ - ., the first a letter or digit)"
);

name!(
    /// A queue: 1 to 64 of `A-Z a-z 0-9 _ - .`, the first a letter or digit.
    QueueName,
    "a queue (1 to 64 of A-Z a-z 0-9 _ - ., the first a letter or digit)"
);

impl Default for QueueName {
    fn default() -> Self {
        Self("default".into())
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=64).contains(&text.len()) && text.as_bytes()[0].is_ascii_alphanumeric() && text.bytes().all(allowed)
}

/// A W3C trace context, version 00: `00-<trace id>-<span id>-<flags>`
/// (<https://www.w3.org/TR/trace-context/>).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent(std::sync::Arc<str>);

impl TraceParent {
    /// A new trace, sampled.
    #[must_use]
    pub fn generate() -> Self {
        let trace = Uuid::now_v7().simple().to_string();
        let tail = Uuid::now_v7().simple().to_string();
        Self(format!("00-{trace}-{}-01", &tail[16..]).into())
    }

    /// The 32 hexadecimal digits that all spans of the trace share.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TraceParent {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower_hex = |part: &str, len: usize| {
            part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let not_zero = |part: &str| part.bytes().any(|b| b != b'0');
        let parts: Vec<&str> = text.split('-').collect();
        match parts[..] {
            ["00", trace, span, flags]
                if lower_hex(trace, 32)
                    && lower_hex(span, 16)
                    && lower_hex(flags, 2)
                    && not_zero(trace)
                    && not_zero(span) =>
            {
                Ok(Self(text.into()))
            }
            _ => Err(IdError::new(text, "a W3C traceparent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_or_say_why() {
        assert!("export_report".parse::<TypeName>().is_ok());
        for wrong in ["", "-a", "a b", "ü", &"x".repeat(65)] {
            assert!(wrong.parse::<TypeName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_digest_is_its_hex_text() {
        let digest = Digest::of(b"abc");
        assert!(digest.to_string().starts_with("ba7816bf8f01cfea"));
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!("ü".repeat(32).parse::<Digest>().is_err());
    }

    #[test]
    fn a_generated_trace_context_is_a_valid_one() {
        let trace = TraceParent::generate();
        assert_eq!(trace.as_str().parse::<TraceParent>().unwrap(), trace);
        assert_eq!(trace.trace_id().len(), 32);
        assert!("00-0-0-00".parse::<TraceParent>().is_err());
    }
}
