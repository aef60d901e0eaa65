//! The text formats, one or two accesses per line. Blank lines and lines that begin with `#` are
//! skipped; lines may end as in DOS.

use memweir_core::Direction;
use memweir_core::input::InputError;
use memweir_core::names::Named;

use super::bytes::Bytes;
use super::fields::{Base, FieldError, Fields, number, shown};
use super::tools::{self, Instructions};
use super::{Access, Format, ThreadId};

/// Lines that are decoded at once.
const BATCH: usize = 4096;
/// Longest line of a trace; a file with a longer one is no trace.
const LONGEST: usize = 64 << 10;

pub(super) struct Decoder {
    format: Format,
    /// Lines read before the current batch.
    lines_before: usize,
    /// For each access of the batch its line within the batch, counted from one.
    line_of: Vec<u32>,
    lines: usize,
    instructions: Instructions,
}

impl Decoder {
    pub(super) fn new(format: Format) -> Self {
        let instructions = Instructions::default();
        Self { format, lines_before: 0, line_of: Vec::new(), lines: 0, instructions }
    }

    /// Returns the line of the `count`th access of the batch.
    pub(super) fn line_of(&self, count: usize) -> usize {
        let within = count.checked_sub(1).and_then(|i| self.line_of.get(i)).copied();
        self.lines_before + within.unwrap_or(0) as usize
    }

    pub(super) fn decode(
        &mut self,
        bytes: &mut Bytes,
        batch: &mut Vec<Access>,
    ) -> Result<bool, InputError> {
        self.lines_before += std::mem::take(&mut self.lines);
        self.line_of.clear();
        while self.lines < BATCH {
            let rest = bytes.rest();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                if self.lines > 0 {
                    return Ok(true);
                }
                if rest.len() > LONGEST {
                    return Err(self.refuse(bytes, &FieldError::new("line", TOO_LONG)));
                }
                if bytes.fill()? {
                    continue;
                }
                return self.last(bytes, batch);
            };
            let parsed = self.line(&bytes.rest()[..end], batch);
            bytes.take(end + 1);
            parsed.map_err(|error| self.refuse(bytes, &error))?;
        }
        Ok(true)
    }

    /// Decodes the last line, if it does not end in a line feed.
    fn last(&mut self, bytes: &mut Bytes, batch: &mut Vec<Access>) -> Result<bool, InputError> {
        let end = bytes.rest().len();
        let parsed = self.line(&bytes.rest()[..end], batch);
        bytes.take(end);
        parsed.map_err(|error| self.refuse(bytes, &error))?;
        Ok(false)
    }

    /// Decodes a line; a wrong line yields no access.
    #[inline]
    fn line(&mut self, line: &[u8], batch: &mut Vec<Access>) -> Result<(), FieldError> {
        self.lines += 1;
        let before = batch.len();
        let parsed = self.fields(line, batch);
        if parsed.is_err() {
            batch.truncate(before);
        }
        self.line_of.resize(batch.len(), self.lines as u32);
        parsed
    }

    #[inline]
    fn fields(&mut self, line: &[u8], batch: &mut Vec<Access>) -> Result<(), FieldError> {
        let mut fields = Fields::new(line);
        let mut ahead = fields;
        if let None | Some([b'#', ..]) = ahead.next() {
            return Ok(());
        }
        match self.format {
            Format::Ramulator2 => batch.push(ramulator2(&mut fields)?),
            Format::Ramulator1 => batch.push(ramulator1(&mut fields)?),
            Format::Dramsim3 => batch.push(dramsim3(&mut fields)?),
            Format::Lackey => self.instructions.lackey(&mut fields, batch)?,
            Format::Drmemtrace => return self.instructions.drmemtrace(&mut fields, batch),
            _ => simple_o3(&mut fields, batch)?,
        }
        fields.end()
    }

    fn refuse(&self, bytes: &Bytes, error: &FieldError) -> InputError {
        let line = self.lines_before + self.lines.max(1);
        let (name, example) = (self.format.name(), self.format.form());
        bytes
            .refuse(&error.reason)
            .line(line)
            .key(error.field)
            .help(format!("a line in the format `{name}` reads {example}"))
    }
}

const TOO_LONG: &str = "is longer than 64 KiB: this is no text trace";

fn access(address: u64, direction: Direction) -> Access {
    Access { address, gap: 0, thread: ThreadId::default(), direction }
}

#[inline]
fn ramulator2(fields: &mut Fields<'_>) -> Result<Access, FieldError> {
    let direction = match fields.require("operation")? {
        b"LD" | b"R" => Direction::Read,
        b"ST" | b"W" => Direction::Write,
        other => return Err(operation(other, "LD or ST")),
    };
    Ok(access(number(fields.require("address")?, Base::Decimal, "address")?, direction))
}

#[inline]
fn ramulator1(fields: &mut Fields<'_>) -> Result<Access, FieldError> {
    let address = number(fields.require("address")?, Base::Decimal, "address")?;
    let direction = match fields.require("operation")? {
        b"R" => Direction::Read,
        b"W" => Direction::Write,
        other => return Err(operation(other, "R or W")),
    };
    Ok(access(address, direction))
}

#[inline]
fn dramsim3(fields: &mut Fields<'_>) -> Result<Access, FieldError> {
    let address = number(fields.require("address")?, Base::Hexadecimal, "address")?;
    let given = fields.require("operation")?;
    let direction = dramsim3_direction(given).ok_or_else(|| operation(given, "READ or WRITE"))?;
    number(fields.require("cycle")?, Base::Decimal, "cycle")?;
    Ok(access(address, direction))
}

#[inline]
fn dramsim3_direction(operation: &[u8]) -> Option<Direction> {
    match operation {
        b"READ" | b"read" | b"P_MEM_RD" | b"P_FETCH" => Some(Direction::Read),
        b"WRITE" | b"write" | b"P_MEM_WR" | b"BOFF" => Some(Direction::Write),
        _ => None,
    }
}

#[inline]
fn simple_o3(fields: &mut Fields<'_>, batch: &mut Vec<Access>) -> Result<(), FieldError> {
    let bubbles = number(fields.require("bubbles")?, Base::Decimal, "bubbles")?;
    let read = number(fields.require("read address")?, Base::Decimal, "read address")?;
    let write = match fields.next() {
        Some(field) => Some(number(field, Base::Decimal, "write address")?),
        None => None,
    };
    batch.push(Access { gap: bubbles.saturating_add(1), ..access(read, Direction::Read) });
    batch.extend(write.map(|write| access(write, Direction::Write)));
    Ok(())
}

fn operation(given: &[u8], wanted: &str) -> FieldError {
    FieldError::new("operation", format!("`{}` is no operation: {wanted}", shown(given)))
}

/// Recognizes the text format by the first line with content.
pub(super) fn recognize(bytes: &Bytes) -> Result<Format, InputError> {
    let lines = bytes.rest().split(|byte| *byte == b'\n').enumerate();
    for (index, line) in lines {
        let whole = Fields::new(line);
        let fields: Vec<&[u8]> = whole.take(4).collect();
        let format = match fields.as_slice() {
            [] | [[b'#', ..], ..] => continue,
            _ if tools::is_lackey(whole) => Format::Lackey,
            _ if tools::is_record(whole) || tools::is_remark(whole) => Format::Drmemtrace,
            [b"LD" | b"ST" | b"R" | b"W", ..] => Format::Ramulator2,
            [_, b"R" | b"W", ..] => Format::Ramulator1,
            [_, operation, ..] if dramsim3_direction(operation).is_some() => Format::Dramsim3,
            [a, b] | [a, b, _] if [a, b].iter().all(|field| is_number(field)) => Format::SimpleO3,
            _ => {
                let known = |format: &Format| format!("{format} ({})", format.form());
                let names: Vec<String> = Format::ALL.iter().map(known).collect();
                return Err(bytes
                    .refuse(format!("`{}` is in no known trace format", shown(line)))
                    .line(index + 1)
                    .help(format!("known: {}", names.join("; "))));
            }
        };
        return Ok(format);
    }
    Err(bytes.refuse("the trace is empty: it holds no access"))
}

fn is_number(field: &[u8]) -> bool {
    number(field, Base::Decimal, "").is_ok()
}
