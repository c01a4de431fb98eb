//! Decides whether an upload is a task, and says what is wrong with it if it is not. Compiles it on the way.

use std::fmt::Write as _;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{self, Component};

use super::complexity;
use super::error::ComponentError;
use super::pieces::in_pieces;
use crate::sandbox::{Failure, Prepared, Workshop, clip, is_offered, unoffered_reason};

pub(super) const DETAIL_BYTES_MAX: usize = 2 << 10;
const MAGIC: &[u8] = b"\0asm";
/// Version 1 of the layer of core modules.
const CORE: &[u8] = &[1, 0, 0, 0];

/// What an upload that fits was found to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    pub bytes: usize,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// Whether it can clean up after a stopped task.
    pub compensates: bool,
}

/// Checks and compiles; gives the machine code too.
pub(super) fn inspect(workshop: &Workshop, bytes: &[u8]) -> Result<(Inspection, Vec<u8>), ComponentError> {
    check_kind(bytes)?;
    complexity::check(bytes)?;
    let invalid = |detail: String| ComponentError::Invalid { detail: clip(&detail, DETAIL_BYTES_MAX) };
    // What is compiled is what was uploaded, but for bulk instructions, which can be interrupted.
    let stoppable = in_pieces(bytes).map_err(|error| invalid(error.to_string()))?;
    let failed = |error: &wasmtime::Error| spent(error).unwrap_or_else(|| invalid(format!("{error:#}")));
    let component = Component::new(&workshop.engine, &stoppable).map_err(|error| failed(&error))?;
    let face = component.component_type();
    let engine = &workshop.engine;
    check_imports(&face, engine)?;
    check_run(&face, engine)?;
    // Whether it can be linked.
    Prepared::new(workshop, &component)
        .map_err(|error| ComponentError::ImportMismatch { detail: clip(&format!("{error:#}"), DETAIL_BYTES_MAX) })?;
    let exports: Vec<String> = face.exports(engine).map(|(name, _)| name.to_owned()).collect();
    let inspection = Inspection {
        bytes: bytes.len(),
        imports: face.imports(engine).map(|(name, _)| name.to_owned()).collect(),
        compensates: exports.iter().any(|name| name.starts_with("atropos:task/compensation@")),
        exports,
    };
    let code = component.serialize().map_err(|error| failed(&error))?;
    Ok((inspection, code))
}

/// The compiler asked for memory, and did not get it.
fn spent(error: &wasmtime::Error) -> Option<ComponentError> {
    let want = error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::OutOfMemory);
    (want || error.is::<wasmtime::OutOfMemory>())
        .then(|| ComponentError::CompileLimit { limit: "memory".into(), max: "what the node gives".to_owned() })
}

fn check_kind(bytes: &[u8]) -> Result<(), ComponentError> {
    if bytes.is_empty() {
        return Err(ComponentError::Empty);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(ComponentError::Precompiled);
    }
    match bytes.strip_prefix(MAGIC) {
        Some(rest) if rest.starts_with(CORE) => Err(ComponentError::CoreModule),
        Some(_) => Ok(()),
        None if looks_like_text_format(bytes) => Err(ComponentError::TextFormat),
        None => Err(ComponentError::NotWebAssembly { start: start(bytes) }),
    }
}

fn looks_like_text_format(bytes: &[u8]) -> bool {
    let Ok(mut text) = std::str::from_utf8(bytes) else { return false };
    loop {
        text = text.trim_start();
        match text.strip_prefix(";;") {
            Some(comment) => text = comment.split_once('\n').map_or("", |(_, rest)| rest),
            None => break,
        }
    }
    let Some(inside) = text.strip_prefix('(') else { return false };
    let inside = inside.trim_start();
    ["component", "module"].iter().any(|word| inside.starts_with(word)) || inside.starts_with(';')
}

/// The first bytes, for a person.
fn start(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(12)];
    if first.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        return format!("`{}`", String::from_utf8_lossy(first));
    }
    first.iter().fold("bytes".to_owned(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, " {byte:02x}");
        text
    })
}

fn check_imports(face: &component::types::Component, engine: &Engine) -> Result<(), ComponentError> {
    for (name, import) in face.imports(engine) {
        let needed = match &import.ty {
            // An interface of nothing but types asks for nothing.
            ComponentItem::ComponentInstance(instance) => {
                instance.exports(engine).any(|(_, item)| !matches!(item.ty, ComponentItem::Type(_)))
            }
            ComponentItem::Type(_) => false,
            _ => true,
        };
        if needed && !is_offered(name) {
            return Err(ComponentError::ImportNotOffered {
                import: clip(name, 200),
                reason: unoffered_reason(name).into(),
            });
        }
    }
    Ok(())
}

fn check_run(face: &component::types::Component, engine: &Engine) -> Result<(), ComponentError> {
    let Some(run) = face.get_export(engine, "run") else {
        let exports = face.exports(engine).map(|(name, _)| clip(name, 200)).collect();
        return Err(ComponentError::RunMissing { exports });
    };
    let ComponentItem::ComponentFunc(run) = &run.ty else {
        return Err(ComponentError::RunMistyped { found: "no function".to_owned() });
    };
    let fits = run.typecheck::<(&str,), (Result<String, Failure>,)>(&face.instance_type()).is_ok();
    if !fits || run.async_() {
        return Err(ComponentError::RunMistyped { found: clip(&signature(run), DETAIL_BYTES_MAX) });
    }
    Ok(())
}

fn signature(func: &ComponentFunc) -> String {
    let params: Vec<String> = func.params().map(|(name, ty)| format!("{name}: {}", type_name(&ty, 0))).collect();
    let results: Vec<String> = func.results().map(|ty| format!(" -> {}", type_name(&ty, 0))).collect();
    let kind = if func.async_() { "async func" } else { "func" };
    format!("`{kind}({}){}`", params.join(", "), results.concat())
}

/// The type in the words of WIT, as deep as it helps.
fn type_name(ty: &Type, depth: usize) -> String {
    const DEPTH_MAX: usize = 3;
    let inner = |ty: Option<Type>| match ty {
        None => "_".to_owned(),
        Some(_) if depth == DEPTH_MAX => "…".to_owned(),
        Some(ty) => type_name(&ty, depth + 1),
    };
    match ty {
        Type::Bool => "bool".to_owned(),
        Type::S8 => "s8".to_owned(),
        Type::U8 => "u8".to_owned(),
        Type::S16 => "s16".to_owned(),
        Type::U16 => "u16".to_owned(),
        Type::S32 => "s32".to_owned(),
        Type::U32 => "u32".to_owned(),
        Type::S64 => "s64".to_owned(),
        Type::U64 => "u64".to_owned(),
        Type::Float32 => "f32".to_owned(),
        Type::Float64 => "f64".to_owned(),
        Type::Char => "char".to_owned(),
        Type::String => "string".to_owned(),
        Type::List(list) => format!("list<{}>", inner(Some(list.ty()))),
        Type::Option(option) => format!("option<{}>", inner(Some(option.ty()))),
        Type::Result(result) => format!("result<{}, {}>", inner(result.ok()), inner(result.err())),
        Type::Record(record) => {
            format!("record {{ {} }}", record.fields().map(|field| field.name).collect::<Vec<_>>().join(", "))
        }
        Type::Variant(variant) => {
            format!("variant {{ {} }}", variant.cases().map(|case| case.name).collect::<Vec<_>>().join(", "))
        }
        Type::Enum(cases) => format!("enum {{ {} }}", cases.names().collect::<Vec<_>>().join(", ")),
        Type::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types().map(|ty| inner(Some(ty))).collect::<Vec<_>>().join(", "))
        }
        _ => "another type".to_owned(),
    }
}
