//! A module or component as the sections it is made of, and one that is being written. Knows nothing of what is in a section.

use std::borrow::Cow;

use wasm_encoder::Encode as _;
use wasmparser::BinaryReader;

use super::Unsplittable;

/// Magic number and version.
const HEADER_BYTES: usize = 8;
/// Of a 32-bit number.
const LEB_BYTES_MAX: usize = 5;

pub(super) struct Section<'a> {
    pub(super) id: u8,
    /// With its id and length.
    pub(super) whole: &'a [u8],
    pub(super) content: &'a [u8],
    /// Where the content begins in the upload, for messages.
    pub(super) at: usize,
}

impl<'a> Section<'a> {
    pub(super) fn reader(&self) -> BinaryReader<'a> {
        BinaryReader::new(self.content, self.at)
    }

    /// The content, with these items behind its own.
    pub(super) fn with(&self, more: &Items) -> Result<Vec<u8>, Unsplittable> {
        let mut reader = self.reader();
        let count = reader.read_var_u32()?;
        content(count, &self.content[reader.current_position()..], more)
    }
}

/// The sections of what must begin with this header.
pub(super) fn sections<'a>(
    bytes: &'a [u8],
    header: &[u8],
    at: usize,
) -> Result<impl Iterator<Item = Result<Section<'a>, Unsplittable>>, Unsplittable> {
    let Some(rest) = bytes.strip_prefix(header) else {
        return Err(Unsplittable::Malformed { what: "another header is expected here".to_owned(), at });
    };
    let mut reader = BinaryReader::new(rest, at + HEADER_BYTES);
    Ok(std::iter::from_fn(move || {
        if reader.eof() {
            return None;
        }
        let section = next(&mut reader, rest);
        if section.is_err() {
            // There is no telling where the next one would begin.
            reader = BinaryReader::new(&[], 0);
        }
        Some(section)
    }))
}

fn next<'a>(reader: &mut BinaryReader<'a>, bytes: &'a [u8]) -> Result<Section<'a>, Unsplittable> {
    let begin = reader.current_position();
    let id = reader.read_u8()?;
    let length = reader.read_var_u32()?;
    let at = reader.original_position();
    let content = reader.read_bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok(Section { id, whole: &bytes[begin..reader.current_position()], content, at })
}

/// A copy that begins to be one with the first change.
pub(super) struct Draft<'a> {
    original: &'a [u8],
    kept: usize,
    written: Option<Vec<u8>>,
}

impl<'a> Draft<'a> {
    pub(super) fn of(original: &'a [u8]) -> Self {
        Self { original, kept: HEADER_BYTES, written: None }
    }

    pub(super) fn keep(&mut self, whole: &[u8]) {
        match &mut self.written {
            Some(written) => written.extend_from_slice(whole),
            None => self.kept += whole.len(),
        }
    }

    pub(super) fn put(&mut self, id: u8, content: &[u8]) -> Result<(), Unsplittable> {
        let written = self.written.get_or_insert_with(|| self.original[..self.kept].to_vec());
        written.push(id);
        put_sized(written, content)
    }

    pub(super) fn done(self) -> Cow<'a, [u8]> {
        self.written.map_or(Cow::Borrowed(self.original), Cow::Owned)
    }
}

/// Bytes behind their length.
pub(super) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Unsplittable> {
    let max = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
    let length = u32::try_from(bytes.len()).map_err(|_| Unsplittable::TooMany { what: "bytes in a section", max })?;
    length.encode(out);
    out.extend_from_slice(bytes);
    Ok(())
}

/// Items as a section holds them.
#[derive(Default)]
pub(super) struct Items {
    pub(super) count: u32,
    pub(super) bytes: Vec<u8>,
}

impl Items {
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.count += 1;
    }
}

/// The items of both, behind their number.
pub(super) fn content(count: u32, items: &[u8], more: &Items) -> Result<Vec<u8>, Unsplittable> {
    let max = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
    let count = count.checked_add(more.count).ok_or(Unsplittable::TooMany { what: "items in a section", max })?;
    let mut out = Vec::with_capacity(LEB_BYTES_MAX + items.len() + more.bytes.len());
    count.encode(&mut out);
    out.extend_from_slice(items);
    out.extend_from_slice(&more.bytes);
    Ok(out)
}
