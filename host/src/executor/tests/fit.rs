//! What may be uploaded, and what is said of the rest.

use super::bed::Bed;
use super::guest;

fn refused(bytes: &[u8]) -> (&'static str, String) {
    let error = Bed::new().check(bytes).unwrap_err();
    assert!(!error.hint().is_empty());
    (error.code(), error.to_string())
}

#[test]
fn a_task_fits_and_is_described() {
    let inspection = Bed::new().check(&guest::file("log-lines")).unwrap();
    assert_eq!(inspection.imports, ["atropos:task/failures@0.1.0", "atropos:task/log@0.1.0"]);
    assert_eq!(inspection.exports, ["run"]);
    assert!(inspection.bytes > 0 && !inspection.compensates);
}

#[test]
fn what_is_no_component_is_named() {
    let long = "x".repeat(100);
    let cases: [(&[u8], &str); 9] = [
        (b"", "component_empty"),
        (b"\0", "component_not_webassembly"),
        (b"#!/bin/sh", "component_not_webassembly"),
        (long.as_bytes(), "component_not_webassembly"),
        (b"\0asm", "component_invalid"),
        (b"\0asm\x0d\0\x01\0 and nonsense", "component_invalid"),
        (b"  ;; a comment\n(component)", "component_is_text"),
        (b"(module (func))", "component_is_text"),
        (b"\0asm\x01\0\0\0", "component_is_core_module"),
    ];
    for (bytes, code) in cases {
        assert_eq!(refused(bytes).0, code, "{:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(refused(&guest::file("core-module")).0, "component_is_core_module");
}

#[test]
fn imports_that_are_not_offered_are_named() {
    let (code, text) = refused(&guest::file("imports-checkpoint"));
    assert_eq!(code, "component_import_not_offered");
    assert!(text.contains("`atropos:task/checkpoint@0.1.0`") && text.contains("checkpoints are not offered"), "{text}");
    let (code, text) = refused(&guest::file("imports-unknown"));
    assert_eq!(code, "component_import_not_offered");
    assert!(text.contains("does not know it"), "{text}");
    for (import, reason) in [
        ("wasi:sockets/tcp@0.3.0", "0.3"),
        ("wasi:http/incoming-handler@0.2.6", "serves nobody"),
        ("wasi:cli/stdout@0.3.0", "0.3"),
        ("atropos:task/lifecycle@0.2.0", "another version"),
    ] {
        let text = format!("(component (import \"{import}\" (instance (export \"f\" (func)))))");
        let (code, text) = refused(&wat::parse_str(text).unwrap());
        assert_eq!(code, "component_import_not_offered");
        assert!(text.contains(import) && text.contains(reason), "{text}");
    }
}

#[test]
fn an_offered_import_in_another_shape_is_named() {
    let text = "(component
        (import \"atropos:task/log@0.1.0\" (instance (export \"write\" (func (param \"message\" string)))))
        (core module $m (memory (export \"memory\") 1)
          (func (export \"realloc\") (param i32 i32 i32 i32) (result i32) unreachable)
          (func (export \"run\") (param i32 i32) (result i32) unreachable))
        (core instance $m (instantiate $m))
        (type $s (record (field \"message\" string) (field \"retry-after-ms\" (option u32))))
        (export $system \"system-failure\" (type $s))
        (type $f (variant (case \"stopped\") (case \"business\" string) (case \"system\" $system) (case \"fatal\" string)))
        (export $failure \"failure\" (type $f))
        (func $run (param \"input\" string) (result (result string (error $failure)))
          (canon lift (core func $m \"run\") (memory (core memory $m \"memory\")) (realloc (core func $m \"realloc\"))))
        (export \"run\" (func $run)))";
    let (code, text) = refused(&wat::parse_str(text).unwrap());
    assert_eq!(code, "component_import_mismatch", "{text}");
    assert!(text.contains("write"), "{text}");
}

#[test]
fn run_must_be_there_and_of_its_type() {
    let (code, text) = refused(&guest::file("no-run"));
    assert_eq!(code, "component_run_missing");
    assert!(text.contains("it exports `"), "{text}");
    let (code, text) = refused(&guest::file("wrong-run-type"));
    assert_eq!(code, "component_run_mistyped");
    assert!(text.contains("func("), "{text}");
}

#[test]
fn proposals_that_are_off_are_refused() {
    for name in ["memory64", "shared-memory"] {
        assert_eq!(refused(&guest::file(name)).0, "component_invalid", "{name}");
    }
    for module in [
        "(module (func (param v128) (result v128) local.get 0 local.get 0 i32x4.relaxed_trunc_f32x4_s drop))",
        "(module (type (struct)))",
        "(module (type $f (func)) (func (param (ref $f))))",
        "(module (tag))",
    ] {
        let text = format!("(component (core module {})", module.trim_start_matches("(module"));
        assert_eq!(refused(&wat::parse_str(text).unwrap()).0, "component_invalid", "{module}");
    }
}

#[test]
fn proposals_that_are_on_compile() {
    let text = super::guest::text("echo");
    for fields in [
        "(func (param v128) (result v128) (i32x4.add (local.get 0) (local.get 0)))",
        "(func $self (return_call $self))",
        "(memory $second 1) (func (drop (i32.load $second (i32.const 0))))",
        "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
        "(func (result i32 i32) (i32.const 1) (i32.const 2))",
        "(table $funcs 1 funcref) (func (table.set $funcs (i32.const 0) (ref.null func)))",
        "(func (result i64) (i64.extend8_s (i64.trunc_sat_f64_s (f64.const 1))))",
    ] {
        let module = format!("(component (core module $extra {fields})");
        let bytes = wat::parse_str(text.replacen("(component", &module, 1)).unwrap();
        Bed::new().check(&bytes).unwrap_or_else(|error| panic!("{fields}: {error}"));
    }
}
