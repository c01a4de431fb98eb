//! `atropos check`: a guest for each grade, what is said of it, and the exit codes.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{guest, program, root};

/// A guest, its grade, and how its stops went: in these ways and no others.
const GUESTS: &[(&str, &str, &[&str])] = &[
    ("echo", "A", &["finished"]),
    ("polite", "A", &["stopped"]),
    ("polite-ok", "A", &["finished"]),
    ("trap-when-stopped", "B", &["died"]),
    ("looks-once", "C", &["forced", "stopped"]),
    ("spin", "D", &["forced"]),
    ("sleep-forever", "D", &["forced"]),
    ("spin-after-stop", "D", &["forced"]),
    ("trap", "F", &["finished"]),
];

/// Checks a guest, with a grace of which no tenth is ever passed by who stops by itself, unless other flags follow.
fn check(name: &str, flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name).with_extension("wasm");
    std::fs::write(&file, guest(name)).expect("a file");
    let mut command = Command::new(program());
    command.arg("check").arg(&file).args(flags).current_dir(root()).env("NO_COLOR", "1");
    command.output().expect("the program runs")
}

fn verdict(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_guest_has_the_grade_that_it_deserves() {
    for (name, grade, ways) in GUESTS {
        let needs_force = ways.contains(&"forced");
        // Who needs force takes its whole grace each time.
        let grace = if needs_force { "20ms" } else { "1m" };
        let output = check(name, &["--json", "--run-timeout", "50ms", "--grace", grace, "--drill-time", "1s"]);
        let verdict = verdict(&output);
        assert_eq!(verdict["grade"], *grade, "{name}: {verdict}");
        assert_eq!(output.status.code(), Some(if *grade == "F" { 8 } else { 0 }), "{name}: {verdict}");
        let found: Vec<_> = verdict["drill"]["ways"].as_object().expect("ways").keys().cloned().collect();
        assert_eq!(found, *ways, "{name}: {verdict}");
        for stop in verdict["drill"]["stops"].as_array().expect("stops") {
            assert_eq!(stop["how"] == "forced", stop["force_ms"].is_number(), "{name}: {stop}");
        }
    }
}

#[test]
fn a_stop_at_a_host_call_is_exact() {
    let output = check("trap-when-stopped", &["--json", "--run-timeout", "50ms", "--grace", "1m"]);
    let verdict = verdict(&output);
    let stops = verdict["drill"]["stops"].as_array().expect("stops");
    let calls: Vec<_> = stops.iter().filter_map(|stop| stop["host_call"].as_u64()).collect();
    assert!(calls.contains(&1), "{verdict}");
    for stop in stops {
        // The call at which it is told answers with the request, and then it gives up: wherever that is.
        assert!(stop["seen_ms"].is_number(), "{stop}");
        let place = stop["place"].as_str().unwrap_or_default();
        assert!(place.ends_with("give_up"), "{stop}");
    }
}

#[test]
fn a_grade_that_is_asked_for_decides_the_exit_code() {
    let quick = ["--run-timeout", "50ms", "--grace", "20ms", "--drill-time", "0", "--min-grade"];
    assert_eq!(check("spin", &[&quick[..], &["C"]].concat()).status.code(), Some(8));
    assert_eq!(check("spin", &[&quick[..], &["D"]].concat()).status.code(), Some(0));
    assert_eq!(check("core-module", &["--min-grade", "D"]).status.code(), Some(7));
    let output = check("core-module", &["--json"]);
    assert_eq!((output.status.code(), &verdict(&output)["grade"]), (Some(7), &Value::from("F")));
}

#[test]
fn without_a_drill_nothing_is_run() {
    let output = check("spin", &["--no-drill", "--json"]);
    let verdict = verdict(&output);
    assert_eq!((output.status.code(), &verdict["fits"]), (Some(0), &Value::Bool(true)));
    assert!(verdict.get("grade").is_none() && verdict.get("drill").is_none(), "{verdict}");
}

/// The text without what differs from run to run: numbers with their units, digests, and the room that they take.
fn redacted(text: &str) -> String {
    let word = |word: &str| {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        let unit = ["ms", "s", "µs", "KiB", "MiB", "B"].contains(&word.trim_end_matches([':', ',']));
        let digest = word.len() == 64;
        match (number || digest, unit) {
            (true, _) => Some("#"),
            (false, true) => None,
            (false, false) => Some(word).filter(|word| !word.is_empty()),
        }
        .map(str::to_owned)
    };
    let line = |line: &str| line.split(' ').filter_map(word).collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(line).collect()
}

#[test]
fn the_report_reads_well() {
    let output = check("looks-once", &["--run-timeout", "50ms", "--grace", "20ms", "--drill-time", "1m"]);
    let text = redacted(&String::from_utf8_lossy(&output.stdout));
    let (bar, text): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('█'));
    // Told, a sleeper wakes each time at once: where it is when it is killed is chance.
    let (places, text): (Vec<_>, Vec<_>) = text.into_iter().partition(|line| line.starts_with("# ×"));
    assert!(!places.is_empty() && places.iter().all(|place| place.starts_with("# × needed force in ")), "{places:?}");
    assert!(bar.len() == 1 && bar[0].chars().count() == 40 && bar[0].ends_with('░'), "{bar:?}");
    assert_eq!(
        text.join("\n"),
        "\
size #
digest #
imports ✓ atropos:task/failures@0.1.0
✓ atropos:task/lifecycle@0.1.0
exports run
verdict it fits: checked and compiled in #

Undisturbed
ended still running after #
cost # wall · # processor · # peak memory · # host calls

Stopped # times: at its entry, at # host calls, at # other moments, with # of grace
TIMES P50 P99 MAX
stopped by itself # # # # from told to gone
needed force # # # # from killed to gone

Where

Grade C: it sometimes needs force"
    );
}
