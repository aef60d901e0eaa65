//! A task laid out from its start to its end, with the remaining cost at each point.

use std::sync::Arc;

use memweir_core::MAX_MEDIA;

use crate::engine::executed;
use crate::machine::Machine;
use crate::program::{Program, Span};
use crate::stretch::{Response, Solver};
use crate::task::{Placement, Task};

/// Least time for which a task occupies each memory, in nanoseconds.
pub(super) type Busy = [f64; MAX_MEDIA];

/// A part of a task with one demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Progress, in nanoseconds.
    pub(super) length: f64,
    /// Response to contention, as executed, on the node where it is fastest alone.
    pub(super) response: Response,
    /// Time alone per progress, at the least growth of latencies.
    alone: f64,
    /// Time of each memory per progress.
    busy: Busy,
    /// Time alone, and of each memory, from the start of this row to the end of the task.
    left: (f64, Busy),
}

/// A task, row by row.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) rows: Vec<Row>,
}

/// A point of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Place {
    pub(super) row: usize,
    /// Progress in it, in nanoseconds.
    pub(super) into: f64,
}

impl Plan {
    /// Returns the time from a point to the end, alone on the machine, and that of each memory.
    pub(super) fn left(&self, place: Place) -> (f64, Busy) {
        let Some(row) = self.rows.get(place.row) else { return (0.0, [0.0; MAX_MEDIA]) };
        let (alone, busy) = row.left;
        let memory = |at: usize| (busy[at] - place.into * row.busy[at]).max(0.0);
        ((alone - place.into * row.alone).max(0.0), std::array::from_fn(memory))
    }

    /// Returns true if the task is complete at this point.
    pub(super) fn is_complete(&self, place: Place) -> bool {
        place.row == self.rows.len()
    }
}

/// Computes the costs of spans, once for all tasks that have the same program and placement.
pub(super) struct Costing<'a> {
    machine: &'a Machine,
    pub(super) solver: Solver,
    /// Solver of the times alone, see `bound`.
    fastest: Solver,
    /// One row per span of a program.
    known: Vec<(Arc<Program>, Placement, Arc<[Row]>)>,
}

impl<'a> Costing<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        let solver = Solver::new(machine);
        Self { machine, fastest: solver.clone().with_least_growth(), solver, known: Vec::new() }
    }

    fn rows(&mut self, task: &Task) -> Arc<[Row]> {
        let same = |known: &&(Arc<Program>, Placement, Arc<[Row]>)| {
            Arc::ptr_eq(&known.0, &task.program) && known.1 == task.placement
        };
        if let Some((.., rows)) = self.known.iter().find(same) {
            return Arc::clone(rows);
        }
        let rows: Arc<[Row]> =
            task.program.spans.iter().map(|span| self.row(span, task.placement)).collect();
        self.known.push((Arc::clone(&task.program), task.placement, Arc::clone(&rows)));
        rows
    }

    fn row(&self, span: &Span, placement: Placement) -> Row {
        let speed = |response: &Response| self.fastest.speed_alone(response);
        let response =
            |node| executed(self.machine, self.fastest.response(&span.demand, &placement, node));
        let fastest = fastest(&self.fastest, (0..self.machine.nodes.len()).map(response));
        // A response holds busy shares at its unloaded speed; a memory's time per progress is that
        // of its lines, on any node.
        let per_progress = |memory: usize| fastest.rate[memory] / fastest.unloaded_speed();
        Row {
            length: span.length.as_f64(),
            response: fastest,
            alone: 1.0 / speed(&fastest),
            busy: std::array::from_fn(per_progress),
            left: (0.0, [0.0; MAX_MEDIA]),
        }
    }

    /// Returns the rows of a task's spans, with the progress that the task makes in each.
    pub(super) fn progress(&mut self, task: &Task) -> Vec<(Row, f64)> {
        let round = task.program.length().0;
        let (from, to) = (task.offset.0 % round, task.offset.0 % round + task.work.0);
        // Progress in a span that begins at `start` of each round, up to a point.
        let up_to = |point: u64, start: u64, length: u64| {
            point / round * length + (point % round).saturating_sub(start).min(length)
        };
        let mut start = 0;
        let mut progress = |(span, row): (&Span, &Row)| {
            let length = span.length.0;
            let made = up_to(to, start, length) - up_to(from, start, length);
            start += length;
            (*row, made as f64)
        };
        task.program.spans.iter().zip(self.rows(task).iter()).map(&mut progress).collect()
    }

    /// Returns the time that a task takes alone on the machine, and that of each memory: the same
    /// as a plan's cost at its start, without laying the task out.
    pub(super) fn total(&mut self, task: &Task) -> (f64, Busy) {
        let mut total = (0.0, [0.0; MAX_MEDIA]);
        for (row, progress) in self.progress(task) {
            row.add_to(&mut total, progress);
        }
        total
    }

    /// Lays the task out.
    pub(super) fn plan(&mut self, task: &Task) -> Plan {
        let per_span = self.rows(task);
        let mut skip = task.offset.0 % task.program.length().0;
        let mut left = task.work.0;
        let mut rows = Vec::new();
        for (span, row) in task.program.spans.iter().zip(per_span.iter()).cycle() {
            let length = span.length.0.saturating_sub(skip).min(left);
            skip = skip.saturating_sub(span.length.0);
            if length > 0 {
                rows.push(Row { length: length as f64, ..*row });
            }
            left -= length;
            if left == 0 {
                break;
            }
        }
        let mut behind = (0.0, [0.0; MAX_MEDIA]);
        for row in rows.iter_mut().rev() {
            row.add_to(&mut behind, row.length);
            row.left = behind;
        }
        Plan { rows }
    }
}

/// Returns that of the responses of a span, one per node, with which it is fastest alone.
pub(super) fn fastest(solver: &Solver, responses: impl Iterator<Item = Response>) -> Response {
    let speed = |response: &Response| solver.speed_alone(response);
    responses
        .reduce(|best, other| if speed(&other) > speed(&best) { other } else { best })
        .expect("a checked machine has a node")
}

impl Row {
    /// Adds the cost of `progress`.
    fn add_to(&self, sum: &mut (f64, Busy), progress: f64) {
        sum.0 += progress * self.alone;
        for (sum, busy) in sum.1.iter_mut().zip(self.busy) {
            *sum += progress * busy;
        }
    }
}
