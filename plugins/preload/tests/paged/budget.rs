//! Tests whether the pager keeps a budget, as a statistic of several runs: the machine's
//! interference is measured during each run, and the memory that can come meanwhile is subtracted.

use std::sync::PoisonError;
use std::time::Duration;

use memweir_abi::preload::page::PageOrder;

use super::stalls::Witness;
use super::{MACHINE, PageCounter, run_now};

/// Runs for one verdict, unless fewer decide it.
const RUNS: usize = 9;
/// Bytes that a thread brings to DRAM in a microsecond, at most: writing a page of NVM takes two.
const BYTES_PER_MICRO: u64 = 2048;

/// The work of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    name: &'static str,
    /// Threads that write at the same time, if there are processors for them.
    threads: u64,
}

pub(crate) const FILL: Work = Work { name: "fill", threads: 1 };
/// Two threads more than there are processors.
pub(crate) const RANDOM: Work = Work { name: "random", threads: u64::MAX };

/// A run of a paged program.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Peak use of DRAM in bytes.
    peak: u64,
    /// The longest time for which the machine stopped a processor.
    stall: Duration,
}

/// Result of several runs together.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// In most of them the budget was kept within five percent, the machine's part subtracted.
    Kept,
    /// In most of them it was not.
    Exceeded,
    /// In most of them, a single stall was long enough to fill the budget once more.
    Undecided,
}

impl Run {
    /// Returns the bytes that this many threads bring to DRAM while the machine stops the helper.
    fn meanwhile(&self, threads: u64) -> u64 {
        self.stall.as_micros() as u64 * threads * BYTES_PER_MICRO
    }
}

/// Returns the verdict of so many runs about a budget in bytes, as soon as the first of them decide
/// it.
fn judge(runs: &[Run], of: usize, budget: u64, threads: u64) -> Option<Verdict> {
    let most = |is_so: &dyn Fn(&Run) -> bool| 2 * runs.iter().filter(|run| is_so(run)).count() > of;
    let tolerated = budget * 105 / 100;
    let exceeds = |run: &Run| run.peak > tolerated + run.meanwhile(threads);
    let is_stalled = |run: &Run| run.peak > tolerated && run.meanwhile(threads) >= budget;
    if most(&exceeds) {
        Some(Verdict::Exceeded)
    } else if most(&|run| !exceeds(run) && !is_stalled(run)) {
        Some(Verdict::Kept)
    } else if runs.len() < of {
        None
    } else {
        Some(if most(&is_stalled) { Verdict::Undecided } else { Verdict::Kept })
    }
}

/// Runs the work, and judges it by a separate budget.
fn verdict(Work { name, threads }: Work, order: &PageOrder, budget: u64) -> (Verdict, Vec<Run>) {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut runs = Vec::new();
    loop {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        let witness = Witness::begin();
        let counters = run_now(name, order.clone());
        let stall = witness.longest();
        runs.push(Run { peak: counters.get(PageCounter::DramPeakBytes), stall });
        if let Some(verdict) = judge(&runs, RUNS, budget, threads.min(processors)) {
            return (verdict, runs);
        }
    }
}

/// Asserts that the work keeps its budget.
pub(crate) fn is_kept(work: Work, order: &PageOrder) {
    let (verdict, runs) = verdict(work, order, order.dram.0);
    println!("{} in {}: {verdict:?} {runs:?}", work.name, order.dram);
    assert_ne!(verdict, Verdict::Exceeded, "{work:?} in {}: {runs:?}", order.dram);
    if verdict == Verdict::Undecided {
        memweir_test_support::skip!(
            Busy,
            "the budget of {work:?}: the machine stopped processors: {runs:?}"
        );
    }
}

/// Asserts that the work is found to exceed a budget that is smaller than its own.
pub(crate) fn is_found_exceeded(work: Work, order: &PageOrder, budget: u64) {
    let (verdict, runs) = verdict(work, order, budget);
    assert_ne!(verdict, Verdict::Kept, "{work:?}, judged by {budget} bytes: {runs:?}");
    if verdict == Verdict::Undecided {
        memweir_test_support::skip!(
            Busy,
            "an exceeded budget: the machine stopped processors: {runs:?}"
        );
    }
}

#[test]
fn most_runs_decide_and_the_machine_s_part_is_subtracted() {
    const MIB: u64 = 1 << 20;
    let run = |mib: u64, micros| Run { peak: mib * MIB, stall: Duration::from_micros(micros) };
    let judged = |runs: &[Run], of| judge(runs, of, 20 * MIB, 2);
    let judge = |runs: &[Run]| judged(runs, runs.len()).expect("all runs");
    assert_eq!(judge(&[run(21, 0), run(21, 0), run(90, 0)]), Verdict::Kept);
    assert_eq!(judge(&[run(21, 0), run(22, 0), run(22, 0)]), Verdict::Exceeded);
    // In 256 us two threads bring 256 pages, 1 MiB.
    assert_eq!(judge(&[run(22, 256), run(22, 256), run(22, 0)]), Verdict::Kept);
    assert_eq!(judge(&[run(22, 255), run(22, 255), run(22, 256)]), Verdict::Exceeded);
    // 20 MiB more in 5,120 us.
    assert_eq!(judge(&[run(30, 5120), run(30, 5120), run(21, 0)]), Verdict::Undecided);
    assert_eq!(judge(&[run(30, 5120), run(21, 5120), run(21, 0)]), Verdict::Kept);
    assert_eq!(judge(&[run(90, 5120), run(90, 5120), run(21, 0)]), Verdict::Exceeded);
    // Two of three decide; of five they do not.
    assert_eq!(judged(&[run(21, 0), run(21, 0)], 3), Some(Verdict::Kept));
    assert_eq!(judged(&[run(22, 0), run(22, 0)], 3), Some(Verdict::Exceeded));
    assert_eq!(judged(&[run(22, 0), run(22, 0)], 5), None);
    // A third may still exceed it, as the first two do.
    assert_eq!(judged(&[run(21, 0), run(30, 5120)], 3), None);
    assert_eq!(judged(&[run(30, 5120), run(30, 5120)], 3), None);
}
