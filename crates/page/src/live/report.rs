//! The results of a run of a paged program, as data.

use std::collections::BTreeMap;

use memweir_abi::preload::page::{PageCounter, PageCounters};
use memweir_core::Bytes;
use memweir_energy::{Estimate, Paging};
use serde::Serialize;

use super::outside::UnpagedProgram;
use super::overshoot::{Cause, Run};
use super::session::{Look, Paged};
use super::times::Histogram;

/// The place of evicted pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NvmReport {
    /// As it was requested: `node:2`.
    pub place: String,
    /// Its size.
    pub size_bytes: Bytes,
}

/// A medium that was emulated: how many times slower than DRAM it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delay {
    /// Reading a page.
    pub read: f64,
    /// Writing one.
    pub write: f64,
}

/// Programs that ran without being paged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnpagedReport {
    /// Processes found at starts by paged programs or by walks through the running processes,
    /// whichever are more. If each way saw one that the other did not, one is missing.
    pub processes: u64,
    /// Processes that were not started.
    pub refused: u64,
    /// Peak anonymous memory in DRAM of each program, at the walks.
    pub programs: Vec<UnpagedProgram>,
}

impl UnpagedReport {
    /// Returns the sum of their peaks, which their memory together cannot have exceeded.
    #[must_use]
    pub fn dram_peak(&self) -> Bytes {
        self.programs.iter().map(|program| program.ran.dram_peak_bytes).sum()
    }
}

/// The end of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its status, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A run. `page run --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The budget.
    pub dram_bytes: Bytes,
    /// The place of evicted pages.
    pub nvm: NvmReport,
    /// `in-place` or `copy`.
    pub direct_read: &'static str,
    /// The policy that chose victims.
    pub victims: String,
    /// The medium that was emulated.
    pub delay: Option<Delay>,
    /// `stop` or `end-largest`.
    pub when_full: &'static str,
    /// From the start of the program to its end.
    pub seconds: f64,
    /// The end of the program.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Pages that left DRAM.
    pub evictions: u64,
    /// Evicted pages that were read in place.
    pub direct_reads: u64,
    /// Evicted pages that were mapped along with one that was read; whether they were read is
    /// unknown.
    pub mapped_around: u64,
    /// Pages copied back to DRAM.
    pub copies_in: u64,
    /// Pages read in place that were never copied back, without those mapped along with others.
    pub copies_avoided: u64,
    /// Memory in NVM that was not in DRAM, averaged over the run.
    pub dram_relieved_bytes: Bytes,
    /// Memory in DRAM at the last look while it ran.
    pub dram_resident_bytes: Bytes,
    /// Peak memory in DRAM, with programs that were not paged.
    pub dram_peak_bytes: Bytes,
    /// Excess of the peak over the budget.
    pub dram_overshoot_bytes: Bytes,
    /// Why it was more than a twentieth above the budget, as far as that is known.
    pub dram_overshoot_causes: Vec<Cause>,
    /// A lower bound of the peak shared memory in DRAM of one paged process, at the looks. It is
    /// neither paged nor part of the other figures.
    pub shared_peak_bytes: Bytes,
    /// Programs that ran without being paged.
    pub unpaged: UnpagedReport,
    /// Memory in NVM at the last look while it ran.
    pub nvm_used_bytes: Bytes,
    /// Peak memory in NVM.
    pub nvm_peak_bytes: Bytes,
    /// Processes that were ended because there was no room left.
    pub ended_processes: Vec<u32>,
    /// Processes whose helper died before them. No figure has their memory from then on.
    pub uncounted_processes: Vec<u32>,
    /// Times of single pages, by operation.
    pub times: BTreeMap<&'static str, Histogram>,
    /// Energy estimate for the media that the places stand for.
    pub energy: Estimate,
    /// Everything that the library counts.
    pub counters: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Makes the report of a program that has ended. `place` is the place as requested, `last` the
    /// last look, and `estimate` computes an energy.
    #[must_use]
    pub fn new(
        command: Vec<String>,
        place: String,
        outcome: Outcome,
        paged: &Paged,
        last: &Look,
        estimate: impl FnOnce(&Paging) -> Estimate,
    ) -> Self {
        let (order, counters) = (paged.order(), &last.counters);
        let bytes = |counter| Bytes(counters.get(counter));
        let (dram_peak, nvm_peak) = (paged.dram_peak(counters), bytes(PageCounter::NvmPeakBytes));
        let unpaged = unpaged(paged, counters);
        let run = Run {
            budget: order.dram,
            peak: dram_peak,
            unpaged: unpaged.dram_peak(),
            seconds: last.row.t_s.0,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            counters,
        };
        let running = paged.last_running();
        let row = &last.row;
        let all = PageCounter::ALL.iter();
        Self {
            command,
            dram_bytes: order.dram,
            nvm: NvmReport { place, size_bytes: order.nvm_size },
            direct_read: order.direct_read.name(),
            victims: order.victims.clone(),
            delay: order.delay.map(|delay| Delay { read: delay.read, write: delay.write }),
            when_full: order.when_full.name(),
            seconds: row.t_s.0,
            outcome,
            evictions: row.evictions,
            direct_reads: row.direct_reads,
            mapped_around: counters.get(PageCounter::MappedAround),
            copies_in: row.copies_in,
            copies_avoided: row.copies_avoided,
            dram_relieved_bytes: paged.relieved(),
            // A program that ended before the first look has its peaks.
            dram_resident_bytes: running.map_or(dram_peak, |row| row.dram_resident_bytes),
            dram_peak_bytes: dram_peak,
            dram_overshoot_bytes: dram_peak.saturating_sub(order.dram),
            dram_overshoot_causes: run.causes(),
            shared_peak_bytes: paged.shared_peak(),
            unpaged,
            nvm_used_bytes: running.map_or(nvm_peak, |row| row.nvm_used_bytes),
            nvm_peak_bytes: nvm_peak,
            ended_processes: paged.ended().to_vec(),
            uncounted_processes: paged.uncounted().to_vec(),
            times: Histogram::all(counters).into_iter().collect(),
            energy: estimate(&Paging {
                duration: row.t_s,
                size: order.nvm_size,
                evictions: row.evictions,
                copies_in: row.copies_in,
                copies_avoided: row.copies_avoided,
            }),
            counters: all.map(|(name, counter)| (*name, counters.get(*counter))).collect(),
        }
    }
}

fn unpaged(paged: &Paged, counters: &PageCounters) -> UnpagedReport {
    let programs = paged.outside().programs();
    let seen = programs.iter().map(|program| program.ran.processes).sum();
    UnpagedReport {
        processes: counters.get(PageCounter::Unpaged).max(seen),
        refused: counters.get(PageCounter::Refused),
        programs,
    }
}
