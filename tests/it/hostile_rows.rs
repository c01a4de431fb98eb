//! The table of hostile guests: what each does, and what ends it. How that is seen is in `hostile.rs`.
//!
//! Guests that have broken out are in `escape.rs`, uploads that are hostile to the compiler in `compile.rs`.

use std::net::SocketAddr;

use atropos::task::{Grants, HostGrant, Phase, Scratch};

/// A guest, and what becomes of it.
pub struct Row {
    pub name: &'static str,
    /// A file of `tests/guests`, or [`REACH`].
    pub guest: &'static str,
    /// What `reach` is to do; `{tcp}`, `{http}` stand for the places of [`Outside`].
    pub script: Option<&'static str>,
    /// How often its marked line stands there, in a loop. Zero: the guest is taken as it is.
    pub repeat: usize,
    pub grants: fn(&Outside) -> Grants,
    pub ends: Ends,
    /// Names of its backtrace, innermost first; others may stand between them.
    pub frames: &'static [&'static str],
}

/// What ends it.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// A kill without grace, on ring 2, within the kill bound: later, and its executor would have been killed for it.
    /// The phase that it is caught in, and the host call that it sits in.
    Killed(Phase, Option<&'static str>),
    /// A word: it is told to stop, and comes back.
    Asked,
    /// A limit, by its reason and a word of what is said.
    Died(&'static str, &'static str),
    /// Nothing: it comes to its end with this result, and has got no more than it may.
    Returns(&'static str),
    /// The upload, by its code and a word of what is said.
    Refused(&'static str, &'static str),
}

/// Places outside that never answer.
pub struct Outside {
    /// Takes no connection: those that may wait are there already.
    pub full: SocketAddr,
    /// Takes a connection, and reads nothing.
    pub silent: SocketAddr,
    /// A nameserver.
    pub mute: SocketAddr,
    _held: (tokio::net::TcpListener, tokio::net::TcpStream, std::net::TcpListener, std::net::UdpSocket),
}

impl Outside {
    pub async fn new() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(any).expect("a port");
        let full = socket.listen(0).expect("a port");
        let address = full.local_addr().expect("an address");
        let first = tokio::net::TcpStream::connect(address).await.expect("there is room for one");
        let silent = std::net::TcpListener::bind(any).expect("a port");
        let mute = std::net::UdpSocket::bind(any).expect("a port");
        Self {
            full: address,
            silent: silent.local_addr().expect("an address"),
            mute: mute.local_addr().expect("an address"),
            _held: (full, first, silent, mute),
        }
    }
}

pub const REACH: &str = "reach";
/// What the guest waits for before somebody else has put a pipe into its folder.
pub const PIPE: &str = "until go";

const SPIN: Row = Row {
    name: "spin",
    guest: "spin",
    script: None,
    repeat: 0,
    grants: |_| Grants::default(),
    ends: Ends::Killed(Phase::Running, None),
    frames: &[],
};

/// A guest of the same name as its row.
const fn row(name: &'static str, ends: Ends) -> Row {
    Row { name, guest: name, ends, ..SPIN }
}

const fn killed(name: &'static str, frames: &'static [&'static str]) -> Row {
    Row { name, guest: name, frames, ..SPIN }
}

/// It sits in a host call when it is killed, unless it is on its way there or back.
const fn sitting(name: &'static str, host_call: &'static str) -> Row {
    row(name, Ends::Killed(Phase::Running, Some(host_call)))
}

const fn reach(name: &'static str, script: &'static str, grants: fn(&Outside) -> Grants, ends: Ends) -> Row {
    Row { name, guest: REACH, script: Some(script), grants, ends, ..SPIN }
}

fn none(_: &Outside) -> Grants {
    Grants::default()
}

fn scratch(_: &Outside) -> Grants {
    Grants { scratch: Some(Scratch { bytes: 64 << 20, files: 100 }), ..Grants::default() }
}

fn hosts(hosts: &[String]) -> Vec<HostGrant> {
    hosts.iter().map(|host| host.parse().expect("a grant")).collect()
}

fn tcp(outside: &Outside) -> Grants {
    Grants {
        tcp: hosts(&[outside.full.to_string(), outside.silent.to_string(), "*.example:80".to_owned()]),
        ..Grants::default()
    }
}

fn http(outside: &Outside) -> Grants {
    Grants { http: hosts(&[outside.silent.to_string(), "*.example".to_owned()]), ..Grants::default() }
}

const POLL: &str = "wasi:io/poll";
const RUNNING: Ends = Ends::Killed(Phase::Running, None);
const IN_POLL: Ends = Ends::Killed(Phase::Running, Some(POLL));
const INVALID: &str = "component_invalid";
const DIED: &str = "host_call_limit";

/// Each of them.
pub const ROWS: &[Row] = &[
    // Loops.
    killed("spin", &["run"]),
    killed("spin-tail-call", &[]),
    Row { frames: &["begin"], ..row("spin-start", Ends::Killed(Phase::Instantiating, None)) },
    killed("spin-realloc", &["make_room"]),
    killed("spin-post-return", &["tidy_up"]),
    killed("spin-destructor", &["destroy", "run"]),
    row("left-destructor", Ends::Returns("null")),
    killed("check-flood", &["run"]),
    killed("log-flood", &["run"]),
    Row { repeat: 20_000, ..killed("straight-line-calls", &["run"]) },
    row("polite", Ends::Asked),
    row("polite-check", Ends::Asked),
    // Stack.
    Row { frames: &["down", "down"], ..row("recurse", Ends::Died("stack_overflow", "stack")) },
    Row { frames: &["down"], ..row("recurse-hostcall", Ends::Died("stack_overflow", "stack")) },
    // Memory.
    killed("fill", &["run"]),
    killed("copy", &["run"]),
    killed("copy-up", &["run"]),
    Row { repeat: 200, ..killed("copy-line", &["run"]) },
    killed("first-touch", &["run"]),
    killed("memory-hog", &["run"]),
    Row { frames: &["spill", "run"], ..row("fill-beyond", Ends::Died("trap", "out of bounds memory access")) },
    Row { frames: &["out_of_memory", "run"], ..row("oom", Ends::Died("out_of_memory", "memory_bytes_max")) },
    row("grow", Ends::Returns("1024")),
    row("many-memories", Ends::Returns("1009")),
    killed("table-fill", &["run"]),
    killed("table-copy", &["run"]),
    row("table-grow", Ends::Returns("100000")),
    row("memory64", Ends::Refused(INVALID, "memory64")),
    row("shared-memory", Ends::Refused(INVALID, "shared memories")),
    row("atomic-wait", Ends::Refused(INVALID, "threads")),
    row("gc", Ends::Refused(INVALID, "gc")),
    row("exceptions", Ends::Refused(INVALID, "exceptions")),
    // The boundary.
    row("giant-result", Ends::Died("bad_result", "too much data")),
    row("bad-pointer", Ends::Died("bad_result", "out of bounds")),
    row("bad-utf8", Ends::Died("bad_result", "utf-8")),
    row("bad-string", Ends::Died("bad_result", "out of bounds")),
    Row { frames: &["run"], ..row("giant-log", Ends::Died(DIED, "too much data")) },
    Row { frames: &["run"], ..row("giant-note", Ends::Died(DIED, "too much data")) },
    Row { frames: &["run"], ..row("handle-flood", Ends::Died(DIED, "handle")) },
    Row { frames: &["run"], ..row("random-bomb", Ends::Died(DIED, "exceeds limit")) },
    Row { frames: &["run"], ..row("exit", Ends::Died("trap", "exit(0)")) },
    reach("pollables", "pollables", none, Ends::Died(DIED, "")),
    reach("pollable-lent-often", "pollmany 1001", none, Ends::Died(DIED, "")),
    reach("open-flood", "openflood .", scratch, Ends::Died(DIED, "")),
    reach("zeroes", "zeroes 18446744073709551615", none, Ends::Died("trap", "")),
    reach("stdout-flood", "print", none, RUNNING),
    // Waiting.
    sitting("sleep-forever", "atropos:task/lifecycle.sleep"),
    reach("wait-584-years", "wait", none, IN_POLL),
    reach("tcp-mute", "tcp {tcp} hello", tcp, IN_POLL),
    // It takes long until a byte at a time has filled what lies between.
    reach("tcp-unread", "talk {http}", tcp, RUNNING),
    reach("http-mute", "get http://{http}/", http, IN_POLL),
    reach("http-mute-name", "get http://api.example/", http, IN_POLL),
    reach("dns-mute", "resolve api.example", tcp, IN_POLL),
    reach(
        "pipe",
        "until go;open pipe;append pipe x;stat pipe",
        scratch,
        Ends::Returns("[\"ok\",\"not-permitted\",\"not-permitted\",\"not-permitted\"]"),
    ),
    reach("file-flood", "flood", scratch, Ends::Returns("[\"100 insufficient-space\"]")),
    reach("file-without-end", "forever a", scratch, RUNNING),
];
