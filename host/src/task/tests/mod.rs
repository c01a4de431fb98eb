//! The life of a task, proved in four ways: stories that anyone can read, laws that hold for every state and every
//! event, walks by chance through whole lives, and the diagram of what was seen.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod births;
mod budgets;
mod diagram;
mod laws;
mod records;
mod script;
mod stops;
mod stories;
mod walk;
mod world;
