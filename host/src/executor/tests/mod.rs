//! Real guests in a real executor. Every test ends with an empty ledger: see [`bed::Bed`].

mod bed;
mod fit;
mod guest;
mod life;
mod limits;
mod loading;
mod stop;
mod wasi;
