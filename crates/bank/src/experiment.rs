//! An experiment at bank level: a machine, programs, and the colors of their pages.

use std::sync::Arc;

use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, ColorSet, Coloring};
use memweir_core::input::Refusal;
use memweir_core::{Cycles, PhysAddr, Picos, Stop};
use memweir_dram::config::MemoryConfig;
use memweir_dram::stats::Stats;
use memweir_dram::{MemorySystem, Observer};

use crate::clock::Clock;
use crate::instructions::{InstructionStream, InstructionTrace};
use crate::machine::{
    Addressing, CacheLevel, CoreConfig, MachineConfig, Memory, MemorySlot, Program,
};
use crate::misses::{MissStream, MissTrace};
use crate::observed::Observed;
use crate::os::{
    Exhausted, FaultCosts, Os, OsConfig, ProcessId, ProcessStats, Start, ThreadId, VirtualPage,
    ZoneConfig, ZoneId, uncolored,
};
use crate::stream::{Level, Stream};
use crate::synthetic::{SHARED_BASE, Structure, Synthetic};
use crate::system::{MachineRun, System};

/// The resource by which pages are colored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColoredBy {
    /// Banks (BPM, bpm section 3). Where bank and cache share address bits, the cache is divided
    /// too.
    #[default]
    Banks,
    /// Sets of the shared cache (bpm section 5.5).
    Cache,
}

memweir_core::named! { pub ColoredBy, "way to color": Banks = "banks", Cache = "cache" }

/// One memory of a machine.
#[derive(Clone, Debug)]
pub struct MemoryUnit {
    /// Its name: `dram`.
    pub name: String,
    /// Devices and controllers.
    pub config: MemoryConfig,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Clock of the cores.
    pub clock: Clock,
    /// Number of cores.
    pub cores: u32,
    /// Hardware threads of each core. A core whose threads are busy is split evenly between them.
    pub threads_per_core: u32,
    /// Configuration of each core.
    pub core: CoreConfig,
    /// The shared last-level cache.
    pub llc: Option<CacheLevel>,
    /// Memories, at least one; programs use the first unless their shares say otherwise.
    pub memories: Vec<MemoryUnit>,
    /// The resource by which pages are colored.
    pub colored_by: ColoredBy,
    /// Free pages at the start.
    pub start: Start,
    /// Policy for a program whose colors have no free frame left.
    pub exhausted: Exhausted,
    /// Costs of page faults.
    pub faults: FaultCosts,
}

/// The access streams of a program's threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A synthetic program.
    Synthetic(Box<Structure>),
    /// One instruction trace for each thread, or one for all.
    Instructions(Vec<Arc<InstructionTrace>>),
    /// Recorded misses, by thread.
    Misses(Arc<MissTrace>),
}

/// A program.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    /// Its name.
    pub name: String,
    /// Source of its accesses.
    pub source: Source,
    /// Its threads, each on a core or hardware thread of its own.
    pub threads: u16,
    /// Instructions that each thread executes.
    pub instructions: u64,
    /// Level of the hierarchy at which its accesses enter.
    pub level: Level,
    /// Kind of its addresses: virtual or physical.
    pub addressing: Addressing,
    /// Instructions between two barriers at which the threads wait for each other.
    pub phase: Option<u64>,
    /// Colors of its pages; `None` allows all.
    pub colors: Option<ColorSet>,
    /// Colors of the threads' own pages, by thread; empty to use those of the program.
    pub thread_colors: Vec<ColorSet>,
    /// Colors of the data that the threads of a synthetic program share; `None` for those of the
    /// thread that touches a page first.
    pub shared_colors: Option<ColorSet>,
    /// Seed of its accesses; `None` derives one from that of the execution and the program's place,
    /// so that equal programs make different random walks.
    pub seed: Option<u64>,
    /// Weights by memory of its pages; empty for the first memory alone.
    pub shares: Vec<f64>,
}

/// Conditions of an execution.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Seed of all random numbers.
    pub seed: u64,
    /// True if synthetic programs first touch all of their memory in order and fill the shared
    /// cache, as programs that have been running for long would have.
    pub warm: bool,
    /// Length of the intervals in which the requests of each thread are recorded over time; `None`
    /// records none.
    pub interval: Option<Picos>,
    /// A request to end the execution early, which it refuses to go on after.
    pub stop: Stop,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { seed: 1, warm: true, interval: None, stop: Stop::default() }
    }
}

/// Result of an execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Results of the programs.
    pub run: MachineRun,
    /// Per memory, the cycles until all requests were answered, and its counters.
    pub memories: Vec<(Cycles, Stats)>,
    /// Counters of the operating system, by program.
    pub os: Vec<ProcessStats>,
}

impl Machine {
    /// Returns the first address of each memory. Memories follow one another, each aligned to its
    /// own size rounded up to a power of two, so that the bits of its address map are those of the
    /// machine's addresses.
    #[must_use]
    pub fn bases(&self) -> Vec<PhysAddr> {
        let mut end = 0u64;
        let base = |memory: &MemoryUnit| {
            let size = memory.config.capacity().0;
            let base = end.next_multiple_of(size.next_power_of_two());
            end = base + size;
            PhysAddr(base)
        };
        self.memories.iter().map(base).collect()
    }

    /// Returns the coloring of a memory's pages.
    #[must_use]
    pub fn coloring(&self, memory: usize) -> Coloring {
        let cache = self.llc.filter(|_| self.colored_by == ColoredBy::Cache);
        match cache {
            Some(llc) => Coloring::of_cache(&llc.geometry, BASE_PAGE_BITS),
            None => self.memories[memory].config.map.coloring(BASE_PAGE_BITS),
        }
    }

    /// Returns the address map of the first memory, by which colors are assigned.
    #[must_use]
    pub fn map(&self) -> &AddressMap {
        &self.memories[0].config.map
    }

    /// Returns the number of hardware threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.cores * self.threads_per_core
    }

    /// Boots the operating system, with the coloring of each memory from `coloring`.
    ///
    /// # Errors
    /// If a memory cannot be managed in the pages of its coloring.
    pub fn boot(&self, coloring: impl Fn(usize) -> Coloring) -> Result<Os, Refusal> {
        let zone = |(place, base): (usize, PhysAddr)| ZoneConfig {
            name: self.memories[place].name.clone(),
            base,
            size: self.memories[place].config.capacity(),
            coloring: coloring(place),
            start: self.start,
        };
        let zones = self.bases().into_iter().enumerate().map(zone).collect();
        Os::new(&OsConfig { zones, exhausted: self.exhausted, costs: self.faults })
    }

    /// Boots the operating system for these programs: without colors if they have none.
    fn boot_for(&self, programs: &[ProgramSpec]) -> Result<Os, Refusal> {
        match programs.iter().any(ProgramSpec::is_colored) {
            true => self.boot(|memory| self.coloring(memory)),
            false => self.boot(|_| uncolored(BASE_PAGE_BITS)),
        }
    }

    /// Returns the cores for `threads` threads: each has its own core as long as there are enough,
    /// then threads share cores.
    fn cores(&self, threads: u32) -> MachineConfig {
        let cores = self.cores.max(1);
        let share = |thread: u32| {
            let siblings = (threads - thread % cores).div_ceil(cores);
            self.core.split(siblings)
        };
        MachineConfig {
            clock: self.clock,
            cores: (0..threads.min(self.threads())).map(share).collect(),
            llc: self.llc,
        }
    }

    /// Returns the memories, each with its observer.
    fn bays<O>(&self, observers: Vec<O>) -> Result<Vec<MemorySlot<Observed<O>>>, Refusal> {
        let bay = |((unit, base), observer): ((&MemoryUnit, PhysAddr), O)| {
            Ok(MemorySlot {
                memory: Observed { system: MemorySystem::new(&unit.config)?, observer },
                base,
                size: unit.config.capacity(),
                clock: Clock::with_period(unit.config.spec().clock.into()),
                map: unit.config.map.clone(),
            })
        };
        self.memories.iter().zip(self.bases()).zip(observers).map(bay).collect()
    }

    /// Executes programs together.
    ///
    /// # Errors
    /// If they do not fit on the machine or into its memory, or the end is requested.
    pub fn execute(
        &self,
        programs: &[ProgramSpec],
        conditions: Conditions,
    ) -> Result<Execution, Refusal> {
        let observers = vec![(); self.memories.len()];
        self.execute_observed(programs, conditions, observers).map(|(execution, _)| execution)
    }

    /// Executes programs like [`execute`](Self::execute) and shows each command and completion to
    /// `observers`, one per memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_observed<O: Observer>(
        &self,
        programs: &[ProgramSpec],
        conditions: Conditions,
        observers: Vec<O>,
    ) -> Result<(Execution, Vec<O>), Refusal> {
        self.execute_on(self.boot_for(programs)?, programs, conditions, observers)
    }

    /// Executes programs like [`execute_observed`](Self::execute_observed), on an operating system
    /// that was [booted](Self::boot) on this machine before.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_on<O: Observer>(
        &self,
        mut os: Os,
        programs: &[ProgramSpec],
        conditions: Conditions,
        observers: Vec<O>,
    ) -> Result<(Execution, Vec<O>), Refusal> {
        if observers.len() != self.memories.len() {
            return Err(Refusal::new("as many observers as memories", "give each memory its own"));
        }
        let bays = self.bays(observers)?;
        let threads = programs.iter().map(|program| u32::from(program.threads)).sum();
        let mut system = load(programs, conditions, &self.cores(threads), bays, &mut os)?;
        let run = system.run()?;
        let bays = system.into_bays();
        let memories = bays
            .iter()
            .map(|bay| (bay.clock.first_from(run.drained), bay.memory.system.stats()))
            .collect();
        let observers = bays.into_iter().map(|bay| bay.memory.observer).collect();
        Ok((Execution { run, memories, os: os.stats() }, observers))
    }

    /// Lets `operate` put the programs' threads on cores and take them off, as many at the same
    /// time as it wants. Each has the core of the machine whole.
    ///
    /// # Errors
    /// If the programs do not fit into the machine's memory, the threads of one wait for each
    /// other, or the end is requested.
    pub fn operate<T>(
        &self,
        programs: &[ProgramSpec],
        conditions: Conditions,
        operate: impl FnOnce(&mut System<'_, Observed<()>>) -> T,
    ) -> Result<T, Refusal> {
        if let Some(program) = programs.iter().find(|program| program.phase.is_some()) {
            let reason = format!("the threads of `{}` wait for each other", program.name);
            return Err(Refusal::new(reason, "leave out `phase`, or let all programs run at once"));
        }
        let bays = self.bays(vec![(); self.memories.len()])?;
        let mut os = self.boot_for(programs)?;
        let threads = programs.iter().map(|program| usize::from(program.threads)).sum();
        let config =
            MachineConfig { clock: self.clock, cores: vec![self.core; threads], llc: self.llc };
        let mut system = load(programs, conditions, &config, bays, &mut os)?;
        system.prepare();
        Ok(operate(&mut system))
    }
}

/// Starts a process for each program, on a machine whose caches are warm if that is wanted.
fn load<'a, M: Memory>(
    specs: &[ProgramSpec],
    conditions: Conditions,
    config: &MachineConfig,
    bays: Vec<MemorySlot<M>>,
    os: &'a mut Os,
) -> Result<System<'a, M>, Refusal> {
    let program = |(place, spec): (usize, &ProgramSpec)| {
        let process = os.spawn();
        spec.allow(os, process)?;
        let own = (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let seed = spec.seed.unwrap_or(conditions.seed.wrapping_add(own));
        if conditions.warm {
            spec.initialize(os, process, seed)?;
        }
        Ok(spec.program(process, seed))
    };
    let programs = specs.iter().enumerate().map(program).collect::<Result<_, Refusal>>()?;
    let mut system = System::new(config, bays, programs, os)?;
    system.heed(conditions.stop);
    if conditions.warm {
        system.warm()?;
    }
    if let Some(interval) = conditions.interval {
        system.record(interval);
    }
    Ok(system)
}

impl ProgramSpec {
    /// Creates a program of one thread whose pages may have any color.
    #[must_use]
    pub fn new(name: impl Into<String>, source: Source, instructions: u64) -> Self {
        let level = match &source {
            Source::Synthetic(_) => Level::Shared,
            Source::Instructions(_) => Level::Core,
            Source::Misses(trace) => trace.level(),
        };
        Self {
            name: name.into(),
            source,
            threads: 1,
            instructions,
            level,
            addressing: Addressing::Virtual,
            phase: None,
            colors: None,
            thread_colors: Vec::new(),
            shared_colors: None,
            seed: None,
            shares: Vec::new(),
        }
    }

    /// Returns a copy with these colors.
    #[must_use]
    pub fn colored(&self, colors: Option<ColorSet>) -> Self {
        Self { colors, ..self.clone() }
    }

    /// Returns true if it matters which colors its pages have.
    #[must_use]
    pub fn is_colored(&self) -> bool {
        self.colors.is_some() || !self.thread_colors.is_empty() || self.shared_colors.is_some()
    }

    fn allow(&self, os: &mut Os, process: ProcessId) -> Result<(), Refusal> {
        let first = ZoneId(0);
        if let Some(colors) = &self.colors {
            os.allow(process, first, colors)?;
        }
        for (thread, colors) in self.thread_colors.iter().enumerate() {
            os.allow_thread(process, ThreadId(thread as u16), first, colors)?;
        }
        if let (Some(colors), Source::Synthetic(structure)) = (&self.shared_colors, &self.source)
            && let Some(shared) = structure.shared
        {
            let page = |address: u64| VirtualPage(address >> BASE_PAGE_BITS);
            let pages = page(SHARED_BASE)..page(SHARED_BASE + shared.bytes.0);
            os.place(process, pages, first, colors)?;
        }
        if !self.shares.is_empty() {
            os.spread(process, &self.shares)?;
        }
        Ok(())
    }

    fn stream(&self, thread: u16, seed: u64) -> Box<dyn Stream> {
        match &self.source {
            Source::Synthetic(structure) => Box::new(Synthetic::new(structure, thread, seed)),
            Source::Instructions(traces) => {
                let trace = &traces[usize::from(thread) % traces.len()];
                Box::new(InstructionStream::new(Arc::clone(trace)))
            }
            Source::Misses(trace) => Box::new(MissStream::new(Arc::clone(trace), thread)),
        }
    }

    fn program(&self, process: ProcessId, seed: u64) -> Program {
        Program {
            name: self.name.clone(),
            process,
            threads: (0..self.threads).map(|thread| self.stream(thread, seed)).collect(),
            level: self.level,
            addressing: self.addressing,
            instructions: self.instructions,
            phase: self.phase,
        }
    }

    /// Touches the data of a synthetic program page by page, as the program would when it first
    /// writes its arrays. The first thread touches the shared data.
    fn initialize(&self, os: &mut Os, process: ProcessId, seed: u64) -> Result<(), Refusal> {
        let Source::Synthetic(structure) = &self.source else { return Ok(()) };
        for thread in 0..self.threads {
            for (first, size) in Synthetic::new(structure, thread, seed).regions() {
                for page in first >> BASE_PAGE_BITS..(first + size).div_ceil(1 << BASE_PAGE_BITS) {
                    os.touch(process, ThreadId(thread), VirtualPage(page)).map_err(|error| {
                        let reason = format!("`{}`: {error}", self.name);
                        Refusal::new(reason, "a smaller footprint, or more colors")
                    })?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use memweir_dram::MemorySpec;

    use super::*;

    fn machine(devices: &[&str]) -> Machine {
        let memory = |name: &&str| MemoryUnit {
            name: (*name).to_owned(),
            config: MemoryConfig::new(MemorySpec::shipped(name).unwrap()),
        };
        Machine {
            clock: Clock::gigahertz(1.0),
            cores: 4,
            threads_per_core: 2,
            core: CoreConfig { width: 4, window: 128, mshrs: 16, l1: None, l2: None },
            llc: None,
            memories: devices.iter().map(memory).collect(),
            colored_by: ColoredBy::default(),
            start: Start::Fresh,
            exhausted: Exhausted::default(),
            faults: FaultCosts::FREE,
        }
    }

    #[test]
    fn memories_begin_at_multiples_of_their_size() {
        let machine = machine(&["ddr4-2400", "lpddr2-1066", "ddr4-2400"]);
        // 8 GiB, half a GiB, and 8 GiB.
        assert_eq!(machine.bases().iter().map(|base| base.0 >> 30).collect::<Vec<_>>(), [0, 8, 16]);
    }

    #[test]
    fn threads_share_cores_when_there_are_more_of_them() {
        let machine = machine(&["ddr4-2400"]);
        let widths = |threads| -> Vec<u32> {
            machine.cores(threads).cores.iter().map(|core| core.width).collect()
        };
        assert_eq!(machine.threads(), 8);
        assert_eq!(widths(3), [4, 4, 4]);
        assert_eq!(widths(5), [2, 4, 4, 4, 2]);
        assert_eq!(widths(8), [2; 8]);
    }
}
