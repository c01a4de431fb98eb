//! Files in a scratch folder.

use rustix::fs::{FileType, Mode};

use super::Place;
use crate::task::{Ending, Grants, Scratch};

fn scratch(bytes: u64, files: u64) -> Grants {
    Grants { scratch: Some(Scratch { bytes, files }), ..Grants::default() }
}

const FULL: &str = "insufficient-space";
const REFUSED: &str = "not-permitted";

#[test]
fn a_guest_works_with_files_of_its_own() {
    let mut place = Place::new();
    let told = place.told(
        &scratch(1 << 20, 100),
        "preopens;mkdir a;append a/b Hello,;append a/b world;read a/b;stat a/b;ls a;rename a/b c;ls .;pwrite c 1 u;read c;\
         unlink c;rmdir a;ls .;sync d",
    );
    let expected =
        ["/scratch", "ok", "ok", "ok", "Hello,world", "11", "b", "ok", "a c", "1", "Hullo,world", "ok", "ok", "", "ok"];
    assert_eq!(told, expected);
}

#[test]
fn bytes_are_counted_wherever_they_grow_and_given_back() {
    let mut place = Place::new();
    for (script, expected) in [
        ("write a 100000;write b 1;unlink a;write b 100000;append b x", &["ok", FULL, "ok", "ok", FULL][..]),
        ("size a 100000;append a x;size a 0;append a x", &["ok", FULL, "ok", "ok"]),
        ("pwrite a 99999 x;pwrite a 100000 x;pwrite a 5 xxx;pwrite a 99998 xx", &["1", FULL, "3", "2"]),
        ("size a 100001;size a 18446744073709551615", &[FULL, FULL]),
        ("write a 100001;stat a", &[FULL, "98304"]),
        ("write a 60000;write b 40000;rename a b;write c 40000;append c x", &["ok", "ok", "ok", "ok", FULL]),
        ("write a 60000;rename a a;write c 40001;append a x", &["ok", "ok", FULL, "ok"]),
        ("write a 100000;write a 100000;append a x", &["ok", "ok", FULL]),
        // What is open is there, though it has no name any more.
        ("write a 100000;hold a;unlink a;write b 1;drop;write b 100000", &["ok", "ok", "ok", FULL, "ok", "ok"]),
    ] {
        assert_eq!(place.told(&scratch(100_000, 100), script), expected, "{script}");
    }
}

#[test]
fn files_and_folders_are_counted_and_given_back() {
    let mut place = Place::new();
    let flooded = format!("10 {FULL}");
    for (script, expected) in [
        ("flood;mkdir a;unlink flood-0;mkdir a;rmdir a;append a x", &[&*flooded, FULL, "ok", "ok", "ok", "ok"][..]),
        ("flood;rename flood-0 flood-1;append a x;append b x", &[&flooded, "ok", "ok", FULL]),
        ("flood;hold flood-0;unlink flood-0;append a x;drop;append a x", &[&flooded, "ok", "ok", FULL, "ok", "ok"]),
        (
            "mkdir a;mkdir a;append a/b x;append a x;flood",
            &["ok", "exist", "ok", "is-directory", "8 insufficient-space"],
        ),
    ] {
        assert_eq!(place.told(&scratch(1 << 20, 10), script), expected, "{script}");
    }
}

#[test]
fn no_path_leads_out() {
    let mut place = Place::new();
    let told = place.told(
        &scratch(1 << 20, 100),
        "mkdir a;read ../../secret;read /etc/hostname;append a/../../x y;mkdir ../x;stat ..;rename a ../b;ls ..;\
         symlink /etc a/link;symlink ../.. l;link a/b c;append a/../in y;read in",
    );
    let unsupported = "unsupported";
    assert_eq!(told[..8], ["ok", REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED]);
    assert_eq!(told[8..], [unsupported, unsupported, unsupported, "ok", "y"]);
}

#[test]
fn what_somebody_else_put_there_is_not_touched() {
    let mut place = Place::new();
    let key = place.start(
        &scratch(1 << 20, 100),
        "until go;open pipe;stat pipe;open link;open folder/hostname;append link x;append folder/x y;read go",
    );
    place.until(key, "until go");
    let folder = std::fs::read_dir(&place.scratch).unwrap().next().unwrap().unwrap().path();
    // A pipe that nobody writes to holds whoever opens it for ever.
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("folder")).unwrap();
    std::fs::write(folder.join("go"), "go").unwrap();
    let told: Vec<String> = serde_json::from_str(&place.ended().result.unwrap()).unwrap();
    assert_eq!(told, ["ok", REFUSED, REFUSED, REFUSED, "loop", REFUSED, "loop", "go"]);
}

#[test]
fn the_folder_is_gone_however_the_attempt_ends() {
    let mut place = Place::new();
    let grants = scratch(1 << 20, 5_000);
    for (script, succeeds) in
        [("append a x", true), ("append a x;fail", false), ("mkdir a;append a/b x;trap", false), ("deep 1500", true)]
    {
        place.start(&grants, script);
        assert_eq!(place.ended().ending == Ending::Succeeded, succeeds, "{script}");
    }
    for command in ["wait", "spin", "forever a"] {
        let key = place.start(&grants, &format!("append b x;hold c;{command}"));
        place.until(key, command);
        place.kill(key);
    }
}

#[test]
fn the_folder_is_empty_at_its_start_whatever_lay_there() {
    let mut place = Place::new();
    let key = place.start(&scratch(1 << 20, 10), "wait");
    place.until(key, "wait");
    let folder = std::fs::read_dir(&place.scratch).unwrap().next().unwrap().unwrap().path();
    place.kill(key);
    // As a process that died would have left it.
    std::fs::create_dir_all(folder.join("old")).unwrap();
    place.bed.start_as(place.reach, |start| {
        start.key = key;
        start.grants = std::sync::Arc::new(scratch(1 << 20, 10));
        start.input = "\"ls .\"".into();
    });
    assert_eq!(place.ended().result.as_deref(), Some("[\"\"]"));
}

#[test]
fn a_flood_of_open_files_is_ended() {
    let mut place = Place::new();
    place.start(&scratch(1 << 20, 10), "append a x;openflood a");
    let ended = place.ended();
    assert!(matches!(ended.ending, Ending::Died { .. }), "{:?}", ended.ending);
}

#[test]
fn no_byte_is_written_after_the_end() {
    let mut place = Place::new();
    for _ in 0..20 {
        let key = place.start(&scratch(64 << 20, 10), "forever a");
        place.until(key, "forever a");
        let folder = std::fs::read_dir(&place.scratch).unwrap().next().unwrap().unwrap().path();
        // Still there when its name is gone: whoever wrote to it would be seen.
        let Ok(file) = std::fs::File::open(folder.join("a")) else {
            place.kill(key);
            continue;
        };
        place.kill(key);
        let size = file.metadata().unwrap().len();
        place.bed.settle();
        assert_eq!(file.metadata().unwrap().len(), size);
    }
}
