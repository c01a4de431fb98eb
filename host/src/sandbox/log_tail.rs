//! The lines that a guest wrote and nobody has fetched yet: the newest that fit, numbered through.
//!
//! Bounds memory whatever the guest does: what does not fit is dropped from the front, and the gap in the numbers shows it.

use std::collections::VecDeque;

use super::text::clip;
use crate::task::{LogLevel, LogLine};
use crate::time::Timestamp;

/// One line is cut here.
pub(super) const LINE_BYTES_MAX: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct LogTail {
    lines: VecDeque<LogLine>,
    bytes: usize,
    lines_max: usize,
    bytes_max: usize,
    next: u64,
    dropped: u64,
}

impl LogTail {
    pub(super) fn new(lines_max: u64, bytes_max: u64) -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
            lines_max: usize::try_from(lines_max).unwrap_or(usize::MAX),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            next: 1,
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, at: Timestamp, level: LogLevel, message: &str) {
        let line = LogLine { number: self.next, at, level, message: clip(message, LINE_BYTES_MAX) };
        self.next += 1;
        self.bytes += line.message.len();
        self.lines.push_back(line);
        while self.lines.len() > self.lines_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.message.len();
            self.dropped += 1;
        }
    }

    /// The lines that have not been taken before.
    pub(super) fn take(&mut self) -> Vec<LogLine> {
        self.bytes = 0;
        std::mem::take(&mut self.lines).into()
    }

    pub(super) fn written(&self) -> u64 {
        self.next - 1
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(lines_max: u64, bytes_max: u64, messages: &[&str]) -> LogTail {
        let mut tail = LogTail::new(lines_max, bytes_max);
        for message in messages {
            tail.push(Timestamp::default(), LogLevel::Info, message);
        }
        tail
    }

    fn numbers(tail: &mut LogTail) -> Vec<u64> {
        tail.take().iter().map(|line| line.number).collect()
    }

    #[test]
    fn the_tail_is_kept_and_the_gap_shows() {
        let mut tail = tail(2, 1_000, &["a", "b", "c", "d"]);
        assert_eq!((tail.written(), tail.dropped()), (4, 2));
        assert_eq!(numbers(&mut tail), [3, 4]);
        tail.push(Timestamp::default(), LogLevel::Info, "e");
        assert_eq!(numbers(&mut tail), [5]);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut tail = tail(100, 5, &["abc", "de", "f", "too long for it"]);
        assert_eq!(tail.dropped(), 4);
        assert!(numbers(&mut tail).is_empty());
    }

    #[test]
    fn a_line_is_cut_and_says_so() {
        let mut tail = tail(10, 1 << 20, &[&"x".repeat(LINE_BYTES_MAX + 1)]);
        let line = tail.take().remove(0);
        assert!(line.message.ends_with("(cut)"), "{}", line.message.len());
    }
}
