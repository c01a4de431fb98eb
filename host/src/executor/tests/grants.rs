//! What a guest reaches with its grants, and that nothing of it is left. The guest `reach` does what its input says.

mod files;
mod http;
mod outside;
mod tcp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::bed::Bed;
use crate::executor::protocol::{AttemptKey, Ended};
use crate::id::Digest;
use crate::task::{Ending, Grants, HostGrant};
use crate::time::SystemClock;

/// An executor with the guest in it.
struct Place {
    bed: Bed,
    reach: Digest,
    scratch: PathBuf,
    _folder: tempfile::TempDir,
}

fn hosts(hosts: &[&str]) -> Vec<HostGrant> {
    hosts.iter().map(|host| host.parse().unwrap()).collect()
}

fn http(list: &[&str]) -> Grants {
    Grants { http: hosts(list), ..Grants::default() }
}

fn tcp(list: &[&str]) -> Grants {
    Grants { tcp: hosts(list), ..Grants::default() }
}

impl Place {
    fn new() -> Self {
        Self::asking(Vec::new())
    }

    /// One that asks these for names.
    fn asking(nameservers: Vec<SocketAddr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        let mut config = Bed::config(100);
        config.scratch = Some(scratch.clone());
        config.nameservers = nameservers;
        let bed = Bed::with(config, Arc::new(SystemClock::default()));
        let reach = bed.push(include_bytes!("../../../../tests/guests/built/reach.wasm"));
        Self { bed, reach, scratch, _folder: folder }
    }

    fn start(&self, grants: &Grants, script: &str) -> AttemptKey {
        self.bed.start_as(self.reach, |start| {
            start.grants = Arc::new(grants.clone());
            start.input = format!("\"{script}\"").into();
            start.limits.memory_bytes_max = 64 << 20;
        })
    }

    fn ended(&mut self) -> Ended {
        let ended = self.bed.ended();
        self.assert_nothing_is_left();
        ended
    }

    fn assert_nothing_is_left(&self) {
        let counts = self.bed.counts();
        assert_eq!((counts.sockets, counts.scratch_folders), (0, 0));
        assert_eq!(std::fs::read_dir(&self.scratch).map_or(0, Iterator::count), 0, "files were left");
    }

    /// Runs a script to its end, and gives what came of each command.
    fn told(&mut self, grants: &Grants, script: &str) -> Vec<String> {
        self.start(grants, script);
        let ended = self.ended();
        assert_eq!(ended.ending, Ending::Succeeded, "{script}: {:?}", ended.scene);
        serde_json::from_str(&ended.result.unwrap()).unwrap()
    }

    /// Waits until the guest has come to this command.
    fn until(&mut self, key: AttemptKey, command: &str) {
        self.bed.beat(|beat| {
            let note = beat.progress.as_ref().and_then(|progress| progress.note.as_deref());
            beat.key == key && note == Some(command)
        });
    }

    /// Kills the guest in a command that waits, and gives the host call that it sat in.
    fn killed_in(&mut self, grants: &Grants, command: &str) -> Option<String> {
        let key = self.start(grants, command);
        self.until(key, command);
        self.bed.settle();
        self.kill(key)
    }

    fn kill(&mut self, key: AttemptKey) -> Option<String> {
        self.bed.kill(key);
        let ended = self.ended();
        assert_eq!(ended.ending, Ending::Killed);
        ended.scene.and_then(|scene| scene.host_call)
    }
}

#[test]
fn nothing_is_reached_without_a_grant() {
    let mut place = Place::new();
    let told = place.told(
        &Grants::default(),
        "env;preopens;mkdir a;resolve example.com;tcp 127.0.0.1:1 x;udp;get http://example.com/;get https://127.0.0.1:1/",
    );
    let denied = "access-denied";
    assert_eq!(told[..5], ["", "", "no folder", denied, denied]);
    assert_eq!(told[5], denied, "UDP");
    assert_eq!(told[6..], ["ErrorCode::HttpRequestDenied", "ErrorCode::HttpRequestDenied"]);
}

#[test]
fn the_environment_is_what_was_granted() {
    let mut place = Place::new();
    let environment = vec![("LANG".to_owned(), "en".to_owned()), ("EMPTY".to_owned(), String::new())];
    let told = place.told(&Grants { environment, ..Grants::default() }, "env");
    assert_eq!(told, ["LANG=en EMPTY="]);
}

#[test]
fn pollables_without_end_are_ended() {
    let mut place = Place::new();
    place.start(&Grants::default(), "pollables");
    let ended = place.ended();
    let Ending::Died { cause: crate::task::Death::HostCallLimit, .. } = ended.ending else {
        panic!("{:?}", ended.ending)
    };
}

#[test]
fn a_pollable_may_be_asked_for_often_but_not_without_bound() {
    let mut place = Place::new();
    assert_eq!(place.told(&Grants::default(), "pollmany 900"), ["900"]);
    // What a call lends is bounded by the handles that a guest may have.
    place.start(&Grants::default(), "pollmany 1001");
    let ended = place.ended();
    assert!(matches!(ended.ending, Ending::Died { .. }), "{:?}", ended.ending);
}

#[test]
fn zeroes_without_end_are_refused() {
    let mut place = Place::new();
    for zeroes in ["zeroes 100000000000", "zeroes 18446744073709551615"] {
        place.start(&Grants::default(), zeroes);
        let ended = place.ended();
        assert!(matches!(ended.ending, Ending::Died { .. }), "{:?}", ended.ending);
    }
}

#[test]
fn a_wait_and_a_flood_of_prints_end_with_the_kill() {
    let mut place = Place::new();
    assert_eq!(place.killed_in(&Grants::default(), "wait").as_deref(), Some("wasi:io/poll"));
    place.killed_in(&Grants::default(), "print");
}
