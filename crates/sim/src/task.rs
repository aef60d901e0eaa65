//! A program that is to be executed.

use std::sync::Arc;

use memweir_core::{MAX_MEDIA, Nanos};

use crate::program::Program;

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
