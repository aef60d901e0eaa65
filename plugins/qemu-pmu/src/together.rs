//! Accesses of a block that one callback serves.
//!
//! A callback costs about as much as the cache model behind it, and many accesses of a block are
//! close to each other: a function saves its registers, a structure's fields are read, one global
//! follows another. Within a block, every access whose address is a fixed distance from that of a
//! later one is left to the later one's callback, which simulates all of them: once if they are on
//! one line, otherwise once for each of the two lines.
//!
//! The last access keeps its callback because it decides the order in which lines were last used.
//! As a consequence, a miss can come a few instructions later, after other misses of its block.
//! That makes a difference only if both are in one set: for gzip, two first-level misses in a
//! million and no line more or less from memory.
//!
//! Accesses that are all loads, or all stores, go together as long as no line lies between them
//! that none of them touches; those of both kinds only within the length of a line, because it must
//! be known which of two lines was modified.
//!
//! Only clear cases are moved: instructions with one memory operand of a plain kind. Every other
//! instruction keeps its own callback.

mod words;

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use crate::helpers::may_access_memory;

pub(crate) use words::{Group, Operand, Span};

/// Bytes of a line.
const LINE: i64 = 64;

/// Widest access of the emulator in bytes; it accesses larger operands in pieces.
const PIECE: i64 = 8;

/// Callback that serves an instruction's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Its own callback.
    Alone,
    /// The callback of a later instruction.
    Later,
    /// Its own callback, which also serves earlier accesses; all are loads, or all are stores.
    Span(Span),
    /// Its own callback, which also serves earlier accesses of both kinds.
    Mixed(Group),
}

/// One access, at a distance from an unknown address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    instruction: usize,
    distance: i64,
    /// Size of the operand.
    bytes: i64,
    is_store: bool,
}

impl Access {
    /// Returns the distance of the last piece.
    fn end(&self) -> i64 {
        self.distance.wrapping_add((self.bytes - PIECE).max(0))
    }
}

/// Terms of an address apart from the distance: the values of two registers, the scale, and the
/// segment. Absolute addresses have no register.
type Origin = (Option<u32>, Option<u32>, u32, Register);

/// Plans the callbacks for the accesses of each instruction of the block at `address`, given the
/// bytes of the instructions in order.
pub(crate) fn plan<'a>(
    address: u64,
    instructions: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<Look> {
    let mut looks = vec![Look::Alone; instructions.len()];
    let mut groups: Vec<(Origin, Vec<Access>)> = Vec::new();
    let mut values = Values::default();
    let mut factory = InstructionInfoFactory::new();
    let mut at = address;
    for (number, bytes) in instructions.enumerate() {
        let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        at += bytes.len() as u64;
        if instruction.is_invalid() || instruction.len() != bytes.len() {
            values = values.forgotten();
            continue;
        }
        let info = factory.info_options(&instruction, InstructionInfoOptions::NONE);
        if let Some((origin, access)) =
            plain_access(&instruction, bytes, info.used_memory(), &values, number)
        {
            let takes = |group: &&mut (Origin, Vec<Access>)| {
                group.0 == origin && fits(origin, &group.1, &access)
            };
            match groups.iter_mut().rev().find(takes) {
                Some((_, group)) => group.push(access),
                None => groups.push((origin, vec![access])),
            }
        }
        values.execute(&instruction, info.used_registers());
    }
    for (_, group) in &groups {
        let Some((last, earlier)) = group.split_last() else { continue };
        for access in earlier {
            looks[access.instruction] = Look::Later;
        }
        looks[last.instruction] = if !is_uniform(group) {
            Look::Mixed(Group::new(group))
        } else if earlier.is_empty() && last.bytes <= PIECE {
            Look::Alone
        } else {
            Look::Span(Span::new(group))
        };
    }
    looks
}

/// Returns true if the accesses are all loads, or all stores.
fn is_uniform(accesses: &[Access]) -> bool {
    accesses.iter().all(|access| access.is_store == accesses[0].is_store)
}

/// Returns true if a group can take another access.
fn fits(origin: Origin, group: &[Access], access: &Access) -> bool {
    let low = group.iter().map(|access| access.distance).min().unwrap_or(access.distance);
    let high = group.iter().map(Access::end).max().unwrap_or(access.distance);
    let (whole_low, whole_high) = (low.min(access.distance), high.max(access.end()));
    let length = whole_high.wrapping_sub(whole_low);
    let fits = if is_uniform(group) && access.is_store == group[0].is_store {
        // Between two addresses that are a line apart there is no other line.
        let is_near =
            access.distance.wrapping_sub(high) <= LINE && low.wrapping_sub(access.end()) <= LINE;
        is_near && (0..=Span::LONGEST).contains(&length)
    } else {
        let is_narrow = group.iter().chain([access]).all(|access| access.bytes <= PIECE);
        is_narrow && group.len() < Group::MEMBERS && (0..LINE).contains(&length)
    };
    // It is known which lines absolute addresses are on, so nothing is left to each execution.
    let is_absolute = (origin.0, origin.1) == (None, None) && origin.3 == Register::None;
    let is_one_line = whole_low.div_euclid(LINE) == whole_high.div_euclid(LINE);
    fits && (is_one_line || !is_absolute)
}

/// Returns the access of an instruction that has exactly one memory operand, of a plain kind.
fn plain_access(
    instruction: &Instruction,
    bytes: &[u8],
    memory: &[UsedMemory],
    values: &Values,
    number: usize,
) -> Option<(Origin, Access)> {
    let [memory] = memory else { return None };
    let is_store = match memory.access() {
        OpAccess::Read => false,
        OpAccess::Write | OpAccess::ReadWrite => true,
        _ => return None,
    };
    let size = memory.memory_size().size() as i64;
    let is_plain = if size <= PIECE { is_plain(instruction) } else { has_vector(instruction) };
    if !is_plain || instruction.has_lock_prefix() || may_access_memory(bytes) {
        return None;
    }
    let (base, base_distance) = values.of(memory.base())?;
    let (index, index_distance) = values.of(memory.index())?;
    let segment = match memory.segment() {
        segment @ (Register::FS | Register::GS) => segment,
        _ => Register::None,
    };
    let distance = base_distance
        .wrapping_add(index_distance.wrapping_mul(i64::from(memory.scale())))
        .wrapping_add(memory.displacement().cast_signed());
    let scale = if index.is_some() { memory.scale() } else { 1 };
    let access = Access { instruction: number, distance, bytes: size, is_store };
    Some(((base, index, scale, segment), access))
}

/// Returns true if translated code always accesses the memory operand of such an instruction, once,
/// or twice at the same address.
fn is_plain(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let is_listed = matches!(
        instruction.mnemonic(),
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Push
            | M::Pop
            | M::Call
            | M::Ret
            | M::Leave
            | M::Add
            | M::Adc
            | M::Sub
            | M::Sbb
            | M::And
            | M::Or
            | M::Xor
            | M::Cmp
            | M::Test
            | M::Inc
            | M::Dec
            | M::Neg
            | M::Not
            | M::Imul
    );
    is_listed || has_vector(instruction)
}

/// Returns true if an instruction has a vector register. With masks and gathers apart, which
/// `may_access_memory` finds, it accesses the whole of its operand, in ascending pieces.
fn has_vector(instruction: &Instruction) -> bool {
    instruction.op_kinds().enumerate().any(|(number, kind)| {
        let register = instruction.op_register(number as u32);
        kind == OpKind::Register && (register.is_xmm() || register.is_ymm())
    })
}

/// Known values of the general registers in the course of a block: each register holds a numbered
/// value plus a distance.
#[derive(Debug)]
struct Values {
    registers: [(u32, i64); 16],
    fresh: u32,
}

impl Default for Values {
    fn default() -> Self {
        Self { registers: std::array::from_fn(|register| (register as u32, 0)), fresh: 16 }
    }
}

impl Values {
    /// Returns the state after an instruction with unknown effects.
    fn forgotten(self) -> Self {
        let fresh = self.fresh;
        let registers = std::array::from_fn(|register| (fresh + register as u32, 0));
        Self { registers, fresh: fresh + 16 }
    }

    /// Returns the value and distance of a register in an address. The value is absent if there is
    /// no register; the result is `None` for a register that is not a whole general register.
    fn of(&self, register: Register) -> Option<(Option<u32>, i64)> {
        // The decoder has replaced the distance from the instruction pointer by the absolute
        // address.
        if register == Register::None || register == Register::RIP {
            return Some((None, 0));
        }
        let (value, distance) = self.registers[whole(register)?];
        Some((Some(value), distance))
    }

    /// Applies the effects of an instruction on the registers.
    fn execute(&mut self, instruction: &Instruction, used: &[iced_x86::UsedRegister]) {
        let known = self.result(instruction);
        for used in used {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            let register = used.register().full_register();
            if let Some(number) = whole(register).filter(|_| writes) {
                self.registers[number] = (self.fresh, 0);
                self.fresh += 1;
            }
        }
        if let Some((number, value)) = known {
            self.registers[number] = value;
        }
    }

    /// Returns the register that an instruction changes to a known value, with that value.
    fn result(&self, instruction: &Instruction) -> Option<(usize, (u32, i64))> {
        let stack = whole(Register::RSP)?;
        let (value, distance) = match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Call => self.registers[stack],
            // A pop into the stack pointer sets it to the popped value.
            Mnemonic::Pop if instruction.op0_register() != Register::RSP => self.registers[stack],
            Mnemonic::Ret if instruction.code() == Code::Retnq => self.registers[stack],
            _ => return self.sum(instruction),
        };
        let moved = i64::from(instruction.stack_pointer_increment());
        Some((stack, (value, distance.wrapping_add(moved))))
    }

    /// Does the same for additions of a constant, and for copies.
    fn sum(&self, instruction: &Instruction) -> Option<(usize, (u32, i64))> {
        let to = whole(instruction.op0_register())?;
        let is_constant = matches!(
            instruction.op1_kind(),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64
        );
        let (from, change) = match instruction.mnemonic() {
            Mnemonic::Add if is_constant => (to, instruction.immediate(1).cast_signed()),
            Mnemonic::Sub if is_constant => {
                (to, instruction.immediate(1).cast_signed().wrapping_neg())
            }
            Mnemonic::Inc => (to, 1),
            Mnemonic::Dec => (to, -1),
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                (whole(instruction.op1_register())?, 0)
            }
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                let displacement = instruction.memory_displacement64().cast_signed();
                (whole(instruction.memory_base())?, displacement)
            }
            _ => return None,
        };
        let (value, distance) = self.registers[from];
        Some((to, (value, distance.wrapping_add(change))))
    }
}

/// Returns the number of a whole general register.
fn whole(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

#[cfg(test)]
mod tests;
