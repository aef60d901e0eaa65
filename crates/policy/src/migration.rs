//! Data migration beside scheduling, the future work of hmmsched: which pages belong in DRAM.
//!
//! The policy, [`HotPages`], sees the sampled heat of the extents of the jobs' memory and names the
//! moves that are worth their cost. Its driver, a simulation or a kernel, moves pages, charges for
//! the moves and takes the samples. The initial placement of a job's pages is not part of
//! migration.

mod hot_pages;

use memweir_core::{Bytes, JobId, LINE_BYTES, Lines, Media, MediumId, Nanos, PAGE, Traffic};

pub use hot_pages::{HotPageRules, HotPages};

/// A part of a job's memory that moves as a whole: a page, a huge page, or several pages alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Job that owns the extent.
    pub job: JobId,
    /// Number of the extent within its job; constant as long as the job lives.
    pub number: u32,
    /// Size; more than zero.
    pub size: Bytes,
    /// Medium that holds the extent.
    pub medium: MediumId,
    /// Traffic with it since the last decision, estimated from samples.
    pub traffic: Traffic,
}

/// Input of the migration policy.
#[derive(Clone, Copy, Debug)]
pub struct MigrationView<'a> {
    /// Time since the last decision.
    pub elapsed: Nanos,
    /// Extents of all jobs, in any order, without duplicates.
    pub extents: &'a [Extent],
    /// Local DRAM that the extents may occupy in total. They may exceed it when the policy is first
    /// asked, never after.
    pub dram_capacity: Bytes,
    /// The media of the machine.
    pub media: &'a Media,
}

/// A move to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Extent to move, as an index into [`MigrationView::extents`].
    pub extent: usize,
    /// Target medium.
    pub to: MediumId,
}

/// Cost of a move. The driver charges it to the machine: the traffic to both media, the time to the
/// job, which cannot use the extent while it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveCost {
    /// Lines read where the extent was, and as many written where it goes.
    pub lines: Lines,
    /// Time of the copy and of the overhead.
    pub time: Nanos,
}

impl MoveCost {
    /// Returns the cost of moving `size` bytes, with an `overhead` for everything except the copy
    /// (page tables, TLB shootdown) for each page of [`PAGE`] bytes or part of one.
    ///
    /// Each line is read at the latency of one medium and written at that of the other, one after
    /// the other. In reality a copy overlaps its accesses, and a job overlaps those that the move
    /// saves; neither overlap is counted.
    #[must_use]
    pub fn new(media: &Media, size: Bytes, from: MediumId, to: MediumId, overhead: Nanos) -> Self {
        let lines = Lines(size.0.div_ceil(LINE_BYTES));
        let read = media.get(from).map_or(0, |medium| medium.read_latency.0);
        let write = media.get(to).map_or(0, |medium| medium.write_latency.0);
        let copy = lines.0.saturating_mul(read + write) / 1_000;
        let overhead = overhead.0.saturating_mul(size.0.div_ceil(PAGE.0));
        Self { lines, time: Nanos(copy.saturating_add(overhead)) }
    }
}

/// Returns the time in nanoseconds that `traffic` (lines read, lines written) spends in accesses to
/// `medium`, one after the other.
fn access_time(media: &Media, medium: MediumId, traffic: (f64, f64)) -> f64 {
    let (reads, writes) = traffic;
    media.get(medium).map_or(0.0, |medium| {
        (reads * medium.read_latency.as_f64() + writes * medium.write_latency.as_f64()) / 1e3
    })
}

#[cfg(test)]
mod tests;
