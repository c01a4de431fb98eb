//! `wasi:io/poll` and `wasi:io/streams`, whose waits end when the attempt is killed: with an error, so that there is a
//! backtrace, and before anything else is done.

use std::future::Future;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::io::{poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use super::signs::Signs;

pub(super) struct Waiting;

impl HasData for Waiting {
    type Data<'a> = Waiter<'a>;
}

pub(super) struct Waiter<'a> {
    pub(super) signs: &'a Arc<Signs>,
    pub(super) table: &'a mut ResourceTable,
}

type In = Resource<DynInputStream>;
type Out = Resource<DynOutputStream>;

/// Waits for the work, or for the kill.
async fn alive<T>(signs: &Signs, work: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    tokio::select! {
        biased;
        killed = signs.token.killed() => Err(killed),
        done = work => done,
    }
}

/// As [`alive`], for streams.
async fn flowing<T>(signs: &Signs, work: impl Future<Output = StreamResult<T>>) -> StreamResult<T> {
    tokio::select! {
        biased;
        killed = signs.token.killed() => Err(StreamError::Trap(killed)),
        done = work => done,
    }
}

impl poll::Host for Waiter<'_> {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        alive(self.signs, poll::Host::poll(self.table, pollables)).await
    }
}

impl poll::HostPollable for Waiter<'_> {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.table.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        alive(self.signs, self.table.block(pollable)).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        poll::HostPollable::drop(self.table, pollable)
    }
}

impl streams::Host for Waiter<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        self.table.convert_stream_error(error)
    }
}

impl streams::HostInputStream for Waiter<'_> {
    async fn drop(&mut self, stream: In) -> wasmtime::Result<()> {
        alive(self.signs, streams::HostInputStream::drop(self.table, stream)).await
    }

    fn read(&mut self, stream: In, length: u64) -> StreamResult<Vec<u8>> {
        self.table.read(stream, length)
    }

    async fn blocking_read(&mut self, stream: In, length: u64) -> StreamResult<Vec<u8>> {
        flowing(self.signs, self.table.blocking_read(stream, length)).await
    }

    fn skip(&mut self, stream: In, length: u64) -> StreamResult<u64> {
        self.table.skip(stream, length)
    }

    async fn blocking_skip(&mut self, stream: In, length: u64) -> StreamResult<u64> {
        flowing(self.signs, self.table.blocking_skip(stream, length)).await
    }

    fn subscribe(&mut self, stream: In) -> wasmtime::Result<Resource<DynPollable>> {
        streams::HostInputStream::subscribe(self.table, stream)
    }
}

impl streams::HostOutputStream for Waiter<'_> {
    async fn drop(&mut self, stream: Out) -> wasmtime::Result<()> {
        alive(self.signs, streams::HostOutputStream::drop(self.table, stream)).await
    }

    fn check_write(&mut self, stream: Out) -> StreamResult<u64> {
        self.table.check_write(stream)
    }

    fn write(&mut self, stream: Out, bytes: Vec<u8>) -> StreamResult<()> {
        self.table.write(stream, bytes)
    }

    async fn blocking_write_and_flush(&mut self, stream: Out, bytes: Vec<u8>) -> StreamResult<()> {
        flowing(self.signs, self.table.blocking_write_and_flush(stream, bytes)).await
    }

    fn write_zeroes(&mut self, stream: Out, length: u64) -> StreamResult<()> {
        self.table.write_zeroes(stream, length)
    }

    async fn blocking_write_zeroes_and_flush(&mut self, stream: Out, length: u64) -> StreamResult<()> {
        flowing(self.signs, self.table.blocking_write_zeroes_and_flush(stream, length)).await
    }

    fn flush(&mut self, stream: Out) -> StreamResult<()> {
        self.table.flush(stream)
    }

    async fn blocking_flush(&mut self, stream: Out) -> StreamResult<()> {
        flowing(self.signs, self.table.blocking_flush(stream)).await
    }

    fn splice(&mut self, to: Out, from: In, length: u64) -> StreamResult<u64> {
        self.table.splice(to, from, length)
    }

    async fn blocking_splice(&mut self, to: Out, from: In, length: u64) -> StreamResult<u64> {
        flowing(self.signs, self.table.blocking_splice(to, from, length)).await
    }

    fn subscribe(&mut self, stream: Out) -> wasmtime::Result<Resource<DynPollable>> {
        streams::HostOutputStream::subscribe(self.table, stream)
    }
}
