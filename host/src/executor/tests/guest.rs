//! The guests of `tests/guests`, and some made of them.

/// The text of a guest.
pub(super) fn text(name: &str) -> String {
    let path = format!("{}/../tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The bytes of a guest.
pub(super) fn file(name: &str) -> Vec<u8> {
    wat::parse_str(text(name)).unwrap()
}

/// 20,000 host calls one after the other, with no place between them where the guest could be interrupted.
pub(super) fn straight_line() -> Vec<u8> {
    let text = text("straight-line-calls");
    let line = text.lines().find(|line| line.ends_with(";; repeat")).unwrap();
    wat::parse_str(text.replace(line, &format!("{line}\n").repeat(20_000))).unwrap()
}

/// A task in Rust, as `examples/build.sh` made it.
pub(super) fn example(name: &str) -> Vec<u8> {
    let path = format!("{}/../examples/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
