//! What of WASI 0.2 is offered: stdio, clocks, random numbers, and empty surroundings. No files, no sockets, no HTTP.
//!
//! Nothing here may park a thread, and what waits ends when the attempt is killed.

use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::guest::Guest;
use super::signs::{Signs, Stream};
use super::stdio::Printer;

/// Random bytes for one call. wasmtime's default of 64 MiB takes a third of a second, in which nothing can stop it.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// A guest's WASI state. Made when it first calls: many guests never do.
pub(super) struct Wasi {
    signs: Arc<Signs>,
    handles_max: usize,
    made: Option<Box<(WasiCtx, ResourceTable)>>,
}

impl Wasi {
    pub(super) fn new(signs: Arc<Signs>, handles_max: u64) -> Self {
        Self { signs, handles_max: usize::try_from(handles_max).unwrap_or(usize::MAX), made: None }
    }

    fn made(&mut self) -> &mut (WasiCtx, ResourceTable) {
        self.made.get_or_insert_with(|| {
            let printer = |stream| Printer { signs: Arc::clone(&self.signs), stream };
            let mut table = ResourceTable::new();
            table.set_max_capacity(self.handles_max);
            let ctx = WasiCtx::builder()
                .stdout(printer(Stream::Stdout))
                .stderr(printer(Stream::Stderr))
                .max_random_size(RANDOM_BYTES_MAX)
                .allow_tcp(false)
                .allow_udp(false)
                .build();
            Box::new((ctx, table))
        })
    }
}

impl WasiView for Wasi {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (ctx, table) = self.made();
        WasiCtxView { ctx, table }
    }
}

/// `wasi:io/poll` whose waits end when the attempt is killed.
struct Waiting;

impl HasData for Waiting {
    type Data<'a> = Waiter<'a>;
}

struct Waiter<'a> {
    signs: &'a Signs,
    table: &'a mut ResourceTable,
}

impl io::poll::Host for Waiter<'_> {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        tokio::select! {
            biased;
            killed = self.signs.token.killed() => Err(killed),
            ready = io::poll::Host::poll(self.table, pollables) => ready,
        }
    }
}

impl io::poll::HostPollable for Waiter<'_> {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.table.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        tokio::select! {
            biased;
            killed = self.signs.token.killed() => Err(killed),
            done = self.table.block(pollable) => done,
        }
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        io::poll::HostPollable::drop(self.table, pollable)
    }
}

/// `wasi:io` itself, which needs nothing but the table.
struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

macro_rules! link {
    ($linker:ident: $($path:ident)::+ as $data:ty, $name:literal, |$wasi:ident| $view:expr) => {
        $($path)::+::add_to_linker::<Guest, $data>($linker, |guest| {
            let $wasi = &mut guest.enter($name).wasi;
            $view
        })?;
    };
}

/// Adds what is offered.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    add_io(linker)?;
    link!(linker: clocks::wall_clock as WasiClocks, "wasi:clocks/wall-clock", |wasi| wasi.clocks());
    link!(linker: clocks::monotonic_clock as WasiClocks, "wasi:clocks/monotonic-clock", |wasi| wasi.clocks());
    link!(linker: random::random as WasiRandom, "wasi:random/random", |wasi| wasi.random());
    link!(linker: random::insecure as WasiRandom, "wasi:random/insecure", |wasi| wasi.random());
    link!(linker: random::insecure_seed as WasiRandom, "wasi:random/insecure-seed", |wasi| wasi.random());
    link!(linker: cli::exit as WasiCli, "wasi:cli/exit", |wasi| wasi.cli());
    link!(linker: cli::environment as WasiCli, "wasi:cli/environment", |wasi| wasi.cli());
    link!(linker: cli::stdin as WasiCli, "wasi:cli/stdin", |wasi| wasi.cli());
    link!(linker: cli::stdout as WasiCli, "wasi:cli/stdout", |wasi| wasi.cli());
    link!(linker: cli::stderr as WasiCli, "wasi:cli/stderr", |wasi| wasi.cli());
    link!(linker: cli::terminal_input as WasiCli, "wasi:cli/terminal-input", |wasi| wasi.cli());
    link!(linker: cli::terminal_output as WasiCli, "wasi:cli/terminal-output", |wasi| wasi.cli());
    link!(linker: cli::terminal_stdin as WasiCli, "wasi:cli/terminal-stdin", |wasi| wasi.cli());
    link!(linker: cli::terminal_stdout as WasiCli, "wasi:cli/terminal-stdout", |wasi| wasi.cli());
    link!(linker: cli::terminal_stderr as WasiCli, "wasi:cli/terminal-stderr", |wasi| wasi.cli());
    // Standard libraries import these whether or not a program opens a file. Nothing is preopened, so nothing can be opened.
    link!(linker: filesystem::preopens as WasiFilesystem, "wasi:filesystem/preopens", |wasi| wasi.filesystem());
    link!(linker: filesystem::types as WasiFilesystem, "wasi:filesystem/types", |wasi| wasi.filesystem());
    Ok(())
}

fn add_io(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    io::poll::add_to_linker::<Guest, Waiting>(linker, |guest| {
        let Guest { signs, wasi, .. } = guest.enter("wasi:io/poll");
        Waiter { signs, table: &mut wasi.made().1 }
    })?;
    link!(linker: io::streams as Table, "wasi:io/streams", |wasi| &mut wasi.made().1);
    link!(linker: io::error as Table, "wasi:io/error", |wasi| &mut wasi.made().1);
    Ok(())
}
