//! Real guests in a real executor. Every test ends with an empty ledger: see [`bed::Bed`].

mod autopsy;
mod bed;
mod fit;
mod grants;
mod guest;
mod life;
mod limits;
mod loading;
mod stop;
mod wasi;
