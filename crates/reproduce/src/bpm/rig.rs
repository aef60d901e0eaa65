//! One run of programs on the machine.

use memweir_bank::experiment::{self, Execution, ProgramSpec};
use memweir_bank::os::Aging;
use memweir_bank::system::MachineRun;
use memweir_core::input::{InputError, Refusal};
use memweir_core::units::LINE_BYTES;
use memweir_dram::config::{PagePolicy, RefreshPolicy};
use memweir_dram::energy::EnergyMeter;
use memweir_dram::request::RowCounts;
use serde::Deserialize;

use super::machine::{Board, Kernel};
use super::memory::{Energy, PAPER_MEMORY};
use crate::report::Effort;

/// Parameters that all runs share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    milliseconds: f64,
    quick_milliseconds: f64,
    pub(super) seed: u64,
    pub(super) resident_kib: u64,
    pub(super) resident_accesses: f64,
    /// Share of memory that is held by others, and the mean length of the runs of pages between
    /// them.
    held: f64,
    run_pages: f64,
}

impl Parameters {
    /// The same for programs that have all of memory, and reuse nothing in the cache.
    pub(super) fn with_all_memory_and_no_reuse(self) -> Self {
        Self { held: 0.0, resident_accesses: 0.0, ..self }
    }
}

/// Address bits that choose banks and cache sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// As in the paper.
    Paper,
    /// Cache colors choose no bank.
    Apart,
}

/// The hardware of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conditions {
    /// The device.
    pub(super) memory: String,
    pub(super) page: PagePolicy,
    pub(super) layout: Layout,
    /// Off to isolate the effect of refresh on a result.
    pub(super) refresh: RefreshPolicy,
}

impl Conditions {
    /// The machine of the paper with memory made of this device.
    pub(super) fn with_memory(memory: &str) -> Self {
        Self {
            memory: memory.to_owned(),
            page: PagePolicy::Open,
            layout: Layout::Paper,
            refresh: RefreshPolicy::AllBank,
        }
    }

    /// The machine of the paper.
    pub(super) fn of_paper() -> Self {
        Self::with_memory(PAPER_MEMORY)
    }
}

/// A program that had the machine to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) seconds: f64,
    pub(super) mpki: f64,
    /// Row-buffer locality of its reads.
    pub(super) rbl: f64,
    pub(super) blp: f64,
    /// Bytes per second.
    pub(super) bandwidth: f64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) struct Executed {
    /// Time of each program.
    pub(super) seconds: Vec<f64>,
    /// Rows of all reads and writes, and of each.
    pub(super) rows: RowCounts,
    pub(super) read_rows: RowCounts,
    pub(super) write_rows: RowCounts,
    /// Bytes that the programs moved per second, each over its own time.
    pub(super) bandwidth: f64,
    pub(super) energy: Energy,
    /// Pages of other colors than they should have, and all pages.
    pub(super) spilled: (u64, u64),
    run: MachineRun,
}

/// The machine, and the length of its runs.
pub(super) struct Rig {
    pub(super) parameters: Parameters,
    /// Time that each program executes alone.
    pub(super) seconds: f64,
    /// The machine of the paper.
    pub(super) board: Board,
    /// A machine on which cache colors choose no bank.
    apart: Board,
}

impl Rig {
    /// The machine as the parameters have it.
    ///
    /// # Errors
    /// If its map is invalid.
    pub(super) fn new(parameters: Parameters, effort: Effort) -> Result<Self, InputError> {
        let milliseconds = effort.pick(parameters.milliseconds, parameters.quick_milliseconds);
        Self::lasting(parameters, milliseconds)
    }

    /// A machine on which each program executes for `milliseconds` alone.
    ///
    /// # Errors
    /// If its map is invalid.
    pub(super) fn lasting(parameters: Parameters, milliseconds: f64) -> Result<Self, InputError> {
        let Parameters { held, run_pages: run, seed, .. } = parameters;
        let aging = Aging { held, run, seed };
        let (board, apart) = (Board::of_paper(aging)?, Board::apart(aging)?);
        Ok(Self { parameters, seconds: milliseconds / 1e3, board, apart })
    }

    /// The machine with this layout.
    pub(super) fn board(&self, layout: Layout) -> &Board {
        match layout {
            Layout::Paper => &self.board,
            Layout::Apart => &self.apart,
        }
    }

    /// Executes programs together, under these conditions.
    ///
    /// # Errors
    /// If the machine refuses them.
    pub(super) fn execute(
        &self,
        programs: &[ProgramSpec],
        on: &Conditions,
    ) -> Result<Executed, Refusal> {
        let board = self.board(on.layout);
        let machine = board.machine(on)?;
        let is_colored = programs.iter().any(ProgramSpec::is_colored);
        let os = board.os(if is_colored { Kernel::Colored } else { Kernel::Plain });
        let seeded = |program: &ProgramSpec| ProgramSpec {
            seed: Some(self.seed_of(&program.name)),
            ..program.clone()
        };
        let seeded: Vec<ProgramSpec> = programs.iter().map(seeded).collect();
        let meter = EnergyMeter::new(&machine.memories[0].config);
        let conditions = experiment::Conditions::default();
        let (execution, meters) = machine.execute_on(os, &seeded, conditions, vec![meter])?;
        Ok(Executed::new(Energy::of(&execution, &meters[0]), execution))
    }

    /// The seed of a program: the same in every run, so that runs differ in nothing but their case.
    fn seed_of(&self, name: &str) -> u64 {
        name.bytes().fold(self.parameters.seed, |seed, byte| {
            seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
        })
    }

    /// Executes one program alone.
    ///
    /// # Errors
    /// If the machine refuses it.
    pub(super) fn alone(&self, program: &ProgramSpec, on: &Conditions) -> Result<Alone, Refusal> {
        let executed = self.execute(std::slice::from_ref(program), on)?;
        let tally = &executed.run.threads[0].tally;
        Ok(Alone {
            seconds: executed.seconds[0],
            mpki: tally.llc_misses as f64 / program.instructions as f64 * 1e3,
            rbl: tally.read_rows.hit_rate().unwrap_or(1.0),
            blp: tally.parallelism.mean().unwrap_or(1.0),
            bandwidth: executed.bandwidth,
        })
    }
}

impl Executed {
    fn new(energy: Energy, Execution { run, os, .. }: Execution) -> Self {
        let mut seconds = vec![0.0_f64; run.names.len()];
        let [mut rows, mut read_rows, mut write_rows] = [RowCounts::default(); 3];
        let mut bandwidth = 0.0;
        for thread in &run.threads {
            let time = thread.finished.as_secs_f64();
            seconds[thread.program] = seconds[thread.program].max(time);
            rows = rows.and(thread.tally.read_rows).and(thread.tally.write_rows);
            read_rows = read_rows.and(thread.tally.read_rows);
            write_rows = write_rows.and(thread.tally.write_rows);
            let lines = thread.tally.reads + thread.tally.writes;
            bandwidth += (lines * LINE_BYTES) as f64 / time;
        }
        let spilled = os.iter().map(|process| process.spilled).sum();
        let pages = os.iter().map(|process| process.faults).sum();
        Self {
            seconds,
            rows,
            read_rows,
            write_rows,
            bandwidth,
            energy,
            spilled: (spilled, pages),
            run,
        }
    }

    /// Share of the requests that do not find their row open.
    pub(super) fn miss_rate(&self) -> f64 {
        1.0 - self.rows.hit_rate().unwrap_or(1.0)
    }

    /// The same for reads.
    pub(super) fn read_miss_rate(&self) -> f64 {
        1.0 - self.read_rows.hit_rate().unwrap_or(1.0)
    }

    /// The same for write-backs.
    pub(super) fn write_miss_rate(&self) -> f64 {
        1.0 - self.write_rows.hit_rate().unwrap_or(1.0)
    }
}
