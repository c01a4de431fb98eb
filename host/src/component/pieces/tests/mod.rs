//! A component in pieces does what it did whole: by story, on random programs, and on what is no program at all.

mod breadth;
mod damage;
mod depth;
mod form;
mod guests;

use std::borrow::Cow;

use super::{CHANGES_MAX, Piece, Rewriting, Unsplittable, in_pieces_of};

/// Small enough that every length around it is soon met.
const SMALL: Piece = Piece { bytes: 7, elements: 3 };

fn cut(module: &[u8], piece: Piece) -> Result<Cow<'_, [u8]>, Unsplittable> {
    Rewriting { piece, changes_left: CHANGES_MAX }.module(module, 0)
}

fn cut_component(component: &[u8], piece: Piece) -> Result<Cow<'_, [u8]>, Unsplittable> {
    in_pieces_of(piece, component)
}

fn module(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The generator `SplitMix64` (<https://prng.di.unimi.it/splitmix64.c>).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
