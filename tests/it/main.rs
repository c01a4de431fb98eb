//! The whole, from outside: real processes, real guests, a real disk. One module for each feature.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod cli;
mod crash;
mod crash_points;
mod dedup;
mod faulty;
mod flat;
mod guests;
mod life;
mod limits;
mod neighbours;
mod order;
mod outside;
mod races;
mod shutdown;
mod stop;
mod support;
mod tidy;
