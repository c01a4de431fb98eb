//! What a cancel drill found, for people and for programs. Knows no streams.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::human::{count, span};
use super::print::{Ink, Tone, tame};
use super::receipt;
use super::table::{Cell, Table, facts};
use crate::api::wire::Cost;
use crate::host::{DrillOrders, Drilled, Grade, How, Moment, Stop, Undisturbed};
use crate::task::{Ending, FailureClass, Reason};

/// The places at which force was needed that are shown.
const PLACES_MAX: usize = 5;
const BAR_CELLS: usize = 40;
/// In the order of the report; the first is the best.
const HOWS: [How; 7] = [How::Stopped, How::Finished, How::Failed, How::Died, How::Forced, How::HostFailed, How::Left];

/// The drill, for programs.
#[derive(Debug, Serialize)]
pub struct Record {
    grade: &'static str,
    why: &'static str,
    grace_ms: f64,
    seed: u64,
    undisturbed: Natural,
    /// How many ended in which way.
    ways: BTreeMap<&'static str, Way>,
    /// Guests that were over before they were told.
    too_late: usize,
    /// Moments for which there was no time.
    left_out: usize,
    stops: Vec<Each>,
}

#[derive(Debug, Serialize)]
struct Natural {
    /// `succeeded`, `stopped`, `failed`, `died`, or `running`: it was told at the end of its time.
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    cost: Cost,
}

/// From told to gone; of those that needed force, from killed to gone.
#[derive(Debug, Serialize)]
struct Way {
    count: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Serialize)]
struct Each {
    at: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<f64>,
    how: &'static str,
    took_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    force_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

const fn code(how: How) -> &'static str {
    match how {
        How::Stopped => "stopped",
        How::Finished => "finished",
        How::Failed => "failed",
        How::Died => "died",
        How::Forced => "forced",
        How::HostFailed => "host_failed",
        How::Left => "left",
    }
}

impl Record {
    pub fn of(drilled: &Drilled, orders: &DrillOrders) -> Self {
        let ways = HOWS.into_iter().filter_map(|how| {
            let spans = spans(&drilled.stops, how);
            let of = |percent| ms(percentile(&spans, percent));
            let way = Way { count: spans.len(), p50_ms: of(50), p99_ms: of(99), max_ms: of(100) };
            (way.count > 0).then_some((code(how), way))
        });
        Self {
            grade: drilled.verdict.grade.code(),
            why: drilled.verdict.why,
            grace_ms: ms(orders.grace),
            seed: orders.seed,
            undisturbed: Natural::of(&drilled.undisturbed),
            ways: ways.collect(),
            too_late: drilled.too_late,
            left_out: drilled.left_out,
            stops: drilled.stops.iter().map(Each::of).collect(),
        }
    }
}

impl Natural {
    fn of(run: &Undisturbed) -> Self {
        let (ended, detail) = match &run.ending {
            None => ("running", None),
            Some(Ending::Succeeded) => ("succeeded", None),
            Some(Ending::Stopped) => ("stopped", None),
            Some(Ending::Failed { message, .. }) => ("failed", Some(message.clone())),
            Some(Ending::Died { message, .. }) => ("died", Some(message.clone())),
            Some(Ending::FuelSpent | Ending::Killed | Ending::Lost { .. }) => ("killed", None),
        };
        Self { ended, detail, cost: (&run.cost).into() }
    }
}

impl Each {
    fn of(stop: &Stop) -> Self {
        let (at, host_call, after_ms) = match stop.at {
            Moment::Entry => ("entry", None, None),
            Moment::Call(number) => ("host_call", Some(number), None),
            Moment::After(span) => ("moment", None, Some(ms(span))),
        };
        Self {
            at,
            host_call,
            after_ms,
            how: code(stop.how),
            took_ms: ms(stop.took),
            force_ms: stop.force.map(ms),
            seen_ms: stop.seen.map(ms),
            place: stop.place.clone(),
            detail: stop.detail.clone(),
        }
    }
}

/// How long those took that ended in this way, in order.
fn spans(stops: &[Stop], how: How) -> Vec<Duration> {
    let of = |stop: &Stop| if how == How::Forced { stop.force.unwrap_or(stop.took) } else { stop.took };
    let mut spans: Vec<_> = stops.iter().filter(|stop| stop.how == how).map(of).collect();
    spans.sort_unstable();
    spans
}

/// The least value that so many of a hundred do not pass.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The drill, for people.
#[must_use]
pub fn report(ink: Ink, drilled: &Drilled, orders: &DrillOrders) -> String {
    let mut text = format!("\n{}\n", ink.paint(Tone::Strong, "Undisturbed"));
    text.push_str(&facts(ink, &natural(ink, drilled, orders)));
    let title = ink.paint(Tone::Strong, format!("Stopped {}", count(drilled.stops.len() as u64, "time")));
    let _ = writeln!(text, "\n{title}: {}, with {} of grace", moments(&drilled.stops), span(orders.grace));
    let _ = writeln!(text, "{}", bar(ink, &drilled.stops));
    text.push_str(&ways(ink, &drilled.stops));
    text.push_str(&places(ink, &drilled.stops));
    let tone = match drilled.verdict.grade {
        Grade::A | Grade::B => Tone::Good,
        Grade::C => Tone::Warn,
        Grade::D | Grade::F => Tone::Bad,
    };
    let letter = ink.paint(tone, format!("Grade {}", drilled.verdict.grade));
    let _ = writeln!(text, "\n{letter}: {}", drilled.verdict.why);
    for note in notes(drilled) {
        let _ = writeln!(text, "  {} {note}", ink.paint(Tone::Dim, "note:"));
    }
    text
}

fn natural(ink: Ink, drilled: &Drilled, orders: &DrillOrders) -> [(&'static str, String); 2] {
    let run = &drilled.undisturbed;
    let (tone, word, detail) = match &run.ending {
        None => (Tone::Warn, format!("still running after {}", span(orders.run_timeout)), None),
        Some(Ending::Succeeded) => (Tone::Good, "SUCCESS".to_owned(), None),
        Some(Ending::Stopped) => (Tone::Bad, "FAILED stopped_unasked".to_owned(), None),
        Some(Ending::Failed { class, message, .. }) => (Tone::Bad, format!("FAILED {}", class.code()), Some(message)),
        Some(Ending::Died { cause, message }) => {
            (Tone::Bad, format!("FAILED {}", Reason::Died(*cause).code()), Some(message))
        }
        Some(Ending::FuelSpent | Ending::Killed | Ending::Lost { .. }) => (Tone::Bad, "killed".to_owned(), None),
    };
    let detail = detail.map(|detail| format!(": {}", tame(detail))).unwrap_or_default();
    [("ended", ink.paint(tone, word) + &detail), ("cost", receipt::cost(&(&run.cost).into()))]
}

/// `at its entry, at 12 host calls, at 16 other moments`.
fn moments(stops: &[Stop]) -> String {
    let of = |wanted: fn(&Moment) -> bool| stops.iter().filter(|stop| wanted(&stop.at)).count() as u64;
    let entry = of(|at| *at == Moment::Entry);
    let calls = of(|at| matches!(at, Moment::Call(_)));
    let others = of(|at| matches!(at, Moment::After(_)));
    let mut parts = Vec::new();
    parts.extend((entry > 0).then(|| "at its entry".to_owned()));
    parts.extend((calls > 0).then(|| format!("at {}", count(calls, "host call"))));
    parts.extend((others > 0).then(|| format!("at {}", count(others, "other moment"))));
    if parts.is_empty() { "it was always over before".to_owned() } else { parts.join(", ") }
}

const fn tone(how: How) -> Tone {
    match how {
        How::Stopped => Tone::Good,
        How::Finished => Tone::Live,
        How::Failed | How::Died => Tone::Warn,
        How::Forced | How::HostFailed | How::Left => Tone::Bad,
    }
}

/// All stops as one bar, each way with its share; a way that is there has a cell at least.
fn bar(ink: Ink, stops: &[Stop]) -> String {
    let shares = HOWS.map(|how| stops.iter().filter(|stop| stop.how == how).count());
    let mut cells = shares.map(|share| if share == 0 { 0 } else { (share * BAR_CELLS / stops.len().max(1)).max(1) });
    let rest = BAR_CELLS.saturating_sub(cells.iter().sum());
    if let Some(widest) = cells.iter_mut().max() {
        *widest += rest;
    }
    let mark = |how| match how {
        How::Stopped => "█",
        How::Finished => "▓",
        How::Failed | How::Died => "▒",
        How::Forced | How::HostFailed | How::Left => "░",
    };
    let parts = HOWS.into_iter().zip(cells).filter(|(_, cells)| *cells > 0 && !stops.is_empty());
    parts.map(|(how, cells)| ink.paint(tone(how), mark(how).repeat(cells))).collect()
}

fn ways(ink: Ink, stops: &[Stop]) -> String {
    let mut table = Table::new(&["", "TIMES", "P50", "P99", "MAX", ""]);
    for how in HOWS {
        let spans = spans(stops, how);
        if spans.is_empty() {
            continue;
        }
        let (name, meaning) = match how {
            How::Stopped => ("stopped by itself", "from told to gone"),
            How::Finished => ("finished its work", "from told to gone"),
            How::Failed => ("failed another way", "from told to gone"),
            How::Died => ("died of it", "from told to gone"),
            How::Forced => ("needed force", "from killed to gone"),
            How::HostFailed => ("the host failed", ""),
            How::Left => ("not gone when killed", ""),
        };
        let of = |percent| span(percentile(&spans, percent));
        table.row([
            Cell::new(tone(how), name),
            spans.len().to_string().into(),
            of(50).into(),
            of(99).into(),
            of(100).into(),
            Cell::new(Tone::Dim, meaning),
        ]);
    }
    table.text(ink)
}

/// Where force was needed, and where it died: the most frequent first.
fn places(ink: Ink, stops: &[Stop]) -> String {
    let mut places = BTreeMap::<(&str, &str), usize>::new();
    for stop in stops {
        let title = match stop.how {
            How::Forced => "needed force",
            How::Died => "died",
            How::Stopped | How::Finished | How::Failed | How::HostFailed | How::Left => continue,
        };
        *places.entry((title, stop.place.as_deref().unwrap_or("unknown"))).or_default() += 1;
    }
    if places.is_empty() {
        return String::new();
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let mut text = format!("\n{}\n", ink.paint(Tone::Strong, "Where"));
    for ((title, place), times) in places.iter().take(PLACES_MAX) {
        let _ = writeln!(text, "{times:>4} × {title} in {}", tame(place));
    }
    if let Some(more) = places.len().checked_sub(PLACES_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "       and in {}", count(more as u64, "other place"));
    }
    text
}

fn notes(drilled: &Drilled) -> Vec<String> {
    let mut notes = Vec::new();
    let run = &drilled.undisturbed;
    if matches!(run.ending, Some(Ending::Failed { class: FailureClass::Business, .. } | Ending::Died { .. })) {
        notes.push("it failed undisturbed; give it an input that it can work with: `--input`".to_owned());
    }
    let told = drilled.stops.iter().all(|stop| stop.how == How::Finished && stop.seen.is_none());
    if told && run.ending.is_some() {
        notes.push("it never looked: with more work to do it may need force".to_owned());
    }
    if drilled.too_late > 0 {
        notes.push(format!("{} came when it was over already", count(drilled.too_late as u64, "stop")));
    }
    if drilled.left_out > 0 {
        let moments = count(drilled.left_out as u64, "moment");
        notes.push(format!("there was no time for {moments} more; give more with `--drill-time`"));
    }
    notes
}
