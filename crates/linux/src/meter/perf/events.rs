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

use memweir_core::input::{Document, InputError, Section, Value};
use memweir_core::medium::{Distance, MediumKind};
use memweir_core::{Media, MediumId};
use perf_event::events::Software;

use crate::meter::cpu::{CpuModel, parse_number};

/// The files that come with memweir, with the names that errors use.
const SHIPPED: [(&str, &str); 3] = [
    ("events/intel.toml", include_str!("../../../events/intel.toml")),
    ("events/amd.toml", include_str!("../../../events/amd.toml")),
    ("events/arm.toml", include_str!("../../../events/arm.toml")),
];

/// The version of the format that this build reads.
const FORMAT: i64 = 1;

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

/// The media that events may name.
const MEDIA: [(&str, EventMedium); 4] = {
    use {Distance::*, MediumKind::*};
    [
        ("dram", EventMedium { kind: Dram, distance: Local }),
        ("remote-dram", EventMedium { kind: Dram, distance: Remote }),
        ("nvm", EventMedium { kind: Nvm, distance: Local }),
        ("remote-nvm", EventMedium { kind: Nvm, distance: Remote }),
    ]
};

impl EventMedium {
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
    Software(Software),
    /// `PERF_COUNT_HW_INSTRUCTIONS`, the one generic event that means the same everywhere.
    Instructions,
}

/// Counters of the kernel itself, which need no PMU, as event files name them.
const SOFTWARE: [(&str, Software); 6] = [
    ("task-clock", Software::TASK_CLOCK),
    ("page-faults", Software::PAGE_FAULTS),
    ("minor-faults", Software::PAGE_FAULTS_MIN),
    ("major-faults", Software::PAGE_FAULTS_MAJ),
    ("context-switches", Software::CONTEXT_SWITCHES),
    ("cpu-migrations", Software::CPU_MIGRATIONS),
];

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
        let unreadable = |error| InputError::unreadable(path, &error);
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > LARGEST_FILE {
            let reason = format!("{size} bytes is too large for an event file");
            return Err(InputError::new(name, reason));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&name, &text)
    }

    /// Reads and checks the text of a file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&["format", "test", "cpu"])?;
        let format = root.require("format")?;
        if format.integer()? != FORMAT {
            return Err(format.refuse(format!("this build reads format {FORMAT} only")));
        }
        let test = flag(&mut root, "test")?;
        let mut cpus: Vec<CpuEvents> = Vec::new();
        for mut section in several(root.require("cpu")?)? {
            let label = section.require("name")?;
            let entry = cpu_events(section, text_of(&label)?)?;
            if let Some(other) = cpus.iter().find(|other| other.matches.overlaps(&entry.matches)) {
                let names = (&entry.name, &other.name);
                return Err(
                    label.refuse(format!("`{}` and `{}` match the same CPUs", names.0, names.1))
                );
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

fn cpu_events(mut section: Section<'_>, name: String) -> Result<CpuEvents, InputError> {
    section.only(&["any", "vendor", "family", "models", "steppings", "caveats", "source"])?;
    let matches = cpu_match(&mut section)?;
    let caveats = texts(&mut section, "caveats")?;
    let sources = section.require("source")?;
    let blind = sources.refuse("no source counts `reads`, so nothing could be scheduled");
    let sources = several(sources)?.into_iter().map(source).collect::<Result<Vec<_>, _>>()?;
    match sources.iter().any(|source| source.counts == Quantity::Reads) {
        true => Ok(CpuEvents { name, matches, caveats, sources }),
        false => Err(blind),
    }
}

fn cpu_match(section: &mut Section<'_>) -> Result<CpuMatch, InputError> {
    if flag(section, "any")? {
        let mut keys = ["vendor", "family", "models", "steppings"].into_iter();
        return match keys.find_map(|key| section.take(key)) {
            Some(value) => Err(value.refuse("`any = true` matches every CPU already")),
            None => Ok(CpuMatch::Any),
        };
    }
    Ok(CpuMatch::Models {
        vendor: text_of(&section.require("vendor")?)?,
        family: section.require("family")?.whole_in(0..=u32::MAX)?,
        models: ranges(&section.require("models")?)?,
        steppings: section.map("steppings", |v| ranges(&v))?.unwrap_or(vec![(0, u32::MAX)]),
    })
}

fn source(mut section: Section<'_>) -> Result<Source, InputError> {
    section.only(&["counts", "caveats", "events"])?;
    let quantities = [
        ("instructions", Quantity::Instructions),
        ("reads", Quantity::Reads),
        ("writes", Quantity::Writes),
    ];
    let counts = section.require("counts")?.choose("quantity", quantities)?;
    let events = several(section.require("events")?)?;
    let events =
        events.into_iter().map(|event| event_spec(event, counts)).collect::<Result<_, _>>()?;
    Ok(Source { counts, caveats: texts(&mut section, "caveats")?, events })
}

fn event_spec(mut section: Section<'_>, counts: Quantity) -> Result<EventSpec, InputError> {
    section.only(&["name", "type", "config", "config1", "lines_per_event", "medium"])?;
    let name = text_of(&section.require("name")?)?;
    let encoding = encoding(&mut section)?;
    let (weight, medium) = (section.take("lines_per_event"), section.take("medium"));
    if counts == Quantity::Instructions {
        let refused = weight.as_ref().map(|value| value.refuse("instructions are not lines"));
        let refused =
            refused.or(medium.as_ref().map(|value| value.refuse("instructions have none")));
        return refused.map_or(Ok(EventSpec { name, encoding, weight: 1.0, medium: None }), Err);
    }
    let medium = medium.map(|value| value.choose("medium", MEDIA)).transpose()?;
    let weight = weight.map_or(Ok(1.0), |value| match value.number()? {
        weight if weight > 0.0 && weight <= 1e6 => Ok(weight),
        _ => Err(value.refuse("must be more than 0 and at most 1000000")),
    })?;
    Ok(EventSpec { name, encoding, weight, medium })
}

fn encoding(section: &mut Section<'_>) -> Result<Encoding, InputError> {
    let kind = section.require("type")?;
    let kind = kind.one_of("type", &["raw", "software", "hardware"])?;
    let (config, extra) = (section.require("config")?, section.take("config1"));
    if let Some(extra) = extra.as_ref().filter(|_| kind != "raw") {
        return Err(extra.refuse("only raw events take it"));
    }
    match (kind, config.text()) {
        ("raw", _) => {
            let whole = |value: &Value<'_>| value.whole_in(0..=u64::MAX);
            let config1 = extra.map_or(Ok(0), |value| whole(&value))?;
            Ok(Encoding::Raw { config: whole(&config)?, config1 })
        }
        ("software", _) => config.choose("software event", SOFTWARE).map(Encoding::Software),
        (_, Some("cache-misses")) => Err(config
            .refuse("counts L3 misses on Intel, L2 misses on AMD, L1 refills on ARM")
            .help("name this CPU's own event with `type = \"raw\"`")),
        _ => config.choose("hardware event", [("instructions", Encoding::Instructions)]),
    }
}

/// Reads an array of tables, at least one.
fn several(value: Value<'_>) -> Result<Vec<Section<'_>>, InputError> {
    let none = value.refuse("at least one is needed");
    let sections = value.sections()?;
    if sections.is_empty() { Err(none) } else { Ok(sections) }
}

/// Reads a text that is not empty.
fn text_of(value: &Value<'_>) -> Result<String, InputError> {
    match value.string()? {
        "" => Err(value.refuse("must not be empty")),
        text => Ok(text.to_owned()),
    }
}

/// Takes a list of texts, empty where the key is missing.
fn texts(section: &mut Section<'_>, key: &str) -> Result<Vec<String>, InputError> {
    let texts = |value: Value<'_>| value.array("an array of texts")?.iter().map(text_of).collect();
    Ok(section.map(key, texts)?.unwrap_or_default())
}

/// Takes a truth value, false where the key is missing.
fn flag(section: &mut Section<'_>, key: &str) -> Result<bool, InputError> {
    Ok(section.map(key, |value| value.boolean())?.unwrap_or(false))
}

/// Reads a list of numbers and of ranges written `"0x30-0x4f"`, at least one.
fn ranges(value: &Value<'_>) -> Result<Vec<(u32, u32)>, InputError> {
    let range = |element: &Value<'_>| {
        let read = match element.text() {
            Some(text) => range(text),
            None => element.whole_in(0..=u32::MAX).ok().map(|number| (number, number)),
        };
        read.filter(|(first, last)| first <= last)
            .ok_or_else(|| element.refuse("must be a number or a range such as \"0x30-0x4f\""))
    };
    let elements = value.array("an array of numbers and ranges")?;
    if elements.is_empty() {
        return Err(value.refuse("at least one number or range is needed"));
    }
    elements.iter().map(range).collect()
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-')?;
    Some((parse_number(first.trim())?, parse_number(last.trim())?))
}

#[cfg(test)]
mod tests;
