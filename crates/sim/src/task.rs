//! A program that is to be executed.

use std::sync::Arc;

use memweir_core::{BytesPerSec, MAX_MEDIA, Nanos};

use crate::program::{Flow, Program};

/// Where a task's pages are: which share of its traffic with the first memory goes elsewhere
/// instead (H8). Flows that the program itself directs to other memories stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placement {
    /// Share of reads that go to each memory; that of the first memory is what is left.
    pub reads: [f64; MAX_MEDIA],
    /// The same of writes.
    pub writes: [f64; MAX_MEDIA],
}

/// One execution of a program.
#[derive(Clone, Debug)]
pub struct Task {
    /// How people call it: `433.milc#2`.
    pub name: String,
    /// What it executes, from the start again when its end is reached before `work` is done.
    pub program: Arc<Program>,
    /// Where in the program it starts.
    pub offset: Nanos,
    /// Progress after which it is complete, such as the two minutes of iabw section 5.1.
    pub work: Nanos,
    /// When it is submitted.
    pub arrival: Nanos,
    /// Where its pages are.
    pub placement: Placement,
}

impl Placement {
    /// The same shares of reads and of writes: `shares` of the traffic with the first memory go
    /// to the others; the first of them is not looked at.
    #[must_use]
    pub fn even(shares: [f64; MAX_MEDIA]) -> Self {
        Self { reads: shares, writes: shares }
    }

    /// Everything that would go to the first memory goes to this one.
    #[must_use]
    pub fn all_in(memory: usize) -> Self {
        Self::even(std::array::from_fn(|place| f64::from(u8::from(place == memory))))
    }

    /// The traffic with each memory, for a program with these flows.
    #[must_use]
    pub fn apply(&self, flows: &[Flow; MAX_MEDIA]) -> [Flow; MAX_MEDIA] {
        let first = flows[0];
        let mut placed = *flows;
        for place in 1..MAX_MEDIA {
            let reads = first.reads * self.reads[place];
            let writes = first.writes * self.writes[place];
            placed[place].reads += reads;
            placed[place].writes += writes;
            placed[0].reads -= reads;
            placed[0].writes -= writes;
        }
        // What shares that add up to one leave behind is rounding.
        placed[0].reads = rest(placed[0].reads, first.reads);
        placed[0].writes = rest(placed[0].writes, first.writes);
        placed
    }
}

fn rest(left: BytesPerSec, of: BytesPerSec) -> BytesPerSec {
    if left.0 > of.0 * 1e-12 { left } else { BytesPerSec::ZERO }
}

impl Task {
    /// A task that executes the whole program once, submitted at the start, with all pages where
    /// the program says.
    #[must_use]
    pub fn once(name: impl Into<String>, program: Arc<Program>) -> Self {
        let work = program.length();
        Self {
            name: name.into(),
            program,
            offset: Nanos::ZERO,
            work,
            arrival: Nanos::ZERO,
            placement: Placement::default(),
        }
    }
}
