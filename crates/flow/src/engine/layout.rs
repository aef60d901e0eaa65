//! Programs laid out for execution: per span the inputs of one step of the event loop, and prefix
//! sums that give everything between two points of a program at once.

use std::sync::Arc;

use memweir_core::{LINE_BYTES, MAX_MEDIA, Nanos};

use crate::program::{Program, Span};
use crate::stretch::{Group, Response, Solver};
use crate::task::Placement;

/// Instructions, and reads and writes of each flow of a program.
pub(crate) const FIGURES: usize = 1 + 2 * MAX_MEDIA;

/// One span of a program at one placement, on one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<const R: usize, const W: usize> {
    /// Time without contention, in nanoseconds.
    pub(crate) time: f64,
    /// That time per progress.
    pub(crate) slowness: f64,
    /// Load on each resource.
    pub(crate) group: Group<R, W>,
}

impl<const R: usize, const W: usize> Row<R, W> {
    /// Creates the row of a span of this length with this response.
    pub(crate) fn new(response: &Response, length: Nanos) -> Self {
        let group = Group {
            rate: std::array::from_fn(|place| response.rate[place]),
            share: std::array::from_fn(|place| response.share[place]),
            writes: std::array::from_fn(|place| response.writes[place]),
        };
        let slowness = response.slowness;
        Self { time: length.as_f64() * slowness, slowness, group }
    }

    /// Returns its progress, in nanoseconds.
    pub(crate) fn length(&self) -> f64 {
        self.time / self.slowness
    }
}

/// A program laid out at one placement, on one node.
#[derive(Debug)]
pub(crate) struct Layout<const R: usize, const W: usize> {
    pub(crate) rows: Arc<[Row<R, W>]>,
    /// Time that passes before each span, and at the end, when the task is alone on the machine.
    alone: Vec<f64>,
}

impl<const R: usize, const W: usize> Layout<R, W> {
    /// Lays a program out.
    pub(crate) fn new(
        solver: &Solver,
        program: &Program,
        placement: &Placement,
        node: usize,
    ) -> Self {
        let (mut elapsed, mut alone) = (0.0, Vec::with_capacity(program.spans.len() + 1));
        let row = |span: &Span| {
            let response = solver.response(&span.demand, placement, node);
            alone.push(elapsed);
            elapsed += span.length.as_f64() / solver.speed_alone(&response);
            Row::new(&response, span.length)
        };
        let rows = program.spans.iter().map(row).collect();
        alone.push(elapsed);
        Self { rows, alone }
    }

    /// Returns the time from the start of the program to a point of it, alone on the machine.
    pub(crate) fn alone_at(&self, sums: &PrefixSums, at: Point) -> f64 {
        let last = self.rows.len();
        let (from, to) = (self.alone[at.span], self.alone[at.span + 1]);
        at.lap as f64 * self.alone[last] + from + (to - from) * sums.part(at)
    }

    /// Returns the point that is reached after this time alone on the machine.
    pub(crate) fn alone_after(&self, sums: &PrefixSums, time: f64) -> Point {
        let last = self.rows.len();
        let lap = (time / self.alone[last]).floor();
        let within = time - lap * self.alone[last];
        let span = self.alone.partition_point(|start| *start <= within).clamp(1, last) - 1;
        let (from, to) = (self.alone[span], self.alone[span + 1]);
        let part = ((within - from) / (to - from)).clamp(0.0, 1.0);
        Point { lap: lap as u64, span, into: part * sums.length(span) }
    }
}

/// A point of a program that starts again at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// Number of restarts.
    pub(crate) lap: u64,
    /// The span.
    pub(crate) span: usize,
    /// Progress since the span's start in nanoseconds, up to its length.
    pub(crate) into: f64,
}

/// Prefix sums over the spans of a program: progress, instructions and lines before each. They do
/// not depend on the placement of its pages.
#[derive(Debug)]
pub(crate) struct PrefixSums {
    /// Progress at the start of each span, and at the end.
    starts: Vec<u64>,
    /// Flows with traffic, by memory: the others have no place in `totals`.
    flows: Vec<usize>,
    /// Per span: instructions, then lines read and written per flow, all before the span, and the
    /// span's length; at last the totals at the end, and zero.
    totals: Vec<f64>,
}

impl PrefixSums {
    pub(crate) fn new(program: &Program) -> Self {
        let used = |memory: &usize| {
            program.spans.iter().any(|span| {
                let flow = span.demand.flows[*memory];
                flow.reads.0 + flow.writes.0 > 0.0
            })
        };
        let flows: Vec<usize> = (0..MAX_MEDIA).filter(used).collect();
        let stride = 2 + 2 * flows.len();
        let mut starts = Vec::with_capacity(program.spans.len() + 1);
        let mut totals = Vec::with_capacity(stride * (program.spans.len() + 1));
        let (mut progress, mut sums) = (0, vec![0.0; stride]);
        for span in &program.spans {
            starts.push(progress);
            sums[stride - 1] = span.length.as_f64();
            totals.extend_from_slice(&sums);
            progress += span.length.0;
            let seconds = span.length.as_secs_f64();
            sums[0] += span.demand.instructions * seconds;
            for (place, memory) in flows.iter().enumerate() {
                let flow = span.demand.flows[*memory];
                sums[1 + 2 * place] += flow.reads.0 * seconds / LINE_BYTES as f64;
                sums[2 + 2 * place] += flow.writes.0 * seconds / LINE_BYTES as f64;
            }
        }
        starts.push(progress);
        sums[stride - 1] = 0.0;
        totals.extend_from_slice(&sums);
        Self { starts, flows, totals }
    }

    fn spans(&self) -> usize {
        self.starts.len() - 1
    }

    /// Progress of one span.
    fn length(&self, span: usize) -> f64 {
        let stride = self.stride();
        self.totals[span * stride + stride - 1]
    }

    /// Figures per span in `totals`.
    fn stride(&self) -> usize {
        2 + 2 * self.flows.len()
    }

    /// Returns the part of its span that lies before a point, from 0 to 1.
    fn part(&self, at: Point) -> f64 {
        at.into / self.length(at.span)
    }

    /// Returns the point of a task that has made this progress and continues.
    pub(crate) fn beginning_at(&self, progress: Nanos) -> Point {
        let whole = self.starts[self.spans()];
        let (lap, within) = (progress.0 / whole, progress.0 % whole);
        let span = self.starts.partition_point(|start| *start <= within) - 1;
        Point { lap, span, into: (within - self.starts[span]) as f64 }
    }

    /// Returns the progress from the program's first start to a point.
    pub(crate) fn progress_at(&self, at: Point) -> f64 {
        let whole = self.starts[self.spans()];
        (at.lap * whole + self.starts[at.span]) as f64 + at.into
    }

    /// Returns the point at which a task stops after this progress, more than zero: the end of a
    /// span rather than the start of the next.
    pub(crate) fn ending_at(&self, progress: Nanos) -> Point {
        let at = self.beginning_at(Nanos(progress.0 - 1));
        Point { into: at.into + 1.0, ..at }
    }

    /// Returns the number of span ends between two points.
    pub(crate) fn boundaries(&self, from: Point, to: Point) -> u64 {
        let number = |at: Point| at.lap * self.spans() as u64 + at.span as u64;
        number(to) - number(from)
    }

    /// Returns the start of the next span.
    pub(crate) fn next(&self, at: Point) -> Point {
        match at.span + 1 == self.spans() {
            true => Point { lap: at.lap + 1, span: 0, into: 0.0 },
            false => Point { span: at.span + 1, into: 0.0, ..at },
        }
    }

    /// Returns the totals from the program's first start to a point: instructions, then lines read
    /// and written per flow.
    pub(crate) fn totals(&self, at: Point) -> [f64; FIGURES] {
        let stride = self.stride();
        let row = |span: usize| &self.totals[span * stride..(span + 1) * stride];
        let (before, after, all) = (row(at.span), row(at.span + 1), row(self.spans()));
        let (part, lap) = (self.part(at), at.lap as f64);
        let figure = |at: usize| lap * all[at] + before[at] + (after[at] - before[at]) * part;
        let mut totals = [0.0; FIGURES];
        totals[0] = figure(0);
        for (place, memory) in self.flows.iter().enumerate() {
            totals[1 + 2 * memory] = figure(1 + 2 * place);
            totals[2 + 2 * memory] = figure(2 + 2 * place);
        }
        totals
    }

    /// Returns the totals of the whole program.
    pub(crate) fn lap(&self) -> [f64; FIGURES] {
        self.totals(Point { lap: 1, span: 0, into: 0.0 })
    }

    /// Returns the lines read and written between two points, over all flows.
    pub(crate) fn lines(&self, from: Point, to: Point) -> f64 {
        let (before, after) = (self.totals(from), self.totals(to));
        (1..FIGURES).map(|figure| after[figure] - before[figure]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::program::{Demand, Flow};
    use memweir_core::BytesPerSec;

    /// 2 ms without traffic and 1 ms with 64 MB/s read from the first memory.
    fn program() -> Program {
        let mut demand = Demand { instructions: 1e9, stall: 0.5, ..Demand::default() };
        let idle = Span { length: Nanos::from_millis(2), demand };
        demand.flows[0] = Flow { reads: BytesPerSec(64e6), writes: BytesPerSec(0.0) };
        let busy = Span { length: Nanos::from_millis(1), demand };
        Program { name: "steps".to_owned(), spans: vec![idle, busy] }
    }

    #[test]
    fn points_and_totals_by_hand() {
        let sums = PrefixSums::new(&program());
        let at = sums.beginning_at(Nanos(5_500_000));
        assert_eq!(at, Point { lap: 1, span: 1, into: 500_000.0 });
        assert_eq!(sums.progress_at(at), 5_500_000.0);
        // 1,000 lines in the first lap and half of them in the second.
        let totals = sums.totals(at);
        assert_eq!((totals[0], totals[1], totals[2]), (5_500_000.0, 1_500.0, 0.0));
        let end = sums.ending_at(Nanos(3_000_000));
        assert_eq!(end, Point { lap: 0, span: 1, into: 1_000_000.0 });
        assert_eq!(sums.beginning_at(Nanos(3_000_000)), Point { lap: 1, span: 0, into: 0.0 });
        assert_eq!(sums.boundaries(end, at), 2);
        assert_eq!(sums.next(end), Point { lap: 1, span: 0, into: 0.0 });
        assert_eq!(sums.lines(end, at), 500.0);
    }

    #[test]
    fn a_program_that_saturates_a_memory_alone_takes_longer_alone() {
        let machine = Machine::uniform("slow", 1, BytesPerSec(32e6));
        let (program, solver) = (program(), Solver::new(&machine));
        let sums = PrefixSums::new(&program);
        let layout = Layout::<1, 0>::new(&solver, &program, &Placement::default(), 0);
        // The second span gets half of what it asks for and takes 2 ms.
        let end = sums.ending_at(Nanos(3_000_000));
        assert!((layout.alone_at(&sums, end) - 4e6).abs() < 1e-3);
        let half = layout.alone_after(&sums, 4e6 + 3e6);
        assert_eq!((half.lap, half.span), (1, 1));
        assert!((half.into - 0.5e6).abs() < 1e-3);
    }
}
