//! A calendar day, as far as this report needs one.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::Deserialize;

/// A day in the years 1 to 9999, written `2026-03-31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// The day after.
    pub fn next(self) -> Self {
        let Self { year, month, day } = self;
        if day < days_in(year, month) {
            Self { year, month, day: day + 1 }
        } else if month < 12 {
            Self { year, month: month + 1, day: 1 }
        } else {
            Self { year: year + 1, month: 1, day: 1 }
        }
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.splitn(3, '-').map(|part| part.parse::<u32>().ok());
            let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
            let is_a_day =
                (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
            is_a_day.then_some(Self { year, month, day })
        };
        parse().ok_or_else(|| format!("`{text}` is no day; write it like 2026-03-31"))
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_follows_the_last_of_a_month_and_of_a_year() {
        for (day, after) in [
            ("2026-01-30", "2026-01-31"),
            ("2026-01-31", "2026-02-01"),
            ("2026-02-28", "2026-03-01"),
            ("2024-02-28", "2024-02-29"),
            ("2023-12-31", "2024-01-01"),
        ] {
            assert_eq!(day.parse::<Date>().unwrap().next().to_string(), after);
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in ["2026-02-29", "2026-13-01", "2026-01-00", "0-1-1", "yesterday", "2026-01", ""] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
