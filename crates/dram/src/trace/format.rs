//! The trace formats and their recognition.

use std::path::Path;

use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;

use super::bytes::Bytes;
use super::{compact, text};

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
}

impl Format {
    /// All formats with their names and the form of an access.
    pub const ALL: [(&'static str, Self, &'static str); 6] = [
        ("memweir", Self::Memweir, "compressed, with threads and instruction gaps"),
        ("bin", Self::Binary, "8 bytes little endian: address | is_write"),
        ("ramulator2", Self::Ramulator2, "LD 0x1a40 | ST 0x1a40"),
        ("ramulator1", Self::Ramulator1, "0x1a40 R | 0x1a40 W"),
        ("dramsim3", Self::Dramsim3, "0x1a40 READ 120 | 0x1a40 WRITE 120"),
        ("simple-o3", Self::SimpleO3, "10 0x1a40 | 10 0x1a40 0x2b80"),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format, _)| *format == self).map_or("", |(name, _, _)| name)
    }

    /// Returns the format that a file's ending implies: `.mwt` and `.bin` are binary; text formats
    /// are recognized by their content.
    #[must_use]
    pub fn of_ending(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "mwt" => Some(Self::Memweir),
            "bin" => Some(Self::Binary),
            _ => None,
        }
    }
}

impl std::str::FromStr for Format {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Self, Refusal> {
        let known = Self::ALL.iter().find(|(known, _, _)| *known == name);
        known.map(|(_, format, _)| *format).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _, _)| name);
            Refusal::new(format!("unknown trace format `{name}`"), suggestion(name, names))
        })
    }
}

/// Recognizes the format from the first bytes. Content takes precedence over the file's ending.
pub(super) fn recognize(bytes: &Bytes, ending: Option<Format>) -> Result<Format, InputError> {
    let start = bytes.rest();
    if start.starts_with(&compact::MAGIC) {
        return Ok(Format::Memweir);
    }
    match ending {
        Some(Format::Memweir) => {
            return Err(bytes.refuse("is no trace of memweir: it does not begin like one"));
        }
        Some(ending) => return Ok(ending),
        None => {}
    }
    // An address below 2^56 has a zero byte, and a text has none.
    if start[..start.len().min(64)].contains(&0) {
        return Ok(Format::Binary);
    }
    text::recognize(bytes)
}
