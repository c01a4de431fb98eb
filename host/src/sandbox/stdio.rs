//! Standard output and error of a guest: lines for its log. Never waits, never touches the host's own streams.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::log_tail::LINE_BYTES_MAX;
use super::signs::{Signs, Stream};
use super::stop::Killed;

/// Bytes that a stream takes at one time.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Cuts a stream of bytes into lines. Holds at most one unfinished line, and of that no more than is kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        let mut parts = bytes.split(|&byte| byte == b'\n');
        let mut part = parts.next().unwrap_or_default();
        for next in parts {
            self.keep(part);
            self.end_line(&mut line);
            part = next;
        }
        self.keep(part);
    }

    /// The unfinished line, if there is one.
    pub(super) fn end(&mut self, mut line: impl FnMut(&str)) {
        if !self.rest.is_empty() {
            self.end_line(&mut line);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        // One byte more than is kept, so that the cut is seen and marked.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.rest.len());
        self.rest.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self, line: &mut impl FnMut(&str)) {
        line(&String::from_utf8_lossy(&self.rest));
        self.rest.clear();
    }
}

/// One of a guest's output streams.
#[derive(Clone)]
pub(super) struct Printer {
    pub(super) signs: Arc<Signs>,
    pub(super) stream: Stream,
}

impl IsTerminal for Printer {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printer {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only components of WASI 0.3 ask for this, and they are not offered.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl Pollable for Printer {
    fn ready<'a, 'f>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(ready(()))
    }
}

impl OutputStream for Printer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.signs.token.is_dead() {
            return Err(StreamError::Trap(Killed.into()));
        }
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("a write is larger than `check-write` allows"));
        }
        self.signs.count_out(bytes.len());
        self.signs.print(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    fn cut(parts: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for part in parts {
            lines.push(part, |line| seen.push(line.to_owned()));
        }
        lines.end(|line| seen.push(line.to_owned()));
        seen
    }

    #[test]
    fn lines_are_put_together_from_parts() {
        assert_eq!(cut(&[b"on", b"e\ntw", b"o\n", b"\nrest"]), ["one", "two", "", "rest"]);
    }

    #[test]
    fn an_endless_line_is_bounded() {
        let part = vec![b'x'; 5_000];
        let seen = cut(&[&part, &part, &part, b"\nnext"]);
        assert_eq!((seen[0].len(), seen[1].as_str()), (super::LINE_BYTES_MAX + 1, "next"));
    }
}
