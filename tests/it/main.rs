//! The whole, from outside: real processes, real guests, a real disk. One module for each feature.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod autopsy;
mod bed;
mod check;
mod cli;
mod compile;
mod crash;
mod crash_points;
mod dedup;
mod escape;
mod executors;
mod faulty;
mod flat;
mod grants;
mod guests;
mod hostile;
mod hostile_rows;
mod kills;
mod life;
mod limits;
mod neighbours;
mod observer;
mod order;
mod outside;
mod races;
mod shutdown;
mod support;
mod tidy;
