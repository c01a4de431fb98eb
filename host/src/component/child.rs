//! The process that compiles one upload: takes an order and the bytes from its standard input, writes the machine code
//! into the file that it was given, answers on its standard output, and ends.
//!
//! It has no other way to the outside, and knows nothing of the node that started it.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::artefacts::{Artefacts, create, write_sealed};
use super::error::ComponentError;
use super::inspect::{Inspection, inspect};
use super::lockdown::{self, Caps};
use crate::confine;
use crate::id::Digest;
use crate::sandbox::{EngineSize, Metering, Workshop};

/// The longest order that is read: a path and some numbers.
const ORDER_BYTES_MAX: u32 = 64 << 10;

/// What to do, before the bytes that it is to be done to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The process whose end is this one's end.
    pub(super) parent: i32,
    pub(super) caps: Caps,
    pub(super) size: EngineSize,
    pub(super) metering: Metering,
    /// Made by this process.
    pub(super) draft: PathBuf,
    /// How many follow.
    pub(super) bytes: u64,
}

/// What became of it.
pub(super) type Answer = Result<Inspection, ComponentError>;

/// Order and bytes, as the child reads them.
pub(super) fn send(to: &mut impl Write, order: &Order, bytes: &[u8]) -> io::Result<()> {
    let order = postcard::to_stdvec(order).map_err(io::Error::other)?;
    let length = u32::try_from(order.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&order)?;
    to.write_all(bytes)?;
    to.flush()
}

/// An answer, if it is one.
pub(super) fn read_answer(bytes: &[u8]) -> Option<Answer> {
    postcard::from_bytes(bytes).ok()
}

/// The whole life of the process.
#[must_use]
pub(crate) fn main() -> ExitCode {
    match carry_out(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever started it reads this, or is gone.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    confine::leave_signals_to_the_node();
    let order = read_order(input)?;
    confine::die_with(order.parent)?;
    lockdown::limit(&order.caps)?;
    let workshop = Workshop::for_compiling(order.size, order.metering).map_err(io::Error::other)?;
    let print = Artefacts::print_for(order.size, order.metering).map_err(io::Error::other)?;
    let mut draft = create(&order.draft)?;
    if let Err(weaker) = lockdown::lock() {
        // The limits hold, and the compiler itself is safe code: it goes on, and says so.
        let _ = writeln!(io::stderr(), "{weaker}");
    }
    let length = usize::try_from(order.bytes).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(length);
    input.take(order.bytes).read_to_end(&mut bytes)?;
    if bytes.len() != length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the upload broke off"));
    }
    let answer: Answer = match inspect(&workshop, &bytes) {
        Ok((inspection, code)) => {
            let seal = Artefacts::seal(Digest::of(&bytes), print, &code);
            write_sealed(&mut draft, &code, seal)?;
            Ok(inspection)
        }
        Err(error) => Err(error),
    };
    let answer = postcard::to_stdvec(&answer).map_err(io::Error::other)?;
    output.write_all(&answer)?;
    output.flush()
}

fn read_order(input: &mut impl Read) -> io::Result<Order> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > ORDER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no order: `atropos` starts this by itself"));
    }
    let mut order = vec![0; length as usize];
    input.read_exact(&mut order)?;
    postcard::from_bytes(&order).map_err(io::Error::other)
}
