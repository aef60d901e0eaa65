//! What a swap area is made of, and what its faults take: data files like those of the media.

use std::path::Path;

use memweir_core::input::{Document, InputError, Section, Value, shipped};
use memweir_core::{Bytes, Nanos, Seconds};
use memweir_page::energy::{Activity, BusMemory, Energy, Medium, Reading};

use super::PAGE;
use super::memory::{Counts, Reads};

/// Swap areas that come with memweir: their names and the texts of their files.
pub const SWAPS: [(&str, &str); 4] = [
    ("dram", include_str!("../../data/swap/dram.toml")),
    ("flash", include_str!("../../data/swap/flash.toml")),
    ("nvm-copy", include_str!("../../data/swap/nvm-copy.toml")),
    ("nvm", include_str!("../../data/swap/nvm.toml")),
];

const KEYS: [&str; 9] =
    ["name", "source", "medium", "reads", "bus", "fault_us", "path_us", "in_us", "out_us"];

/// Longer than any fault: more is a mistake of unit.
const ABSURD_US: f64 = 1e6;

/// Whether pages go to the swap area as block I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Loads and stores, or what pretends to be a block device and copies.
    Memory,
    /// A storage device.
    Block,
}

/// A kind of swap area.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapKind {
    /// What people call it.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// What it is made of, for its energy.
    pub medium: Medium,
    /// What reads of it do.
    pub reads: Reads,
    /// How pages get there.
    pub bus: Bus,
    /// A page fault with nothing to copy.
    pub fault: Nanos,
    /// What the storage stack takes for each page beside the copy.
    pub path: Nanos,
    /// Copying a page in.
    pub copy_in: Nanos,
    /// Copying a page out.
    pub copy_out: Nanos,
}

impl SwapKind {
    /// The shipped kind of a name, or that of a file whose name ends in `.toml`, below
    /// `directory`.
    ///
    /// # Errors
    /// If there is none (with the nearest name), or the file says something impossible.
    pub fn find(value: &Value<'_>, directory: &Path) -> Result<Self, InputError> {
        let given = value.string()?;
        if !given.ends_with(".toml") {
            return Self::parse(given, value.checked(shipped("swap area", given, &SWAPS))?);
        }
        let path = directory.join(given);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| value.refuse(format!("{} cannot be read: {error}", path.display())))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file; `name` stands in messages.
    ///
    /// # Errors
    /// If it says something impossible: with line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        let micros = |root: &mut Section<'_>, key: &str| {
            let micros = root.require(key)?.number_in(0.0..=ABSURD_US, "time in microseconds")?;
            Ok::<_, InputError>(Nanos::from_secs_f64(micros / 1e6))
        };
        let medium = root.require("medium")?;
        let reads = root.require("reads")?.one_of("way to read", &["copied", "in-place"])?;
        let bus = root.require("bus")?.one_of("bus", &["memory", "block"])?;
        let kind = Self {
            name: root.require("name")?.string()?.to_owned(),
            source: root.require("source")?.string()?.to_owned(),
            medium: medium.checked(Medium::shipped(medium.string()?))?,
            reads: if reads == "copied" { Reads::Copied } else { Reads::InPlace },
            bus: if bus == "block" { Bus::Block } else { Bus::Memory },
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

    /// What these faults take, one after the other. First touches are not charged: every kind has the
    /// same. Evictions are charged to whoever needed the room.
    #[must_use]
    pub fn time(&self, counts: &Counts) -> Nanos {
        let copied = self.fault.0 + self.path.0 + self.copy_in.0;
        let out = self.path.0 + self.copy_out.0;
        Nanos(
            counts.copies_in * copied + counts.direct_reads * self.fault.0 + counts.swap_outs * out,
        )
    }

    /// Block I/O for these copies.
    #[must_use]
    pub fn block_io(&self, counts: &Counts) -> Bytes {
        match self.bus {
            Bus::Memory => Bytes::ZERO,
            Bus::Block => Bytes((counts.copies_in + counts.swap_outs) * PAGE.0),
        }
    }

    /// What an area of this kind and size uses in so much time; nothing if there is no area, so that
    /// a device that is always powered is not charged either. `dram` is what its lines would have
    /// been read from.
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
            // What needs no refresh is not the DRAM itself.
            Medium::Memory(memory) => {
                let is_dram = memory.background.refresh.0 > 0.0;
                memory.energy(&activity, reading, (!is_dram).then_some(dram))
            }
        }
    }
}
