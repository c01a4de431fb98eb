//! What an executor process says on its standard error. Must not know what follows from it.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;

use super::Shared;

const LINE_BYTES_MAX: u64 = 4 << 10;
const LINES_MAX: usize = 3;

/// The last lines that a process wrote before it died.
#[derive(Default)]
pub(super) struct LastWords(VecDeque<String>);

impl LastWords {
    pub(super) fn push(&mut self, line: String) {
        self.0.push_back(line);
        if self.0.len() > LINES_MAX {
            self.0.pop_front();
        }
    }
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, line) in self.0.iter().enumerate() {
            f.write_str(if place == 0 { "; its last words: " } else { " / " })?;
            f.write_str(line)?;
        }
        Ok(())
    }
}

/// What the process says on its standard error goes to the node's log; the last of it may be why it dies.
pub(super) fn listen(shared: &Shared, number: usize, words: &UnixStream) {
    let mut words = BufReader::new(words);
    loop {
        let mut line = Vec::new();
        match Read::by_ref(&mut words).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() || pass_on(number, &line) {
            continue;
        }
        shared.lock().members[number].says(line);
    }
}

/// Writes a line into the node's log as what it is; false if it may tell why a process dies.
fn pass_on(executor: usize, line: &str) -> bool {
    let (level, rest) = line.split_once(' ').unwrap_or((line, ""));
    match level {
        "TRACE" => tracing::trace!(executor, "{rest}"),
        "DEBUG" => tracing::debug!(executor, "{rest}"),
        "INFO" => tracing::info!(executor, "{rest}"),
        "WARN" => tracing::warn!(executor, "{rest}"),
        "ERROR" => {
            tracing::error!(executor, "{rest}");
            return false;
        }
        // No line of the log: what the runtime says when it gives up.
        _ => {
            tracing::error!(executor, "{line}");
            return false;
        }
    }
    true
}
