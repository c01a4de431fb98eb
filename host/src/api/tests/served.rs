//! A real server and the client: what only a connection can show.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{PATIENCE, guest};
use crate::api::client::{Client, ClientError, ListQuery};
use crate::api::wire::{Ask, CancelAsk, Grants, NewTask, PauseAsk, PutType, RerunAsk, TermsDraft};
use crate::api::{check_bind, serve};
use crate::host::Shutdown;
use crate::id::{TaskId, TypeName};
use crate::task::Kind;
use crate::{Config, Host};

struct Served {
    host: Host,
    client: Client,
    addr: SocketAddr,
    down: Option<oneshot::Sender<()>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn new() -> Self {
        let config = Config { slots: 4, guest_threads: 1, ..Config::default() };
        let host = Host::start(config).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (down, rung) = oneshot::channel();
        let server = tokio::spawn(serve(host.clone(), listener, async {
            let _ = rung.await;
        }));
        let client = Client::new(&format!("http://{addr}")).unwrap();
        Self { host, client, addr, down: Some(down), server }
    }

    async fn register(&self, name: &str, run_timeout: &str) -> TypeName {
        let component = self.client.push_component(guest(name), Some("tests")).await.unwrap().component.digest;
        let terms = TermsDraft { run_timeout: Some(run_timeout.parse().unwrap()), ..TermsDraft::default() };
        let name: TypeName = name.parse().unwrap();
        let new = PutType { component, terms, grants: Grants::default(), input_schema: None, by: None };
        assert!(!self.client.put_type(&name, &new).await.unwrap().existing);
        name
    }

    async fn submit(&self, name: &TypeName, input: &str) -> TaskId {
        let new = NewTask::new(name.clone(), input).unwrap();
        self.client.submit(&new).await.unwrap().task.id
    }

    async fn waits(&self, wanted: usize) {
        let looking = async {
            while self.client.health().await.unwrap().waits != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("the waits should come to this number");
    }

    /// The server's end, which may take no longer than what is under way.
    async fn close(&mut self) {
        self.down.take().unwrap().send(()).unwrap();
        tokio::time::timeout(PATIENCE, &mut self.server).await.expect("the server should end").unwrap().unwrap();
    }

    async fn end(mut self) {
        if self.down.is_some() {
            let quiet = async {
                loop {
                    let health = self.client.health().await.unwrap();
                    if (health.attempts, health.sandboxes, health.waits) == (0, 0, 0) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, quiet).await.expect("attempts, sandboxes and waits should come to zero");
            self.close().await;
        }
        assert_eq!(self.host.shut_down().await.unwrap(), Shutdown::Clean);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_speaks_every_route() {
    let served = Served::new().await;
    let client = &served.client;
    let name = served.register("echo", "30s").await;
    let id = served.submit(&name, r#"{"a": [1, 2]}"#).await;
    let task = client.wait(id, PATIENCE).await.unwrap();
    assert_eq!(task.state, Kind::Success);
    assert_eq!(client.result(id).await.unwrap().result.get(), r#"{"a": [1, 2]}"#);
    assert_eq!(client.input(id).await.unwrap().input.get(), r#"{"a": [1, 2]}"#);
    assert_eq!(client.show(id).await.unwrap().id, id);
    assert_eq!(client.audit(id).await.unwrap().len(), 3);
    assert_eq!(client.attempts(id).await.unwrap()[0].outcome, Some(Kind::Success));
    assert!(client.logs(id, 0, 10).await.unwrap().items.is_empty());
    assert!(client.follow_logs(id, 0).await.unwrap().next().await.unwrap().is_none());
    assert_eq!(client.components().await.unwrap().len(), 1);
    assert_eq!(client.component(task.component.unwrap()).await.unwrap().uploaded_by, "tests");
    assert_eq!(client.types().await.unwrap(), client.type_versions(&name).await.unwrap());
    let query = ListQuery { states: vec![Kind::Success], task_type: Some(name.clone()), ..ListQuery::default() };
    assert_eq!(client.list(&query).await.unwrap().items.len(), 1);
    let many = vec![NewTask::new(name.clone(), "1").unwrap(), NewTask::new("nobody".parse().unwrap(), "2").unwrap()];
    let many = client.submit_many(&many).await.unwrap();
    assert_eq!((many[0].status, many[1].status), (201, 404));
    client.wait(many[0].task.id, PATIENCE).await.unwrap();
    let queue = "default".parse().unwrap();
    client.pause(&queue, &PauseAsk { below: Some(3), ..PauseAsk::default() }).await.unwrap();
    assert_eq!(client.queues().await.unwrap()[0].pause.as_ref().unwrap().below, Some(3));
    let held = served.submit(&name, "null").await;
    assert_eq!(client.cancel(held, &CancelAsk::default()).await.unwrap().state, Kind::Cancelled);
    let failed = served.submit(&name, "null").await;
    assert_eq!(client.fail(failed, &Ask::default()).await.unwrap().state, Kind::Failed);
    assert_eq!(client.give_up(failed, &Ask::default()).await.unwrap_err().code(), "not_recoverable");
    let error = client.rerun(failed, &RerunAsk::default()).await.unwrap_err();
    assert_eq!((error.code(), error.problem().unwrap().task.as_ref().unwrap().id), ("not_recoverable", failed));
    assert!(client.resume(&queue, &Ask::default()).await.unwrap().was_paused);
    assert_eq!(client.livez().await.unwrap(), client.readyz().await.unwrap());
    assert!(client.openapi().await.unwrap()["paths"].is_object());
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_log_ends_with_its_task() {
    let served = Served::new().await;
    let name = served.register("log-lines", "30s").await;
    served.client.pause(&"default".parse().unwrap(), &PauseAsk::default()).await.unwrap();
    let id = served.submit(&name, "null").await;
    let mut log = served.client.follow_logs(id, 0).await.unwrap();
    served.waits(1).await;
    served.client.resume(&"default".parse().unwrap(), &Ask::default()).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = log.next().await.unwrap() {
        lines.push(line);
    }
    assert_eq!(lines, served.client.logs(id, 0, 1_000).await.unwrap().items);
    assert!(lines.len() > 1);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_waits_no_more() {
    let served = Served::new().await;
    let name = served.register("polite", "60s").await;
    let id = served.submit(&name, "null").await;
    for path in [format!("/v1/tasks/{id}?wait=60s"), format!("/v1/tasks/{id}/logs?follow=true")] {
        let mut stream = TcpStream::connect(served.addr).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        served.waits(1).await;
        drop(stream);
        served.waits(0).await;
    }
    served.client.cancel(id, &CancelAsk::default()).await.unwrap();
    served.client.wait(id, PATIENCE).await.unwrap();
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn going_down_answers_those_who_wait() {
    let mut served = Served::new().await;
    let name = served.register("polite", "60s").await;
    let id = served.submit(&name, "null").await;
    let mut log = served.client.follow_logs(id, 0).await.unwrap();
    let url = format!("http://{}/v1/tasks/{id}?wait=60s", served.addr);
    let waiting = tokio::spawn(async move { reqwest::get(url).await.unwrap().status() });
    // One that sends nothing, and one that has sent half a request.
    let _silent = TcpStream::connect(served.addr).await.unwrap();
    let mut slow = TcpStream::connect(served.addr).await.unwrap();
    slow.write_all(b"GET /livez HTT").await.unwrap();
    served.waits(2).await;
    served.close().await;
    assert_eq!(waiting.await.unwrap(), 200);
    assert!(log.next().await.unwrap().is_none());
    assert!(matches!(served.client.show(id).await, Err(ClientError::Unreachable { .. })));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_answered_and_not_cut_off() {
    let served = Served::new().await;
    let input = format!("\"{}\"", "x".repeat(10_000_000));
    let error = served.client.submit(&NewTask::new("ok".parse().unwrap(), &input).unwrap()).await.unwrap_err();
    assert_eq!(error.code(), "body_too_large", "{error}");
    // One that asks first is told before it sends.
    let mut stream = TcpStream::connect(served.addr).await.unwrap();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 10000000\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_client_say_what_to_do() {
    assert!(matches!(Client::new("nonsense"), Err(ClientError::Address { .. })));
    assert!(matches!(Client::new("mailto:a@b"), Err(ClientError::Address { .. })));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let other = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1_000]).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
    });
    let client = Client::new(&format!("http://{addr}")).unwrap();
    let error = client.livez().await.unwrap_err();
    assert_eq!(error.code(), "protocol", "{error}");
    other.await.unwrap();
    let error = client.livez().await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(!error.hint().is_empty() && error.to_string().contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_loopback_is_bound() {
    for addr in ["127.0.0.1:80", "127.9.9.9:1", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        assert_eq!(check_bind(addr.parse().unwrap()), Ok(()), "{addr}");
    }
    for addr in ["0.0.0.0:7717", "192.168.0.1:80", "[::]:80", "[::ffff:10.0.0.1]:80"] {
        let error = check_bind(addr.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
    let host = Host::start(Config { slots: 1, guest_threads: 1, ..Config::default() }).await.unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve(host.clone(), listener, std::future::pending()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(host.shut_down().await.unwrap(), Shutdown::Clean);
}
