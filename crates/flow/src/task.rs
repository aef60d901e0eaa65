//! A program that is to be executed.

use std::sync::Arc;

use memweir_core::{BytesPerSec, MAX_MEDIA, Nanos, Priority};

use crate::program::{Flow, Program};

/// Placement of a task's pages: the shares of its traffic with the first memory that go to other
/// memories instead (H8). Flows that the program itself directs to other memories stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placement {
    /// Share of reads that go to each memory; the first memory gets the rest.
    pub reads: [f64; MAX_MEDIA],
    /// Share of writes that go to each memory; the first memory gets the rest.
    pub writes: [f64; MAX_MEDIA],
}

/// One execution of a program.
#[derive(Clone, Debug)]
pub struct Task {
    /// Name, such as `433.milc#2`.
    pub name: String,
    /// The program, which starts again if its end is reached before `work` is done.
    pub program: Arc<Program>,
    /// Point of the program at which the task starts.
    pub offset: Nanos,
    /// Progress after which it is complete, such as the two minutes of iabw section 5.1.
    pub work: Nanos,
    /// Time of submission.
    pub arrival: Nanos,
    /// Placement of its pages.
    pub placement: Placement,
    /// Priority, for policies with an objective.
    pub priority: Priority,
}

impl Placement {
    /// Returns a placement with the same shares of reads and of writes: `shares` of the traffic
    /// with the first memory go to the others; the share of the first is ignored.
    #[must_use]
    pub fn even(shares: [f64; MAX_MEDIA]) -> Self {
        Self { reads: shares, writes: shares }
    }

    /// Returns a placement that directs all traffic with the first memory to this one.
    #[must_use]
    pub fn all_in(memory: usize) -> Self {
        Self::even(std::array::from_fn(|place| f64::from(u8::from(place == memory))))
    }

    /// Returns the traffic with each memory, for a program with these flows.
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
        // If the shares add up to one, any remainder is a rounding error.
        placed[0].reads = rest(placed[0].reads, first.reads);
        placed[0].writes = rest(placed[0].writes, first.writes);
        placed
    }
}

fn rest(left: BytesPerSec, of: BytesPerSec) -> BytesPerSec {
    if left.0 > of.0 * 1e-12 { left } else { BytesPerSec::ZERO }
}

impl Task {
    /// Creates a task that executes the whole program once, submitted at the start, with the
    /// placement that the program itself has.
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
            priority: Priority::default(),
        }
    }
}
