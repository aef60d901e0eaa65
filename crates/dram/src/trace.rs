//! Traces of memory accesses: reading them one by one in constant memory, and writing them.
//!
//! Five foreign formats are read beside memweir's own (see [`Format`]). A trace says what a program
//! asked of memory; when it is asked again is the business of [`drive`](crate::drive), and what a
//! core makes of instruction gaps that of the simulator.

mod binary;
mod bytes;
mod compact;
mod fields;
mod format;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memweir_core::input::InputError;

use crate::request::Direction;
use bytes::Bytes;
pub use format::Format;
pub use write::Writer;

/// The line of every trace, in bytes.
pub const LINE: u64 = memweir_core::units::LINE_BYTES;

/// A thread of a traced program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Its process, as whoever recorded the trace counted them.
    pub process: u32,
    /// Its number within the process.
    pub thread: u32,
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Byte address.
    pub address: u64,
    /// Instructions of this thread since its access before, the one that makes this access
    /// included; zero for what no instruction waits for (a write-back), and in formats that do not
    /// say.
    pub gap: u64,
    /// Whose access.
    pub thread: ThreadId,
    /// Read or write.
    pub direction: Direction,
}

/// What the addresses of a trace are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSpace {
    /// The format does not say; they are used as addresses of the memory.
    #[default]
    Unknown,
    /// Addresses of the machine's memory.
    Physical,
    /// Addresses within the process that made the access.
    Virtual,
}

impl AddressSpace {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Physical => "physical",
            Self::Virtual => "virtual",
        }
    }
}

/// What a trace says of itself before its first access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What was recorded: a command, or where the trace comes from; may be empty.
    pub name: String,
    /// What the addresses are.
    pub addresses: AddressSpace,
}

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Instructions of all threads, up to each one's last access.
    pub instructions: u64,
}

impl Totals {
    /// Adds an access.
    pub fn add(&mut self, access: &Access) {
        match access.direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
        self.instructions = self.instructions.saturating_add(access.gap);
    }

    /// Reads and writes.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

/// A trace file that ends before its end block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Truncation {
    /// Accesses before the cut.
    pub accesses: u64,
    /// The accesses that are lost.
    pub loss: Loss,
}

/// The accesses that a truncated trace file has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// None: only the end block is incomplete.
    None,
    /// Perhaps some: the file ends between two blocks.
    Possible,
    /// At least those of one block.
    Certain,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accesses = self.accesses;
        match self.loss {
            Loss::None => {
                write!(
                    f,
                    "the file was cut within its end block; all {accesses} accesses are there"
                )
            }
            Loss::Possible => {
                write!(f, "the file has no end block; accesses after number {accesses} may be lost")
            }
            Loss::Certain => {
                write!(f, "the file was cut; the accesses after number {accesses} are lost")
            }
        }
    }
}

/// How far a file has been read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken so far.
    pub taken: u64,
    /// Bytes of the file; nothing for a pipe.
    pub size: Option<u64>,
}

/// A trace that is being read.
pub struct Trace {
    format: Format,
    header: Header,
    totals: Option<Totals>,
    bytes: Bytes,
    decoder: Decoder,
    /// Accesses that are decoded but not taken yet, from `next` on.
    batch: Vec<Access>,
    next: usize,
    /// Accesses decoded so far.
    decoded: u64,
    /// An error behind the accesses of the batch.
    error: Option<InputError>,
    ended: bool,
    size: Option<u64>,
}

enum Decoder {
    Compact(Box<compact::Decoder>),
    Binary,
    Text(text::Decoder),
}

impl Trace {
    /// Opens a file, or standard input for `-`. The format is recognized unless it is given.
    ///
    /// # Errors
    /// If the file cannot be read, is in no known format, or ends within its header.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let fail = |error: io::Error| InputError::new(name.clone(), error.to_string());
        if path.as_os_str() == "-" {
            return Self::read("standard input", Box::new(io::stdin()), format);
        }
        let mut file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        // Directories open, and say so only when they are read.
        let totals =
            if metadata.is_file() { compact::totals(&mut file).map_err(fail)? } else { None };
        if metadata.is_file() {
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
        }
        let by_ending = Format::of_ending(path);
        let mut trace = Self::start(&name, Box::new(file), format, by_ending)?;
        trace.size = metadata.is_file().then_some(metadata.len());
        trace.totals = totals.filter(|_| trace.format == Format::Memweir);
        Ok(trace)
    }

    /// Reads what `input` gives; `name` stands in messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(
        name: &str,
        input: Box<dyn Read + Send>,
        format: Option<Format>,
    ) -> Result<Self, InputError> {
        Self::start(name, input, format, None)
    }

    fn start(
        name: &str,
        input: Box<dyn Read + Send>,
        format: Option<Format>,
        by_ending: Option<Format>,
    ) -> Result<Self, InputError> {
        let mut bytes = Bytes::new(name, input);
        bytes.fill()?;
        let format = match format {
            Some(format) => format,
            None => format::recognize(&bytes, by_ending)?,
        };
        let (decoder, header) = match format {
            Format::Memweir => {
                let (decoder, header) = compact::Decoder::start(&mut bytes)?;
                (Decoder::Compact(Box::new(decoder)), header)
            }
            Format::Binary => (Decoder::Binary, Header::default()),
            text => (Decoder::Text(text::Decoder::new(text)), Header::default()),
        };
        Ok(Self {
            format,
            header,
            totals: None,
            bytes,
            decoder,
            batch: Vec::new(),
            next: 0,
            decoded: 0,
            error: None,
            ended: false,
            size: None,
        })
    }

    /// The next access; nothing behind the last.
    ///
    /// # Errors
    /// If what follows cannot be read or understood, or the trace ends without any access.
    #[inline]
    pub fn next_access(&mut self) -> Result<Option<Access>, InputError> {
        if self.next == self.batch.len() && !self.refill()? {
            return Ok(None);
        }
        let access = self.batch[self.next];
        self.next += 1;
        Ok(Some(access))
    }

    /// Decodes more; false at the end.
    fn refill(&mut self) -> Result<bool, InputError> {
        self.batch.clear();
        self.next = 0;
        if let Some(error) = self.error.take() {
            self.ended = true;
            return Err(error);
        }
        while self.batch.is_empty() && !self.ended {
            let more = match &mut self.decoder {
                Decoder::Compact(decoder) => decoder.decode(&mut self.bytes, &mut self.batch),
                Decoder::Binary => binary::decode(&mut self.bytes, &mut self.batch),
                Decoder::Text(decoder) => decoder.decode(&mut self.bytes, &mut self.batch),
            };
            self.decoded += self.batch.len() as u64;
            match more {
                Ok(more) => self.ended = !more,
                // What came before the error is served first.
                Err(error) if !self.batch.is_empty() => self.error = Some(error),
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        if self.decoded == 0 {
            return Err(self.empty());
        }
        Ok(!self.batch.is_empty())
    }

    fn empty(&self) -> InputError {
        let reason = match self.truncation() {
            Some(truncation) => format!("the trace holds no access: {truncation}"),
            None => "the trace is empty: it holds no access".to_owned(),
        };
        InputError::new(self.bytes.name(), reason)
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the trace says of itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file, as messages name it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bytes.name()
    }

    /// Sums over the whole trace, where its file has them at its end.
    #[must_use]
    pub fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// The truncation of the file, once its last access has been taken.
    #[must_use]
    pub fn truncation(&self) -> Option<Truncation> {
        match &self.decoder {
            Decoder::Compact(decoder) if self.ended => decoder.truncation(),
            _ => None,
        }
    }

    /// Refuses a trace that ended before its end block and may have lost accesses.
    ///
    /// # Errors
    /// Names the cut, and the way to a complete file.
    pub fn refuse_truncated(&self) -> Result<(), InputError> {
        match self.truncation() {
            Some(truncation) if truncation.loss != Loss::None => {
                Err(InputError::new(self.name(), truncation.to_string()).help(
                    "record it again, or keep what is there with `memweir dram convert IN OUT`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// How far the file has been read.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { taken: self.bytes.taken(), size: self.size }
    }

    /// A refusal of the access that was taken last, which is named by its line or its place.
    #[must_use]
    pub fn refuse(&self, reason: impl Into<String>) -> InputError {
        let error = InputError::new(self.bytes.name(), reason);
        let undelivered = (self.batch.len() - self.next) as u64;
        match &self.decoder {
            Decoder::Text(decoder) => error.line(decoder.line_of(self.next)).key("address"),
            _ => error.key(format!("access {}", self.decoded - undelivered)),
        }
    }
}
