//! Which pages belong into DRAM: data migration beside scheduling, the future work of hmmsched.
//!
//! A [`MigrationPolicy`] sees how hot the pieces of the jobs' memory are, as far as samples tell,
//! and names the moves that are worth their cost. Moving pages, charging for it and sampling them
//! is the business of whoever drives it, a simulation or a kernel. Where a job's pages lie at its
//! start is no question of migration.

mod hot_pages;

use memweir_core::{Bytes, JobId, LINE_BYTES, Lines, Media, MediumId, Nanos, Traffic};

pub use hot_pages::{HotPageRules, HotPages};

/// The page that an operating system moves at least.
pub const PAGE: Bytes = Bytes(4096);

/// A piece of a job's memory that moves as a whole: a page, a huge page, or pages that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Whose it is.
    pub job: JobId,
    /// Which of the job's pieces; it keeps its number as long as the job lives.
    pub number: u32,
    /// How large it is; more than zero.
    pub size: Bytes,
    /// Where it is.
    pub medium: MediumId,
    /// Traffic with it since the last decision, estimated from samples.
    pub traffic: Traffic,
}

/// What a migration policy sees.
#[derive(Clone, Copy, Debug)]
pub struct MigrationView<'a> {
    /// Time since the last decision.
    pub elapsed: Nanos,
    /// The memory of all jobs, in any order; no piece twice.
    pub extents: &'a [Extent],
    /// Local DRAM that these may occupy in all. They may occupy more when a policy is first asked,
    /// never after.
    pub dram_capacity: Bytes,
    /// The media of the machine.
    pub media: &'a Media,
}

/// A move that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which, as an index into [`MigrationView::extents`].
    pub extent: usize,
    /// Where to.
    pub to: MediumId,
}

/// Decides about data migration. It owns whatever memory it needs.
pub trait MigrationPolicy: Send {
    /// Appends the moves to be made now, in the order in which they are to be made: what leaves
    /// the local DRAM goes before what needs the room. `moves` is empty at the call.
    fn decide(&mut self, view: &MigrationView<'_>, moves: &mut Vec<Move>);
}

/// What a move takes. It is to be charged to the machine: the traffic to both media, the time to
/// the job, which cannot use what is being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveCost {
    /// Lines read where the extent was, and as many written where it goes.
    pub lines: Lines,
    /// The copy and whatever comes with it.
    pub time: Nanos,
}

impl MoveCost {
    /// What it takes to move `size` bytes, with `overhead` for whatever is not copying (page
    /// tables, TLB shootdown), for each page of [`PAGE`] bytes or a part of one.
    ///
    /// Each line is read at the latency of the one medium and written at that of the other, one
    /// after the other. A copy overlaps them, and so do the accesses that it is to save: both are
    /// counted alike.
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

/// Time that `traffic` spends in accesses to `medium`, one after the other, in nanoseconds.
fn access_time(media: &Media, medium: MediumId, traffic: (f64, f64)) -> f64 {
    let (reads, writes) = traffic;
    media.get(medium).map_or(0.0, |medium| {
        (reads * medium.read_latency.as_f64() + writes * medium.write_latency.as_f64()) / 1e3
    })
}

#[cfg(test)]
mod tests;
