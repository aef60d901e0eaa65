//! Event files: the events of each CPU and the quantities that they count, as data.
//!
//! A file lists CPUs; a CPU has *sources*, each of which gives one quantity as a weighted sum of
//! events. Sources of the same quantity are alternatives, best first: the first whose events all
//! open on the machine is used, and its caveats are shown to the user. The shipped files are under
//! `crates/linux/events/`; users can name a file of their own. This module reads and checks files;
//! it opens no events.
//!
//! ```toml
//! format = 1
//!
//! [[cpu]]
//! name = "Example CPU"              # shown to users
//! vendor = "GenuineIntel"           # of /proc/cpuinfo; on ARM the implementer, such as "0x41"
//! family = 6                        # on ARM the architecture
//! models = [0x55, "0x60-0x6f"]      # on ARM the part
//! steppings = ["0-4"]               # optional; `any = true` in the place of these four matches
//!                                   # every machine
//! caveats = ["One sentence each."]  # optional, shown to users
//!
//! [[cpu.source]]
//! counts = "reads"                  # or "writes", "instructions"
//! caveats = []                      # optional, shown if this source is used
//! events = [                        # their sum is the quantity
//!   { name = "SOME.EVENT", type = "raw", config = 0x012a, config1 = 0x10808, lines_per_event = 1 }
//! ]
//! ```
//!
//! An event may name the medium whose lines it counts: `medium = "dram"`, `"remote-dram"`, `"nvm"`
//! (slower memory, CXL among it) or `"remote-nvm"`. A source with events of other media than `dram`
//! is used only on machines that are said to have these; listed first, it is preferred there.
//!
//! `type` is `raw` (config is umask << 8 | event, config1 an extra register), `software` (config is
//! a name such as `page-faults`) or `hardware` (config is `instructions`: the other generic events
//! count different things on different vendors and are refused). A file with `test = true` counts
//! something else than memory traffic.

use std::path::Path;

use memweir_core::input::InputError;
use memweir_core::medium::{Distance, MediumKind};
use memweir_core::{Media, MediumId};

use super::table::{Document, Table};
use crate::meter::cpu::CpuModel;

/// The files that come with memweir, with the names that errors use.
const SHIPPED: [(&str, &str); 3] = [
    ("events/intel.toml", include_str!("../../../events/intel.toml")),
    ("events/amd.toml", include_str!("../../../events/amd.toml")),
    ("events/arm.toml", include_str!("../../../events/arm.toml")),
];

/// The version of the format that this build reads.
const FORMAT: u64 = 1;

/// Files larger than this are no event files.
const LARGEST_FILE: u64 = 1 << 20;

/// One event file.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFile {
    /// Path or name.
    pub name: String,
    /// True if the file maps counts to events that are no memory traffic, to test the meter.
    pub test: bool,
    /// The CPUs it knows. No two of them match the same machine.
    pub cpus: Vec<CpuEvents>,
}

/// The events of one kind of CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuEvents {
    /// The CPU's name, for messages.
    pub name: String,
    /// The machines that this is for.
    pub matches: CpuMatch,
    /// Caveats about the counts for users, one sentence each.
    pub caveats: Vec<String>,
    /// The sources of each quantity; alternatives in order of preference.
    pub sources: Vec<Source>,
}

/// The machines that an entry is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuMatch {
    /// Every machine: the events exist everywhere.
    Any,
    /// CPUs of these models.
    Models {
        /// As in [`CpuModel::vendor`].
        vendor: String,
        /// As in [`CpuModel::family`].
        family: u32,
        /// Models, first and last of each range.
        models: Vec<(u32, u32)>,
        /// Steppings, first and last of each range.
        steppings: Vec<(u32, u32)>,
    },
}

/// The quantity that a source counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Retired instructions.
    Instructions,
    /// Lines read from memory.
    Reads,
    /// Lines written to memory.
    Writes,
}

/// One way to count one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The quantity.
    pub counts: Quantity,
    /// Caveats for users if this source is used, one sentence each.
    pub caveats: Vec<String>,
    /// The events whose weighted sum it is; at least one.
    pub events: Vec<EventSpec>,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSpec {
    /// The vendor's name of the event.
    pub name: String,
    /// Its encoding for the kernel.
    pub encoding: Encoding,
    /// Lines (or instructions) that one event stands for; more than zero.
    pub weight: f64,
    /// The medium whose lines it counts, if it names one.
    pub medium: Option<EventMedium>,
}

/// A medium as event files name it: the hardware tells kind and distance, not names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMedium {
    /// Its kind of memory.
    pub kind: MediumKind,
    /// Its distance.
    pub distance: Distance,
}

impl EventMedium {
    const NAMES: [(&'static str, Self); 4] = [
        ("dram", Self { kind: MediumKind::Dram, distance: Distance::Local }),
        ("remote-dram", Self { kind: MediumKind::Dram, distance: Distance::Remote }),
        ("nvm", Self { kind: MediumKind::Nvm, distance: Distance::Local }),
        ("remote-nvm", Self { kind: MediumKind::Nvm, distance: Distance::Remote }),
    ];

    /// Returns the first medium of this kind and distance, if the machine has one.
    #[must_use]
    pub fn find(self, media: &Media) -> Option<MediumId> {
        let mut media = media.iter();
        let same = |medium: &memweir_core::Medium| {
            (medium.kind, medium.distance) == (self.kind, self.distance)
        };
        media.find(|(_, medium)| same(medium)).map(|(id, _)| id)
    }
}

/// The encoding of an event for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `PERF_TYPE_RAW`: the CPU's own encoding.
    Raw {
        /// umask and event select.
        config: u64,
        /// Value of an extra register (Intel's off-core response), zero for none.
        config1: u64,
    },
    /// A counter of the kernel itself.
    Software(SoftwareEvent),
    /// `PERF_COUNT_HW_INSTRUCTIONS`, the one generic event that means the same everywhere.
    Instructions,
}

/// Counters of the kernel itself; they need no PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftwareEvent {
    /// Nanoseconds on a CPU.
    TaskClock,
    /// All page faults.
    PageFaults,
    /// Page faults without I/O.
    MinorFaults,
    /// Page faults with I/O.
    MajorFaults,
    /// Context switches.
    ContextSwitches,
    /// Moves to another CPU.
    CpuMigrations,
}

impl Source {
    /// Returns true if it tells media apart.
    #[must_use]
    pub fn separates(&self) -> bool {
        let mut media = self.events.iter().map(|event| event.medium);
        let first = media.next().flatten();
        first.is_some() && media.any(|other| other.is_some() && other != first)
    }

    /// Returns true if every medium that it names is one of `media`.
    #[must_use]
    pub fn suits(&self, media: &Media) -> bool {
        self.events.iter().filter_map(|event| event.medium).all(|m| m.find(media).is_some())
    }
}

impl SoftwareEvent {
    const NAMES: [(&'static str, Self); 6] = [
        ("task-clock", Self::TaskClock),
        ("page-faults", Self::PageFaults),
        ("minor-faults", Self::MinorFaults),
        ("major-faults", Self::MajorFaults),
        ("context-switches", Self::ContextSwitches),
        ("cpu-migrations", Self::CpuMigrations),
    ];
}

impl CpuMatch {
    /// Returns true if `cpu` is one of these machines.
    #[must_use]
    pub fn covers(&self, cpu: &CpuModel) -> bool {
        let within = |ranges: &[(u32, u32)], number| {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
        };
        match self {
            Self::Any => true,
            Self::Models { vendor, family, models, steppings } => {
                (vendor.as_str(), *family) == (cpu.vendor.as_str(), cpu.family)
                    && within(models, cpu.model)
                    && within(steppings, cpu.stepping)
            }
        }
    }

    /// Returns true if some machine would match both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &[(u32, u32)], b: &[(u32, u32)]| {
            a.iter().any(|a| b.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
        };
        match (self, other) {
            (
                Self::Models { vendor, family, models, steppings },
                Self::Models { vendor: v, family: f, models: m, steppings: s },
            ) => vendor == v && family == f && meet(models, m) && meet(steppings, s),
            _ => true,
        }
    }
}

impl EventFile {
    /// Returns the files that come with memweir.
    pub fn shipped() -> Result<Vec<Self>, InputError> {
        SHIPPED.iter().map(|(name, text)| Self::parse(name, text)).collect()
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let refuse = |reason: String| InputError::new(name.clone(), reason);
        let size = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
        if size > LARGEST_FILE {
            return Err(refuse(format!("{size} bytes is too large for an event file")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        Self::parse(&name, &text)
    }

    /// Reads and checks the text of a file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let document = Document { file: name, text };
        let root = document.parse()?;
        let root = Table::root(document, &root);
        root.only(&["format", "test", "cpu"])?;
        if root.integer::<u64>("format")? != FORMAT {
            return Err(root.refuse("format", format!("this build reads format {FORMAT} only")));
        }
        let test = root.flag("test")?;
        let mut cpus: Vec<CpuEvents> = Vec::new();
        for table in root.tables("cpu")? {
            let entry = cpu_events(&table)?;
            if let Some(other) = cpus.iter().find(|other| other.matches.overlaps(&entry.matches)) {
                return Err(table.refuse(
                    "name",
                    format!("`{}` and `{}` match the same CPUs", entry.name, other.name),
                ));
            }
            cpus.push(entry);
        }
        Ok(Self { name: name.to_owned(), test, cpus })
    }

    /// Returns the entry for `cpu`, if there is one.
    #[must_use]
    pub fn find(&self, cpu: &CpuModel) -> Option<&CpuEvents> {
        self.cpus.iter().find(|entry| entry.matches.covers(cpu))
    }
}

fn cpu_events(table: &Table<'_, '_>) -> Result<CpuEvents, InputError> {
    table.only(&["name", "any", "vendor", "family", "models", "steppings", "caveats", "source"])?;
    let name = table.text("name")?.to_owned();
    let matches = cpu_match(table)?;
    let caveats = table.texts("caveats")?;
    let sources =
        table.tables("source")?.iter().map(source).collect::<Result<Vec<_>, InputError>>()?;
    if !sources.iter().any(|source| source.counts == Quantity::Reads) {
        return Err(
            table.refuse("source", "no source counts `reads`, so nothing could be scheduled")
        );
    }
    Ok(CpuEvents { name, matches, caveats, sources })
}

fn cpu_match(table: &Table<'_, '_>) -> Result<CpuMatch, InputError> {
    if table.flag("any")? {
        return match ["vendor", "family", "models", "steppings"].iter().find(|key| table.has(key)) {
            Some(key) => Err(table.refuse(key, "`any = true` matches every CPU already")),
            None => Ok(CpuMatch::Any),
        };
    }
    let steppings =
        if table.has("steppings") { table.ranges("steppings")? } else { vec![(0, u32::MAX)] };
    Ok(CpuMatch::Models {
        vendor: table.text("vendor")?.to_owned(),
        family: table.integer("family")?,
        models: table.ranges("models")?,
        steppings,
    })
}

fn source(table: &Table<'_, '_>) -> Result<Source, InputError> {
    table.only(&["counts", "caveats", "events"])?;
    let counts = match table.text("counts")? {
        "instructions" => Quantity::Instructions,
        "reads" => Quantity::Reads,
        "writes" => Quantity::Writes,
        other => {
            return Err(table.refuse_choice("counts", other, &["instructions", "reads", "writes"]));
        }
    };
    let events = table
        .tables("events")?
        .iter()
        .map(|event| event_spec(event, counts))
        .collect::<Result<_, _>>()?;
    Ok(Source { counts, caveats: table.texts("caveats")?, events })
}

fn event_spec(table: &Table<'_, '_>, counts: Quantity) -> Result<EventSpec, InputError> {
    table.only(&["name", "type", "config", "config1", "lines_per_event", "medium"])?;
    let name = table.text("name")?.to_owned();
    let encoding = encoding(table)?;
    if counts == Quantity::Instructions && table.has("lines_per_event") {
        return Err(table.refuse("lines_per_event", "instructions are not lines"));
    }
    let medium = medium(table)?;
    if counts == Quantity::Instructions && medium.is_some() {
        return Err(table.refuse("medium", "instructions have none"));
    }
    let weight = table.number("lines_per_event", 1.0)?;
    if !(weight > 0.0 && weight <= 1e6) {
        return Err(table.refuse("lines_per_event", "must be more than 0 and at most 1000000"));
    }
    Ok(EventSpec { name, encoding, weight, medium })
}

fn medium(table: &Table<'_, '_>) -> Result<Option<EventMedium>, InputError> {
    if !table.has("medium") {
        return Ok(None);
    }
    let given = table.text("medium")?;
    let names = EventMedium::NAMES.map(|(name, _)| name);
    let found = EventMedium::NAMES.into_iter().find(|(name, _)| *name == given);
    match found {
        Some((_, medium)) => Ok(Some(medium)),
        None => Err(table.refuse_choice("medium", given, &names)),
    }
}

fn encoding(table: &Table<'_, '_>) -> Result<Encoding, InputError> {
    let kind = table.text("type")?;
    if kind != "raw" && table.has("config1") {
        return Err(table.refuse("config1", "only raw events take it"));
    }
    match kind {
        "raw" => Ok(Encoding::Raw {
            config: table.integer("config")?,
            config1: if table.has("config1") { table.integer("config1")? } else { 0 },
        }),
        "software" => {
            let given = table.text("config")?;
            let names = SoftwareEvent::NAMES.map(|(name, _)| name);
            SoftwareEvent::NAMES
                .into_iter()
                .find(|(name, _)| *name == given)
                .map(|(_, event)| Encoding::Software(event))
                .ok_or_else(|| table.refuse_choice("config", given, &names))
        }
        "hardware" => match table.text("config")? {
            "instructions" => Ok(Encoding::Instructions),
            "cache-misses" => Err(table
                .refuse("config", "counts L3 misses on Intel, L2 misses on AMD, L1 refills on ARM")
                .help("name this CPU's own event with `type = \"raw\"`")),
            other => Err(table.refuse_choice("config", other, &["instructions"])),
        },
        other => Err(table.refuse_choice("type", other, &["raw", "software", "hardware"])),
    }
}

#[cfg(test)]
mod tests;
