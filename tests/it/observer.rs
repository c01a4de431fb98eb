//! What an outside observer sees of a task that is over: nothing more. A server and a watcher of files look on while
//! tasks are cancelled at moments that depend on chance.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use atropos::id::TaskId;
use atropos::task::{Grants, Kind, Scratch, TermsDraft};
use atropos::{Config, Host};

use crate::bed::{self, ask, ended, finish, submit, terms};
use crate::support::{root, until};

const TIMES: u32 = 500;
const AT_ONCE: u32 = 8;
/// A moment is so many bytes after the first one, at most.
const BYTES_MAX: u64 = 2_000;

/// Runs it on a thread of its own.
fn beside<T: Send + 'static, F: Future<Output = T>>(
    watch: impl FnOnce() -> F + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    let here = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || here.block_on(watch()))
}

/// Numbers that follow no rule, but are the same each time (the constants are those of Knuth's MMIX).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

async fn host(data: &Path, address: &str) -> Host {
    let host = bed::start(Some(data), Config { slots: 16, ..Config::default() }).await;
    let reach = std::fs::read(root().join("tests/guests/built/reach.wasm")).expect("a guest");
    let grants = Grants {
        scratch: Some(Scratch { bytes: 1 << 30, files: 100 }),
        tcp: vec![address.parse().expect("a host")],
        ..Grants::default()
    };
    bed::put(&host, "reach", reach, TermsDraft { grants: Arc::new(grants), ..terms() }).await;
    host
}

async fn start(host: &Host, script: &str) -> TaskId {
    submit(host, atropos::host::NewTask { input: format!("\"{script}\""), ..bed::new("reach") }).await
}

async fn cancel(host: &Host, id: TaskId) {
    host.cancel(id, ask("enough"), Some(Duration::ZERO)).await.expect("it is told");
    assert_eq!(ended(host, id).await.state.kind(), Kind::Cancelled);
}

/// Reads until there is no more right now. True: the other side has closed.
fn drain(mut connection: &TcpStream, seen: &mut u64) -> bool {
    let mut buffer = [0; 4 << 10];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return true,
            Ok(bytes) => *seen += bytes as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // Closed before everything was read that we had sent.
            Err(_) => return true,
        }
    }
}

/// A task that sends without end, alone on its server: what arrives can be nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_of_a_task_a_server_gets_no_byte_of_it() {
    let data = tempfile::tempdir().expect("a folder");
    let host = host(data.path(), "127.0.0.1:*").await;
    let count = Arc::new(AtomicU32::new(0));
    let loops: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let (host, count) = (host.clone(), Arc::clone(&count));
            beside(move || async move {
                let server = TcpListener::bind("127.0.0.1:0").expect("a port");
                server.set_nonblocking(true).expect("a socket");
                watch_senders(&host, &server, &count, u64::from(number)).await;
            })
        })
        .collect();
    for one in loops {
        one.await.expect("nothing was seen");
    }
    finish(host).await;
}

async fn watch_senders(host: &Host, server: &TcpListener, count: &AtomicU32, seed: u64) {
    let mut chance = Chance(seed);
    let address = server.local_addr().expect("an address");
    while count.fetch_add(1, Ordering::Relaxed) < TIMES {
        let id = start(host, &format!("talk {address}")).await;
        let connection = until("the task to connect", async || server.accept().ok()).await.0;
        connection.set_nonblocking(true).expect("a socket");
        let (moment, mut received) = (chance.below(BYTES_MAX), 0);
        until("the moment", async || {
            assert!(!drain(&connection, &mut received), "it keeps its connection as long as it lives");
            (received >= moment).then_some(())
        })
        .await;
        cancel(host, id).await;
        // On loopback, what was sent has arrived: either the end is here already, or the connection is still open.
        assert!(drain(&connection, &mut received), "{id}: its connection is open though it is CANCELLED");
        assert!(server.accept().is_err(), "{id}: it has another one");
    }
}

/// A task that writes without end: its file is gone with it, and grows no more for whoever has it open.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_of_a_task_no_file_of_it_is_there_or_changes() {
    let data = tempfile::tempdir().expect("a folder");
    let host = host(data.path(), "127.0.0.1:*").await;
    let scratch = data.path().join("scratch");
    let count = Arc::new(AtomicU32::new(0));
    let loops: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let (host, count, scratch) = (host.clone(), Arc::clone(&count), scratch.clone());
            beside(move || async move { watch_writers(&host, &scratch, &count, u64::from(number)).await })
        })
        .collect();
    let mut open = Vec::new();
    for one in loops {
        open.extend(one.await.expect("nothing was seen"));
    }
    for (file, size) in open {
        let now = file.metadata().expect("a file");
        assert_eq!((now.size(), now.nlink()), (size, 0), "a file changed after its task had ended");
    }
    assert_eq!(std::fs::read_dir(&scratch).expect("a folder").count(), 0);
    finish(host).await;
}

async fn watch_writers(host: &Host, scratch: &Path, count: &AtomicU32, seed: u64) -> Vec<(File, u64)> {
    let mut chance = Chance(seed);
    let mut open = Vec::new();
    while count.fetch_add(1, Ordering::Relaxed) < TIMES {
        let id = start(host, "forever f").await;
        let folder: PathBuf = scratch.join(format!("{id}-1"));
        let file = until("its file", async || File::open(folder.join("f")).ok()).await;
        let moment = chance.below(BYTES_MAX);
        until("the moment", async || (file.metadata().expect("a file").size() >= moment).then_some(())).await;
        cancel(host, id).await;
        let size = file.metadata().expect("a file").size();
        assert!(!folder.exists(), "{id}: its folder is there though it is CANCELLED");
        open.push((file, size));
    }
    open
}
