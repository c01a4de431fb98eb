//! Values as people write them on a command line: sizes, durations, instants, labels, inputs.
//!
//! Each parser says what it expected; none knows a command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::exit::Complaint;
use super::files;
use crate::time::Timestamp;

/// `90s`, `1h 30m`, `250ms`; `0` needs no unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|_| "expected a duration with its unit, such as `90s` or `1h 30m`".into())
}

/// `64MiB`, `1.5GiB`, `65536`; decimal units (`64MB`) are understood too.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size, such as `64MiB`, `1GiB` or a number of bytes".to_owned();
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(wrong);
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    #[expect(clippy::cast_precision_loss, reason = "a unit is exact as a float")]
    let bytes = (number * unit as f64).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked right here")]
    if (0.0..1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// How long to wait for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Forever,
    AtMost(Duration),
}

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" { Ok(Self::Forever) } else { duration(text).map(Self::AtMost) }
    }
}

/// An instant, or how long from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    In(Duration),
}

impl When {
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(delay) => now + delay,
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let instant = text.parse().map(Self::At);
        instant.or_else(|_| duration(text).map(Self::In)).map_err(|_| {
            "expected how long from now, such as `10m`, or an instant, such as `2030-01-31T12:00:00Z`".into()
        })
    }
}

/// `name=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected `name=value`".into()),
    }
}

/// Pairs as a map; the same name twice is a mistake.
pub fn map(pairs: &[(String, String)]) -> Result<BTreeMap<String, String>, Complaint> {
    let mut map = BTreeMap::new();
    for (name, value) in pairs {
        if map.insert(name.clone(), value.clone()).is_some() {
            return Err(Complaint::usage(format!("the label `{name}` is given twice")));
        }
    }
    Ok(map)
}

/// JSON, given in place, in a file, or on stdin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    Here(String),
    File(PathBuf),
    Stdin,
}

impl FromStr for Json {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix('@') {
            Some("-") => Self::Stdin,
            Some(path) => Self::File(path.into()),
            None if text == "-" => Self::Stdin,
            None => Self::Here(text.into()),
        })
    }
}

impl Json {
    /// The text, which is JSON.
    pub fn read(&self, what: &str) -> Result<String, Complaint> {
        let text = match self {
            Self::Here(text) => text.clone(),
            Self::File(path) => files::text(path)?,
            Self::Stdin => files::stdin(what)?,
        };
        match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            Ok(_) => Ok(text),
            Err(error) => {
                Err(Complaint { code: "not_json", ..Complaint::usage(format!("{what} is not JSON: {error}")) }.hint(
                    r#"quote it for the shell, as in '{"name": "Ada"}'; or name a file: @input.json; or `-` for stdin"#,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("65536", 65536),
            ("2k", 2048),
            ("1MB", 1_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "1..2", "64 apples", "99999999999GiB", "1e9"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_names_its_unit() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("30").is_err());
    }

    #[test]
    fn patience_has_an_end_or_none() {
        assert_eq!("forever".parse(), Ok(Patience::Forever));
        assert_eq!("30s".parse(), Ok(Patience::AtMost(Duration::from_secs(30))));
        assert!("long".parse::<Patience>().is_err());
    }

    #[test]
    fn a_start_is_an_instant_or_a_delay() {
        let now = Timestamp::from_micros(1_000_000);
        assert_eq!("10m".parse::<When>().unwrap().from(now), now + Duration::from_mins(10));
        let at = "2030-01-31T12:00:00Z";
        assert_eq!(at.parse::<When>().unwrap().from(now), at.parse().unwrap());
        assert!("tomorrow".parse::<When>().is_err());
    }

    #[test]
    fn a_label_has_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("=b").is_err() && pair("a").is_err());
        assert!(map(&[("a".into(), "1".into()), ("a".into(), "2".into())]).is_err());
    }

    #[test]
    fn an_input_is_text_a_file_or_stdin() {
        let parse = |text: &str| text.parse::<Json>().unwrap();
        assert_eq!(parse("-"), Json::Stdin);
        assert_eq!(parse("@in.json"), Json::File("in.json".into()));
        assert_eq!(parse("{}").read("the input"), Ok("{}".into()));
        assert_eq!(parse("{").read("the input").unwrap_err().code, "not_json");
        assert_eq!(parse("@no-such-file").read("the input").unwrap_err().code, "file_not_found");
    }
}
