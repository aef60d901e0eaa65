//! Media of swap areas and the time of their faults, from data files like those of the media.

use std::fs;
use std::path::Path;

use memweir_core::input::{DataFile, Document, InputError, Section, Value};
use memweir_core::{Bytes, Nanos, PAGE, Seconds};
use memweir_energy::{Activity, BusMemory, Energy, Medium, Reading};

use crate::memory::{Counts, Reads};

/// Shipped swap areas: names and texts of their files.
pub const SWAPS: [(&str, &str); 4] = [
    ("dram", include_str!("../data/areas/dram.toml")),
    ("flash", include_str!("../data/areas/flash.toml")),
    ("nvm-copy", include_str!("../data/areas/nvm-copy.toml")),
    ("nvm", include_str!("../data/areas/nvm.toml")),
];

const KEYS: [&str; 9] =
    ["name", "source", "medium", "reads", "bus", "fault_us", "path_us", "in_us", "out_us"];

/// Limit on times; longer ones are taken for a mistake of unit.
const ABSURD_US: f64 = 1e6;

/// Path of pages to the swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Loads and stores, or copies that imitate a block device.
    Memory,
    /// Block I/O to a storage device.
    Block,
}

memweir_core::named! { pub Bus, "bus": Memory = "memory", Block = "block" }

/// A kind of swap area.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapKind {
    /// Its common name.
    pub name: String,
    /// Source of the figures.
    pub source: String,
    /// Its medium, for the energy.
    pub medium: Medium,
    /// Handling of reads.
    pub reads: Reads,
    /// Path of pages to the swap area.
    pub bus: Bus,
    /// Time of a page fault without a copy.
    pub fault: Nanos,
    /// Time of the storage stack for each page, without the copy.
    pub path: Nanos,
    /// Time to copy a page in.
    pub copy_in: Nanos,
    /// Time to copy a page out.
    pub copy_out: Nanos,
}

impl SwapKind {
    /// Finds the shipped kind of a name, or reads the file of a name that ends in `.toml`, below
    /// `directory`.
    ///
    /// # Errors
    /// If there is none (the error suggests the nearest name), or the file has invalid values.
    pub fn find(value: &Value<'_>, directory: &Path) -> Result<Self, InputError> {
        let found =
            DataFile::find("swap area", value.string()?, &SWAPS, directory, fs::read_to_string);
        let file = value.checked(found)?;
        Self::parse(&file.name, &file.text)
    }

    /// Parses the text of a file; `name` is its name in messages.
    ///
    /// # Errors
    /// If a value is invalid; the error names line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        let micros = |root: &mut Section<'_>, key: &str| {
            let micros = root.require(key)?.number_in(0.0..=ABSURD_US, "time in microseconds")?;
            Ok::<_, InputError>(Nanos::from_secs_f64(micros / 1e6))
        };
        let medium = root.require("medium")?;
        let kind = Self {
            name: root.require("name")?.string()?.to_owned(),
            source: root.require("source")?.string()?.to_owned(),
            medium: medium.checked(Medium::shipped(medium.string()?))?,
            reads: root.require("reads")?.named()?,
            bus: root.require("bus")?.named()?,
            fault: micros(&mut root, "fault_us")?,
            path: micros(&mut root, "path_us")?,
            copy_in: micros(&mut root, "in_us")?,
            copy_out: micros(&mut root, "out_us")?,
        };
        if kind.reads == Reads::InPlace && kind.bus == Bus::Block {
            let reason = "what is behind a block device cannot be read in place";
            return Err(root.refuse(reason).key("reads").help("`copied`, or `bus = \"memory\"`"));
        }
        Ok(kind)
    }

    /// Returns the time of these faults in sequence. First touches are free, because they cost the
    /// same on every kind. Evictions are charged to the application that needed the room.
    #[must_use]
    pub fn time(&self, counts: &Counts) -> Nanos {
        let copied = self.fault.0 + self.path.0 + self.copy_in.0;
        let out = self.path.0 + self.copy_out.0;
        Nanos(
            counts.copies_in * copied + counts.direct_reads * self.fault.0 + counts.swap_outs * out,
        )
    }

    /// Returns the block I/O of these copies.
    #[must_use]
    pub fn block_io(&self, counts: &Counts) -> Bytes {
        match self.bus {
            Bus::Memory => Bytes::ZERO,
            Bus::Block => Bytes((counts.copies_in + counts.swap_outs) * PAGE.0),
        }
    }

    /// Returns the energy of an area of this kind and size over `duration`; zero without an area,
    /// so that an always-powered device is not charged either. `dram` is the memory that the lines
    /// would otherwise have been read from.
    #[must_use]
    pub fn energy(
        &self,
        counts: &Counts,
        lines_in_place: u64,
        size: Bytes,
        duration: Seconds,
        reading: &Reading,
        dram: &BusMemory,
    ) -> Energy {
        if size == Bytes::ZERO {
            return Energy::default();
        }
        let activity = Activity {
            duration,
            size,
            swap_ins: counts.copies_in,
            swap_outs: counts.swap_outs,
            direct_reads: counts.copies_avoided(),
            lines_in_place,
        };
        match &self.medium {
            Medium::Flash(flash) => flash.energy(&activity),
            // A memory that needs refresh is taken for the DRAM itself.
            Medium::Memory(memory) => {
                let is_dram = memory.background.refresh.0 > 0.0;
                memory.energy(&activity, reading, (!is_dram).then_some(dram))
            }
        }
    }
}
