//! Atropos with a host call that misbehaves, to see what becomes of a node whose guests have broken out. For tests only.

#![allow(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    atropos::allow_mischief(misbehave);
    atropos::cli::main()
}

/// Does what the JSON string says.
fn misbehave(what: &str) {
    match what.trim_matches('"') {
        "block" => loop {
            std::thread::sleep(Duration::from_hours(1));
        },
        "spin" => loop {
            std::hint::spin_loop();
        },
        "abort" => std::process::abort(),
        "exit" => std::process::exit(0),
        "allocate" => loop {
            // Touched, so that it is really taken.
            std::mem::forget(vec![1_u8; 16 << 20]);
        },
        "panic" => panic!("a host call panics"),
        "overflow" => overflow(0),
        "kill the node" => {
            let node = rustix::process::getppid().expect("a parent");
            // It dies, or this is refused.
            let _ = rustix::process::kill_process(node, rustix::process::Signal::KILL);
            std::process::abort()
        }
        "fork" => match fork() {
            0 => loop {
                std::thread::sleep(Duration::from_hours(1));
            },
            _ => std::process::abort(),
        },
        _ => {}
    }
}

/// As a program that brings its own system calls does it: a second process, which whoever waits for this one does not know.
#[cfg(target_arch = "x86_64")]
fn fork() -> i64 {
    const SYS_FORK: i64 = 57;
    let mut outcome = SYS_FORK;
    // SAFETY: the child does nothing but sleep.
    unsafe { std::arch::asm!("syscall", inout("rax") outcome, out("rcx") _, out("r11") _) };
    outcome
}

/// There is no such call.
#[cfg(not(target_arch = "x86_64"))]
fn fork() -> i64 {
    -1
}

/// Uses up the stack of the host's own code.
#[expect(unconditional_recursion, reason = "that is the mischief")]
fn overflow(depth: u64) {
    let page = std::hint::black_box([depth; 512]);
    overflow(page[0] + 1);
    std::hint::black_box(page);
}
