//! Command traces as text.
//!
//! ```text
//! # cycle command channel rank group bank row column
//! 12 activate 0 0 1 2 4711 0
//! 29 read 0 0 1 2 4711 17
//! ```
//!
//! One command per line, with fields separated by blanks, in the order of time within each channel.
//! The names of the commands are those of [`CommandKind::name`]. Lines that begin with `#` and
//! empty lines are ignored.

use std::io::{self, BufRead, Read, Write};

use memweir_core::Cycles;
use memweir_core::input::InputError;
use memweir_core::names::Named;

use crate::command::{BankAddress, Command, CommandKind};

use super::Checker;

/// Longest line; a file with a longer one is no command trace.
const LONGEST: u64 = 4096;

/// The fields of a line.
const FIELDS: [&str; 8] = ["cycle", "command", "channel", "rank", "group", "bank", "row", "column"];

/// Writes commands. It keeps the first error of the output and writes nothing after it.
#[derive(Debug)]
pub struct CommandWriter<W> {
    output: W,
    error: Option<io::Error>,
}

impl<W: Write> CommandWriter<W> {
    /// Creates a writer to `output`, which should be buffered.
    pub fn new(output: W) -> Self {
        let mut writer = Self { output, error: None };
        let heading = writeln!(writer.output, "# {}", FIELDS.join(" "));
        writer.error = heading.err();
        writer
    }

    /// Writes the next command.
    pub fn write(&mut self, command: &Command) {
        if self.error.is_some() {
            return;
        }
        let Command { at, kind, to, row, column } = command;
        let BankAddress { channel, rank, group, bank } = to;
        let (at, name) = (at.0, kind.name());
        let line =
            writeln!(self.output, "{at} {name} {channel} {rank} {group} {bank} {row} {column}");
        self.error = line.err();
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.output.flush().map(|()| self.output),
        }
    }
}

/// Reads commands line by line.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    name: String,
    line: usize,
    text: String,
    taken: u64,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader of `input`, which messages call `name`.
    pub fn new(name: impl Into<String>, input: R) -> Self {
        Self { input, name: name.into(), line: 0, text: String::new(), taken: 0 }
    }

    /// Returns the number of bytes read so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn refuse(&self, field: &str, reason: impl Into<String>) -> InputError {
        InputError::new(self.name.as_str(), reason).line(self.line).key(field)
    }

    fn command(&self) -> Result<Option<Command>, InputError> {
        let line = self.text.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let mut fields = [""; FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(FIELDS) {
            *field = words.next().ok_or_else(|| {
                self.refuse(name, "is missing").help(format!("a line is `{}`", FIELDS.join(" ")))
            })?;
        }
        if let Some(word) = words.next() {
            let error = self.refuse("column", format!("`{word}` follows the last field"));
            return Err(error.help(format!("a line is `{}`", FIELDS.join(" "))));
        }
        let kind = CommandKind::named(fields[1])
            .map_err(|refusal| refusal.placed(|reason| self.refuse("command", reason)))?;
        let number = |field: usize, most: u64| self.number(FIELDS[field], fields[field], most);
        let (short, long) = (u64::from(u16::MAX), u64::from(u32::MAX));
        Ok(Some(Command {
            at: Cycles(number(0, Checker::LAST_CYCLE.0)?),
            kind,
            to: BankAddress {
                channel: number(2, short)? as u16,
                rank: number(3, short)? as u16,
                group: number(4, short)? as u16,
                bank: number(5, short)? as u16,
            },
            row: number(6, long)? as u32,
            column: number(7, long)? as u32,
        }))
    }

    fn number(&self, name: &str, field: &str, most: u64) -> Result<u64, InputError> {
        match field.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => {
                let error = self.refuse(name, format!("`{field}` is no number of this field"));
                Err(error.help(format!("a whole number up to {most}")))
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Command, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.text.clear();
            self.line += 1;
            match self.input.by_ref().take(LONGEST).read_line(&mut self.text) {
                Ok(0) => return None,
                Ok(bytes) if bytes as u64 == LONGEST => {
                    return Some(Err(self.refuse("line", "is too long for a command")));
                }
                Ok(bytes) => self.taken += bytes as u64,
                Err(error) => {
                    let error = InputError::new(self.name.as_str(), error.to_string());
                    return Some(Err(error.line(self.line)));
                }
            }
            if let Some(result) = self.command().transpose() {
                return Some(result);
            }
        }
    }
}
