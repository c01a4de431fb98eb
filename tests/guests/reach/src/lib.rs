//! Does what its input says: a JSON string of commands, separated by `;`, words by blanks. The result is a JSON array
//! of what came of each: `ok`, what was read, or the name of the error.

mod files;
mod net;
mod pages;
mod streams;

wit_bindgen::generate!({ path: "wit", world: "reach", generate_all });

use atropos::task::lifecycle::{Progress, heartbeat};

struct Reach;

export!(Reach);

/// What came of a command.
pub(crate) type Came = Result<String, String>;

impl Guest for Reach {
    fn run(input: String) -> Result<String, Failure> {
        let script = input.trim_matches('"').to_owned();
        let mut came = Vec::new();
        let mut files = files::Files::default();
        let mut net = net::Net::default();
        for (number, command) in script.split(';').enumerate() {
            let words: Vec<&str> = command.split_whitespace().collect();
            let note = Some(command.trim().to_owned());
            heartbeat(Some(&Progress { done: number as f64, total: None, note }));
            if let ["fail"] = words[..] {
                return Err(Failure::Business("as asked".to_owned()));
            }
            let told = match files.command(&words).or_else(|| net.command(&words)) {
                Some(told) => told,
                None => pages::command(&words)
                    .or_else(|| streams::command(&words))
                    .unwrap_or_else(|| Err(format!("no command {words:?}"))),
            };
            let told = told.unwrap_or_else(|error| error);
            came.push(format!("\"{}\"", told.escape_default()));
        }
        Ok(format!("[{}]", came.join(",")))
    }
}

/// The name of an error, as WIT has it.
pub(crate) fn name(error: impl std::fmt::Debug) -> String {
    let told = format!("{error:?}");
    match told.split_once("name: \"") {
        Some((_, rest)) => rest.split('"').next().unwrap_or_default().to_owned(),
        None => told,
    }
}

pub(crate) fn ok(_: ()) -> String {
    "ok".to_owned()
}
