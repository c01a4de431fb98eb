//! What the report looks like in a file. The rows are made up from their numbers.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::date::Date;
use crate::{Format, ReportType};

#[derive(Serialize)]
pub struct Row<'a> {
    number: u32,
    day: String,
    user: &'a str,
    kind: &'static str,
    cents: u32,
}

impl<'a> Row<'a> {
    pub fn new(user: &'a str, kind: ReportType, day: Date, number: u32) -> Self {
        let cents = number.wrapping_mul(2_654_435_761) % 100_000;
        Self { number, day: day.to_string(), user, kind: kind.name(), cents }
    }

    pub fn line(&self, format: Format) -> String {
        let Self { number, day, user, kind, cents } = self;
        match format {
            Format::Csv => {
                format!("{number},{day},\"{}\",{kind},{}.{:02}\n", user.replace('"', "\"\""), cents / 100, cents % 100)
            }
            Format::Json => serde_json::to_string(self).expect("numbers and texts fit into JSON") + "\n",
        }
    }
}

/// Stands for the file: it only counts what is written to it.
#[derive(Default)]
pub struct File {
    pub rows: u32,
    pub bytes: u64,
    pub checksum: Checksum,
}

impl File {
    pub fn append(&mut self, line: &str) {
        self.rows += 1;
        self.bytes += line.len() as u64;
        for byte in line.bytes() {
            self.checksum.0 = (self.checksum.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// FNV-1a with 64 bits.
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
