//! Reads the machine of a bank-level scenario, or a machine file.

use std::fs;
use std::path::Path;

use memweir_bank::clock::Clock;
use memweir_bank::experiment::{Machine, MemoryUnit};
use memweir_bank::machine::{CacheLevel, CoreConfig};
use memweir_bank::os::{Aging, Exhausted, FaultCosts, Start};
use memweir_core::address_map::AddressMap;
use memweir_core::cache::CacheGeometry;
use memweir_core::input::{
    DataFile, InputError, Replaced, Replacement, Section, Value, read_replacing,
};
use memweir_core::names::Named;
use memweir_core::words::counted;
use memweir_core::{Bytes, Cycles, Nanos};
use memweir_dram::MemoryConfig;
use memweir_dram::MemorySpec;
use memweir_dram::config::{MapLayout, PagePolicy};

use crate::fidelity::Fidelity;

const KEYS: [&str; 15] = [
    "name",
    "source",
    "cores",
    "threads_per_core",
    "clock_ghz",
    "clock_ratio",
    "width",
    "window",
    "mshrs",
    "l1",
    "l2",
    "llc",
    "memory",
    "colored_by",
    "os",
];

/// Reads the name of a machine, a file, or a table. Returns the machine and its name; `inside`
/// replaces values of a machine given by name or file.
pub(super) fn read(
    value: Value<'_>,
    directory: &Path,
    inside: &[Replacement],
) -> Result<(String, Machine), InputError> {
    if value.is_table() {
        return of_section(value.section()?, directory);
    }
    let file = Fidelity::Bank.machine(&value, directory)?;
    read_replacing(&file.name, inside, |inside| {
        of_section(Replaced::new(file.document(), inside).parse()?, &file.directory)
    })
}

fn of_section(mut section: Section<'_>, directory: &Path) -> Result<(String, Machine), InputError> {
    section.only(&KEYS)?;
    let name = section.map("name", |v| Ok(v.string()?.to_owned()))?;
    let _ = section.take("source");
    let memories = memories(section.require("memory")?, directory)?;
    let core = CoreConfig {
        width: section.map("width", |v| v.whole_in(1..=64))?.unwrap_or(4),
        window: section.map("window", |v| v.whole_in(2..=65_536))?.unwrap_or(128),
        mshrs: section.map("mshrs", |v| v.whole_in(1..=4096))?.unwrap_or(16),
        l1: section.map("l1", cache)?,
        l2: section.map("l2", cache)?,
    };
    if core.window < 2 * core.width {
        let reason = format!("a window of {} is too small for {} a cycle", core.window, core.width);
        return Err(section.refuse(reason).help("at least twice the width"));
    }
    let (start, exhausted, faults) = section.map("os", os)?.unwrap_or_default();
    let machine = Machine {
        clock: clock(&mut section, &memories)?,
        cores: section.map("cores", |v| v.whole_in(1..=1024))?.unwrap_or(4),
        threads_per_core: section.map("threads_per_core", |v| v.whole_in(1..=8))?.unwrap_or(1),
        core,
        llc: section.map("llc", cache)?,
        memories,
        colored_by: section.map("colored_by", |v| v.named())?.unwrap_or_default(),
        start,
        exhausted,
        faults,
    };
    Ok((name.unwrap_or_else(|| "without a name".to_owned()), machine))
}

/// Reads the clock in gigahertz, or as a ratio to the clock of the first memory.
fn clock(section: &mut Section<'_>, memories: &[MemoryUnit]) -> Result<Clock, InputError> {
    let frequency = section.map("clock_ghz", |v| v.number_in(0.01..=100.0, "clock in GHz"))?;
    if let Some(value) = section.take("clock_ratio") {
        if frequency.is_some() {
            let help = "leave out `clock_ghz` or `clock_ratio`";
            return Err(value.refuse("the clock is given twice").help(help));
        }
        let text = value.string()?;
        let parts = text.split_once(':').and_then(|(own, memory)| {
            let number = |part: &str| part.trim().parse().ok().filter(|n| (1..=1000).contains(n));
            Some((number(own)?, number(memory)?))
        });
        let (own, memory) = parts.ok_or_else(|| {
            let reason = format!("`{text}` is no ratio of clocks");
            value.refuse(reason).help("core cycles and memory cycles, as in `8:3`")
        })?;
        let of_memory = Clock::with_period(memories[0].config.spec().clock.into());
        return Ok(Clock::ratio(of_memory, own, memory));
    }
    Ok(Clock::gigahertz(frequency.unwrap_or(3.0)))
}

/// Reads size, ways and latency of a cache.
fn cache(value: Value<'_>) -> Result<CacheLevel, InputError> {
    let mut section = value.section()?;
    section.only(&["kib", "mib", "ways", "latency"])?;
    let kib = section.map("kib", |v| v.whole_in(1..=4u64 << 20))?;
    let mib = section.map("mib", |v| v.whole_in(1..=4u64 << 10))?;
    let bytes = match (kib, mib) {
        (Some(kib), None) => kib << 10,
        (None, Some(mib)) => mib << 20,
        _ => return Err(section.refuse("say its size once: as `kib` or as `mib`")),
    };
    let ways = section.map("ways", |v| v.whole_in(1..=64))?.unwrap_or(16);
    let latency = section.map("latency", |v| v.whole_in(0..=100_000))?.unwrap_or(0);
    let geometry = CacheGeometry::new(Bytes(bytes), ways);
    if geometry.sets() == 0 || geometry.sets() * u64::from(ways) * 64 != bytes {
        let lines = counted(ways.into(), "line");
        let reason = format!("{} is not a multiple of {lines} of 64 B", Bytes(bytes));
        return Err(section.refuse(reason));
    }
    Ok(CacheLevel { geometry, latency })
}

/// Reads one table or several.
fn memories(value: Value<'_>, directory: &Path) -> Result<Vec<MemoryUnit>, InputError> {
    let refused = value.refuse("there is no memory");
    let sections = if value.is_array() { value.sections()? } else { vec![value.section()?] };
    if sections.is_empty() {
        return Err(refused);
    }
    sections
        .into_iter()
        .enumerate()
        .map(|(place, section)| memory(section, place, directory))
        .collect()
}

const MEMORY_KEYS: [&str; 13] = [
    "name",
    "device",
    "channels",
    "ranks",
    "map",
    "scheduler",
    "page",
    "refresh",
    "read_queue",
    "write_queue",
    "low_watermark",
    "high_watermark",
    "age_limit",
];

fn memory(
    mut section: Section<'_>,
    place: usize,
    directory: &Path,
) -> Result<MemoryUnit, InputError> {
    section.only(&MEMORY_KEYS)?;
    let device = section.require("device")?;
    let mut spec = device_of(&device, directory)?;
    if let Some(ranks) = section.map("ranks", |v| v.whole_in(1..=16))? {
        spec.organization.ranks = ranks;
    }
    let channels = section.map("channels", |v| v.whole_in(1..=64))?.unwrap_or(1);
    let mut config = MemoryConfig::with_channels(spec, channels);
    if let Some(value) = section.take("map") {
        config.map = map(&value, &config, directory)?;
    }
    options(&mut section, &mut config)?;
    let default = if place == 0 { "dram".to_owned() } else { format!("memory-{place}") };
    let name = section.map("name", |v| Ok(v.string()?.to_owned()))?.unwrap_or(default);
    section.checked(config.validate())?;
    Ok(MemoryUnit { name, config })
}

/// Reads a shipped device or a device file.
fn device_of(value: &Value<'_>, directory: &Path) -> Result<MemorySpec, InputError> {
    let file = value.checked(MemorySpec::file(value.string()?, directory))?;
    MemorySpec::parse(&file.name, &file.text)
}

/// Reads a layout of this memory, a shipped map, or a map file.
fn map(
    value: &Value<'_>,
    memory: &MemoryConfig,
    directory: &Path,
) -> Result<AddressMap, InputError> {
    let given = value.string()?;
    if let Ok(layout) = MapLayout::named(given) {
        return Ok(memory.clone().with_layout(layout).map);
    }
    let layouts = MapLayout::names().map(|name| (name, ""));
    let files: Vec<_> = layouts.chain(MAPS).collect();
    let file = value.checked(DataFile::find(
        "address map",
        given,
        &files,
        directory,
        fs::read_to_string,
    ))?;
    AddressMap::parse(&file.name, &file.text)
}

/// Shipped address maps.
const MAPS: [(&str, &str); 1] =
    [("i7-860", include_str!("../../data/bank-machines/i7-860-map.toml"))];

fn options(section: &mut Section<'_>, config: &mut MemoryConfig) -> Result<(), InputError> {
    config.scheduler = section.map("scheduler", |v| v.named())?.unwrap_or(config.scheduler);
    let page = |v: Value<'_>| v.checked(v.string()?.parse::<PagePolicy>());
    config.page = section.map("page", page)?.unwrap_or(config.page);
    config.refresh = section.map("refresh", |v| v.named())?.unwrap_or(config.refresh);
    config.read_queue =
        section.map("read_queue", |v| v.whole_in(1..=4096))?.unwrap_or(config.read_queue);
    config.write_queue =
        section.map("write_queue", |v| v.whole_in(1..=4096))?.unwrap_or(config.write_queue);
    let share = |v: Value<'_>| v.number_in(0.0..=1.0, "share of the write queue");
    config.low_watermark = section.map("low_watermark", share)?.unwrap_or(config.low_watermark);
    config.high_watermark = section.map("high_watermark", share)?.unwrap_or(config.high_watermark);
    if let Some(limit) = section.map("age_limit", |v| v.whole_in(0..=u64::MAX))? {
        config.age_limit = (limit > 0).then_some(Cycles(limit));
    }
    Ok(())
}

type OsOptions = (Start, Exhausted, FaultCosts);

/// Reads the free pages at the start, the policy for used-up colors, and the cost of faults.
fn os(value: Value<'_>) -> Result<OsOptions, InputError> {
    let mut section = value.section()?;
    section.only(&["start", "held", "run", "seed", "exhausted", "fault_ns"])?;
    let default = Aging::default();
    let of_aging = ["held", "run", "seed"]
        .into_iter()
        .find_map(|key| section.refuse_value(key, "applies only with `start = \"aged\"`"));
    let aging = Aging {
        held: section
            .map("held", |v| v.number_in(0.0..=0.99, "share of the pages"))?
            .unwrap_or(default.held),
        run: section.map("run", |v| v.number_in(1.0..=1e6, "run of pages"))?.unwrap_or(default.run),
        seed: section.map("seed", |v| v.seed())?.unwrap_or(default.seed),
    };
    let starts = [("fresh", Start::Fresh), ("aged", Start::Aged(aging))];
    let start = section.map("start", |v| v.choose("start", starts))?.unwrap_or_default();
    if let (Start::Fresh, Some(refused)) = (start, of_aging) {
        return Err(refused.help("add `start = \"aged\"`, or leave this key out"));
    }
    let exhausted = section.map("exhausted", |v| v.named())?.unwrap_or_default();
    let mut costs = FaultCosts::default();
    if let Some(fault) = section.map("fault_ns", |v| v.whole_in(0..=1_000_000_000))? {
        costs.fault = Nanos(fault);
    }
    Ok((start, exhausted, costs))
}
