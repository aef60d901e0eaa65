//! Execution: the task on each core, the position of each task, and the time of the next event.
//!
//! This module holds the tasks' positions and their traffic. The [`kernel`](crate::kernel) puts
//! tasks on cores; [`stretch`](crate::stretch) determines their speeds there. The engine steps from
//! the end of one span to that of the next: in between every speed is constant.
//!
//! Nothing is accumulated from rates. A task's traffic is a function of its position, and positions
//! are exact at the ends of spans; so the traffic served is exactly that which the completed
//! progress demands, and no span is lost however much a task is stretched.

mod classes;
mod contention;
mod execution;
mod lanes;
mod layout;
mod state;

use std::collections::HashMap;
use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, Lines, MAX_MEDIA, Nanos};

use crate::kernel::Processor;
use crate::machine::{Machine, View};
use crate::program::{Demand, Program};
use crate::record::PageCopy;
use crate::stretch::{RESOURCES, Response, Solver};
use crate::task::{Placement, Task};
use classes::Classes;
use contention::{Contention, Piece};
pub(crate) use execution::{Execution, Reading};
use lanes::Lanes;
use layout::{FIGURES, Layout, Row};
pub(crate) use layout::{Point, PrefixSums};
use state::{Doing, FAR, NEAR, State, flows};

/// Most cores that are simulated one by one; more are simulated in classes.
const MOST_LANES: u32 = 24;

/// Creates the execution of these tasks on this machine, both of which have been checked.
pub(crate) fn execution(machine: &Machine, tasks: &[Task]) -> Box<dyn Execution> {
    match (machine.memories.len(), machine.interconnect, minds_writes(machine)) {
        (1, None, false) => engine::<1>(machine, tasks),
        (2, None, false) => engine::<2>(machine, tasks),
        (_, _, false) => engine::<RESOURCES>(machine, tasks),
        (1, None, true) => minding_engine::<1>(machine, tasks),
        (_, _, true) => minding_engine::<RESOURCES>(machine, tasks),
    }
}

/// Returns the response with which a machine's [`execution`] takes a task into account: in classes
/// of cores, its shares of waiting are rounded.
pub(crate) fn executed(machine: &Machine, response: Response) -> Response {
    if machine.cores() <= MOST_LANES {
        return response;
    }
    let rounded = match (machine.memories.len(), machine.interconnect, minds_writes(machine)) {
        (1, None, _) => classes::rounded::<1>,
        (2, None, false) => classes::rounded::<2>,
        _ => classes::rounded::<RESOURCES>,
    };
    Response { share: response.share.map(rounded), ..response }
}

fn minds_writes(machine: &Machine) -> bool {
    machine.memories.iter().any(|memory| memory.service.growth.lines.len() > 1)
}

/// Creates the engine for `R` resources with the model of contention that suits the number of
/// cores: with up to 24 cores every change updates each core, above that it updates classes of
/// cores.
fn engine<const R: usize>(machine: &Machine, tasks: &[Task]) -> Box<dyn Execution> {
    match machine.cores() {
        0..=4 => Box::new(Engine::<R, 0, FAR, Lanes<R, 0, 4>>::new(machine, tasks)),
        5..=8 => Box::new(Engine::<R, 0, FAR, Lanes<R, 0, 8>>::new(machine, tasks)),
        9..=MOST_LANES => Box::new(Engine::<R, 0, FAR, Lanes<R, 0, 24>>::new(machine, tasks)),
        _ => Box::new(Engine::<R, 0, NEAR, Classes<R, 0>>::new(machine, tasks)),
    }
}

/// Creates the engine that distinguishes writes from reads. Finding the stretches costs more there
/// than looking at idle cores, so fewer sizes suffice.
fn minding_engine<const R: usize>(machine: &Machine, tasks: &[Task]) -> Box<dyn Execution> {
    match machine.cores() {
        0..=8 => Box::new(Engine::<R, R, FAR, Lanes<R, R, 8>>::new(machine, tasks)),
        9..=MOST_LANES => Box::new(Engine::<R, R, FAR, Lanes<R, R, 24>>::new(machine, tasks)),
        _ => Box::new(Engine::<R, R, NEAR, Classes<R, R>>::new(machine, tasks)),
    }
}

/// Key of a program laid out: the program, the node and the shares of the placement.
type LayoutKey = (usize, usize, [u64; 2 * MAX_MEDIA]);

/// Result of the end of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The next piece has started.
    Next,
    /// The task is complete.
    Complete,
}

/// The engine, with `R` resources; `W` is `R` if writes are distinguished from reads, else 0; `A`
/// spans of each task are fetched at once; `C` models the contention of the cores for the
/// resources.
struct Engine<const R: usize, const W: usize, const A: usize, C> {
    solver: Solver,
    view: View,
    /// Bandwidth that one core draws from memory when it copies pages.
    copy_rate: f64,
    nodes: Vec<usize>,
    programs: Vec<(Arc<Program>, PrefixSums)>,
    layouts: HashMap<LayoutKey, Layout<R, W>>,
    tasks: Vec<State<R, W, A>>,
    on: Vec<Option<usize>>,
    /// The span after the current one of the task on each core.
    following: Vec<Piece<R, W>>,
    contention: C,
    now: f64,
}

impl<const R: usize, const W: usize, const A: usize, C: Contention<R, W>> Engine<R, W, A, C> {
    fn new(machine: &Machine, tasks: &[Task]) -> Self {
        let solver = Solver::new(machine);
        let cores = machine.cores() as usize;
        let mut engine = Self {
            view: View::new(machine),
            copy_rate: machine.core_peak.0,
            nodes: machine.core_nodes().collect(),
            programs: Vec::new(),
            layouts: HashMap::new(),
            tasks: Vec::with_capacity(tasks.len()),
            on: vec![None; cores],
            following: vec![Piece::pause(0.0); cores],
            contention: C::new(cores, solver.curves.clone()),
            solver,
            now: 0.0,
        };
        let mut known = HashMap::new();
        for task in tasks {
            let program = *known.entry(Arc::as_ptr(&task.program)).or_insert_with(|| {
                engine.programs.push((task.program.clone(), PrefixSums::new(&task.program)));
                engine.programs.len() - 1
            });
            let state = engine.state(machine, task, program);
            engine.tasks.push(state);
        }
        engine
    }

    fn state(&mut self, machine: &Machine, task: &Task, program: usize) -> State<R, W, A> {
        let home = home(machine, &self.programs[program].1, &task.placement);
        self.layout(program, &task.placement, home);
        let layout = &self.layouts[&key(program, &task.placement, home)];
        let sums = &self.programs[program].1;
        let start = sums.beginning_at(task.offset);
        let end = sums.ending_at(task.offset + task.work);
        let mut state = State {
            rows: Some(layout.rows.clone()),
            alone: layout.alone_at(sums, end) - layout.alone_at(sums, start),
            at: start,
            piece_end: start.into,
            ahead: [layout.rows[start.span]; A],
            place: 0,
            boundaries: sums.boundaries(start, end),
            doing: Doing::Work,
            pending: Vec::new(),
            core: None,
            since: 0.0,
            cpu_time: 0.0,
            attributed: sums.totals(start),
            begun: sums.totals(start)[0],
            moved: [[0.0; 2]; MAX_MEDIA],
            counted: [[0.0; 2]; MAX_MEDIA],
            node: home,
            placement: task.placement,
            program,
            spans: task.program.spans.len(),
            start,
            end,
            home,
        };
        state.fetch(&self.solver, &task.program);
        state
    }

    /// Returns the program laid out, which it creates on first use.
    fn layout(&mut self, program: usize, placement: &Placement, node: usize) -> &Layout<R, W> {
        let (solver, spans) = (&self.solver, &self.programs[program].0);
        self.layouts
            .entry(key(program, placement, node))
            .or_insert_with(|| Layout::new(solver, spans, placement, node))
    }

    /// Returns the piece with which a task continues at its position.
    fn piece(&mut self, task: usize) -> Piece<R, W> {
        let state = &mut self.tasks[task];
        if let Some(overhead) = state.pending.pop() {
            state.doing = Doing::Overhead(overhead);
            return overhead;
        }
        state.doing = Doing::Work;
        let row = *state.here();
        state.piece_end = if state.boundaries == 0 { state.end.into } else { row.length() };
        Piece { time: (state.piece_end - state.at.into) * row.slowness, group: row.group }
    }

    /// Continues a task at its position.
    fn begin(&mut self, core: usize, task: usize) {
        let piece = self.piece(task);
        self.contention.begin(self.now, core, &piece);
        self.foresee(core, task);
    }

    /// Fetches the span that follows, so that the step at the end of this one does not wait for it.
    #[inline(always)]
    fn foresee(&mut self, core: usize, task: usize) {
        let state = &self.tasks[task];
        let row = state.following(&self.solver, &self.programs[state.program].0);
        self.following[core] = Piece { time: row.time, group: row.group };
    }

    /// Ends the piece of a task and continues with the next one, unless the task is complete.
    #[inline(always)]
    fn step(&mut self, core: usize, task: usize) -> Step {
        let state = &mut self.tasks[task];
        if matches!(state.doing, Doing::Overhead(_)) {
            self.begin(core, task);
            return Step::Next;
        }
        if state.boundaries == 0 {
            state.at.into = state.end.into;
            return Step::Complete;
        }
        state.boundaries -= 1;
        if state.boundaries == 0 {
            state.advance(&self.solver, &self.programs[state.program].0);
            self.begin(core, task);
            return Step::Next;
        }
        self.contention.begin(self.now, core, &self.following[core]);
        state.advance(&self.solver, &self.programs[state.program].0);
        // The piece is the whole span; its length is computed on demand.
        state.piece_end = f64::NAN;
        self.foresee(core, task);
        Step::Next
    }

    /// Refetches a task's spans after its pages or its node have changed.
    fn refetch(&mut self, task: usize) {
        let state = &mut self.tasks[task];
        state.fetch(&self.solver, &self.programs[state.program].0);
    }

    /// Returns the current position of a task.
    fn point(&self, task: usize) -> Point {
        let state = &self.tasks[task];
        match (state.core, state.doing) {
            (Some(core), Doing::Work) => state.point(self.contention.left(self.now, core)),
            _ => state.at,
        }
    }

    /// Takes the task off a core with its position saved; the core may then begin other work.
    fn suspend(&mut self, core: usize) -> usize {
        let task = self.on[core].take().expect("a task is taken off a core that has one");
        let left = self.contention.left(self.now, core);
        let state = &mut self.tasks[task];
        match state.doing {
            Doing::Work => state.at = state.point(left),
            Doing::Overhead(piece) => state.pending.push(Piece { time: left, ..piece }),
        }
        state.doing = Doing::Work;
        state.core = None;
        state.cpu_time += self.now - state.since;
        task
    }

    /// Returns the task's cumulative demand up to `at`.
    fn totals(&self, task: usize, at: Point) -> [f64; FIGURES] {
        self.programs[self.tasks[task].program].1.totals(at)
    }

    /// Attributes the task's traffic since the last call to memories and media.
    fn attribute(&mut self, task: usize, at: Point) {
        let totals = self.totals(task, at);
        self.tasks[task].attribute(totals, &self.view);
    }

    /// Computes [`Execution::ahead`] span by span, for a program that is not laid out.
    fn walk(&self, state: &State<R, W, A>, from: Point, time: f64) -> (f64, f64) {
        let (program, sums) = &self.programs[state.program];
        let (mut at, mut left) = (from, time);
        loop {
            let demand = &program.spans[at.span].demand;
            let response = self.solver.response(demand, &state.placement, state.node);
            let speed = self.solver.speed_alone(&response);
            let last = (at.lap, at.span) == (state.end.lap, state.end.span);
            let end = if last { state.end.into } else { program.spans[at.span].length.as_f64() };
            let takes = (end - at.into) / speed;
            if takes >= left || last {
                at.into = (at.into + left * speed).min(end);
                return (sums.lines(from, at), time - (left - takes).max(0.0));
            }
            left -= takes;
            at = sums.next(at);
        }
    }

    /// Returns the piece that copies pages: its time without contention, and its load, which is
    /// that of one core that reads and writes as fast as it can.
    fn copying(&self, copy: &PageCopy, node: usize) -> Piece<R, W> {
        let mut demand = Demand { stall: 1.0, ..Demand::default() };
        let rate = BytesPerSec(self.copy_rate / 2.0);
        demand.flows[copy.from].reads += rate;
        demand.flows[copy.to].writes += rate;
        let response: Response = self.solver.response(&demand, &Placement::default(), node);
        let seconds = copy.bytes.as_f64() / rate.0;
        let row = Row::new(&response, Nanos::from_secs_f64(seconds));
        Piece { time: row.time, group: row.group }
    }
}

fn key(program: usize, placement: &Placement, node: usize) -> LayoutKey {
    let mut shares = placement.reads.iter().chain(&placement.writes).map(|share| share.to_bits());
    (program, node, std::array::from_fn(|_| shares.next().unwrap_or(0)))
}

/// Returns the node whose memories carry most of a program's lines; the first one in a tie.
fn home(machine: &Machine, sums: &PrefixSums, placement: &Placement) -> usize {
    let flows = placement.apply(&flows(&sums.lap()));
    let mut lines = vec![0.0; machine.nodes.len()];
    for (memory, flow) in machine.memories.iter().zip(flows) {
        lines[memory.node] += flow.reads.0 + flow.writes.0;
    }
    let most = lines.iter().copied().fold(0.0, f64::max);
    lines.iter().position(|share| *share == most).unwrap_or(0)
}

impl<const R: usize, const W: usize, const A: usize, C: Contention<R, W>> Processor
    for Engine<R, W, A, C>
{
    fn now(&self) -> f64 {
        self.now
    }

    fn put(&mut self, core: usize, task: usize, pause: Nanos) {
        let node = self.nodes[core];
        if self.tasks[task].node != node {
            self.attribute(task, self.tasks[task].at);
            self.tasks[task].node = node;
            if self.tasks[task].rows.is_some() {
                let (program, placement) = (self.tasks[task].program, self.tasks[task].placement);
                let rows = self.layout(program, &placement, node).rows.clone();
                self.tasks[task].rows = Some(rows);
            }
            self.refetch(task);
        }
        let state = &mut self.tasks[task];
        (state.core, state.since) = (Some(core), self.now);
        if pause > Nanos::ZERO {
            state.pending.push(Piece::pause(pause.as_f64()));
        }
        self.on[core] = Some(task);
        self.begin(core, task);
    }

    fn take(&mut self, core: usize) -> usize {
        let task = self.suspend(core);
        self.contention.end(self.now, core);
        task
    }

    fn exchange(&mut self, core: usize, task: usize, pause: Nanos) -> usize {
        let before = self.suspend(core);
        self.put(core, task, pause);
        before
    }

    fn run(&mut self, until: f64) -> Option<usize> {
        loop {
            let Some((time, core)) = self.contention.next(self.now, until) else {
                // Time never goes back, even if `until` has passed already.
                self.now = until.max(self.now);
                return None;
            };
            self.now = time.max(self.now);
            let task = self.on[core].expect("a piece belongs to a task");
            if self.step(core, task) == Step::Complete {
                self.take(core);
                return Some(core);
            }
        }
    }

    fn home(&self, task: usize) -> usize {
        self.tasks[task].home
    }
}

impl<const R: usize, const W: usize, const A: usize, C: Contention<R, W>> Execution
    for Engine<R, W, A, C>
{
    fn read(&mut self, task: usize) -> Reading {
        let at = self.point(task);
        self.attribute(task, at);
        self.tasks[task].reading(self.now, at)
    }

    fn read_all(&mut self, tasks: &[usize]) -> Vec<Reading> {
        let behind = |task: &usize| {
            let at = self.point(*task);
            (at, self.totals(*task, at))
        };
        // All fetches from the programs' tables come first, so that they overlap.
        let behind: Vec<_> = tasks.iter().map(behind).collect();
        let reading = |(task, (at, totals)): (&usize, _)| {
            let state = &mut self.tasks[*task];
            state.attribute(totals, &self.view);
            state.reading(self.now, at)
        };
        tasks.iter().zip(behind).map(reading).collect()
    }

    fn progress(&self, task: usize, at: Point) -> Nanos {
        let state = &self.tasks[task];
        let sums = &self.programs[state.program].1;
        Nanos((sums.progress_at(at) - sums.progress_at(state.start)).round() as u64)
    }

    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64) {
        let state = &self.tasks[task];
        let sums = &self.programs[state.program].1;
        let key = key(state.program, &state.placement, state.node);
        let Some(layout) = self.layouts.get(&key) else {
            return self.walk(state, from, time.as_f64());
        };
        let (now, end) = (layout.alone_at(sums, from), layout.alone_at(sums, state.end));
        let then = (now + time.as_f64()).min(end);
        let to = if then < end { layout.alone_after(sums, then) } else { state.end };
        (sums.lines(from, to), then - now)
    }

    fn alone(&self, task: usize) -> (Nanos, Counts) {
        let state = &self.tasks[task];
        let sums = &self.programs[state.program].1;
        let (before, after) = (sums.totals(state.start), sums.totals(state.end));
        let reads: f64 = (0..MAX_MEDIA).map(|m| after[1 + 2 * m] - before[1 + 2 * m]).sum();
        let writes: f64 = (0..MAX_MEDIA).map(|m| after[2 + 2 * m] - before[2 + 2 * m]).sum();
        let instructions = (after[0] - before[0]).round() as u64;
        let counts =
            Counts::new(instructions, Lines(reads.round() as u64), Lines(writes.round() as u64));
        (Nanos(state.alone.round() as u64), counts)
    }

    fn migrate(&mut self, task: usize, placement: Placement, copies: &[PageCopy]) {
        let at = self.point(task);
        self.attribute(task, at);
        let node = self.tasks[task].node;
        let pieces: Vec<Piece<R, W>> = copies
            .iter()
            .filter(|copy| copy.bytes.0 > 0)
            .map(|copy| self.copying(copy, node))
            .collect();
        let state = &mut self.tasks[task];
        (state.rows, state.placement) = (None, placement);
        state.pending.extend(pieces);
        self.refetch(task);
    }

    fn node(&self, task: usize) -> usize {
        self.tasks[task].node
    }

    fn placement(&self, task: usize) -> &Placement {
        &self.tasks[task].placement
    }
}
