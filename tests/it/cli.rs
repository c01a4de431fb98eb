//! The command line as a person meets it: without a server, and with one.

use std::process::{Command, Output};

use crate::support::{Node, program, root};

fn atropos(args: &[&str], url: Option<&str>) -> Output {
    let mut command = Command::new(program());
    command.args(args).current_dir(root()).env("NO_COLOR", "1").env("ATROPOS_BY", "user:ada");
    if let Some(url) = url {
        command.env("ATROPOS_URL", url);
    }
    command.output().expect("the program runs")
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_demo_keeps_what_it_promises_and_ends_by_itself() {
    let (code, text) = told(&atropos(&["demo"], None));
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains('✗') && text.matches('✓').count() >= 7, "{text}");
    assert!(text.contains("flaky::audit") && text.contains("its sandbox was taken away"), "{text}");
}

#[test]
fn run_tells_each_mistake_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let text_file = folder.path().join("notes.wasm");
    std::fs::write(&text_file, "dear diary").expect("a file");
    let text_file = text_file.to_str().expect("a path in UTF-8");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["run", "examples/hello.wasm", "--core-dump"], 2, "keeps no core dump"),
        (&["run", "examples/hello.wasm", "--input", r#"{"name": "Ada"}"#], 0, "Hello, Ada!"),
        (&["run", "examples/flaky.wasm", "--input", r#"{"mode": "panic"}"#], 1, "flaky::audit"),
        (&["run", "examples/hello.wasm", "--input", "{oops"], 2, "not JSON"),
        (&["run", "nowhere.wasm"], 3, "there is no file"),
        (&["run", text_file], 7, "no WebAssembly"),
        (&["run", "/dev/zero"], 2, "more than"),
    ];
    for (args, code, text) in cases {
        let (ended, said) = told(&atropos(args, None));
        assert_eq!(ended, Some(code), "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_pushed_submitted_cancelled_and_shown() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    let run = |args: &[&str], code: i32| {
        let output = atropos(args, Some(&node.url));
        let (ended, said) = told(&output);
        assert_eq!(ended, Some(code), "{args:?}: {said}");
        (String::from_utf8_lossy(&output.stdout).trim().to_owned(), said)
    };
    run(&["push", "runaway", "examples/runaway.wasm", "--run-timeout", "1h", "--grace", "50ms"], 0);
    run(&["push", "hello", "examples/hello.wasm", "--run-timeout", "1m"], 0);
    let (result, _) = run(&["submit", "hello", "--input", r#"{"name": "Ada"}"#, "--wait"], 0);
    assert!(result.contains("Hello, Ada!"), "{result}");

    let (id, _) = run(&["submit", "runaway", "--input", "{}"], 0);
    let (_, said) = run(&["cancel", &id, "--reason", "it never ends", "--wait"], 0);
    assert!(said.contains("CANCELLED"), "{said}");
    let (shown, _) = run(&["show", &id], 0);
    for part in ["CANCELLED", "user:ada", "it never ends", "asked", "killed", "gone", "written"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    run(&["cancel", &id], 4);
    run(&["show", "01a22c71-b379-74cc-84b4-11e980baefaa"], 3);
    run(&["submit", "nothing-of-this-name"], 3);
    assert_eq!(node.terminate().await, Some(0));
}
