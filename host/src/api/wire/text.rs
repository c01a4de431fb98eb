//! Names, instants, durations and codes as the texts that they are in JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::id::{Digest, NodeId, QueueName, TaskId, TraceParent, TypeName};
use crate::task::{Kind, LogLevel, Manner, Phase, Reason, StopReason};
use crate::time::Timestamp;

/// Reads a text by a function, and names what was expected when there is none.
struct Text<T, F: FnOnce(&str) -> Result<T, String>> {
    read: F,
    expected: &'static str,
}

impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }
}

fn parse<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn string(description: &str, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .description(Some(description))
        .examples([serde_json::Value::from(example)])
}

/// A type that prints and parses as one text.
macro_rules! as_text {
    ($($type:ty, $name:literal, $read:expr, $description:literal, $example:literal, $format:expr;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text { read: $read, expected: $description })
            }
        }

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                string($description, $example).format($format).into()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )*};
}

fn uuid() -> SchemaFormat {
    SchemaFormat::Custom("uuid".to_owned())
}

const INSTANT: SchemaFormat = SchemaFormat::KnownFormat(KnownFormat::DateTime);

fn node(text: &str) -> Result<NodeId, String> {
    let id = uuid::Uuid::try_parse(text).map_err(|_| "a node id should be a UUID".to_owned())?;
    Ok(NodeId::from_bytes(id.into_bytes()))
}

as_text! {
    TaskId, "TaskId", parse, "a task id (a UUID; version 7, so that ids sort by birth)",
        "0192d3a4-5b6c-7d8e-9f00-112233445566", Some(uuid());
    NodeId, "NodeId", node, "a node id (a UUID; a new one at every start)", "0192d3a4-5b6c-7d8e-9f00-112233445566", Some(uuid());
    Digest, "Digest", parse, "the SHA-256 of a component's bytes, in 64 hexadecimal digits",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", None;
    TypeName, "TypeName", parse, "a task type: 1 to 64 of A-Z a-z 0-9 _ - ., the first a letter or digit", "export_report", None;
    QueueName, "QueueName", parse, "a queue: 1 to 64 of A-Z a-z 0-9 _ - ., the first a letter or digit", "default", None;
    TraceParent, "TraceParent", parse, "a W3C trace context, version 00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None;
    Timestamp, "Timestamp", parse, "an instant in RFC 3339; answers are in UTC", "2030-01-31T12:00:00.000000Z", Some(INSTANT);
}

/// A type with a fixed list of codes.
macro_rules! as_code {
    ($($type:ty, $name:literal, $description:literal, $all:expr;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.code())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = |text: &str| {
                    Self::parse(text).ok_or_else(|| format!("`{text}` is not {}", $description))
                };
                deserializer.deserialize_str(Text { read, expected: $description })
            }
        }

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(SchemaType::new(Type::String))
                    .description(Some($description))
                    .enum_values(Some($all.into_iter().map(<$type>::code)))
                    .into()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )*};
}

as_code! {
    Kind, "State", "the state of a task; `CANCELED` and `TIMEOUT` are read too", Self::ALL;
    Manner, "Ended", "how the guest was when the task ended: it came back by itself, was killed or died, or there was none",
        Self::ALL;
    Reason, "Reason", "why a state is what it is", Self::all();
    StopReason, "StopReason", "why an attempt is to stop", Self::ALL;
    LogLevel, "LogLevel", "how bad a log line is", Self::ALL;
    Phase, "Phase", "how far an attempt has come", Self::ALL;
}

/// A length of time, in words: `90s`, `1m 30s`, `250ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// The text is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a duration such as `90s`, `1m 30s` or `250ms`")]
pub struct SpanError {
    given: String,
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || SpanError { given: text.chars().take(80).collect() };
        humantime::parse_duration(text).map(Self).map_err(|_| wrong())
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

as_text! {
    Span, "Duration", parse, "a duration such as `90s`, `1m 30s` or `250ms`", "1m 30s", None;
}
