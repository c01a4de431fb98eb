//! The name section, with the cutters' names in it, so that a backtrace says what they are. Knows nothing of other custom sections.

use wasmparser::BinaryReader;

use super::Unsplittable;
use super::sections::{Items, Section, content, put_sized};

const NAME_SECTION: &str = "name";
/// The subsection of the functions' names, in the order of their indices.
const FUNCTIONS: u8 = 1;

/// The section's content with these names behind those of the other functions, if it has any. A name section that cannot be read
/// is left as it is: it is for people.
pub(super) fn with(section: &Section<'_>, names: &Items) -> Result<Option<Vec<u8>>, Unsplittable> {
    let Some((count, items, before, behind)) = function_names(section) else { return Ok(None) };
    let mut out = section.content[..before].to_vec();
    out.push(FUNCTIONS);
    put_sized(&mut out, &content(count, items, names)?)?;
    out.extend_from_slice(&section.content[behind..]);
    Ok(Some(out))
}

/// How many names there are, their bytes, and where the subsection begins and ends.
fn function_names<'a>(section: &Section<'a>) -> Option<(u32, &'a [u8], usize, usize)> {
    let mut reader = section.reader();
    if reader.read_string().ok()? != NAME_SECTION {
        return None;
    }
    while !reader.eof() {
        let before = reader.current_position();
        let id = reader.read_u8().ok()?;
        let length = usize::try_from(reader.read_var_u32().ok()?).ok()?;
        let payload = reader.read_bytes(length).ok()?;
        if id == FUNCTIONS {
            let mut names = BinaryReader::new(payload, 0);
            let count = names.read_var_u32().ok()?;
            return Some((count, &payload[names.current_position()..], before, reader.current_position()));
        }
    }
    None
}
