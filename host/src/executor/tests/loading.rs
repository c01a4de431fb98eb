//! Components that must be fetched, or cannot be.

use super::bed::Bed;
use super::guest;
use crate::id::Digest;
use crate::task::{Death, Ending};

#[test]
fn a_component_that_is_not_in_memory_is_fetched_and_compiled_once() {
    let mut bed = Bed::new();
    let component = bed.folder.put(&guest::file("echo")).unwrap();
    let keys: Vec<_> = (0..20).map(|_| bed.start(component)).collect();
    for _ in &keys {
        assert_eq!(bed.ended().ending, Ending::Succeeded);
    }
}

#[test]
fn a_component_that_is_not_there_ends_the_attempt() {
    let mut bed = Bed::new();
    bed.start(Digest::of(b"nothing"));
    let ended = bed.ended();
    let Ending::Died { cause: Death::Unloadable, message } = ended.ending else { panic!("{:?}", ended.ending) };
    assert!(message.contains("is not there"), "{message}");
    assert!(ended.last.entered_at.is_none());
}

#[test]
fn a_component_that_does_not_fit_ends_the_attempt() {
    let mut bed = Bed::new();
    let component = bed.folder.put(&guest::file("imports-unknown")).unwrap();
    bed.start(component);
    let ended = bed.ended();
    assert!(matches!(ended.ending, Ending::Died { cause: Death::Unloadable, .. }), "{:?}", ended.ending);
}

#[test]
fn a_kill_does_not_wait_for_the_compiler() {
    let mut bed = Bed::new();
    let component = bed.folder.put(&guest::straight_line()).unwrap();
    let keys: Vec<_> = (0..3).map(|_| bed.start(component)).collect();
    for key in &keys {
        bed.kill(*key);
    }
    for _ in &keys {
        let ended = bed.ended();
        assert_eq!(ended.ending, Ending::Killed);
        assert!(ended.last.entered_at.is_none());
    }
    // The compiler's work was not lost.
    let last = bed.start(component);
    assert_eq!(bed.ended().last.key, last);
}
