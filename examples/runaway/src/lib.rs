//! Never looks whether it should stop: what every task must not be, and what the host must stop all the same.
//!
//! Input: `{}`. There is no result: the loop has no end.

use std::hint::black_box;

use atropos_guest::Failure;
use serde::Deserialize;

/// What the task takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Where the arithmetic begins.
    #[serde(default = "default_seed")]
    seed: u64,
}

fn default_seed() -> u64 {
    1
}

atropos_guest::task!(run);

fn run(input: Input) -> Result<(), Failure> {
    let mut x = input.seed;
    loop {
        // One step of a random number generator. `black_box` keeps the compiler from seeing that nothing comes of it.
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
}
