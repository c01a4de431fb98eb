//! Streams of a file's bytes. Each call does its work at once, on the thread that polls the guest: nothing is left to
//! a pool of threads, where a drop could not reach it.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::Look;
use super::quota::Held;
use crate::sandbox::signs::Signs;

/// Bytes of one read or write.
const PART_BYTES_MAX: usize = 64 << 10;

pub(super) struct Reader {
    pub(super) held: Held,
    pub(super) position: u64,
    pub(super) signs: Arc<Signs>,
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.signs.token.check().map_err(StreamError::Trap)?;
        let mut part = BytesMut::zeroed(size.min(PART_BYTES_MAX));
        let read = self.held.file.read_at(&mut part, self.position).map_err(failed)?;
        if read == 0 && size > 0 {
            return Err(StreamError::Closed);
        }
        part.truncate(read);
        self.position += read as u64;
        self.signs.count_in(read);
        Ok(part.freeze())
    }
}

pub(super) struct Writer {
    pub(super) held: Held,
    /// Absent: at the end.
    pub(super) position: Option<u64>,
    pub(super) signs: Arc<Signs>,
    pub(super) closed: bool,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let begin = match self.position {
            Some(position) => position,
            None => Look::at(&self.held.file)?.bytes,
        };
        let end = begin.checked_add(bytes.len() as u64).ok_or(rustix::io::Errno::FBIG)?;
        self.held.grow(end, || self.held.file.write_all_at(bytes, begin))?;
        self.position = self.position.map(|_| end);
        Ok(())
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.signs.token.check().map_err(StreamError::Trap)?;
        if self.closed {
            return Err(StreamError::Closed);
        }
        if bytes.len() > PART_BYTES_MAX {
            return Err(StreamError::trap("a write is larger than `check-write` allows"));
        }
        self.put(&bytes).map_err(|error| {
            self.closed = true;
            failed(error)
        })?;
        self.signs.count_out(bytes.len());
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        if self.closed { Err(StreamError::Closed) } else { Ok(()) }
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.closed { Err(StreamError::Closed) } else { Ok(PART_BYTES_MAX) }
    }
}

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}
