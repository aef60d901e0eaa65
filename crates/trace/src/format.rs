//! The trace formats and their recognition.

use std::path::Path;

use memweir_core::input::InputError;

use super::bytes::Bytes;
use super::{AddressSpace, Header, Side, compact, compressed, text};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// memweir's own: compressed, with threads and instruction gaps.
    Memweir,
    /// Eight bytes little endian per access: byte address, lowest bit set for a write.
    Binary,
    /// Ramulator 2: `LD 0x1a40` and `ST 0x1a40`; `R`, `W` and decimal addresses are accepted, too.
    Ramulator2,
    /// Ramulator 1: `0x1a40 R` and `0x1a40 W`.
    Ramulator1,
    /// DRAMsim3: `0x1a40 READ 120` and `0x1a40 WRITE 120`; addresses may be hexadecimal without
    /// `0x`. The cycle is checked and not used: `pace` sets the times of requests.
    Dramsim3,
    /// Ramulator's cores: `BUBBLES READ` or `BUBBLES READ WRITE`, instructions between accesses and
    /// addresses. No instruction waits for the write.
    SimpleO3,
    /// ChampSim: a record of 64 bytes per instruction.
    ChampSim,
    /// Valgrind's lackey: `I  0401ab70,3`, ` L 1fff000748,8`, ` S` and ` M` (load and store).
    Lackey,
    /// Text of the `view` tool of DynamoRIO's drmemtrace.
    Drmemtrace,
}

memweir_core::named! {
    pub Format, "trace format":
    Memweir = "memweir",
    Binary = "bin",
    Ramulator2 = "ramulator2",
    Ramulator1 = "ramulator1",
    Dramsim3 = "dramsim3",
    SimpleO3 = "simple-o3",
    ChampSim = "champsim",
    Lackey = "lackey",
    Drmemtrace = "drmemtrace",
}

impl Format {
    /// Returns the form of an access.
    #[must_use]
    pub fn form(self) -> &'static str {
        match self {
            Self::Memweir => "compressed, with threads and instruction gaps",
            Self::Binary => "8 bytes little endian: address | is_write",
            Self::Ramulator2 => "LD 0x1a40 | ST 0x1a40",
            Self::Ramulator1 => "0x1a40 R | 0x1a40 W",
            Self::Dramsim3 => "0x1a40 READ 120 | 0x1a40 WRITE 120",
            Self::SimpleO3 => "10 0x1a40 | 10 0x1a40 0x2b80",
            Self::ChampSim => "64 bytes per instruction",
            Self::Lackey => "I  0401ab70,3 | L 1fff000748,8",
            Self::Drmemtrace => "17 9: T4711 read 8 byte(s) @ 0x7fdf64e2adc8",
        }
    }

    /// Returns true if [`Writer`](super::Writer) writes the format.
    #[must_use]
    pub fn is_writable(self) -> bool {
        !matches!(self, Self::Lackey | Self::Drmemtrace)
    }

    /// Returns true if accesses of several threads can be told apart.
    #[must_use]
    pub fn has_threads(self) -> bool {
        matches!(self, Self::Memweir | Self::Drmemtrace)
    }

    /// Returns the metadata that the format implies.
    #[must_use]
    pub fn header(self) -> Header {
        match self {
            Self::ChampSim | Self::Lackey | Self::Drmemtrace => {
                Header { addresses: AddressSpace::Virtual, side: Side::Core, ..Header::default() }
            }
            _ => Header::default(),
        }
    }

    /// Returns the format that a file's ending implies, apart from that of its compression: `.mwt`,
    /// `.bin`, `.champsim` and `.champsimtrace` are binary; text formats are recognized by their
    /// content.
    #[must_use]
    pub fn of_ending(path: &Path) -> Option<Self> {
        match compressed::bare(path).extension()?.to_str()? {
            "mwt" => Some(Self::Memweir),
            "bin" => Some(Self::Binary),
            "champsim" | "champsimtrace" => Some(Self::ChampSim),
            _ => None,
        }
    }
}

/// Recognizes the format from the first bytes. Content takes precedence over the file's ending.
pub(super) fn recognize(bytes: &Bytes, path: &Path) -> Result<Format, InputError> {
    let start = bytes.rest();
    if start.starts_with(&compact::MAGIC) {
        return Ok(Format::Memweir);
    }
    match Format::of_ending(path) {
        Some(Format::Memweir) => {
            return Err(bytes.refuse("is no trace of memweir: it does not begin like one"));
        }
        Some(ending) => return Ok(ending),
        None => {}
    }
    // An address below 2^56 has a zero byte, and a text has none.
    if start[..start.len().min(64)].contains(&0) {
        // Public archives of ChampSim's traces also name them `.trace.xz` and `.trace.gz`.
        let is_trace = compressed::bare(path).extension().is_some_and(|ending| ending == "trace");
        return Ok(if is_trace { Format::ChampSim } else { Format::Binary });
    }
    text::recognize(bytes)
}
