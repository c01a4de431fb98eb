//! The guests of the test suite: those without bulk instructions stay as they are, the others stay valid.

use std::path::Path;

use super::super::in_pieces;
use super::{SMALL, cut_component};

#[test]
fn guests_without_bulk_instructions_stay_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/guests");
    let mut changed = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_none_or(|ending| ending != "wat") || name == "core-module" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let whole = wat::parse_str(&text).unwrap();
        for cut in [in_pieces(&whole).unwrap(), cut_component(&whole, SMALL).unwrap()] {
            // Some are not valid, and stay so.
            let valid = wasmparser::Validator::new().validate_all(&whole).is_ok();
            assert_eq!(wasmparser::Validator::new().validate_all(&cut).is_ok(), valid, "{name}");
            if cut != whole {
                changed.push(name.clone());
            }
        }
        let bulk = ["memory.fill", "memory.copy", "memory.init", "table.fill", "table.copy", "table.init"];
        let code = text.lines().filter(|line| !line.trim_start().starts_with(";;")).collect::<String>();
        assert_eq!(bulk.iter().any(|instruction| code.contains(instruction)), changed.contains(&name), "{name}");
    }
    assert!(changed.contains(&"fill".to_owned()), "{changed:?}");
}
