//! What is changed and what is not, and what is refused.

use wasmparser::{Operator, Parser, Payload, Validator};

use super::super::{DEPTH_MAX, PIECE, Piece, Unsplittable, in_pieces};
use super::{SMALL, cut, cut_component, module};

fn is_kept(text: &str) {
    let bytes = module(text);
    assert!(matches!(cut(&bytes, SMALL), Ok(std::borrow::Cow::Borrowed(_))), "{text}");
}

/// Cuts it, and gives the names of its functions' operators, one text for each function.
fn cut_text(text: &str) -> Vec<String> {
    let bytes = module(text);
    let cut = cut(&bytes, SMALL).unwrap();
    Validator::new().validate_all(&cut).unwrap_or_else(|error| panic!("{error}: {text}"));
    bodies(&cut)
}

fn bodies(module: &[u8]) -> Vec<String> {
    let bodies = Parser::new(0).parse_all(module).filter_map(|payload| match payload.unwrap() {
        Payload::CodeSectionEntry(body) => Some(body),
        _ => None,
    });
    let name = |operator: Operator<'_>| format!("{operator:?}").split([' ', '(']).next().unwrap().to_owned();
    bodies
        .map(|body| {
            let operators = body.get_operators_reader().unwrap().into_iter();
            operators.map(|operator| name(operator.unwrap())).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn what_can_never_be_long_is_kept_byte_for_byte() {
    for body in [
        "nop",
        "(memory.fill (i32.const 0) (i32.const 0) (i32.const 7))",
        "(memory.copy (i32.const 0) (i32.const 9) (i32.const 0))",
        "(table.copy 0 0 (i32.const 0) (i32.const 9) (i32.const 3))",
        // A longer range than the segment is out of bounds.
        "(memory.init $short (i32.const 0) (i32.const 0) (local.get 0))",
        "(table.init $few (i32.const 0) (i32.const 0) (local.get 0))",
        // An active segment is empty once the module runs.
        "(memory.init $active (i32.const 0) (i32.const 0) (local.get 0))",
        "(table.fill $tiny (i32.const 0) (ref.null func) (local.get 0))",
        "(table.copy $tiny 0 (i32.const 0) (i32.const 0) (local.get 0))",
    ] {
        is_kept(&format!(
            "(module (memory 1) (table 100 funcref) (table $tiny 0 3 funcref)
               (data $short \"1234567\") (data $active (i32.const 0) \"123456789\") (elem $few func $f $f $f)
               (func $f (param i32) {body}))"
        ));
    }
    is_kept("(module)");
    is_kept("(module (memory 1))");
}

#[test]
fn an_instruction_stays_behind_its_cut_and_the_cutter_comes_last() {
    let bodies = cut_text(
        "(module (memory 1) (func $a (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2))) (func $b))",
    );
    let [a, b, cutter] = &bodies[..] else { panic!("{bodies:?}") };
    let cut = "LocalTee LocalGet I32Const I32GtU If Call End MemoryFill End";
    assert_eq!(*a, format!("LocalGet LocalGet LocalGet {cut}"));
    assert_eq!(b, "End");
    assert!(cutter.contains("Loop") && cutter.contains("MemoryFill"), "{cutter}");
}

#[test]
fn a_long_constant_is_cut_too() {
    let text = "(module (memory 1) (func (memory.fill (i32.const 0) (i32.const 0) (i32.const 8))))";
    assert_eq!(cut_text(text).len(), 2);
}

#[test]
fn instructions_on_the_same_things_share_a_cutter() {
    let fill = "(memory.fill (i32.const 0) (i32.const 0) (local.get 0))";
    let copy = "(memory.copy (i32.const 0) (i32.const 0) (local.get 0))";
    let text = format!("(module (memory 1) (func (param i32) {fill} {copy} {fill}) (func (param i32) {copy}))");
    assert_eq!(cut_text(&text).len(), 2 + 2);
}

#[test]
fn an_instruction_that_cannot_be_reached_is_cut_and_valid() {
    let text = "(module (memory 1) (table 9 externref) (func unreachable memory.fill table.fill 0 memory.copy))";
    assert_eq!(cut_text(text).len(), 1 + 3);
}

#[test]
fn types_in_groups_and_locals_and_imports_keep_their_indices() {
    let text = r#"(module
        (rec (type $s (struct)) (type $f (func (param i64 i32) (result i32))))
        (import "a" "b" (func $out (type $f)))
        (memory 1)
        (global funcref (ref.func $g))
        (export "g" (func $g))
        (func $g (type $f) (local f32 f32) (local i64)
          (memory.fill (i32.const 0) (i32.const 0) (local.get 1))
          (call $out (local.get 0) (local.get 1))))"#;
    assert_eq!(cut_text(text).len(), 2);
}

#[test]
fn a_module_in_a_component_in_a_component_is_cut_and_the_rest_is_kept() {
    let inner = |body: &str| {
        format!(
            "(component (core module $unchanged (memory 1)) (component (component
               (core module $m (memory 1) (func (export \"f\") (param i32) {body})))) (type string))"
        )
    };
    let whole = module(&inner("(memory.fill (i32.const 0) (i32.const 0) (local.get 0))"));
    let cut = cut_component(&whole, SMALL).unwrap();
    Validator::new().validate_all(&cut).unwrap();
    assert!(cut.len() > whole.len());
    let kept = module(&inner("nop"));
    assert!(matches!(cut_component(&kept, SMALL), Ok(std::borrow::Cow::Borrowed(_))));
}

#[test]
fn cutters_have_names_where_functions_have() {
    let named =
        module("(module (memory 1) (func $mine (param i32) (memory.fill (i32.const 0) (i32.const 0) (local.get 0))))");
    let cut = cut(&named, SMALL).unwrap();
    let sections = Parser::new(0).parse_all(&cut).filter_map(|payload| match payload.unwrap() {
        Payload::CustomSection(section) => Some(section),
        _ => None,
    });
    let mut found = Vec::new();
    for section in sections {
        let wasmparser::KnownCustom::Name(reader) = section.as_known() else { continue };
        for subsection in reader {
            if let wasmparser::Name::Function(map) = subsection.unwrap() {
                found.extend(map.into_iter().map(|naming| naming.unwrap()).map(|naming| (naming.index, naming.name)));
            }
        }
    }
    assert_eq!(found, [(0, "mine"), (1, "memory.fill in pieces")]);
}

#[test]
fn what_no_component_may_use_is_refused() {
    let fill = "(memory.fill (i64.const 0) (i32.const 0) (i64.const 9))";
    for (text, says) in [
        (format!("(module (memory i64 1) (func {fill}))"), "a 64-bit memory"),
        (
            "(module (table i64 9 funcref) (func (table.copy (i64.const 0) (i64.const 0) (i64.const 9))))".to_owned(),
            "a 64-bit table",
        ),
        (
            "(module (table 9 anyref) (func (table.fill (i32.const 0) (ref.null any) (i32.const 9))))".to_owned(),
            "anyref",
        ),
        (
            "(module (type $a (array (mut i8))) (func (param (ref $a))
               (array.fill $a (local.get 0) (i32.const 0) (i32.const 0) (i32.const 9))))"
                .to_owned(),
            "an array",
        ),
    ] {
        let refused = cut(&module(&text), SMALL).unwrap_err();
        assert!(matches!(&refused, Unsplittable::NotOffered { what, .. } if what.contains(says)), "{refused:?}");
    }
}

#[test]
fn what_is_not_there_or_not_readable_is_refused_in_words() {
    let valid =
        module("(module (memory 1) (func (param i32) (memory.fill (i32.const 0) (i32.const 0) (local.get 0))))");
    let at = valid.windows(3).position(|bytes| bytes == [0xfc, 0x0b, 0]).unwrap();
    let mut broken = valid.clone();
    broken[at + 2] = 1;
    assert_eq!(cut(&broken, SMALL).unwrap_err().to_string(), "`memory.fill` names memory 1, which is not there");
    let told = in_pieces(b"\0asm\x0d\0\x01\0\x01\x05abc").unwrap_err().to_string();
    assert_eq!(told, "unexpected end-of-file (at offset 0xa)");
    let told = in_pieces(&valid).unwrap_err().to_string();
    assert_eq!(told, "another header is expected here (at offset 0x0)");
}

#[test]
fn what_is_added_cannot_be_named_by_what_was_there() {
    let whole = |body: &str| {
        let body = format!("(memory.fill (i32.const 0) (i32.const 0) (local.get 0)) {body}");
        module(&format!("(component (core module (memory 1) (func (param i32) {body}) (export \"f\" (func 0))))"))
    };
    let spoilt = |valid: &[u8], from: &[u8], to: &[u8]| {
        let at = valid.windows(from.len()).position(|bytes| bytes == from).unwrap();
        [&valid[..at], to, &valid[at + from.len()..]].concat()
    };
    let valid = whole("(local.set 0 (i32.const 77))");
    assert!(cut_component(&valid, SMALL).is_ok());
    // The local that holds the length, and the cutter.
    let told = cut_component(&spoilt(&valid, &[0x21, 0], &[0x21, 1]), SMALL).unwrap_err().to_string();
    assert!(told.contains("unknown local 1"), "{told}");
    let told = cut_component(&spoilt(&valid, b"\x01f\0\0", b"\x01f\0\x01"), SMALL).unwrap_err().to_string();
    assert!(told.contains("unknown function 1"), "{told}");
}

#[test]
fn there_is_a_bound_for_everything() {
    let nested = |depth: usize| {
        let mut bytes = module("(component)");
        for _ in 0..depth {
            let mut outer = super::super::COMPONENT.to_vec();
            outer.push(4);
            super::super::sections::put_sized(&mut outer, &bytes).unwrap();
            bytes = outer;
        }
        bytes
    };
    assert!(in_pieces(&nested(DEPTH_MAX)).is_ok());
    assert!(matches!(in_pieces(&nested(DEPTH_MAX + 1)), Err(Unsplittable::TooMany { .. })));

    let fills = "memory.fill ".repeat(5);
    let bytes = module(&format!("(module (memory 1) (func unreachable {fills}))"));
    let mut rewriting = super::super::Rewriting { piece: SMALL, changes_left: 5 };
    rewriting.module(&bytes, 0).unwrap();
    assert!(matches!(rewriting.module(&bytes, 0), Err(Unsplittable::TooMany { what: "bulk instructions", .. })));

    let segments = (0..1_001).map(|_| "(data \"12345678\")").collect::<String>();
    let inits = (0..1_001).map(|index| format!("memory.init {index} ")).collect::<Vec<_>>().concat();
    let bytes = module(&format!("(module (memory 1) {segments} (func unreachable {inits}))"));
    assert!(matches!(cut(&bytes, SMALL), Err(Unsplittable::TooMany { .. })));
    assert!(cut(&bytes, PIECE).is_ok());
}

#[test]
fn a_piece_may_be_as_long_as_a_number_goes() {
    let text = "(module (memory 1) (func (param i32) (memory.fill (i32.const 0) (i32.const 0) (local.get 0))))";
    let bytes = module(text);
    for bytes_max in [1, u32::MAX >> 1, u32::MAX] {
        let cut = cut(&bytes, Piece { bytes: bytes_max, elements: 1 }).unwrap();
        Validator::new().validate_all(&cut).unwrap();
    }
}
