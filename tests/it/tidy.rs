//! The house rules, held to by reading the source: who may know whom, sizes, comments, codes, and what belongs together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use atropos::task::{Objection, Reason};

use crate::support::root;

const LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// A module folder (or file) of the host, and which others it may name. `id`, `time` and `chain` are open to all but the
/// pure ones, for which they are listed.
const WALLS: &[(&str, &[&str])] = &[
    ("task", &["id", "time"]),
    ("schedule", &["id", "time"]),
    ("store", &["task", "schedule", "id", "time"]),
    ("sandbox", &["task", "id", "time"]),
    ("confine", &[]),
    ("component", &["confine", "sandbox", "id", "chain"]),
    ("executor", &["confine", "sandbox", "component", "task", "id", "time", "chain"]),
    ("runner", &["schedule", "task", "store", "executor", "config", "id", "time", "chain"]),
    ("host", &["runner", "store", "component", "executor", "config", "task", "id", "time", "chain"]),
    // What it shows are rows and tasks; it asks the host for them.
    ("api", &["host", "task", "store", "id", "time", "chain", "Host"]),
    ("cli", &["api", "task", "id", "time", "chain"]),
];

/// Files that may name more than their folder.
const DOORS: &[(&str, &[&str])] = &[
    ("cli/run.rs", &["config", "host", "Host", "Config"]),
    ("cli/demo.rs", &["config", "host", "Host", "Config"]),
    ("cli/serve.rs", &["config", "host", "Host", "Config"]),
    ("cli/compile_component.rs", &["component"]),
    ("cli/executor_process.rs", &["executor"]),
    ("cli/check.rs", &["config", "host", "store", "Host", "Config"]),
    ("cli/doctor.rs", &["config", "host", "Host", "Config"]),
    ("cli/drill.rs", &["host"]),
    // Which exit code an error of theirs is.
    ("cli/exit.rs", &["host", "component"]),
];

/// A crate of others, and the only places that may name it.
const OUTSIDERS: &[(&str, &[&str])] = &[
    ("wasmtime", &["sandbox", "component", "executor"]),
    ("wasmtime_wasi", &["sandbox"]),
    ("wasmparser", &["component"]),
    ("wasm_encoder", &["component"]),
    ("wasmtime_wasi_http", &["sandbox/net"]),
    ("rusqlite", &["store/sqlite"]),
    ("axum", &["api"]),
    ("hyper", &["api", "sandbox/net"]),
    ("hyper_util", &["api", "sandbox/net"]),
    ("hickory_resolver", &["sandbox/net"]),
    ("rustls", &["sandbox/net"]),
    ("tokio_rustls", &["sandbox/net"]),
    ("utoipa", &["api"]),
    ("reqwest", &["api"]),
    ("clap", &["cli"]),
    ("anyhow", &["cli", "main.rs"]),
    ("jiff", &["time.rs"]),
    ("uuid", &["id.rs", "api/wire"]),
];

/// What the pure modules do without.
const IMPURE: &[&str] = &[
    "tokio",
    "serde",
    "serde_json",
    "tracing",
    "rand",
    "std::fs",
    "std::env",
    "std::thread",
    "SystemTime",
    "Instant::now",
];

struct Source {
    /// From the project's folder.
    path: String,
    text: String,
}

impl Source {
    /// Without what only tests see, and without comments.
    fn code(&self) -> String {
        let tests = ["/tests/", "/tests.rs", "/store/contract"].iter().any(|part| self.path.contains(part));
        if tests || self.path.starts_with("tests/") {
            return String::new();
        }
        let lines: Vec<_> = self.text.lines().collect();
        let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
        let code = lines[..tests.unwrap_or(lines.len())].iter().filter(|line| !line.trim_start().starts_with("//"));
        code.copied().collect::<Vec<_>>().join("\n")
    }

    fn within_host(&self) -> Option<&str> {
        self.path.strip_prefix("host/src/")
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let built = name == "target" || name == ".git" || name == "atropos-data";
        if path.is_dir() && !built {
            walk(&path, found);
        } else if path.is_file() && !built {
            found.push(path);
        }
    }
}

/// Every file of the project, by its path from the project's folder.
fn files() -> Vec<String> {
    let mut found = Vec::new();
    walk(root(), &mut found);
    let mut files: Vec<_> = found
        .iter()
        .map(|path| path.strip_prefix(root()).expect("within the project").to_str().expect("a name").to_owned())
        .collect();
    files.sort_unstable();
    files
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Rust sources, but for what is generated.
fn sources() -> Vec<Source> {
    let rust = |path: &String| {
        Path::new(path).extension().is_some_and(|ending| ending == "rs") && !path.ends_with("/bindings.rs")
    };
    files().into_iter().filter(rust).map(|path| Source { text: read(&path), path }).collect()
}

fn assert_none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Whether the code names this crate or path, as a word of its own.
fn names(code: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].trim_start_matches(' ');
        let path = name.contains("::") || name.chars().next().is_some_and(char::is_uppercase);
        before.is_none_or(|c| !word(c) && c != ':') && (path || after.starts_with("::"))
    })
}

#[test]
fn every_module_knows_only_whom_it_may() {
    let mut found = Vec::new();
    for source in sources() {
        let (Some(path), code) = (source.within_host(), source.code()) else { continue };
        let module = path.split('/').next().unwrap_or_default();
        if let Some((_, allowed)) = WALLS.iter().find(|(name, _)| *name == module) {
            let door = DOORS.iter().find(|(file, _)| *file == path).map_or(&[][..], |(_, names)| names);
            for (at, _) in code.match_indices("crate::") {
                let named: String =
                    code[at + "crate::".len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if named != module && !allowed.contains(&&*named) && !door.contains(&&*named) {
                    found.push(format!("{path} names `crate::{named}`"));
                }
            }
        }
        for (outsider, places) in OUTSIDERS {
            let place = places.iter().any(|place| path == *place || path.starts_with(&format!("{place}/")));
            if !place && names(&code, outsider) {
                found.push(format!("{path} names `{outsider}`"));
            }
        }
        if module == "task" || module == "schedule" {
            found.extend(IMPURE.iter().filter(|name| names(&code, name)).map(|name| format!("{path} names `{name}`")));
        }
    }
    assert_none("who may know whom (ARCHITECTURE.md)", &found);
}

#[test]
fn no_file_and_no_function_is_too_long() {
    let mut found = Vec::new();
    for source in sources() {
        let count = source.text.lines().count();
        if count > LINES_MAX {
            found.push(format!("{} has {count} lines", source.path));
        }
        let lines: Vec<_> = source.text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start();
            let begins = ["fn ", "pub fn ", "async fn ", "pub async fn ", "const fn ", "pub const fn "];
            let visible = head.strip_prefix("pub(super) ").or(head.strip_prefix("pub(crate) ")).unwrap_or(head);
            if !begins.iter().any(|begin| visible.starts_with(begin)) {
                continue;
            }
            let end = format!("{}}}", " ".repeat(indent));
            let length = lines[start..].iter().position(|line| *line == end).map_or(1, |length| length + 1);
            // A line that ends the function at once has no brace of its own.
            let declared = lines[start].ends_with(';') || lines[start].ends_with('}');
            if length > FUNCTION_LINES_MAX && !declared {
                found.push(format!("{}:{} has a function of {length} lines", source.path, start + 1));
            }
        }
    }
    assert_none("a file of at most 500 lines, a function of at most 70", &found);
}

#[test]
fn every_module_says_what_it_is_for_and_nothing_is_left_undone() {
    let (todo, ignore, unwrap) = (["to", "do!("].concat(), ["#[", "ignore"].concat(), [".un", "wrap()"].concat());
    let mut found = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            found.push(format!("{} does not begin with `//!`", source.path));
        }
        for word in [&todo, &ignore] {
            if source.text.contains(word.as_str()) {
                found.push(format!("{} has `{word}`", source.path));
            }
        }
        let bench = source.path.contains("/benches/") || source.path.contains("/examples/");
        if !bench && source.code().contains(&unwrap) {
            found.push(format!("{} has `{unwrap}` outside of tests", source.path));
        }
    }
    assert_none("a sentence for each module, nothing undone, no unwrap", &found);
}

#[test]
fn every_dependency_says_what_it_is_for() {
    let mut found = Vec::new();
    for manifest in ["host/Cargo.toml", "guest-sdk/rust/Cargo.toml", "tests/Cargo.toml"] {
        let text = read(manifest);
        let (mut section, mut before) = ("", "");
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.ends_with("dependencies]") && line.contains('=') && !line.starts_with(['#', ' ', '}']) {
                let family = |line: &str| line.split([' ', '-', '_', '=', '.']).next().unwrap_or_default().to_owned();
                let sibling = family(line) == family(before) && !before.is_empty();
                let own = line.contains("path = ");
                if !before.starts_with('#') && !sibling && !own {
                    found.push(format!("{manifest}: `{line}`"));
                }
            }
            before = line;
        }
    }
    assert_none("a line for each dependency that says what for", &found);
}

#[test]
fn the_code_map_and_the_folders_agree() {
    let text = read("ARCHITECTURE.md");
    let map = text.split("## Code map").nth(1).and_then(|rest| rest.split("```").nth(1)).expect("the code map");
    let mapped: BTreeSet<_> = map.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut found: Vec<_> =
        mapped.iter().filter(|path| !root().join(path).exists()).map(|path| format!("`{path}` is not there")).collect();
    for entry in std::fs::read_dir(root().join("host/src")).expect("the sources") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        let slash = if entry.path().is_dir() { "/" } else { "" };
        let path = format!("host/src/{name}{slash}");
        if !mapped.contains(path.as_str()) {
            found.push(format!("`{path}` is not in the map"));
        }
    }
    for (module, _) in WALLS {
        if !root().join("host/src").join(module).is_dir() {
            found.push(format!("`{module}` has a wall and no folder"));
        }
    }
    assert_none("the code map of ARCHITECTURE.md", &found);
}

#[test]
fn every_example_is_explained_and_built() {
    let text = read("examples/README.md");
    let mut found = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if !path.join("Cargo.toml").exists() {
            continue;
        }
        count += 1;
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if !text.contains(&format!("| `{name}` |")) {
            found.push(format!("`{name}` is not in examples/README.md"));
        }
        if !path.with_extension("wasm").exists() {
            found.push(format!("`{name}` is not built: examples/build.sh"));
        }
    }
    assert!(count > 0);
    assert_none("every example", &found);
}

#[test]
fn every_code_is_one_of_a_kind_and_says_what_to_do() {
    let objections = Objection::ALL.map(Objection::code);
    assert_eq!(objections.iter().collect::<BTreeSet<_>>().len(), objections.len());
    let reasons: Vec<_> = Reason::all().collect();
    assert_eq!(reasons.iter().map(|reason| reason.code()).collect::<BTreeSet<_>>().len(), reasons.len());
    assert!(reasons.iter().all(|reason| Reason::parse(reason.code()) == Some(*reason)));

    let table = read("host/src/api/codes.rs");
    // Name, title and advice stand in quotes, and each entry's name comes first.
    let entries = table.split("code(").map(|entry| entry.split('"').collect::<Vec<_>>());
    let entries: Vec<_> = entries.filter(|entry| entry.len() > 5 && entry[0].trim().is_empty()).collect();
    assert!(entries.len() > 40, "the table has another form than it had");
    let codes: BTreeSet<_> = entries.iter().map(|entry| entry[1]).collect();
    assert_eq!(codes.len(), entries.len(), "a code is there twice");
    assert!(entries.iter().all(|entry| !entry[3].is_empty() && !entry[5].is_empty()), "{entries:?}");
    let errors = read("host/src/host/error.rs") + &read("host/src/component/error.rs");
    // Each arm of a `code` function gives one.
    let given = errors
        .lines()
        .filter_map(|line| line.trim().split_once("=> \""))
        .filter_map(|(_, rest)| rest.strip_suffix("\","));
    let given = given.filter(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let missing: Vec<_> =
        objections.into_iter().chain(given).filter(|code| !codes.contains(code)).map(str::to_owned).collect();
    assert_none("every code is in the table of host/src/api/codes.rs", &missing);
}

#[test]
fn no_file_names_a_place_on_its_makers_machine() {
    let places =
        [["/ho", "me/"].concat(), ["/Use", "rs/"].concat(), ["/ro", "ot/"].concat(), root().display().to_string()];
    let mut found = Vec::new();
    for path in files() {
        let bytes = std::fs::read(root().join(&path)).expect("a file");
        for place in &places {
            if bytes.windows(place.len()).any(|window| window == place.as_bytes()) {
                found.push(format!("{path} names `{place}`"));
            }
        }
    }
    assert_none("no path of somebody's machine", &found);
}
