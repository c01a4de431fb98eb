//! Exports a report row by row, tells how far it is, and stops politely.
//!
//! A user asked for a report that takes minutes, and may change their mind. So the task looks at every row whether it
//! should stop, and heartbeats now and then. The rows are made up and go nowhere: what counts is the shape of the loop.
//!
//! ```json
//! {
//!     "user": "u-1001",
//!     "report_type": "orders",
//!     "from": "2026-01-01",
//!     "to": "2026-03-31",
//!     "format": "csv",
//!     "rows": 500,
//!     "row_ms": 20
//! }
//! ```
//!
//! Result: `{"user": "u-1001", "format": "csv", "rows": 500, "bytes": 18835, "checksum": "cd9736553543f41e"}`.

mod date;
mod file;

use std::time::Duration;

use atropos_guest::{Failure, Stopped, check_cancel, log, progress, sleep};
use serde::{Deserialize, Serialize};

use crate::date::Date;
use crate::file::{File, Row};

/// What the task takes.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Whose report it is.
    user: String,
    report_type: ReportType,
    /// First day of the report.
    from: Date,
    /// Last day of the report.
    to: Date,
    format: Format,
    /// How many rows there are. A real task would find out.
    #[serde(default = "default_rows")]
    rows: u32,
    /// How long a row takes, so that there is time to watch, and to cancel.
    #[serde(default)]
    row_ms: u32,
}

fn default_rows() -> u32 {
    100
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReportType {
    Orders,
    Payments,
    Visits,
}

impl ReportType {
    fn name(self) -> &'static str {
        match self {
            Self::Orders => "orders",
            Self::Payments => "payments",
            Self::Visits => "visits",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Csv,
    Json,
}

/// What the task gives back.
#[derive(Debug, PartialEq, Serialize)]
struct Output {
    user: String,
    format: Format,
    rows: u32,
    bytes: u64,
    /// FNV-1a of the exported text: the same input gives the same report.
    checksum: String,
}

atropos_guest::task!(run);

fn run(input: Input) -> Result<Output, Failure> {
    if input.from > input.to {
        return Err(Failure::business(format!("the range is empty: {} is after {}", input.from, input.to)));
    }
    log::info!("exporting {} rows of {} for {}", input.rows, input.report_type.name(), input.user);

    let mut file = File::default();
    if let Err(stopped) = write_rows(&input, &mut file) {
        // Here a real task puts things in order: it removes what it has half written. The grace is there for that.
        log::warn!("stopped after {} of {} rows: {stopped}", file.rows, input.rows);
        return Err(stopped.into());
    }

    // The work is done. A request to stop that arrives only now comes too late, and the result stands.
    let _too_late = progress(file.rows.into(), input.rows.into(), "written");
    Ok(Output {
        user: input.user,
        format: input.format,
        rows: file.rows,
        bytes: file.bytes,
        checksum: file.checksum.to_string(),
    })
}

fn write_rows(input: &Input, file: &mut File) -> Result<(), Stopped> {
    let mut day = input.from;
    for number in 0..input.rows {
        // Ends the loop when the task is asked to stop. It costs nearly nothing, so look at every row.
        check_cancel()?;

        file.append(&Row::new(&input.user, input.report_type, day, number).line(input.format));
        day = if day == input.to { input.from } else { day.next() };

        // A wait that ends early when the task is asked to stop, as no other wait does.
        if input.row_ms > 0 {
            sleep(Duration::from_millis(input.row_ms.into()))?;
        }
        // A hundred times is often enough for a progress bar.
        if number % (input.rows / 100).max(1) == 0 {
            progress(file.rows.into(), input.rows.into(), "writing rows")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use atropos_guest::StopReason;
    use atropos_guest::testing::Host;

    use super::*;

    fn input() -> Input {
        Input {
            user: "u-1001".to_owned(),
            report_type: ReportType::Orders,
            from: "2026-01-01".parse().unwrap(),
            to: "2026-03-31".parse().unwrap(),
            format: Format::Csv,
            rows: 500,
            row_ms: 20,
        }
    }

    #[test]
    fn the_same_input_gives_the_same_report() {
        let (first, seen) = Host::new().run(|| run(input()));
        let (second, _) = Host::new().run(|| run(input()));
        assert_eq!(first, second);
        assert_eq!(first.unwrap().rows, 500);
        assert_eq!(seen.slept, Duration::from_secs(10));
        assert_eq!(seen.heartbeats.last().unwrap().as_ref().unwrap().done, 500.0);
    }

    #[test]
    fn it_stops_at_the_next_look_wherever_that_is() {
        for looks in 0..200 {
            let (result, seen) = Host::new().stop_after(looks, StopReason::Cancelled).run(|| run(input()));
            assert_eq!(result, Err(Failure::Stopped));
            assert_eq!(seen.looks, looks + 1);
        }
    }

    #[test]
    fn a_stop_after_the_last_row_comes_too_late() {
        let (_, seen) = Host::new().run(|| run(input()));
        let host = Host::new().stop_after(seen.looks - 1, StopReason::Cancelled);
        assert!(host.run(|| run(input())).0.is_ok());
    }

    #[test]
    fn a_json_row_is_json_whatever_the_user_is_called() {
        let row = Row::new("\"\u{7}ü", ReportType::Visits, input().from, 1);
        let value: serde_json::Value = serde_json::from_str(&row.line(Format::Json)).unwrap();
        assert_eq!(value["user"], "\"\u{7}ü");
    }

    #[test]
    fn an_empty_range_is_the_callers_mistake() {
        let backwards = Input { from: input().to, to: input().from, ..input() };
        assert!(matches!(run(backwards), Err(Failure::Business(_))));
    }
}
