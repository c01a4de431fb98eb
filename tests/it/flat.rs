//! 10,000 tasks one after the other: memory, descriptors and threads end where they began.

use serde_json::json;

use crate::support::{Node, guest};

/// What a process holds.
#[derive(Debug)]
pub struct Use {
    pub resident_kib: u64,
    pub descriptors: usize,
    pub threads: usize,
    pub mappings: usize,
}

pub fn used_by(pid: u32) -> Use {
    let proc = std::path::PathBuf::from(format!("/proc/{pid}"));
    let entries = |name: &str| std::fs::read_dir(proc.join(name)).expect("a folder of proc").count();
    let status = std::fs::read_to_string(proc.join("status")).expect("its status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let mappings = std::fs::read_to_string(proc.join("maps")).expect("its mappings").lines().count();
    Use {
        resident_kib: resident.trim().trim_end_matches(" kB").parse().expect("a number"),
        descriptors: entries("fd"),
        threads: entries("task"),
        mappings,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tasks_leave_nothing_behind() {
    let data = tempfile::tempdir().expect("a folder");
    let node = Node::start(data.path(), &[]);
    node.push("echo", guest("echo"), json!({ "run_timeout": "30s" })).await;
    node.push("trap", guest("trap"), json!({ "run_timeout": "30s" })).await;
    let run = async |count: usize| {
        for n in 0..count {
            let kind = if n % 10 == 9 { "trap" } else { "echo" };
            let id = node.submit(&json!({ "type": kind, "input": { "n": n } })).await;
            let task = node.ended(&id).await;
            assert_eq!(task["state"], if kind == "trap" { "FAILED" } else { "SUCCESS" }, "{task}");
        }
    };
    run(2_000).await;
    let before = used_by(node.pid());
    run(8_000).await;
    let after = used_by(node.pid());
    let (_, health) = node.get("/v1/health").await;
    assert_eq!((&health["attempts"], &health["sandboxes"]), (&json!(0), &json!(0)));
    assert!(after.descriptors <= before.descriptors + 2, "{} → {}", before.descriptors, after.descriptors);
    assert!(after.threads <= before.threads + 2, "{} → {}", before.threads, after.threads);
    assert!(after.mappings <= before.mappings + 64, "{} → {}", before.mappings, after.mappings);
    // What the database caches is bounded, and still fills up a little.
    let grown = after.resident_kib.saturating_sub(before.resident_kib);
    assert!(grown < 24 << 10, "{} KiB → {} KiB", before.resident_kib, after.resident_kib);
    assert_eq!(node.terminate().await, Some(0));
}
