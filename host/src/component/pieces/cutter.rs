//! The function that does all but the last piece of a bulk instruction.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::bulk::{Bulk, Operands, Source};
use super::facts::{Space, SpaceKind};

const TO: u32 = 0;
/// The value, or where to read.
const SECOND: u32 = 1;
const LENGTH: u32 = 2;

/// What a cutter takes, and gives back.
pub(super) fn signature(operands: &Operands) -> [ValType; 3] {
    [ValType::I32, operands.second, ValType::I32]
}

/// The body. It is called only with a length of more than a piece.
pub(super) fn cutter(bulk: Bulk, operands: &Operands) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    sink.block(BlockType::Empty);
    // Out of bounds: the instruction shall trap, having written nothing.
    leave_if_beyond(&mut sink, TO, |sink| size(sink, operands.to));
    match operands.from {
        Source::Value => {}
        Source::Space(from) => leave_if_beyond(&mut sink, SECOND, |sink| size(sink, from)),
        // If it was dropped, the first piece traps.
        Source::Segment { length } => leave_if_beyond(&mut sink, SECOND, |sink| {
            sink.i64_const(i64::from(length));
        }),
    }
    if let Source::Space(_) = operands.from {
        // Whatever is read must not have been overwritten before. Two imported memories may be one and the same, so that
        // the same rule holds for all.
        sink.local_get(TO).local_get(SECOND).i32_gt_u().if_(BlockType::Empty);
        from_the_end(&mut sink, bulk, operands.piece);
        sink.br(1).end();
    }
    from_the_beginning(&mut sink, bulk, operands);
    sink.end();
    sink.local_get(TO).local_get(SECOND).local_get(LENGTH).end();
    function
}

fn from_the_beginning(sink: &mut InstructionSink<'_>, bulk: Bulk, operands: &Operands) {
    let piece = operands.piece;
    sink.loop_(BlockType::Empty);
    piece_const(sink.local_get(TO).local_get(SECOND), piece);
    bulk.write(sink);
    piece_const(sink.local_get(TO), piece).i32_add().local_set(TO);
    if operands.from != Source::Value {
        piece_const(sink.local_get(SECOND), piece).i32_add().local_set(SECOND);
    }
    piece_const(sink.local_get(LENGTH), piece).i32_sub().local_tee(LENGTH);
    again_if_long(sink, piece);
}

/// Leaves what lies at the beginning, so that places stay as they are.
fn from_the_end(sink: &mut InstructionSink<'_>, bulk: Bulk, piece: u32) {
    sink.loop_(BlockType::Empty);
    piece_const(sink.local_get(TO).local_get(LENGTH), piece).i32_sub().local_tee(LENGTH).i32_add();
    piece_const(sink.local_get(SECOND).local_get(LENGTH).i32_add(), piece);
    bulk.write(sink);
    sink.local_get(LENGTH);
    again_if_long(sink, piece);
}

/// Ends the loop. The engine looks at the epoch when it goes round.
fn again_if_long(sink: &mut InstructionSink<'_>, piece: u32) {
    piece_const(sink, piece).i32_gt_u().br_if(0).end();
}

/// Out of the enclosing block if what begins at `place` ends behind `end`.
fn leave_if_beyond(sink: &mut InstructionSink<'_>, place: u32, end: impl FnOnce(&mut InstructionSink<'_>)) {
    sink.local_get(place).i64_extend_i32_u().local_get(LENGTH).i64_extend_i32_u().i64_add();
    end(sink);
    sink.i64_gt_u().br_if(0);
}

/// In bytes or elements.
fn size(sink: &mut InstructionSink<'_>, space: Space) {
    match space.kind {
        SpaceKind::Memory { page_size_log2 } => {
            sink.memory_size(space.index).i64_extend_i32_u().i64_const(i64::from(page_size_log2)).i64_shl()
        }
        SpaceKind::Table => sink.table_size(space.index).i64_extend_i32_u(),
    };
}

pub(super) fn piece_const<'a, 'b>(sink: &'a mut InstructionSink<'b>, piece: u32) -> &'a mut InstructionSink<'b> {
    sink.i32_const(piece.cast_signed())
}
