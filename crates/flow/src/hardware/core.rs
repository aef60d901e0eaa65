//! The cores of a machine and the caches between them and memory, for emulation: the tables
//! `[core]` and `[caches]` of a machine file.

use memweir_core::Bytes;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_core::input::{InputError, Section, Value};

/// Keys of `[core]`.
const CORE_KEYS: [&str; 6] = [
    "frequency_ghz",
    "cycles_per_instruction",
    "l2_cycles",
    "llc_cycles",
    "cache_parallelism",
    "memory_parallelism",
];

/// Keys of `[caches]`.
const LEVELS: [&str; 3] = ["l1d", "l2", "llc"];

/// Costs of instructions and cache hits on a core.
///
/// The defaults of clock and latencies are those of a Core i7-860 (Nehalem): 10 cycles to the
/// second level and 38 to the last (Molka et al., "Memory Performance and Cache Coherency Effects
/// on an Intel Nehalem Multiprocessor System", PACT 2009, Table 3: 4, 10 and 38 cycles). The share
/// of them that out-of-order execution hides is an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreModel {
    /// Clock in cycles per second.
    pub frequency: f64,
    /// Cycles per instruction while every access hits the first level, whose latency is part of it.
    /// If absent, [`Hardware::core_instructions`](super::Hardware::core_instructions) determines
    /// it.
    pub cycles_per_instruction: Option<f64>,
    /// Cycles to the second level.
    pub l2_cycles: f64,
    /// Cycles to the last level.
    pub llc_cycles: f64,
    /// Hits of the second and last level that overlap, on average, with each other and with
    /// instructions: the cost of a hit is its cycles divided by this.
    pub cache_parallelism: f64,
    /// Reads from memory that overlap. If absent, as many as draw the machine's
    /// [`core_peak`](crate::Machine::core_peak) from the local DRAM.
    pub memory_parallelism: Option<f64>,
}

impl Default for CoreModel {
    fn default() -> Self {
        Self {
            frequency: 2.8e9,
            cycles_per_instruction: None,
            l2_cycles: 10.0,
            llc_cycles: 38.0,
            cache_parallelism: 2.0,
            memory_parallelism: None,
        }
    }
}

/// The caches of a Core i7-860: 32 KiB, 256 KiB and 8 MiB.
#[must_use]
pub fn default_caches() -> CacheHierarchy {
    CacheHierarchy {
        l1d: CacheGeometry::new(Bytes(32 << 10), 8),
        l2: CacheGeometry::new(Bytes(256 << 10), 8),
        llc: CacheGeometry::new(Bytes(8 << 20), 16),
    }
}

/// Reads `[core]`.
pub(super) fn core(mut section: Section<'_>) -> Result<CoreModel, InputError> {
    section.only(&CORE_KEYS)?;
    let default = CoreModel::default();
    let cycles = |v: &Value<'_>| v.number_in(1.0..=1e4, "number of cycles");
    let parallelism = |v: &Value<'_>| v.number_in(1.0..=1e3, "number of accesses at a time");
    let l2_cycles = section.map("l2_cycles", |v| cycles(&v))?.unwrap_or(default.l2_cycles);
    let llc = section.take("llc_cycles");
    let llc_cycles = llc.as_ref().map(cycles).transpose()?.unwrap_or(default.llc_cycles);
    if llc_cycles < l2_cycles {
        let reason = format!("the last level answers in {llc_cycles} cycles, before the second");
        return Err(match llc {
            Some(value) => value.refuse(reason),
            None => section.refuse(reason),
        }
        .help(format!("at least {l2_cycles}")));
    }
    Ok(CoreModel {
        frequency: section
            .map("frequency_ghz", |v| v.number_in(0.01..=100.0, "clock in GHz"))?
            .map_or(default.frequency, |ghz| ghz * 1e9),
        cycles_per_instruction: section.map("cycles_per_instruction", |v| {
            v.number_in(0.01..=1e3, "number of cycles per instruction")
        })?,
        l2_cycles,
        llc_cycles,
        cache_parallelism: section
            .map("cache_parallelism", |v| parallelism(&v))?
            .unwrap_or(default.cache_parallelism),
        memory_parallelism: section.map("memory_parallelism", |v| parallelism(&v))?,
    })
}

/// Reads `[caches]`; absent levels are those of [`default_caches`].
pub(super) fn caches(mut section: Section<'_>) -> Result<CacheHierarchy, InputError> {
    section.only(&LEVELS)?;
    let mut caches = default_caches();
    let levels = [&mut caches.l1d, &mut caches.l2, &mut caches.llc];
    for (name, level) in LEVELS.into_iter().zip(levels) {
        if let Some(given) = section.map(name, |v| cache(v.section()?))? {
            *level = given;
        }
    }
    caches.validate().map_err(|error| section.refuse(error.to_string()))?;
    Ok(caches)
}

/// Reads one level: `size` in bytes and `ways`.
fn cache(mut section: Section<'_>) -> Result<CacheGeometry, InputError> {
    section.only(&["size", "ways"])?;
    let size = section.require("size")?.whole_in(1..=u64::MAX)?;
    let ways = section.require("ways")?.whole_in(1..=u32::MAX)?;
    Ok(CacheGeometry::new(Bytes(size), ways))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Hardware;
    use super::*;

    const MACHINE: &str = "name = 'm'\nsource = 'test'\ncore_peak = 5e9\n[[nodes]]\ncores = 2\n\
                           [[memories]]\nmedium = 'dram'\ncapacity = 10e9\n";

    fn parse(more: &str) -> Result<Hardware, String> {
        Hardware::parse("m.toml", &format!("{MACHINE}{more}"), Path::new("."))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_said_is_a_core_i7() {
        let machine = parse("").expect("complete");
        assert_eq!((machine.core, machine.caches), (CoreModel::default(), default_caches()));
        let machine = parse("[caches.llc]\nsize = 2097152\nways = 16\n").expect("complete");
        assert_eq!(machine.caches.llc.size, Bytes(2 << 20));
        assert_eq!(machine.caches.l2, default_caches().l2);
        let core = parse("[core]\nfrequency_ghz = 2\nmemory_parallelism = 4\n").expect("ok").core;
        assert_eq!((core.frequency, core.memory_parallelism), (2e9, Some(4.0)));
    }

    #[test]
    fn impossible_cores_and_caches_are_refused_with_line_and_help() {
        for (wrong, part) in [
            ("[core]\nfrequency = 2\n", "did you mean `frequency_ghz`?"),
            ("[core]\nllc_cycles = 5\n", "at least 10"),
            ("[core]\ncache_parallelism = 0.5\n", "m.toml:10"),
            ("[caches.l3]\nsize = 1\nways = 1\n", "l3"),
            ("[caches.l2]\nsize = 100\nways = 8\n", "l2: 100 B is not a multiple"),
            ("[caches.l1d]\nsize = 32768\nways = 0\n", "m.toml:11"),
            ("[caches.l1d]\nsize = 32768\n", "ways"),
        ] {
            let error = parse(wrong).expect_err("refused");
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
