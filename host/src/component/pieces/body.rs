//! One function's body, with what is put before its bulk instructions.

use wasm_encoder::{BlockType, Encode as _, InstructionSink, ValType};
use wasmparser::{FunctionBody, Operator};

use super::Unsplittable;
use super::bulk::Bulk;
use super::cutter::piece_const;
use super::plan::Plan;

/// The body, if something in it has to change.
pub(super) fn rewrite(
    body: &FunctionBody<'_>,
    params: u32,
    plan: &mut Plan<'_>,
) -> Result<Option<Vec<u8>>, Unsplittable> {
    let bytes = body.as_bytes();
    let begin = body.range().start;
    let mut written = Vec::new();
    let mut copied = 0;
    let mut length = None;
    // The local that holds the length, once one is needed.
    let mut local = None;
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let (operator, at) = operators.read_with_offset()?;
        if let Some(bulk) = Bulk::of(&operator) {
            if let Some(cut) = plan.cut(bulk, length)? {
                let local = match local {
                    Some(local) => local,
                    None => *local.insert(declare_local(body, params, &mut written, &mut copied)?),
                };
                written.extend_from_slice(&bytes[copied..at - begin]);
                copied = at - begin;
                let mut sink = InstructionSink::new(&mut written);
                sink.local_tee(local).local_get(local);
                piece_const(&mut sink, cut.piece).i32_gt_u();
                sink.if_(BlockType::FunctionType(cut.ty)).call(cut.function).end();
            }
        } else {
            Plan::refuse_array(&operator)?;
        }
        // A constant right before an instruction is its length: no label stands in between.
        length = match operator {
            Operator::I32Const { value } => Some(value.cast_unsigned()),
            _ => None,
        };
    }
    operators.finish()?;
    if local.is_none() {
        return Ok(None);
    }
    written.extend_from_slice(&bytes[copied..]);
    Ok(Some(written))
}

/// Writes the declarations of the locals with one more, and says which that is.
fn declare_local(
    body: &FunctionBody<'_>,
    params: u32,
    written: &mut Vec<u8>,
    copied: &mut usize,
) -> Result<u32, Unsplittable> {
    let begin = body.range().start;
    let mut locals = body.get_locals_reader()?;
    let groups = locals.get_count();
    let groups_at = locals.original_position() - begin;
    let mut count = u64::from(params);
    for _ in 0..groups {
        count += u64::from(locals.read()?.0);
    }
    let local = u32::try_from(count).ok().filter(|local| *local < u32::MAX);
    let (Some(local), Some(groups)) = (local, groups.checked_add(1)) else {
        return Err(Unsplittable::Malformed { what: "too many locals".to_owned(), at: begin });
    };
    groups.encode(written);
    *copied = locals.original_position() - begin;
    written.extend_from_slice(&body.as_bytes()[groups_at..*copied]);
    1_u32.encode(written);
    ValType::I32.encode(written);
    Ok(local)
}
