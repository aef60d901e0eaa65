//! The text of two tools that trace every instruction of a program: Valgrind's lackey, and the
//! `view` tool of DynamoRIO's drmemtrace.
//!
//! Both print a line for an instruction and one for each of its accesses. An access that straddles
//! two lines of memory is two accesses.

use std::collections::HashMap;

use memweir_core::Direction;

use super::fields::{Base, FieldError, Fields, number, shown};
use super::{Access, LINE, ThreadId};

/// Largest access of an instruction, in bytes: the state of a processor's extensions (XSAVE) is
/// smaller.
const LARGEST: u64 = 1 << 16;

/// Instructions of each thread since its last access.
#[derive(Default)]
pub(super) struct Instructions {
    of_thread: HashMap<u32, Course>,
    /// The thread of the last line, and its course, which `of_thread` lacks.
    current: (u32, Course),
}

/// The course of a thread.
#[derive(Clone, Copy, Default)]
struct Course {
    gap: u64,
    /// Number that the tool gave its last instruction.
    number: Option<u64>,
}

impl Course {
    fn step(&mut self) {
        self.gap = self.gap.saturating_add(1);
    }
}

impl Instructions {
    fn turn_to(&mut self, thread: u32) {
        if self.current.0 != thread {
            let (before, course) = self.current;
            self.of_thread.insert(before, course);
            self.current = (thread, self.of_thread.remove(&thread).unwrap_or_default());
        }
    }

    /// Adds an access of the current thread, line by line.
    fn access(
        &mut self,
        (address, size): (u64, u64),
        direction: Direction,
        batch: &mut Vec<Access>,
    ) -> Result<(), FieldError> {
        if !(1..=LARGEST).contains(&size) {
            return Err(FieldError::new("size", format!("{size} is no size of an access")));
        }
        let Some(last) = address.checked_add(size - 1) else {
            return Err(FieldError::new("address", format!("{address:#x} ends beyond 64 bits")));
        };
        let thread = ThreadId { process: 0, thread: self.current.0 };
        for line in address / LINE..=last / LINE {
            let address = address.max(line * LINE);
            let gap = std::mem::take(&mut self.current.1.gap);
            batch.push(Access { address, gap, thread, direction });
        }
        Ok(())
    }

    /// Decodes a line of `valgrind --tool=lackey --trace-mem=yes`.
    pub(super) fn lackey(
        &mut self,
        fields: &mut Fields<'_>,
        batch: &mut Vec<Access>,
    ) -> Result<(), FieldError> {
        let operation = fields.require("operation")?;
        if is_message(operation) {
            fields.by_ref().for_each(drop);
            return Ok(());
        }
        if !matches!(operation, b"I" | b"L" | b"S" | b"M") {
            let reason = format!("`{}` is no operation: I, L, S or M", shown(operation));
            return Err(FieldError::new("operation", reason));
        }
        let place = place(fields.require("address")?)?;
        match operation {
            b"I" => self.current.1.step(),
            b"L" => self.access(place, Direction::Read, batch)?,
            b"S" => self.access(place, Direction::Write, batch)?,
            _ => {
                self.access(place, Direction::Read, batch)?;
                self.access(place, Direction::Write, batch)?;
            }
        }
        Ok(())
    }

    /// Decodes a line of drmemtrace's `view` tool: record number, instruction number, a colon,
    /// thread, kind, and for an access size and address. Before version 5 of its traces the tool
    /// gave no instruction number.
    ///
    /// The iterations of a string instruction are fetches with the number of the first, and are one
    /// instruction. Whatever follows the fields is not read.
    pub(super) fn drmemtrace(
        &mut self,
        fields: &mut Fields<'_>,
        batch: &mut Vec<Access>,
    ) -> Result<(), FieldError> {
        if !is_record(*fields) {
            return match is_remark(*fields) {
                true => Ok(()),
                false => Err(FieldError::new("record", "is no line of the `view` tool")),
            };
        }
        let instruction = match fields.next() {
            Some([.., b':']) => None,
            _ => {
                let [digits @ .., _] = fields.require("instruction")? else { return Ok(()) };
                Some(number(digits, Base::Decimal, "instruction")?)
            }
        };
        let thread = thread(fields.require("thread")?)?;
        let direction = match fields.require("kind")? {
            b"ifetch" => None,
            b"read" => Some(Direction::Read),
            b"write" => Some(Direction::Write),
            // Markers, prefetches, flushes and the rest of a long instruction's bytes.
            _ => return Ok(()),
        };
        self.turn_to(thread);
        match direction {
            None => {
                let course = &mut self.current.1;
                if instruction.is_none() || instruction != course.number {
                    course.step();
                }
                course.number = instruction;
            }
            Some(direction) => {
                let size = number(fields.require("size")?, Base::Decimal, "size")?;
                if fields.next() != Some(b"byte(s)") || fields.next() != Some(b"@") {
                    return Err(FieldError::new("size", "is not followed by `byte(s) @`"));
                }
                let address = number(fields.require("address")?, Base::Hexadecimal, "address")?;
                self.access((address, size), direction, batch)?;
            }
        }
        Ok(())
    }
}

/// Returns true if the first field of a line marks a message of Valgrind.
fn is_message(field: &[u8]) -> bool {
    [b"==", b"--", b"**"].iter().any(|mark| field.starts_with(*mark))
}

/// Parses address and size, such as `1fff000748,8`.
fn place(field: &[u8]) -> Result<(u64, u64), FieldError> {
    let Some(comma) = field.iter().position(|byte| *byte == b',') else {
        let reason = format!("`{}` is not followed by a comma and a size", shown(field));
        return Err(FieldError::new("address", reason));
    };
    let address = number(&field[..comma], Base::Hexadecimal, "address")?;
    Ok((address, number(&field[comma + 1..], Base::Decimal, "size")?))
}

/// Parses a thread: `2765542`, `T2765542` or `W0.T2765542`.
fn thread(field: &[u8]) -> Result<u32, FieldError> {
    let digits = match field.iter().position(|byte| *byte == b'T') {
        Some(mark) => &field[mark + 1..],
        None => field,
    };
    let thread = number(digits, Base::Decimal, "thread")?;
    u32::try_from(thread).map_err(|_| FieldError::new("thread", "does not fit into 32 bits"))
}

/// Returns true if a line is a record of drmemtrace's `view` tool.
pub(super) fn is_record(mut line: Fields<'_>) -> bool {
    let digits = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let numbered = |field: &[u8]| field.strip_suffix(b":").is_some_and(digits);
    match line.next() {
        Some(record) if digits(record) => line.next().is_some_and(numbered),
        Some(record) => numbered(record),
        None => false,
    }
}

/// Returns true if a line is a heading, the summary, or a marker without a thread of drmemtrace's
/// `view` tool.
pub(super) fn is_remark(mut line: Fields<'_>) -> bool {
    match (line.next(), line.next()) {
        (Some(b"Output"), Some(b"format:")) | (Some(b"View"), Some(b"tool")) => true,
        (Some(_), Some(b":")) => true,
        (Some(heading), _) => [&b"<--record"[..], b"<record#>", b"<marker:", b"---"]
            .iter()
            .any(|s| heading.starts_with(s)),
        _ => false,
    }
}

/// Returns true if a line is one of lackey.
pub(super) fn is_lackey(mut line: Fields<'_>) -> bool {
    match (line.next(), line.next()) {
        (Some([b'=', b'=', digit, ..]), Some(_)) => digit.is_ascii_digit(),
        (Some(b"I" | b"L" | b"S" | b"M"), Some(field)) => place(field).is_ok(),
        _ => false,
    }
}
