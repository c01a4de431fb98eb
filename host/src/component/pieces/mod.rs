//! Rewrites a component so that long bulk instructions run in pieces: the engine looks for an interruption only before such an
//! instruction, and a fill of a gigabyte could not be stopped.
//!
//! Pure: bytes in, bytes out. Must not know engines, tasks, or whether the bytes are valid beyond what it has to read.
//!
//! What is done to an instruction that may be long, `memory.fill` say, with its operands on the stack:
//!
//! ```text
//! (local.tee $length) (local.get $length) (i32.const PIECE) (i32.gt_u)
//! (if (type $operands) (then (call $cutter)))
//! (memory.fill)
//! ```
//!
//! The *cutter* is a function added behind all others. It does all but the last piece, and returns the operands for what is left;
//! if the range is out of bounds it does nothing. So the instruction itself stays in its place, for what is short, for the last
//! piece, and to trap before anything is written.

mod body;
mod bulk;
mod cutter;
mod facts;
mod module;
mod names;
mod plan;
mod sections;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use wasmparser::{Validator, WasmFeatures};

use sections::{Draft, Section, sections};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: u8 = 1;
const NESTED_COMPONENT: u8 = 4;
/// Each level copies what is in it once more.
const DEPTH_MAX: usize = 32;
/// Of one upload. Each makes it some 20 bytes longer; a large honest program has some ten thousand.
const CHANGES_MAX: usize = 1 << 20;

/// The longest run without a look at the epoch.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u32,
    elements: u32,
}

/// 128 KiB take 0.1 ms when touched for the first time, where 1 MiB takes 0.6, and 0.002 ms after; a gigabyte takes no longer in such
/// pieces than at once. 4,096 elements take 0.1 ms if each has to be made, and 0.005 ms after.
const PIECE: Piece = Piece { bytes: 128 << 10, elements: 4 << 10 };

/// Why a component was not rewritten. It must then not run: what is not understood is not let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsplittable {
    #[error("{what} (at offset {at:#x})")]
    Malformed { what: String, at: usize },
    #[error("`{instruction}` names {what} {index}, which is not there")]
    Missing { instruction: &'static str, what: &'static str, index: u32 },
    #[error("`{instruction}` works on {what}, which is not offered")]
    NotOffered { instruction: &'static str, what: String },
    #[error("there are more than {max} {what}")]
    TooMany { what: &'static str, max: usize },
}

impl From<wasmparser::Error> for Unsplittable {
    fn from(error: wasmparser::Error) -> Self {
        Self::Malformed { what: error.message().to_owned(), at: error.offset() }
    }
}

/// The component with its long bulk instructions in pieces, or as it is if there are none.
///
/// # Errors
/// The bytes cannot be read, use what no component may use, or have more of something than is taken.
pub(crate) fn in_pieces(component: &[u8]) -> Result<Cow<'_, [u8]>, Unsplittable> {
    in_pieces_of(PIECE, component)
}

fn in_pieces_of(piece: Piece, component: &[u8]) -> Result<Cow<'_, [u8]>, Unsplittable> {
    let rewritten = Rewriting { piece, changes_left: CHANGES_MAX }.component(component, 0, 0)?;
    if let Cow::Owned(_) = rewritten {
        // What names a function or a local that was not there must not find the added ones.
        Validator::new_with_features(WasmFeatures::all()).validate_all(component)?;
    }
    Ok(rewritten)
}

struct Rewriting {
    piece: Piece,
    changes_left: usize,
}

impl Rewriting {
    fn component<'a>(&mut self, bytes: &'a [u8], at: usize, depth: usize) -> Result<Cow<'a, [u8]>, Unsplittable> {
        if depth > DEPTH_MAX {
            return Err(Unsplittable::TooMany { what: "components within each other", max: DEPTH_MAX });
        }
        let mut draft = Draft::of(bytes);
        for section in sections(bytes, COMPONENT, at)? {
            let Section { id, whole, content, at } = section?;
            let new = match id {
                CORE_MODULE => self.module(content, at)?,
                NESTED_COMPONENT => self.component(content, at, depth + 1)?,
                _ => Cow::Borrowed(content),
            };
            match new {
                Cow::Borrowed(_) => draft.keep(whole),
                Cow::Owned(new) => draft.put(id, &new)?,
            }
        }
        Ok(draft.done())
    }
}
