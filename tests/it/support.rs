//! A node as a process of its own, and a host inside this one; both clean up after themselves.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Nothing here takes longer; a test that waits for more is stuck.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The program under test, built as this test was.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("this test has a path");
        // <target>/<profile>/deps/<test>
        let folder = test.parent().and_then(Path::parent).expect("the test lies in a target folder").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "atropos", "--bin", "atropos", "--target-dir"]);
        cargo.arg(folder.parent().expect("a target folder"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.current_dir(root()).status().expect("cargo runs");
        assert!(built.success(), "the program builds");
        folder.join("atropos")
    })
}

/// The project's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the project")
}

/// A guest in text form, as a component.
pub fn guest(name: &str) -> Vec<u8> {
    let path = root().join("tests/guests").join(name).with_extension("wat");
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An example, prebuilt.
pub fn example(name: &str) -> Vec<u8> {
    let path = root().join("examples").join(name).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Waits for something to become true.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// `atropos serve` as a process.
pub struct Node {
    child: Child,
    pub url: String,
    pub http: reqwest::Client,
}

impl Node {
    /// Starts one on a folder, with more flags if need be, and waits until it listens.
    pub fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_with(data, flags, |_| ())
    }

    /// As [`Node::start`]; `more` says what else is different.
    pub fn start_with(data: &Path, flags: &[&str], more: impl FnOnce(&mut Command)) -> Self {
        Self::start_by(program(), data, flags, more)
    }

    /// As [`Node::start`], of another program.
    pub fn start_program(program: &Path, data: &Path, flags: &[&str]) -> Self {
        Self::start_by(program, data, flags, |_| ())
    }

    fn start_by(program: &Path, data: &Path, flags: &[&str], more: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(flags)
            .env("ATROPOS_LOG", "warn")
            .stdout(Stdio::piped());
        more(&mut command);
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "it says where it listens: `{line}`");
        Self { child, url, http: reqwest::Client::new() }
    }

    /// What the node says, if it was told to say it here.
    pub fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    /// Kills it as a power cut would, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is there");
        self.child.wait().expect("it ends");
    }

    /// Asks it to go down, and gives its exit code.
    pub async fn terminate(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        let code = until("the node to end", async || self.child.try_wait().expect("it can be waited for")).await;
        code.code()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.http.get(format!("{}{path}", self.url))).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.http.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// Uploads a component and registers it as a type.
    pub async fn push(&self, name: &str, component: Vec<u8>, terms: Value) {
        self.push_granted(name, component, terms, json!({})).await;
    }

    /// As [`Node::push`], with grants.
    pub async fn push_granted(&self, name: &str, component: Vec<u8>, terms: Value, grants: Value) {
        let upload = self.http.post(format!("{}/v1/components", self.url));
        let (status, body) = answer(upload.header("content-type", "application/wasm").body(component)).await;
        assert!(status == 201 || status == 200, "{status} {body}");
        let request = json!({ "component": body["digest"], "terms": terms, "grants": grants });
        let put = self.http.put(format!("{}/v1/types/{name}", self.url)).json(&request);
        let (status, body) = answer(put).await;
        assert!(status == 201 || status == 200, "{status} {body}");
    }

    /// Submits a task that is expected to be taken; gives its id.
    pub async fn submit(&self, body: &Value) -> String {
        let (status, body) = self.post("/v1/tasks", body).await;
        assert!(status == 201 || status == 200, "{status} {body}");
        body["id"].as_str().expect("an id").to_owned()
    }

    /// The task once it has ended.
    pub async fn ended(&self, id: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, task) = self.get(&format!("/v1/tasks/{id}?wait=30s")).await;
            assert_eq!(status, 200, "{task}");
            if !matches!(task["state"].as_str(), Some("PENDING" | "RUNNING")) {
                return task;
            }
            assert!(Instant::now() < deadline, "it does not end: {task}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that ended its node itself finds nobody here.
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Status and body; the body is null if there is none or it is not JSON.
pub async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("the node answers");
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or(Value::Null))
}
