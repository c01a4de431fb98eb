//! What of WASI 0.2 is offered: stdio, clocks, random numbers; and environment, files, sockets and HTTP as they are granted.
//!
//! Nothing here may park a thread that cannot be called back, and what waits ends when the attempt is killed.

use std::io as host_io;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtxView, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::guest::Guest;
use super::net::{self, Net, NetView};
use super::scratch::{self, Files, FilesView};
use super::signs::{Signs, Stream};
use super::stdio::Printer;
use super::waiting::{Waiter, Waiting};
use crate::task::Grants;

/// Random bytes for one call. wasmtime's default of 64 MiB takes a third of a second, in which nothing can stop it.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// A guest's WASI state. Made when it first calls: many guests never do.
pub(super) struct Wasi {
    signs: Arc<Signs>,
    handles_max: usize,
    environment: Vec<(String, String)>,
    made: Option<Box<(WasiCtx, ResourceTable)>>,
    net: Net,
    /// Goes last: after whatever is open in it.
    scratch: Option<scratch::Folder>,
}

type Made = Box<(WasiCtx, ResourceTable)>;

impl Wasi {
    pub(super) fn new(
        signs: Arc<Signs>,
        handles_max: u64,
        grants: &Grants,
        scratch: Option<scratch::Folder>,
        net: Net,
    ) -> host_io::Result<Self> {
        let handles_max = usize::try_from(handles_max).unwrap_or(usize::MAX);
        let made = scratch.as_ref().map(|folder| {
            signs.scratch(&folder.quota);
            let mut builder = builder(&signs, &grants.environment);
            builder
                .preopened_dir(folder.path(), scratch::GUEST_PATH, FsPerms::ReadWrite)
                .map_err(host_io::Error::other)?;
            Ok::<_, host_io::Error>(finish(&mut builder, handles_max))
        });
        let environment = grants.environment.clone();
        Ok(Self { handles_max, environment, made: made.transpose()?, net, scratch, signs })
    }

    fn made(&mut self) -> &mut (WasiCtx, ResourceTable) {
        self.made.get_or_insert_with(|| finish(&mut builder(&self.signs, &self.environment), self.handles_max))
    }

    fn files(&mut self) -> FilesView<'_> {
        let Self { signs, handles_max, environment, made, scratch, .. } = self;
        let (ctx, table) = &mut **made.get_or_insert_with(|| finish(&mut builder(signs, environment), *handles_max));
        FilesView {
            inner: WasiFilesystemCtxView { ctx: ctx.filesystem(), table },
            quota: scratch.as_ref().map(|folder| &folder.quota),
            signs,
        }
    }

    fn waiter(&mut self) -> Waiter<'_> {
        let Self { signs, handles_max, environment, made, .. } = self;
        let (_, table) = &mut **made.get_or_insert_with(|| finish(&mut builder(signs, environment), *handles_max));
        Waiter { signs, table }
    }

    pub(super) fn net(&mut self) -> NetView<'_> {
        let Self { signs, handles_max, environment, made, net, .. } = self;
        let (ctx, table) = &mut **made.get_or_insert_with(|| finish(&mut builder(signs, environment), *handles_max));
        NetView { net, ctx, table }
    }
}

fn builder(signs: &Arc<Signs>, environment: &[(String, String)]) -> WasiCtxBuilder {
    let printer = |stream| Printer { signs: Arc::clone(signs), stream };
    let mut builder = WasiCtx::builder();
    builder
        .stdout(printer(Stream::Stdout))
        .stderr(printer(Stream::Stderr))
        .max_random_size(RANDOM_BYTES_MAX)
        .envs(environment)
        // So that no file work is under way when a poll of the guest is over.
        .allow_blocking_current_thread(true)
        .allow_tcp(false)
        .allow_udp(false);
    builder
}

fn finish(builder: &mut WasiCtxBuilder, handles_max: usize) -> Made {
    let mut table = ResourceTable::new();
    table.set_max_capacity(handles_max);
    Box::new((builder.build(), table))
}

impl WasiView for Wasi {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (ctx, table) = self.made();
        WasiCtxView { ctx, table }
    }
}

/// Errors of streams, which need nothing but the table.
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
    // Standard libraries import these whether or not a program opens a file. Without a grant nothing is preopened, so
    // nothing can be opened.
    link!(linker: filesystem::preopens as WasiFilesystem, "wasi:filesystem/preopens", |wasi| wasi.filesystem());
    link!(linker: filesystem::types as Files, "wasi:filesystem/types", |wasi| wasi.files());
    net::add_to_linker(linker)
}

fn add_io(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    link!(linker: io::poll as Waiting, "wasi:io/poll", |wasi| wasi.waiter());
    link!(linker: io::streams as Waiting, "wasi:io/streams", |wasi| wasi.waiter());
    link!(linker: io::error as Table, "wasi:io/error", |wasi| &mut wasi.made().1);
    Ok(())
}
