//! A catalog of programs by published figures, each figure with its source.
//!
//! A figure whose source begins with `estimated` is not a measurement. [`Entry`] explains the
//! figures and their conversion to a program on a given machine; `file` reads the files.
//! `docs/workloads.md` shows the shipped catalog as a table.

mod file;

use std::path::Path;

use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;
use memweir_core::{Bytes, BytesPerSec, LINE_BYTES, Nanos};

use super::pages::Popularity;
use super::synthetic::{Fluctuation, Phases, Stall, Synthetic};
use crate::hardware::Hardware;
use crate::program::Program;

/// Catalogs that come with memweir: the names and the texts of their files.
pub const CATALOGS: [(&str, &str); 2] = [
    ("spec2006", include_str!("../../data/catalog/spec2006.toml")),
    ("npb", include_str!("../../data/catalog/npb.toml")),
];

/// Length of the cycle that stands for a program: long enough for its phases to return many times,
/// short enough that a hundred programs fit into memory.
pub const CYCLE: Nanos = Nanos::from_millis(20_000);

/// A value and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The value, in the unit of its key.
    pub value: f64,
    /// Name of its source in the file.
    pub source: String,
    /// Description of the source in the file.
    pub reference: String,
}

impl Figure {
    /// Returns true if it is not a published measurement.
    #[must_use]
    pub fn is_estimated(&self) -> bool {
        self.source.starts_with("estimated")
    }
}

/// Benchmark suite of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Integer programs of SPEC CPU2006.
    Cint2006,
    /// Floating-point programs of SPEC CPU2006, those of iabw's SPEC workloads.
    Cfp2006,
    /// NAS Parallel Benchmarks with one thread.
    Npb,
    /// Anything else.
    Other,
}

memweir_core::named! {
    pub Suite, "suite":
    Cint2006 = "cint2006",
    Cfp2006 = "cfp2006",
    Npb = "npb",
    Other = "other",
}

/// Published figures of one program.
///
/// On a core of `R` instructions per second that draws `P` bytes per second when it does nothing
/// else, an instruction of a program with `m` lines read per thousand instructions, a share `w` of
/// written lines, a relative speed `v` and an overlap `o` moves and takes
///
/// ```text
/// bytes   = m / 1000 * 64 / (1 - w)
/// waiting = bytes / (o * P)
/// time    = 1 / (v * R) + waiting
/// ```
///
/// so its bandwidth is `bytes / time` and its stall `waiting / time`. Sizes of caches do not enter:
/// a figure holds for caches like those of its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name, such as `429.mcf` or `mg.C`.
    pub name: String,
    /// Benchmark suite.
    pub suite: Suite,
    /// `mpki`: lines of 64 bytes read from memory per 1,000 instructions.
    pub mpki: Figure,
    /// `write_share`: lines written over all lines.
    pub write_share: Figure,
    /// `overlap`: lines that its misses keep in flight, over the most that a core can: 1 streams,
    /// an eighth chases pointers.
    pub overlap: Figure,
    /// `speed`: instruction rate while it does not wait for memory, over the core's.
    pub speed: Figure,
    /// `run_time_s`: time that it takes alone on the machine of iabw, with train inputs.
    pub run_time_s: Figure,
    /// `degree` of fluctuation (iabw section 2.3): standard deviation over mean within a phase.
    pub degree: Figure,
    /// `period_ms` of fluctuation: mean time between two crossings of the mean.
    pub period_ms: Figure,
    /// `regularity` of fluctuation, from 0 to 1.
    pub regularity: Figure,
    /// `phases`: number of kinds of coarse phases that take turns.
    pub phases: Figure,
    /// `phase_ms`: mean length of a coarse phase.
    pub phase_ms: Figure,
    /// `phase_spread`: standard deviation of their bandwidths over the mean.
    pub phase_spread: Figure,
    /// `footprint_mib`: memory that it uses.
    pub footprint_mib: Figure,
    /// `hotness`: exponent of the Zipf distribution of its accesses over its pages.
    pub hotness: Figure,
    /// `row_buffer_locality`: share of row hits when it runs alone, for the bank-level model.
    pub row_buffer_locality: Option<Figure>,
    /// `bank_level_parallelism`: banks busy at once while any is, for the bank-level model.
    pub bank_level_parallelism: Option<Figure>,
}

impl Entry {
    /// Returns the bytes moved, the seconds executing and the seconds waiting, per instruction.
    fn per_instruction(&self, hardware: &Hardware) -> (f64, f64, f64) {
        let bytes = self.mpki.value / 1e3 * LINE_BYTES as f64 / (1.0 - self.write_share.value);
        let waiting = bytes / (self.overlap.value * hardware.machine.core_peak.0);
        (bytes, 1.0 / (self.speed.value * hardware.core_instructions), waiting)
    }

    /// Returns the mean bandwidth alone on this machine with everything in local DRAM.
    #[must_use]
    pub fn bandwidth(&self, hardware: &Hardware) -> BytesPerSec {
        let (bytes, executing, waiting) = self.per_instruction(hardware);
        BytesPerSec(bytes / (executing + waiting))
    }

    /// Returns the share of that time for which it waits for memory.
    #[must_use]
    pub fn stall(&self, hardware: &Hardware) -> f64 {
        let (_, executing, waiting) = self.per_instruction(hardware);
        waiting / (executing + waiting)
    }

    /// Returns the time that it takes alone, in whole milliseconds.
    #[must_use]
    pub fn run_time(&self) -> Nanos {
        Nanos::from_millis((self.run_time_s.value * 1e3).round() as u64)
    }

    /// Returns the program as one core of this machine would execute it: a cycle of [`CYCLE`], or
    /// shorter if the program is. Equal names and seeds give equal programs.
    #[must_use]
    pub fn synthetic(&self, hardware: &Hardware, seed: u64) -> Synthetic {
        let millis = |figure: &Figure| Nanos::from_millis(figure.value.round() as u64);
        let (bandwidth, ceiling) = (self.bandwidth(hardware), hardware.machine.core_peak);
        Synthetic {
            length: CYCLE.min(self.run_time()),
            write_share: self.write_share.value,
            stall: match self.stall(hardware) {
                stall if stall > 0.0 => Stall::Share(stall),
                _ => Stall::FromCeiling,
            },
            instructions: self.speed.value * hardware.core_instructions,
            phases: Phases {
                kinds: self.phases.value as u32,
                length: millis(&self.phase_ms),
                spread: self.phase_spread.value,
            },
            fluctuation: Fluctuation {
                degree: self.degree.value,
                period: millis(&self.period_ms),
                regularity: self.regularity.value,
            },
            seed: seed ^ fingerprint(&self.name),
            ..Synthetic::steady(&self.name, bandwidth, ceiling)
        }
    }

    /// Draws the program: see [`Entry::synthetic`].
    #[must_use]
    pub fn program(&self, hardware: &Hardware, seed: u64) -> Program {
        self.synthetic(hardware, seed)
            .program()
            .unwrap_or_else(|refusal| unreachable!("figures in range make a program: {refusal}"))
    }

    /// Returns the distribution of its accesses over its pages.
    #[must_use]
    pub fn popularity(&self, seed: u64) -> Popularity {
        Popularity {
            footprint: Bytes((self.footprint_mib.value * f64::from(1 << 20)) as u64),
            read_hotness: self.hotness.value,
            write_hotness: self.hotness.value,
            seed: seed ^ fingerprint(&self.name),
        }
    }
}

/// Returns the 64-bit FNV-1a hash of a name: it gives each program a stream of its own that no
/// release of a library changes.
fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Programs by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    entries: Vec<Entry>,
}

impl Catalog {
    /// Returns the catalogs of SPEC CPU2006 and NPB.
    #[must_use]
    pub fn shipped() -> Self {
        let mut catalog = Self::default();
        for (name, text) in CATALOGS {
            let more = Self::parse(name, text)
                .unwrap_or_else(|error| unreachable!("a shipped catalog: {error}"));
            catalog.extend(more);
        }
        catalog
    }

    /// Reads a catalog file.
    ///
    /// # Errors
    /// If it cannot be read or contains an impossible value.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| InputError::unreadable(path, &error))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a catalog file; `name` appears in messages.
    ///
    /// # Errors
    /// If it contains an impossible value: with line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        Ok(Self { entries: file::parse(name, text)? })
    }

    /// Adds programs; one whose name is already present replaces the old one.
    pub fn extend(&mut self, more: Self) {
        for entry in more.entries {
            match self.entries.iter_mut().find(|other| other.name == entry.name) {
                Some(other) => *other = entry,
                None => self.entries.push(entry),
            }
        }
    }

    /// Returns the programs in the order of their files.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the programs of a suite.
    pub fn suite(&self, suite: Suite) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.suite == suite)
    }

    /// Returns the program with this name; programs of SPEC are also found by their name without
    /// the number: `milc`.
    ///
    /// # Errors
    /// If there is none, with the nearest name.
    pub fn find(&self, name: &str) -> Result<&Entry, Refusal> {
        let is = |entry: &&Entry| entry.name == name || short_name(entry) == Some(name);
        self.entries.iter().find(is).ok_or_else(|| {
            let names = self.entries.iter().map(|entry| entry.name.as_str());
            Refusal::new(format!("unknown program `{name}`"), suggestion(name, names))
        })
    }
}

fn short_name(entry: &Entry) -> Option<&str> {
    let (number, name) = entry.name.split_once('.')?;
    number.parse::<u32>().is_ok().then_some(name)
}

#[cfg(test)]
mod tests;
