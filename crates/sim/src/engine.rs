//! Execution: which task is on which core, how far each has come, and when something happens next.
//!
//! Here live the tasks' positions and what they moved. Who is put on a core is decided by the
//! [`kernel`](crate::kernel); how fast a task goes there by [`stretch`](crate::stretch). The engine
//! steps from the end of one span to that of the next: in between every speed is constant.
//!
//! Nothing is accumulated from rates. A task's traffic is a function of its position, and positions
//! are exact at the ends of spans; so what was served is what the completed progress demands, and no
//! span is lost however much a task is stretched.

mod classes;
mod contention;
mod lanes;
mod track;

use std::collections::HashMap;
use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, Lines, MAX_MEDIA, Nanos, Traffic};

use crate::machine::{Machine, View};
use crate::program::{Demand, Flow, Program};
use crate::record::PageCopy;
use crate::stretch::{RESOURCES, Response, Solver};
use crate::task::{Placement, Task};
use classes::Classes;
use contention::{Contention, Piece};
use lanes::Lanes;
pub(crate) use track::Point;
use track::{FIGURES, Row, Score, Track};

/// What a task has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Nanoseconds on a core.
    pub(crate) cpu_time: f64,
    /// What it did, by medium as seen from the cores that it ran on.
    pub(crate) counts: Counts,
    /// What it moved, by memory of the machine.
    pub(crate) moved: [Traffic; MAX_MEDIA],
    /// Where it is.
    pub(crate) at: Point,
}

/// Tasks on cores. Times are nanoseconds from the start.
pub(crate) trait Execution {
    /// What time it is.
    fn now(&self) -> f64;

    /// Puts a task that is on no core on an idle one, which first does nothing for a while.
    fn put(&mut self, core: usize, task: usize, pause: Nanos);

    /// Takes the task off a core.
    fn take(&mut self, core: usize) -> usize;

    /// Lets time pass until then, or until a task is complete; on which core that was. The task
    /// is off its core then.
    fn run(&mut self, until: f64) -> Option<usize>;

    /// What a task has done so far.
    fn read(&mut self, task: usize) -> Reading;

    /// What a task will do from a point on in so much time, alone on the machine: lines, and the
    /// time until then, which is less if the task ends before.
    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64);

    /// Time that a task takes alone on the machine, and what it does then.
    fn alone(&self, task: usize) -> (Nanos, Counts);

    /// Gives the pages of a task, which is on no core, another place; when it runs next, it copies
    /// these pages first.
    fn migrate(&mut self, task: usize, placement: Placement, copies: &[PageCopy]);

    /// The node on which most of a task's traffic was when it was submitted.
    fn home(&self, task: usize) -> usize;

    /// The node of the core that a task was on last.
    fn node(&self, task: usize) -> usize;

    /// Where a task's pages are.
    fn placement(&self, task: usize) -> &Placement;
}

/// The execution of these tasks on this machine, which both have been checked.
pub(crate) fn execution(machine: &Machine, tasks: &[Task]) -> Box<dyn Execution> {
    match (machine.memories.len(), machine.interconnect) {
        (1, None) => engine::<1>(machine, tasks),
        (2, None) => engine::<2>(machine, tasks),
        _ => engine::<RESOURCES>(machine, tasks),
    }
}

/// The engine for so many resources, with the model of contention that the number of cores asks for:
/// up to 24 each is looked at whenever anything changes, above that classes of them are.
fn engine<const R: usize>(machine: &Machine, tasks: &[Task]) -> Box<dyn Execution> {
    match machine.cores() {
        0..=4 => Box::new(Engine::<R, Lanes<R, 4>>::new(machine, tasks)),
        5..=8 => Box::new(Engine::<R, Lanes<R, 8>>::new(machine, tasks)),
        9..=24 => Box::new(Engine::<R, Lanes<R, 24>>::new(machine, tasks)),
        _ => Box::new(Engine::<R, Classes<R>>::new(machine, tasks)),
    }
}

/// What a core does for a task.
#[derive(Clone, Copy, Debug)]
enum Doing<const R: usize> {
    /// Its program.
    Work,
    /// Something that takes time without progress.
    Overhead(Piece<R>),
}

/// One task while the experiment runs.
#[derive(Debug)]
struct State<const R: usize> {
    /// The program, laid out; absent once the pages have moved, for then they may move often.
    rows: Option<Arc<[Row<R>]>>,
    at: Point,
    /// Progress in the span of `at` at which the piece at hand ends.
    piece_end: f64,
    /// Ends of spans that are still to be passed.
    boundaries: u64,
    doing: Doing<R>,
    /// Overheads that come before the program goes on; the next one last.
    pending: Vec<Piece<R>>,
    core: Option<usize>,
    /// Since when it has been on it.
    since: f64,
    cpu_time: f64,
    /// Where it was, and what of its program was behind it, when its traffic was last attributed.
    attributed: [f64; FIGURES],
    /// What it moved until then, in lines: by memory, and by medium.
    moved: [[f64; 2]; MAX_MEDIA],
    counted: [[f64; 2]; MAX_MEDIA],
    /// Node of the core that it was put on last.
    node: usize,
    placement: Placement,
    // What does not change.
    program: usize,
    spans: usize,
    start: Point,
    end: Point,
    /// Time from one to the other, alone on the machine.
    alone: f64,
    home: usize,
}

/// A program laid out for a placement, by what its rows depend on.
type TrackKey = (usize, usize, [u64; 2 * MAX_MEDIA]);

/// The engine: `R` resources, and a model of how cores contend for them.
struct Engine<const R: usize, C> {
    solver: Solver,
    view: View,
    /// What one core draws from memory when it copies pages.
    copy_rate: f64,
    nodes: Vec<usize>,
    programs: Vec<(Arc<Program>, Score)>,
    tracks: HashMap<TrackKey, Track<R>>,
    tasks: Vec<State<R>>,
    on: Vec<Option<usize>>,
    contention: C,
    now: f64,
}

impl<const R: usize, C: Contention<R>> Engine<R, C> {
    fn new(machine: &Machine, tasks: &[Task]) -> Self {
        let solver = Solver::new(machine);
        let cores = machine.cores() as usize;
        let node_of = |(node, cores): (usize, &crate::machine::Node)| {
            std::iter::repeat_n(node, cores.cores as usize)
        };
        let mut engine = Self {
            view: View::new(machine),
            copy_rate: machine.core_peak.0,
            nodes: machine.nodes.iter().enumerate().flat_map(node_of).collect(),
            programs: Vec::new(),
            tracks: HashMap::new(),
            tasks: Vec::with_capacity(tasks.len()),
            on: vec![None; cores],
            contention: C::new(cores, solver.curves.clone()),
            solver,
            now: 0.0,
        };
        let mut known = HashMap::new();
        for task in tasks {
            let program = *known.entry(Arc::as_ptr(&task.program)).or_insert_with(|| {
                engine.programs.push((task.program.clone(), Score::new(&task.program)));
                engine.programs.len() - 1
            });
            let state = engine.state(machine, task, program);
            engine.tasks.push(state);
        }
        engine
    }

    fn state(&mut self, machine: &Machine, task: &Task, program: usize) -> State<R> {
        let home = home(machine, &self.programs[program].1, &task.placement);
        self.track(program, &task.placement, home);
        let track = &self.tracks[&key(program, &task.placement, home)];
        let score = &self.programs[program].1;
        let start = score.beginning_at(task.offset);
        let end = score.ending_at(task.offset + task.work);
        State {
            rows: Some(track.rows.clone()),
            alone: track.alone_at(score, end) - track.alone_at(score, start),
            at: start,
            piece_end: start.into,
            boundaries: score.boundaries(start, end),
            doing: Doing::Work,
            pending: Vec::new(),
            core: None,
            since: 0.0,
            cpu_time: 0.0,
            attributed: score.totals(start),
            moved: [[0.0; 2]; MAX_MEDIA],
            counted: [[0.0; 2]; MAX_MEDIA],
            node: home,
            placement: task.placement,
            program,
            spans: task.program.spans.len(),
            start,
            end,
            home,
        }
    }

    /// The program, laid out; made when it is first asked for.
    fn track(&mut self, program: usize, placement: &Placement, node: usize) -> &Track<R> {
        let (solver, spans) = (&self.solver, &self.programs[program].0);
        self.tracks
            .entry(key(program, placement, node))
            .or_insert_with(|| Track::new(solver, spans, placement, node))
    }

    /// The piece with which a task goes on from where it is.
    fn piece(&mut self, task: usize) -> Piece<R> {
        let state = &mut self.tasks[task];
        if let Some(overhead) = state.pending.pop() {
            state.doing = Doing::Overhead(overhead);
            return overhead;
        }
        state.doing = Doing::Work;
        let row = state.row(&self.solver, &self.programs[state.program].0);
        state.piece_end = if state.boundaries == 0 { state.end.into } else { row.length() };
        Piece { time: (state.piece_end - state.at.into) * row.slowness, group: row.group }
    }

    /// The piece of a task is over: the next one, unless the task is complete.
    #[inline]
    fn step(&mut self, task: usize) -> Option<Piece<R>> {
        let state = &mut self.tasks[task];
        if matches!(state.doing, Doing::Work) {
            if state.boundaries == 0 {
                state.at.into = state.end.into;
                return None;
            }
            state.boundaries -= 1;
            state.at.into = 0.0;
            state.at.span += 1;
            if state.at.span == state.spans {
                state.at.span = 0;
                state.at.lap += 1;
            }
            if state.boundaries > 0 {
                let row = state.row(&self.solver, &self.programs[state.program].0);
                // The whole span; how long it is follows when somebody asks.
                state.piece_end = f64::NAN;
                return Some(Piece { time: row.time, group: row.group });
            }
        }
        Some(self.piece(task))
    }

    /// Where a task is at the moment.
    fn point(&self, task: usize) -> Point {
        let state = &self.tasks[task];
        let (Some(core), Doing::Work) = (state.core, state.doing) else { return state.at };
        let row = state.row(&self.solver, &self.programs[state.program].0);
        let left = self.contention.left(self.now, core) / row.slowness;
        let end = if state.piece_end.is_nan() { row.length() } else { state.piece_end };
        Point { into: (end - left).clamp(state.at.into, end), ..state.at }
    }

    /// Attributes what a task did since that was last done to memories and media.
    fn attribute(&mut self, task: usize, at: Point) {
        let totals = self.programs[self.tasks[task].program].1.totals(at);
        let state = &mut self.tasks[task];
        let done = std::array::from_fn(|figure| totals[figure] - state.attributed[figure]);
        let placed = state.placement.apply(&flows(&done));
        for (memory, flow) in placed.iter().enumerate() {
            let medium = self.view.medium(state.node, memory).index();
            for (direction, lines) in [flow.reads.0, flow.writes.0].into_iter().enumerate() {
                state.moved[memory][direction] += lines;
                state.counted[medium][direction] += lines;
            }
        }
        state.attributed = totals;
    }

    /// [`Execution::ahead`] for a program that is not laid out: span by span.
    fn walk(&self, state: &State<R>, from: Point, time: f64) -> (f64, f64) {
        let (program, score) = &self.programs[state.program];
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
                return (score.lines(from, at), time - (left - takes).max(0.0));
            }
            left -= takes;
            at = score.next(at);
        }
    }

    /// The time that copying pages takes where nothing contends, and what it asks for: one core
    /// reads and writes as fast as it can.
    fn copying(&self, copy: &PageCopy, node: usize) -> Piece<R> {
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

impl<const R: usize> State<R> {
    /// The span at hand with the pages where they are.
    #[inline]
    fn row(&self, solver: &Solver, program: &Program) -> Row<R> {
        match &self.rows {
            Some(rows) => rows[self.at.span],
            None => {
                let response = solver.response(
                    &program.spans[self.at.span].demand,
                    &self.placement,
                    self.node,
                );
                Row::new(&response, program.spans[self.at.span].length)
            }
        }
    }
}

fn key(program: usize, placement: &Placement, node: usize) -> TrackKey {
    let mut shares = placement.reads.iter().chain(&placement.writes).map(|share| share.to_bits());
    (program, node, std::array::from_fn(|_| shares.next().unwrap_or(0)))
}

/// The node whose memories carry most of a program's lines; of equals the first.
fn home(machine: &Machine, score: &Score, placement: &Placement) -> usize {
    let flows = placement.apply(&flows(&score.lap()));
    let mut lines = vec![0.0; machine.nodes.len()];
    for (memory, flow) in machine.memories.iter().zip(flows) {
        lines[memory.node] += flow.reads.0 + flow.writes.0;
    }
    let most = lines.iter().copied().fold(0.0, f64::max);
    lines.iter().position(|share| *share == most).unwrap_or(0)
}

/// Lines of each flow, in the form in which placements are applied.
fn flows(totals: &[f64; FIGURES]) -> [Flow; MAX_MEDIA] {
    std::array::from_fn(|memory| Flow {
        reads: BytesPerSec(totals[1 + 2 * memory]),
        writes: BytesPerSec(totals[2 + 2 * memory]),
    })
}

fn rounded(lines: [f64; 2]) -> Traffic {
    Traffic { reads: Lines(lines[0].round() as u64), writes: Lines(lines[1].round() as u64) }
}

impl<const R: usize, C: Contention<R>> Execution for Engine<R, C> {
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
                let rows = self.track(program, &placement, node).rows.clone();
                self.tasks[task].rows = Some(rows);
            }
        }
        let state = &mut self.tasks[task];
        (state.core, state.since) = (Some(core), self.now);
        if pause > Nanos::ZERO {
            state.pending.push(Piece::pause(pause.as_f64()));
        }
        self.on[core] = Some(task);
        let piece = self.piece(task);
        self.contention.begin(self.now, core, &piece);
    }

    fn take(&mut self, core: usize) -> usize {
        let task = self.on[core].take().expect("a task is taken off a core that has one");
        let at = self.point(task);
        let left = self.contention.left(self.now, core);
        self.contention.end(self.now, core);
        let state = &mut self.tasks[task];
        if let Doing::Overhead(piece) = state.doing {
            state.pending.push(Piece { time: left, ..piece });
        }
        state.at = at;
        state.doing = Doing::Work;
        state.core = None;
        state.cpu_time += self.now - state.since;
        task
    }

    fn run(&mut self, until: f64) -> Option<usize> {
        loop {
            let (time, core) = self.contention.next(self.now);
            if time > until {
                // Never back, even if that moment has passed already.
                self.now = until.max(self.now);
                return None;
            }
            self.now = time.max(self.now);
            let task = self.on[core].expect("a piece belongs to a task");
            match self.step(task) {
                Some(piece) => self.contention.begin(self.now, core, &piece),
                None => {
                    self.take(core);
                    return Some(core);
                }
            }
        }
    }

    fn read(&mut self, task: usize) -> Reading {
        let at = self.point(task);
        self.attribute(task, at);
        let state = &self.tasks[task];
        let on_core = if state.core.is_some() { self.now - state.since } else { 0.0 };
        let begun = self.programs[state.program].1.totals(state.start)[0];
        let instructions = (state.attributed[0] - begun).round() as u64;
        Reading {
            cpu_time: state.cpu_time + on_core,
            counts: Counts::by_medium(instructions, state.counted.map(rounded)),
            moved: state.moved.map(rounded),
            at,
        }
    }

    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64) {
        let state = &self.tasks[task];
        let score = &self.programs[state.program].1;
        let key = key(state.program, &state.placement, state.node);
        let Some(track) = self.tracks.get(&key) else {
            return self.walk(state, from, time.as_f64());
        };
        let (now, end) = (track.alone_at(score, from), track.alone_at(score, state.end));
        let then = (now + time.as_f64()).min(end);
        let to = if then < end { track.alone_after(score, then) } else { state.end };
        (score.lines(from, to), then - now)
    }

    fn alone(&self, task: usize) -> (Nanos, Counts) {
        let state = &self.tasks[task];
        let score = &self.programs[state.program].1;
        let (before, after) = (score.totals(state.start), score.totals(state.end));
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
        let pieces: Vec<Piece<R>> = copies
            .iter()
            .filter(|copy| copy.bytes.0 > 0)
            .map(|copy| self.copying(copy, node))
            .collect();
        let state = &mut self.tasks[task];
        (state.rows, state.placement) = (None, placement);
        state.pending.extend(pieces);
    }

    fn home(&self, task: usize) -> usize {
        self.tasks[task].home
    }

    fn node(&self, task: usize) -> usize {
        self.tasks[task].node
    }

    fn placement(&self, task: usize) -> &Placement {
        &self.tasks[task].placement
    }
}
