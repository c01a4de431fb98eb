//! What commands read from files and from stdin: never more than could be of use, so that no device fills the memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::exit::Complaint;

/// The largest component that any host can be set to take.
const COMPONENT_BYTES_MAX: u64 = 256 << 20;
/// More than any host takes as an input or a schema.
const TEXT_BYTES_MAX: u64 = 2 << 20;

/// The bytes of a component.
pub fn component(path: &Path) -> Result<Vec<u8>, Complaint> {
    let file = File::open(path).map_err(|error| Complaint::unreadable(path, &error))?;
    let bytes = bounded(file, COMPONENT_BYTES_MAX).map_err(|error| Complaint::unreadable(path, &error))?;
    bytes.ok_or_else(|| too_large(&path.display().to_string(), COMPONENT_BYTES_MAX))
}

/// The text of a file.
pub fn text(path: &Path) -> Result<String, Complaint> {
    let file = File::open(path).map_err(|error| Complaint::unreadable(path, &error))?;
    let bytes = bounded(file, TEXT_BYTES_MAX).map_err(|error| Complaint::unreadable(path, &error))?;
    utf8(bytes, &path.display().to_string())
}

/// What comes from stdin, to its end.
pub fn stdin(what: &str) -> Result<String, Complaint> {
    let bytes = bounded(std::io::stdin().lock(), TEXT_BYTES_MAX)
        .map_err(|error| Complaint::usage(format!("cannot read {what} from stdin: {error}")))?;
    utf8(bytes, "stdin")
}

/// `None` if there is more than that.
fn bounded(from: impl Read, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = from.take(max + 1).read_to_end(&mut bytes)?;
    Ok((read as u64 <= max).then_some(bytes))
}

fn utf8(bytes: Option<Vec<u8>>, from: &str) -> Result<String, Complaint> {
    let bytes = bytes.ok_or_else(|| too_large(from, TEXT_BYTES_MAX))?;
    String::from_utf8(bytes).map_err(|_| Complaint::usage(format!("`{from}` is not UTF-8 text")))
}

fn too_large(from: &str, max: u64) -> Complaint {
    Complaint { code: "file_too_large", ..Complaint::usage(format!("`{from}` has more than {max} bytes")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let endless = || std::io::repeat(b'0');
        assert_eq!(bounded(endless(), 1_000).unwrap(), None);
        assert_eq!(bounded(endless().take(1_000), 1_000).unwrap().map(|bytes| bytes.len()), Some(1_000));
        assert_eq!(component(Path::new("/dev/zero")).unwrap_err().code, "file_too_large");
    }
}
