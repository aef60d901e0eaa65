//! Fuzz targets: one for each parser of input, with seeds from the files that memweir ships.
//!
//! A target feeds bytes to a parser and to what a command does with the result before work starts.
//! It fails by a panic, an overflow, a hang, or memory beyond the limit. `make fuzz` runs the
//! targets under libFuzzer; `tests/smoke.rs` runs the seeds and a few thousand mutations of them.

#![forbid(unsafe_code)]

mod files;
mod lists;
mod made;
mod options;
mod requests;
mod scenarios;
mod seeds;
mod traces;

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the command line of `fuzz/run.sh`, and of its corpus.
    pub name: &'static str,
    /// Feeds it one input.
    pub run: fn(&[u8]),
    /// Where its seeds come from.
    seeds: &'static [Seeds],
    /// The parser catches panics of a library.
    pub catches_panics: bool,
}

/// Inputs to start from.
#[derive(Clone, Copy, Debug)]
enum Seeds {
    /// Files of this repository, by a glob pattern.
    Files(&'static str),
    /// One input each.
    Texts(&'static [&'static str]),
    /// Inputs in a binary format, made by its writer.
    Made(fn() -> Vec<Vec<u8>>),
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]), seeds: &'static [Seeds]) -> Self {
        Self { name, run, seeds, catches_panics: false }
    }

    /// Its seeds, and the inputs that once made it fail.
    ///
    /// # Panics
    /// If a pattern matches no file: a seed was moved.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let seeds = self.seeds.iter().flat_map(Seeds::load);
        seeds.chain(seeds::files(&format!("fuzz/found/{}/*", self.name))).collect()
    }
}

/// Every target.
pub static TARGETS: &[&Target] = &[
    &files::JOBS_FILE,
    &files::JOBS_LINES,
    &lists::COMMANDS,
    &options::VALUES,
    &lists::SWEEP,
    &scenarios::FLOW,
    &scenarios::BANK,
    &scenarios::PAGE,
    &scenarios::SWEPT,
    &scenarios::JOB_LOG,
    &files::MACHINE,
    &files::CATALOG,
    &files::PLATFORM,
    &files::ADDRESS_MAP,
    &files::MAP_BITS,
    &files::MAP_DRAMDIG,
    &files::MAP_TRRESPASS,
    &files::MAP_PALLOC,
    &files::MAP_DRAMSYS,
    &files::PUBLISHED_MAPS,
    &files::KERNEL_MAP,
    &files::DEVICE,
    &files::SERVICE_CURVE,
    &files::MEDIUM,
    &files::ENERGY_MEDIUM,
    &files::SWAP_AREA,
    &files::CACHES,
    &files::EVENTS,
    &files::SEGMENT,
    &files::HOGSIM,
    &files::DECISIONS,
    &files::RECORDING,
    &files::SWEEP_MANIFEST,
    &files::SWEEP_ROWS,
    &files::CGROUPS,
    &files::PROCESS,
    &traces::MEMWEIR,
    &traces::BINARY,
    &traces::RAMULATOR2,
    &traces::RAMULATOR1,
    &traces::DRAMSIM3,
    &traces::SIMPLE_O3,
    &traces::CHAMPSIM,
    &traces::LACKEY,
    &traces::DRMEMTRACE,
    &traces::CACHED,
    &traces::RECOGNIZED,
    &traces::MISSES,
    &traces::PAGES,
    &traces::INSTRUCTIONS,
    &traces::COMMANDS,
    &requests::REQUESTS,
    &requests::POLICY_ANSWERS,
    &lists::COLOR_ORDER,
    &lists::PAGE_ORDER,
];

/// Runs `parse` on input that is text. A file that is no UTF-8 is refused before its parser.
fn text(data: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        parse(text);
    }
}
