//! Traces of memory accesses: readers that take constant memory, and a writer.
//!
//! Eight foreign formats are read beside memweir's own (see [`Format`]), compressed or not. A trace
//! lists the accesses of a program, before or behind its caches ([`Side`]).
//! The memory system that replays them decides when each one is made; the simulator decides what a
//! core does with the instruction gaps.

#![forbid(unsafe_code)]

mod binary;
mod bytes;
mod champsim;
mod compact;
mod compressed;
mod fields;
mod format;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod write;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memweir_core::Direction;
use memweir_core::input::InputError;

use bytes::Bytes;
pub use compressed::{decompressed, has_compressed_ending, is_compressed};
pub use format::Format;
pub use write::Writer;

/// Size of a line in every trace, in bytes.
pub const LINE: u64 = memweir_core::units::LINE_BYTES;

/// A thread of a traced program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Number of its process, assigned by the recorder of the trace.
    pub process: u32,
    /// Its number within the process.
    pub thread: u32,
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Byte address.
    pub address: u64,
    /// Instructions of this thread since its previous access, including the one that makes this
    /// access; zero for a further access of the same instruction, for accesses that no instruction
    /// waits for (write-backs) and in formats without gaps.
    pub gap: u64,
    /// The thread that made the access.
    pub thread: ThreadId,
    /// Read or write.
    pub direction: Direction,
}

/// Address space of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSpace {
    /// The format does not record it; addresses are used as memory addresses.
    #[default]
    Unknown,
    /// Physical addresses of the machine's memory.
    Physical,
    /// Virtual addresses of the process that made the access.
    Virtual,
}

memweir_core::named! {
    pub AddressSpace, "address space":
    Unknown = "unknown",
    Physical = "physical",
    Virtual = "virtual",
}

/// Side of the caches on which a trace was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Between the caches and memory: lines read and written back.
    #[default]
    Memory,
    /// Between the core and its caches: the loads and stores of instructions.
    Core,
}

/// Metadata that a trace stores before its first access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Origin of the trace: the recorded command, or another source; may be empty.
    pub name: String,
    /// Address space of the accesses.
    pub addresses: AddressSpace,
    /// Side of the caches on which it was taken.
    pub side: Side,
}

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Instructions of all threads, each counted up to its last access.
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

    /// Returns the number of reads and writes.
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

/// Position of the reader in a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub taken: u64,
    /// Size of the file in bytes; `None` for a pipe and for a compressed file.
    pub size: Option<u64>,
}

/// A trace that is being read.
pub struct Trace {
    format: Format,
    header: Header,
    totals: Option<Totals>,
    bytes: Bytes,
    decoder: Decoder,
    /// Decoded accesses; those from `next` on have not been returned yet.
    batch: Vec<Access>,
    next: usize,
    /// Accesses decoded so far.
    decoded: u64,
    /// An error that follows the accesses of the batch.
    error: Option<InputError>,
    ended: bool,
    size: Option<u64>,
    compressed: bool,
}

enum Decoder {
    Compact(Box<compact::Decoder>),
    Binary,
    ChampSim(champsim::Decoder),
    Text(text::Decoder),
}

impl Trace {
    /// Opens a file, or standard input for `-`. Without `format`, the format is recognized.
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
        // Directories can be opened; only a read of one fails.
        let totals =
            if metadata.is_file() { compact::totals(&mut file).map_err(fail)? } else { None };
        if metadata.is_file() {
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
        }
        let mut trace = Self::start(&name, Box::new(file), format, path)?;
        trace.size = (metadata.is_file() && !trace.compressed).then_some(metadata.len());
        trace.totals = totals.filter(|_| trace.format == Format::Memweir);
        Ok(trace)
    }

    /// Reads a trace from `input`; `name` appears in messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(
        name: &str,
        input: Box<dyn Read + Send>,
        format: Option<Format>,
    ) -> Result<Self, InputError> {
        Self::start(name, input, format, Path::new(""))
    }

    fn start(
        name: &str,
        input: Box<dyn Read + Send>,
        format: Option<Format>,
        path: &Path,
    ) -> Result<Self, InputError> {
        let opened = compressed::open(input)
            .map_err(|error| InputError::new(name.to_owned(), error.to_string()))?;
        let mut bytes = Bytes::new(name, opened.input);
        bytes.fill()?;
        let format = match format {
            Some(format) => format,
            None => format::recognize(&bytes, path)?,
        };
        let (decoder, header) = match format {
            Format::Memweir => {
                let (decoder, header) = compact::Decoder::start(&mut bytes)?;
                (Decoder::Compact(Box::new(decoder)), header)
            }
            Format::Binary => (Decoder::Binary, format.header()),
            Format::ChampSim => (Decoder::ChampSim(champsim::Decoder::default()), format.header()),
            text => (Decoder::Text(text::Decoder::new(text)), format.header()),
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
            compressed: opened.compressed,
        })
    }

    /// Returns the next access; `None` after the last.
    ///
    /// # Errors
    /// If the next bytes cannot be read or decoded, or if the trace ends without any access.
    #[inline]
    pub fn next_access(&mut self) -> Result<Option<Access>, InputError> {
        if self.next == self.batch.len() && !self.refill()? {
            return Ok(None);
        }
        let access = self.batch[self.next];
        self.next += 1;
        Ok(Some(access))
    }

    /// Decodes another batch; returns false at the end.
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
                Decoder::ChampSim(decoder) => decoder.decode(&mut self.bytes, &mut self.batch),
                Decoder::Text(decoder) => decoder.decode(&mut self.bytes, &mut self.batch),
            };
            self.decoded += self.batch.len() as u64;
            match more {
                Ok(more) => self.ended = !more,
                // Accesses before the error are returned first.
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

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the metadata of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the name of the file in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.bytes.name()
    }

    /// Returns the sums over the whole trace, if its file stores them at its end.
    #[must_use]
    pub fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// Returns the truncation of the file, once its last access has been returned.
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
    /// The error says where the file was cut and how to get a complete one.
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

    /// Returns the position of the reader in the file.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { taken: self.bytes.taken(), size: self.size }
    }

    /// Returns an error about the access that was returned last, identified by its line or its
    /// number.
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
