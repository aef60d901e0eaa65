//! Reads the programs of a bank-level scenario.

use std::path::Path;
use std::sync::Arc;

use memweir_bank::characteristics;
use memweir_bank::experiment::{Machine, ProgramSpec, Source};
use memweir_bank::fit::Characteristics;
use memweir_bank::instructions::InstructionTrace;
use memweir_bank::machine::Addressing;
use memweir_bank::misses::MissTrace;
use memweir_bank::os::ZoneId;
use memweir_bank::stream::Level;
use memweir_bank::synthetic::{Resident, Shared, Structure};
use memweir_core::address_map::ColorSet;
use memweir_core::input::{InputError, Section, Value};
use memweir_core::names::choose;
use memweir_core::{Bytes, Nanos};
use memweir_trace::{Side, Trace};

use super::Wanted;

const KEYS: [&str; 21] = [
    "name",
    "program",
    "trace",
    "misses",
    "synthetic",
    "threads",
    "instances",
    "instructions",
    "time_us",
    "enters",
    "addresses",
    "phase",
    "colors",
    "thread_colors",
    "memory",
    "mpki",
    "rbl",
    "blp",
    "write_share",
    "footprint_mib",
    "structure",
];

const SYNTHETIC: [&str; 5] = ["mpki", "rbl", "blp", "write_share", "footprint_mib"];
const STRUCTURE: [&str; 7] = [
    "burst",
    "burst_mpki",
    "together",
    "resident_kib",
    "resident_apki",
    "shared_mib",
    "shared_share",
];

/// Reads the programs of one scenario.
pub(super) struct Reader<'a> {
    pub(super) directory: &'a Path,
    pub(super) machine: &'a Machine,
    /// Instructions of each thread, unless the program gives its own number.
    pub(super) instructions: u64,
    /// True if all programs run at the same time.
    pub(super) run_together: bool,
}

impl Reader<'_> {
    /// Reads `[[programs]]`, an array of names, or a table that draws programs.
    pub(super) fn programs(&self, value: Value<'_>) -> Result<Vec<Wanted>, InputError> {
        let mut programs: Vec<Wanted> = Vec::new();
        let refused = value.refuse("there is no program");
        let too_many = value.refuse("too many threads");
        if value.is_table() {
            programs = self.drawn(value.section()?)?;
            return self.fitting(programs, too_many);
        }
        for element in value.array("an array of programs")? {
            if element.text().is_some() {
                let behavior = element.checked(characteristics::named(element.string()?))?;
                let name = element.string()?.to_owned();
                programs.push(self.behaving(name, behavior, Structure::default()));
            } else {
                self.several(element.section()?, &mut programs)?;
            }
        }
        if programs.is_empty() {
            return Err(refused.help("add a `[[programs]]` table"));
        }
        self.fitting(programs, too_many)
    }

    /// Refuses programs for which the machine is too small.
    fn fitting(
        &self,
        programs: Vec<Wanted>,
        too_many: InputError,
    ) -> Result<Vec<Wanted>, InputError> {
        let threads: u32 = programs.iter().map(|p| u32::from(p.spec.threads)).sum();
        if self.run_together && threads > self.machine.threads() {
            let help = format!(
                "the machine runs {} at the same time: `machine.cores`, \
                 `machine.threads_per_core`, or name `policies` that choose who runs",
                self.machine.threads()
            );
            return Err(too_many.help(help));
        }
        // In a batch each thread has a core whole.
        let is_too_wide = |p: &&Wanted| u32::from(p.spec.threads) > self.machine.cores;
        if !self.run_together
            && let Some(wide) = programs.iter().find(is_too_wide)
        {
            let name = &wide.spec.name;
            return Err(too_many.help(format!("`{name}` has more than the machine has cores")));
        }
        Ok(programs)
    }

    pub(super) fn behaving(
        &self,
        name: String,
        behavior: Characteristics,
        base: Structure,
    ) -> Wanted {
        let source = Source::Synthetic(Box::new(base.clone()));
        let mut spec = ProgramSpec::new(name, source, self.instructions);
        let mut base = base;
        if self.machine.llc.is_none() {
            spec.level = Level::Memory;
            base.write_backs_after = Some(1024);
        }
        Wanted { spec, behavior: Some((behavior, base)), time: None }
    }

    /// Reads a table, which may stand for several equal programs.
    fn several(
        &self,
        mut section: Section<'_>,
        programs: &mut Vec<Wanted>,
    ) -> Result<(), InputError> {
        section.only(&KEYS)?;
        let instances = section.map("instances", |v| v.whole_in(1..=1024))?.unwrap_or(1);
        let instructions = section.map("instructions", |v| v.whole_in(1..=u64::MAX))?;
        let length = section.map("time_us", |v| {
            if instructions.is_some() {
                let help = "leave out `instructions`, or `time_us`";
                return Err(v.refuse("the length is given twice").help(help));
            }
            time(&v)
        })?;
        let mut wanted = self.source(&mut section, instructions, length)?;
        if let Some(instructions) = instructions {
            wanted.spec.instructions = instructions;
        }
        wanted.time = length;
        if let Some(name) = section.map("name", |v| Ok(v.string()?.to_owned()))? {
            wanted.spec.name = name;
        }
        self.details(&mut section, &mut wanted.spec)?;
        programs.extend((0..instances).map(|_| wanted.clone()));
        Ok(())
    }

    /// Reads the source of a program's accesses.
    fn source(
        &self,
        section: &mut Section<'_>,
        instructions: Option<u64>,
        length: Option<Nanos>,
    ) -> Result<Wanted, InputError> {
        let instructions = instructions.unwrap_or(self.instructions);
        let sources = ["program", "trace", "misses", "synthetic"];
        let given: Vec<&str> = sources.into_iter().filter(|key| section.has(key)).collect();
        let [source] = given[..] else {
            let help = "say one of `program`, `synthetic`, `trace` and `misses`";
            return Err(section.refuse("it is not clear what is executed").help(help));
        };
        check_behavior(section, source)?;
        let structure = section.map("structure", structure)?.unwrap_or_default();
        let value = section.require(source)?;
        match source {
            "program" => {
                let behavior = value.checked(characteristics::named(value.string()?))?;
                let name = value.string()?.to_owned();
                Ok(self.behaving(name, changed(section, behavior)?, structure))
            }
            "synthetic" => {
                let mut inner = value.section()?;
                inner.only(&SYNTHETIC)?;
                let behavior = Characteristics {
                    mpki: 20.0,
                    rbl: 0.5,
                    blp: 2.0,
                    write_share: 0.0,
                    footprint: Bytes(256 << 20),
                };
                let behavior = changed(&mut inner, behavior)?;
                Ok(self.behaving("synthetic".to_owned(), behavior, structure))
            }
            "trace" => {
                if !value.is_array() && self.has_other_format(&value)? {
                    return self.recorded(&value, instructions, length);
                }
                let none = value.refuse("there is no trace");
                let files = if value.is_array() { value.array("files")? } else { vec![value] };
                let Some(first) = files.first() else { return Err(none) };
                let name = first.string()?.to_owned();
                let traces = files.iter().map(|file| self.instruction_trace(file));
                let source = Source::Instructions(traces.collect::<Result<_, _>>()?);
                let mut spec = ProgramSpec::new(name, source, instructions);
                spec.threads = u16::try_from(files.len()).unwrap_or(u16::MAX);
                Ok(Wanted { spec, behavior: None, time: None })
            }
            _ => self.recorded(&value, instructions, length),
        }
    }

    /// Reads a program from a trace of its misses, or of its loads and stores.
    fn recorded(
        &self,
        value: &Value<'_>,
        instructions: u64,
        length: Option<Nanos>,
    ) -> Result<Wanted, InputError> {
        let path = self.directory.join(value.string()?);
        // The number of instructions that take a time shows only when they have run.
        let most = length.map_or(0, |length| self.most_within(length)).max(instructions);
        let trace = MissTrace::read(&path, most)?;
        let (threads, addressing) = (trace.threads(), trace.addressing());
        let source = Source::Misses(Arc::new(trace));
        let mut spec = ProgramSpec::new(value.string()?, source, instructions);
        (spec.threads, spec.addressing) = (threads, addressing);
        Ok(Wanted { spec, behavior: None, time: None })
    }

    /// Returns a number of instructions that no thread executes in less than this time.
    fn most_within(&self, length: Nanos) -> u64 {
        let cycles = length.as_secs_f64() / self.machine.clock.period().as_secs_f64();
        (cycles * f64::from(self.machine.core.width)).ceil() as u64
    }

    /// Returns true if a trace is in another format than that of Ramulator's cores.
    fn has_other_format(&self, file: &Value<'_>) -> Result<bool, InputError> {
        let trace = Trace::open(&self.directory.join(file.string()?), None);
        // A file in no known format is refused as a trace of Ramulator, with the line.
        Ok(trace.is_ok_and(|trace| trace.header().side == Side::Core))
    }

    fn instruction_trace(&self, file: &Value<'_>) -> Result<Arc<InstructionTrace>, InputError> {
        let path = self.directory.join(file.string()?);
        Ok(Arc::new(InstructionTrace::read(&path)?))
    }

    /// Reads the properties of a program other than its source.
    fn details(&self, section: &mut Section<'_>, spec: &mut ProgramSpec) -> Result<(), InputError> {
        let threads = section.map("threads", |v| v.whole_in(1..=1024))?;
        spec.threads = threads.unwrap_or(spec.threads);
        spec.level = section.map("enters", |v| v.named())?.unwrap_or(spec.level);
        let kinds = [("virtual", Addressing::Virtual), ("physical", Addressing::Physical)];
        let addressing = section.map("addresses", |v| v.choose("kind", kinds))?;
        spec.addressing = addressing.unwrap_or(spec.addressing);
        spec.phase = section.map("phase", |v| v.whole_in(1..=u64::MAX))?;
        spec.colors = section.map("colors", |v| self.colors(&v))?;
        if let Some(value) = section.take("thread_colors") {
            let sets = value.array("an array of colors, one per thread")?;
            if sets.len() != spec.threads as usize {
                let reason = format!("must have a set for each of `threads = {}`", spec.threads);
                return Err(value.refuse(reason));
            }
            spec.thread_colors = sets.iter().map(|v| self.colors(v)).collect::<Result<_, _>>()?;
        }
        if let Some(value) = section.take("memory") {
            spec.shares = self.shares(&value)?;
        }
        Ok(())
    }

    fn colors(&self, value: &Value<'_>) -> Result<ColorSet, InputError> {
        let colors: ColorSet = value.checked(value.string()?.parse())?;
        value.checked(colors.within(self.machine.coloring(0).colors()))?;
        Ok(colors)
    }

    /// Reads the name of a memory, or weights by name.
    fn shares(&self, value: &Value<'_>) -> Result<Vec<f64>, InputError> {
        let names: Vec<&str> = self.machine.memories.iter().map(|m| m.name.as_str()).collect();
        let mut shares = vec![0.0; names.len()];
        let entries = if value.text().is_some() {
            vec![(value.one_of("memory", &names)?.to_owned(), 1.0)]
        } else {
            let read = |(name, share): (String, Value<'_>)| {
                let number = share.number_in(0.0..=1e9, "share")?;
                let known = names.iter().map(|known| (*known, ()));
                share.checked(choose("memory", &name, known)).map(|()| (name, number))
            };
            value.entries()?.into_iter().map(read).collect::<Result<Vec<_>, _>>()?
        };
        for (name, share) in entries {
            let place = names.iter().position(|known| *known == name).unwrap_or(0);
            shares[place] = share;
        }
        if shares.iter().sum::<f64>() <= 0.0 {
            return Err(value.refuse("its pages are in no memory"));
        }
        debug_assert!(shares.len() <= usize::from(ZoneId(u8::MAX).0));
        Ok(shares)
    }
}

/// Reads a time in microseconds that a program takes alone.
pub(super) fn time(value: &Value<'_>) -> Result<Nanos, InputError> {
    value.number_in(1.0..=1e6, "time in microseconds").map(|us| Nanos::from_secs_f64(us / 1e6))
}

/// Refuses keys of a program's behavior that do not count with this source.
fn check_behavior(section: &Section<'_>, source: &str) -> Result<(), InputError> {
    let (structure, reason, help) = match source {
        "program" => return Ok(()),
        "synthetic" => {
            (None, "belongs in the table `synthetic`", "such as `synthetic = { mpki = 20 }`")
        }
        _ => (
            Some(&"structure"),
            "does not apply to a recorded program",
            "leave it out, or describe the program by `program` or `synthetic`",
        ),
    };
    let mut keys = SYNTHETIC.iter().chain(structure);
    match keys.find_map(|key| section.refuse_value(key, reason)) {
        Some(refused) => Err(refused.help(help)),
        None => Ok(()),
    }
}

/// Replaces the values of `behavior` that the section gives.
fn changed(
    section: &mut Section<'_>,
    mut behavior: Characteristics,
) -> Result<Characteristics, InputError> {
    let mut put = |key: &str, range: std::ops::RangeInclusive<f64>, into: &mut f64| {
        let value = section.map(key, |v| v.number_in(range, key))?;
        *into = value.unwrap_or(*into);
        Ok::<(), InputError>(())
    };
    put("mpki", 0.001..=500.0, &mut behavior.mpki)?;
    put("rbl", 0.0..=1.0, &mut behavior.rbl)?;
    put("blp", 1.0..=64.0, &mut behavior.blp)?;
    put("write_share", 0.0..=0.5, &mut behavior.write_share)?;
    if let Some(mib) = section.map("footprint_mib", |v| v.whole_in(1..=1 << 20))? {
        behavior.footprint = Bytes(mib << 20);
    }
    Ok(behavior)
}

/// Reads the parts of a structure that characteristics do not cover.
fn structure(value: Value<'_>) -> Result<Structure, InputError> {
    let mut section = value.section()?;
    section.only(&STRUCTURE)?;
    for (key, size) in [("resident_apki", "resident_kib"), ("shared_share", "shared_mib")] {
        if section.has(key) && !section.has(size) {
            let reason = format!("there is no such data without `{size}`");
            let help = format!("add `{size}`, or leave it out");
            return Err(section.require(key)?.refuse(reason).help(help));
        }
    }
    let mut structure = Structure::default();
    if let Some(burst) = section.map("burst", |v| v.whole_in(1..=1 << 20))? {
        structure.burst = burst;
    }
    if let Some(lines) = section.map("together", |v| v.whole_in(1..=1 << 20))? {
        structure.together = lines;
    }
    let rate = |v: Value<'_>| v.number_in(0.001..=1000.0, "rate per 1,000 instructions");
    if let Some(rate) = section.map("burst_mpki", rate)? {
        structure.burst_intensity = rate;
    }
    let resident = section.map("resident_kib", |v| v.whole_in(1..=1 << 30))?;
    let intensity = section.map("resident_apki", rate)?;
    structure.resident = resident
        .map(|kib| Resident { bytes: Bytes(kib << 10), intensity: intensity.unwrap_or(20.0) });
    let shared = section.map("shared_mib", |v| v.whole_in(1..=1 << 20))?;
    let share = section.map("shared_share", |v| v.number_in(0.0..=1.0, "share of the runs"))?;
    structure.shared =
        shared.map(|mib| Shared { bytes: Bytes(mib << 20), share: share.unwrap_or(0.1) });
    Ok(structure)
}
