//! One task while the experiment runs: its position, its current work and its traffic so far.

use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, Lines, MAX_MEDIA, Traffic};

use super::contention::Piece;
use super::execution::Reading;
use super::layout::{FIGURES, Point, Row};
use crate::machine::View;
use crate::program::{Flow, Program};
use crate::stretch::Solver;
use crate::task::Placement;

/// Spans of each task that are fetched at once where few cores execute few programs: a fetch from a
/// program's table takes longer than anything else in a step, but several fetches overlap.
pub(super) const FAR: usize = 64;

/// Spans fetched at once where there are so many cores that the fetched spans themselves would not
/// stay in the cache.
pub(super) const NEAR: usize = 32;

/// Work of a core for a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing<const R: usize, const W: usize> {
    /// The task's program.
    Work,
    /// Work that takes time without progress.
    Overhead(Piece<R, W>),
}

/// One task while the experiment runs, with `A` spans fetched.
#[derive(Debug)]
pub(super) struct State<const R: usize, const W: usize, const A: usize> {
    /// The program, laid out; absent once the pages have moved, because they may move often from
    /// then on.
    pub(super) rows: Option<Arc<[Row<R, W>]>>,
    pub(super) at: Point,
    /// Progress in the span of `at` at which the current piece ends.
    pub(super) piece_end: f64,
    /// The current span and those after it, up to the last that is fetched.
    pub(super) ahead: [Row<R, W>; A],
    /// Index of the current span in `ahead`.
    pub(super) place: usize,
    /// Ends of spans that are still ahead.
    pub(super) boundaries: u64,
    pub(super) doing: Doing<R, W>,
    /// Overheads that come before the program continues; the next one last.
    pub(super) pending: Vec<Piece<R, W>>,
    pub(super) core: Option<usize>,
    /// Time since which the task has been on `core`.
    pub(super) since: f64,
    pub(super) cpu_time: f64,
    /// The program's totals when the traffic was last attributed.
    pub(super) attributed: [f64; FIGURES],
    /// Lines attributed so far: by memory, and by medium.
    pub(super) moved: [[f64; 2]; MAX_MEDIA],
    pub(super) counted: [[f64; 2]; MAX_MEDIA],
    /// Node of the core that it was put on last.
    pub(super) node: usize,
    pub(super) placement: Placement,
    // The fields below do not change.
    pub(super) program: usize,
    pub(super) spans: usize,
    pub(super) start: Point,
    /// Instructions that the program has executed at `start`.
    pub(super) begun: f64,
    pub(super) end: Point,
    /// Time from `start` to `end`, alone on the machine.
    pub(super) alone: f64,
    pub(super) home: usize,
}

impl<const R: usize, const W: usize, const A: usize> State<R, W, A> {
    /// Fetches the current span and those after it, with the current placement.
    pub(super) fn fetch(&mut self, solver: &Solver, program: &Program) {
        self.place = 0;
        let mut span = self.at.span;
        let whole = self.rows.as_ref().and_then(|rows| rows.get(span..span + A));
        if let Some(rows) = whole {
            self.ahead.copy_from_slice(rows);
            return;
        }
        for place in 0..A {
            self.ahead[place] = self.row_of(span, solver, program);
            span = if span + 1 == self.spans { 0 } else { span + 1 };
        }
    }

    /// Returns the current span. The remainder changes nothing, and removes the bounds check.
    #[inline(always)]
    pub(super) fn here(&self) -> &Row<R, W> {
        &self.ahead[self.place % A]
    }

    /// Returns the span after the current one.
    #[inline(always)]
    pub(super) fn following(&self, solver: &Solver, program: &Program) -> Row<R, W> {
        match self.ahead.get(self.place + 1) {
            Some(row) => *row,
            None => self.row_of((self.at.span + 1) % self.spans, solver, program),
        }
    }

    /// Moves to the start of the next span.
    #[inline(always)]
    pub(super) fn advance(&mut self, solver: &Solver, program: &Program) {
        self.at.into = 0.0;
        self.at.span += 1;
        if self.at.span == self.spans {
            self.at.span = 0;
            self.at.lap += 1;
        }
        self.place += 1;
        if self.place == A {
            self.fetch(solver, program);
        }
    }

    #[inline(always)]
    fn row_of(&self, span: usize, solver: &Solver, program: &Program) -> Row<R, W> {
        match &self.rows {
            Some(rows) => rows[span],
            None => {
                let response =
                    solver.response(&program.spans[span].demand, &self.placement, self.node);
                Row::new(&response, program.spans[span].length)
            }
        }
    }

    /// Returns the task's position if its piece has this much left, in time without contention.
    pub(super) fn point(&self, left: f64) -> Point {
        let here = self.here();
        let end = if self.piece_end.is_nan() { here.length() } else { self.piece_end };
        Point { into: (end - left / here.slowness).clamp(self.at.into, end), ..self.at }
    }

    /// Attributes the traffic since the last call, up to these totals of the program, to the
    /// memories of the placement and to the media that those are to the task's node.
    pub(super) fn attribute(&mut self, totals: [f64; FIGURES], view: &View) {
        let done = std::array::from_fn(|figure| totals[figure] - self.attributed[figure]);
        let placed = self.placement.apply(&flows(&done));
        for (memory, flow) in placed.iter().enumerate() {
            let medium = view.medium(self.node, memory).index();
            for (direction, lines) in [flow.reads.0, flow.writes.0].into_iter().enumerate() {
                self.moved[memory][direction] += lines;
                self.counted[medium][direction] += lines;
            }
        }
        self.attributed = totals;
    }

    /// Returns the reading of a task whose traffic has been attributed up to `at`.
    pub(super) fn reading(&self, now: f64, at: Point) -> Reading {
        let on_core = if self.core.is_some() { now - self.since } else { 0.0 };
        let instructions = (self.attributed[0] - self.begun + 0.5) as u64;
        Reading {
            cpu_time: self.cpu_time + on_core,
            counts: Counts::by_medium(instructions, self.counted.map(rounded)),
            moved: self.moved.map(rounded),
            at,
        }
    }
}

/// Converts totals to flows in lines, the form in which placements are applied.
pub(super) fn flows(totals: &[f64; FIGURES]) -> [Flow; MAX_MEDIA] {
    std::array::from_fn(|memory| Flow {
        reads: BytesPerSec(totals[1 + 2 * memory]),
        writes: BytesPerSec(totals[2 + 2 * memory]),
    })
}

/// Rounds to whole lines; most machines use only some of the memories, so zeros return at once.
fn rounded(lines: [f64; 2]) -> Traffic {
    if lines == [0.0; 2] {
        return Traffic::default();
    }
    let [reads, writes] = lines.map(|lines| Lines((lines + 0.5) as u64));
    Traffic { reads, writes }
}
