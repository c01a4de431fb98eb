//! Whatever the bytes are: no panic, no endless work, and what is valid stays so.

use wasmparser::Validator;

use super::super::Unsplittable;
use super::{Dice, SMALL, cut_component, module};

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"(component
             (core module $m
               (import "a" "m" (memory 1 9)) (import "a" "f" (func (param i64)))
               (memory $n 2) (table $t 30 funcref) (table 30 40 externref)
               (data $d "0123456789") (elem $e func $f $f $f $f $f) (data (i32.const 3) "abc")
               (func $f (param i32 i32 i32) (local i64 f32)
                 (memory.fill (local.get 0) (local.get 1) (local.get 2))
                 (memory.copy 0 $n (local.get 0) (local.get 1) (local.get 2))
                 (memory.init $d (local.get 0) (local.get 1) (local.get 2))
                 (loop (br_if 0 (local.get 1)) (table.fill $t (local.get 0) (ref.null func) (local.get 2)))
                 (table.copy $t $t (local.get 0) (local.get 1) (local.get 2))
                 (table.init $t $e (local.get 0) (local.get 1) (local.get 2))
                 (data.drop $d) (elem.drop $e)))
             (component (core module (memory 1) (func (memory.fill (i32.const 0) (i32.const 0) (i32.const 99))))))"#,
        r"(component (component (component (core module (rec (type (struct)) (type $f (func (param i32)))) (memory 1)
             (func (type $f) (memory.fill (i32.const 1) (i32.const 2) (local.get 0)))))))",
    ];
    texts.iter().map(|text| module(text)).collect()
}

fn damaged(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(5) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.one_of(&[0, 1, 0x7f, 0x80, 0xff, 0xfc, 0x0b]),
            2 => bytes.insert(at, dice.one_of(&[0, 1, 0x80, 0xff])),
            3 => drop(bytes.remove(at)),
            _ => bytes.truncate(bytes.len() - dice.below(4)),
        }
    }
    bytes
}

#[test]
fn damaged_components_do_no_harm() {
    let mut dice = Dice(7);
    let (mut still_valid, mut refused) = (0, 0);
    for whole in seeds() {
        for round in 0..20_000 {
            let bytes = damaged(&mut dice, &whole);
            let valid = Validator::new().validate_all(&bytes).is_ok();
            match cut_component(&bytes, SMALL) {
                Ok(cut) => {
                    assert_eq!(Validator::new().validate_all(&cut).is_ok(), valid, "round {round}: {bytes:02x?}");
                    still_valid += usize::from(valid);
                }
                Err(error) => {
                    // The validator takes a nested component that the upload ends in the midst of.
                    let ends_early = error.to_string().starts_with("unexpected end-of-file");
                    let not_offered = matches!(error, Unsplittable::NotOffered { .. });
                    assert!(!valid || not_offered || ends_early, "round {round}: {error}: {bytes:02x?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(still_valid > 1_000 && refused > 1_000, "{still_valid} valid, {refused} refused");
}

#[test]
fn noise_is_refused() {
    let mut dice = Dice(8);
    for round in 0..20_000 {
        let count = dice.below(60);
        let noise = [super::super::COMPONENT, &[1, 90], b"\0asm\x01\0\0\0", &dice.bytes(count)].concat();
        assert!(cut_component(&noise, SMALL).is_err(), "round {round}: {noise:02x?}");
    }
}
