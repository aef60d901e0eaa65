//! One task while the experiment runs: where it is, what it does, what it has moved.

use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, Lines, MAX_MEDIA, Traffic};

use super::contention::Piece;
use super::execution::Reading;
use super::track::{FIGURES, Point, Row};
use crate::machine::View;
use crate::program::{Flow, Program};
use crate::stretch::Solver;
use crate::task::Placement;

/// Spans of each task that are fetched at once where few cores go through few programs: from where those
/// are kept each takes longer to come than anything else in a step, but several come together.
pub(super) const FAR: usize = 64;

/// The same where so many cores do that what is fetched would itself not stay near.
pub(super) const NEAR: usize = 32;

/// What a core does for a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing<const R: usize, const W: usize> {
    /// Its program.
    Work,
    /// Something that takes time without progress.
    Overhead(Piece<R, W>),
}

/// One task while the experiment runs, with `A` spans fetched.
#[derive(Debug)]
pub(super) struct State<const R: usize, const W: usize, const A: usize> {
    /// The program, laid out; absent once the pages have moved, for then they may move often.
    pub(super) rows: Option<Arc<[Row<R, W>]>>,
    pub(super) at: Point,
    /// Progress in the span of `at` at which the piece at hand ends.
    pub(super) piece_end: f64,
    /// The span at hand and those after it, up to the last that is fetched.
    pub(super) ahead: [Row<R, W>; A],
    /// The place of the span at hand there.
    pub(super) place: usize,
    /// Ends of spans that are still to be passed.
    pub(super) boundaries: u64,
    pub(super) doing: Doing<R, W>,
    /// Overheads that come before the program goes on; the next one last.
    pub(super) pending: Vec<Piece<R, W>>,
    pub(super) core: Option<usize>,
    /// Since when it has been on it.
    pub(super) since: f64,
    pub(super) cpu_time: f64,
    /// Where it was, and what of its program was behind it, when its traffic was last attributed.
    pub(super) attributed: [f64; FIGURES],
    /// What it moved until then, in lines: by memory, and by medium.
    pub(super) moved: [[f64; 2]; MAX_MEDIA],
    pub(super) counted: [[f64; 2]; MAX_MEDIA],
    /// Node of the core that it was put on last.
    pub(super) node: usize,
    pub(super) placement: Placement,
    // What does not change.
    pub(super) program: usize,
    pub(super) spans: usize,
    pub(super) start: Point,
    /// Instructions that its program has executed by then.
    pub(super) begun: f64,
    pub(super) end: Point,
    /// Time from one to the other, alone on the machine.
    pub(super) alone: f64,
    pub(super) home: usize,
}

impl<const R: usize, const W: usize, const A: usize> State<R, W, A> {
    /// Fetches the span at hand and those after it, with the pages where they are.
    pub(super) fn look(&mut self, solver: &Solver, program: &Program) {
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

    /// The span at hand. The remainder changes nothing, and spares the check of the place.
    #[inline(always)]
    pub(super) fn here(&self) -> &Row<R, W> {
        &self.ahead[self.place % A]
    }

    /// The span after the one at hand.
    #[inline(always)]
    pub(super) fn following(&self, solver: &Solver, program: &Program) -> Row<R, W> {
        match self.ahead.get(self.place + 1) {
            Some(row) => *row,
            None => self.row_of((self.at.span + 1) % self.spans, solver, program),
        }
    }

    /// Goes on to the start of the next span.
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
            self.look(solver, program);
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

    /// Where it is if so much time is left of its piece where nothing contends.
    pub(super) fn point(&self, left: f64) -> Point {
        let here = self.here();
        let end = if self.piece_end.is_nan() { here.length() } else { self.piece_end };
        Point { into: (end - left / here.slowness).clamp(self.at.into, end), ..self.at }
    }

    /// Attributes what it did until its program's totals were these, since that was last done, to
    /// the memories where its pages are, and to the media that those are to its node.
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

    /// What it has done, if that has been attributed, and it is here.
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

/// Lines of each flow, in the form in which placements are applied.
pub(super) fn flows(totals: &[f64; FIGURES]) -> [Flow; MAX_MEDIA] {
    std::array::from_fn(|memory| Flow {
        reads: BytesPerSec(totals[1 + 2 * memory]),
        writes: BytesPerSec(totals[2 + 2 * memory]),
    })
}

/// Most machines have fewer memories than there may be.
fn rounded(lines: [f64; 2]) -> Traffic {
    if lines == [0.0; 2] {
        return Traffic::default();
    }
    let [reads, writes] = lines.map(|lines| Lines((lines + 0.5) as u64));
    Traffic { reads, writes }
}
