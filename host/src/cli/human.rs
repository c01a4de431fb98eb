//! Numbers as people read them: spans, ages, sizes.

use std::time::Duration;

use crate::time::Timestamp;

/// `3 ms`, `4.2 s`, `2m 05s`, `3h 20m`, `5d 1h`.
#[must_use]
pub fn span(span: Duration) -> String {
    let (secs, micros) = (span.as_secs(), span.subsec_micros());
    match secs {
        0 if micros == 0 => "0 ms".into(),
        0 if micros < 1_000 => format!("{micros} µs"),
        0 if micros < 10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        0 => format!("{} ms", micros / 1000),
        1..60 => format!("{secs}.{} s", micros / 100_000),
        60..3600 => format!("{}m {:02}s", secs / 60, secs % 60),
        3600..86_400 => format!("{}h {:02}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d {}h", secs / 86_400, secs % 86_400 / 3600),
    }
}

/// How long ago, in one unit: `now`, `12s`, `4m`, `3h`, `5d`.
#[must_use]
pub fn age(at: Timestamp, now: Timestamp) -> String {
    match now.since(at).as_secs() {
        0 => "now".into(),
        secs @ 1..60 => format!("{secs}s"),
        secs @ 60..3600 => format!("{}m", secs / 60),
        secs @ 3600..86_400 => format!("{}h", secs / 3600),
        secs => format!("{}d", secs / 86_400),
    }
}

/// `512 B`, `64.0 KiB`, `1.2 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} B"),
    }
}

/// `1 task`, `2 tasks`.
#[must_use]
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A number as a guest counts, without decimals that say nothing.
#[must_use]
pub fn amount(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// The time of day, to the millisecond.
#[must_use]
pub fn clock(at: Timestamp) -> String {
    at.to_string().get(11..23).map_or_else(|| at.to_string(), str::to_owned)
}

/// Date and time, to the millisecond.
#[must_use]
pub fn instant(at: Timestamp) -> String {
    at.to_string().get(..23).map_or_else(|| at.to_string(), |text| format!("{}Z", text.replace('T', " ")))
}

/// Date and time, to the second.
#[must_use]
pub fn date(at: Timestamp) -> String {
    at.to_string().get(..19).map_or_else(|| at.to_string(), |text| format!("{}Z", text.replace('T', " ")))
}

/// The beginning of a text, and a sign that there is more.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_say_as_much_as_matters() {
        let cases = [
            (0, "0 ms"),
            (250, "250 µs"),
            (3_400, "3.4 ms"),
            (42_000, "42 ms"),
            (4_250_000, "4.2 s"),
            (125_000_000, "2m 05s"),
            (12_000_000_000, "3h 20m"),
            (435_600_000_000, "5d 1h"),
        ];
        for (given, text) in cases {
            assert_eq!(span(Duration::from_micros(given)), text);
        }
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1 << 16), "64.0 KiB");
        assert_eq!(bytes(1_300_000), "1.2 MiB");
    }

    #[test]
    fn an_age_has_one_unit() {
        let now = Timestamp::from_micros(100_000 * 1_000_000);
        for (secs, text) in [(0, "now"), (59, "59s"), (61, "1m"), (7200, "2h"), (90_000, "1d")] {
            assert_eq!(age(now - Duration::from_secs(secs), now), text);
        }
        assert_eq!(age(now + Duration::from_secs(9), now), "now");
    }

    #[test]
    fn instants_are_cut_to_what_is_asked() {
        let at: Timestamp = "2030-01-31T12:00:00.5Z".parse().unwrap();
        assert_eq!(clock(at), "12:00:00.500");
        assert_eq!(date(at), "2030-01-31 12:00:00Z");
        assert_eq!(instant(at), "2030-01-31 12:00:00.500Z");
        assert_eq!(amount(3.0), "3");
        assert_eq!(amount(3.25), "3.2");
    }
}
