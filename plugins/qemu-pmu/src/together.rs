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
//! Only clear cases are moved: instructions with one access of a plain kind. Every other
//! instruction keeps its own callback.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use crate::helpers::may_access_memory;

/// Bytes of a line.
const LINE: u64 = 64;

/// Most accesses that one callback serves: the capacity of a [`Group`].
const MEMBERS: usize = 6;

/// Widest access of the emulator in bytes; larger operands take several accesses.
const WIDTH: usize = 8;

/// Position of the first member's distance and kind in a [`Group`], and bits per member.
const MEMBERS_SHIFT: u32 = 17;
const MEMBER_BITS: u32 = 7;

/// Set in a [`Group`] of both loads and stores.
const MIXED: u64 = 1 << 63;

/// The accesses that a callback serves, in one word that the emulator passes on: the distance of
/// the lowest access below the callback's own address, the offsets of the lowest in its line for
/// which all are on one line, a flag for stores, and each access's distance from the lowest and its
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(u64);

impl Group {
    /// Builds the group of accesses at these addresses, relative to each other; the last is the
    /// callback's own. They are at most [`MEMBERS`] and less than a line apart.
    fn new(members: &[Access]) -> Self {
        let lowest = members.iter().map(|access| access.distance).min().unwrap_or(0);
        let above = |access: &Access| (access.distance - lowest) as u64;
        let highest = members.iter().map(above).max().unwrap_or(0);
        let last = members.last().map_or(0, above);
        let mut word = last | (LINE - highest) << 8;
        for number in 0..MEMBERS {
            // A missing member repeats the last one, which changes nothing.
            let Some(access) = members.get(number).or(members.last()) else { break };
            let member = above(access) << 1 | u64::from(access.is_store);
            word |= member << (MEMBERS_SHIFT + MEMBER_BITS * number as u32);
            word |= u64::from(access.is_store) << 16;
        }
        let is_mixed = members.iter().any(|a| a.is_store) && !members.iter().all(|a| a.is_store);
        Self(word | if is_mixed { MIXED } else { 0 })
    }

    /// Returns the word in which the emulator keeps the group.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Restores a group from its [`word`](Self::word).
    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns true if all are on the line of the callback's own `address`.
    #[inline(always)]
    pub(crate) fn is_on_one_line(self, address: u64) -> bool {
        let lowest = (address as u8 % LINE as u8).wrapping_sub(self.0 as u8);
        lowest < (self.0 >> 8) as u8
    }

    /// Returns one if any access is a store, otherwise zero.
    #[inline(always)]
    pub(crate) fn stores(self) -> u64 {
        self.0 >> 16 & 1
    }

    /// For accesses on two lines, returns an address on each line, the callback's own last, and for
    /// each line one if there is a store on it, otherwise zero.
    #[inline(always)]
    pub(crate) fn on_two_lines(self, address: u64) -> [(u64, u64); 2] {
        let lowest = address.wrapping_sub(self.0 & 0xff);
        let upper = (lowest | (LINE - 1)) + 1;
        let mut stores = [self.stores(); 2];
        if self.0 & MIXED != 0 {
            stores = [0, 0];
            for number in 0..MEMBERS as u32 {
                let member = self.0 >> (MEMBERS_SHIFT + MEMBER_BITS * number);
                let is_upper = lowest + (member >> 1 & (LINE - 1)) >= upper;
                stores[usize::from(is_upper)] |= member & 1;
            }
        }
        let (lower, upper) = ((lowest, stores[0]), (upper, stores[1]));
        if address < upper.0 { [upper, lower] } else { [lower, upper] }
    }
}

/// Callback that serves an instruction's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Its own callback.
    Alone,
    /// Its own callback, for an operand that the emulator accesses in several pieces.
    Pieces,
    /// The callback of a later instruction.
    Later,
    /// Its own callback, which also serves earlier accesses.
    Together(Group),
}

/// One access, at a distance from an unknown address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    instruction: usize,
    distance: i64,
    is_store: bool,
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
        if info.used_memory().iter().any(|memory| memory.memory_size().size() > WIDTH) {
            looks[number] = Look::Pieces;
        }
        values.execute(&instruction, info.used_registers());
    }
    for (_, group) in groups.iter().filter(|(_, group)| group.len() > 1) {
        for access in group {
            looks[access.instruction] = Look::Later;
        }
        let last = group[group.len() - 1].instruction;
        looks[last] = Look::Together(Group::new(group));
    }
    looks
}

/// Returns true if a group can take another access.
fn fits(origin: Origin, group: &[Access], access: &Access) -> bool {
    let distances = group.iter().chain([access]).map(|access| access.distance);
    let (low, high) = distances.fold((i64::MAX, i64::MIN), |(l, h), d| (l.min(d), h.max(d)));
    let is_absolute = (origin.0, origin.1) == (None, None) && origin.3 == Register::None;
    let near = match is_absolute {
        true => low.div_euclid(LINE as i64) == high.div_euclid(LINE as i64),
        false => high.wrapping_sub(low) < LINE as i64,
    };
    group.len() < MEMBERS && near
}

/// Returns the access of an instruction that has exactly one, of a plain kind.
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
    if !is_plain(instruction.mnemonic())
        || instruction.has_lock_prefix()
        || memory.memory_size().size() > WIDTH
        || may_access_memory(bytes)
    {
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
    Some(((base, index, scale, segment), Access { instruction: number, distance, is_store }))
}

/// Returns true if translated code always accesses the memory operand of such an instruction, once,
/// or twice at the same address.
fn is_plain(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Movd
            | M::Movq
            | M::Movss
            | M::Movsd
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
    )
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
