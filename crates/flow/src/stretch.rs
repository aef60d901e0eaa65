//! Contention: how far the tasks that run together stretch each other's time.
//!
//! This module holds a task's demand on each resource ([`Response`]) and the [`Solver`] that finds
//! the stretch of each resource's latency. The [`engine`](crate::engine) decides which task runs
//! where, and for how long.
//!
//! A task with stall `s` whose lines go to memories `m` in shares makes progress at
//!
//! ```text
//! speed = 1 / (1 - s + sum over m of s_m * (g_m * x_m + g_i * x_i)),    s_m = s * lines_m / lines
//! ```
//!
//! where `g_m` is the unloaded latency of memory `m` over that of the first memory, `x_m >= 1` the
//! stretch of memory `m`, and `g_i`, `x_i` the same of the interconnect, for remote memories only.
//! A resource is busy for the share
//!
//! ```text
//! u_m = sum over tasks of speed * (reads_m * read_cost + writes_m * write_cost) / capacity
//! ```
//!
//! of its time. As long as `u_m < 1`, `x_m` is the stretch of the service curve at `u_m`. At a busy
//! share of 1 it is whatever keeps `u_m` there: the memory serves its capacity, and no more.

mod curve;
mod moments;
mod quartic;
mod solve;

use memweir_core::MAX_MEDIA;

use crate::machine::Machine;
use crate::program::Demand;
use crate::task::Placement;
pub(crate) use curve::Curve;
pub(crate) use moments::asked;
pub(crate) use solve::{Group, Groups, saturate, settle, time_of};

/// Resources that tasks can contend for: the memories, then the interconnect.
pub(crate) const RESOURCES: usize = MAX_MEDIA + 1;

/// The interconnect's place among the resources.
const INTERCONNECT: usize = MAX_MEDIA;

/// Least share of its time that a program with traffic waits for memory. One that never waited
/// could not be slowed down by anything, and no stretch would keep it within a memory's capacity.
pub const LEAST_STALL: f64 = 1.0 / 64.0;

/// A task on a core, as far as contention depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// Demand of its program.
    pub demand: Demand,
    /// Placement of its pages.
    pub placement: Placement,
    /// Node of the core that it runs on.
    pub node: usize,
}

/// A task's response to contention: its load on each resource and its share of waiting for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    /// Time per progress without contention, at least 1 minus the stall; above 1 with slow
    /// memories.
    pub(crate) slowness: f64,
    /// Busy share that it causes at each resource without contention.
    pub(crate) rate: [f64; RESOURCES],
    /// The part of that busy share that writes cause.
    pub(crate) writes: [f64; RESOURCES],
    /// Share of its time without contention for which it waits for each resource.
    pub(crate) share: [f64; RESOURCES],
}

impl Response {
    /// Returns progress per time without contention (every stretch is 1): no task is ever faster.
    #[must_use]
    pub fn unloaded_speed(&self) -> f64 {
        1.0 / self.slowness
    }

    /// Returns progress per time under contention.
    #[must_use]
    pub fn speed(&self, stretch: &Stretch) -> f64 {
        let extra: f64 = self.share.iter().zip(&stretch.0).map(|(s, x)| s * (x - 1.0)).sum();
        1.0 / (self.slowness * (1.0 + extra))
    }
}

/// Latency of each resource over its unloaded latency; 1 without contention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch(pub(crate) [f64; RESOURCES]);

impl Stretch {
    /// Returns the stretch of a memory, by its index in the machine.
    #[must_use]
    pub fn memory(&self, memory: usize) -> f64 {
        self.0[memory]
    }
}

/// Latencies and capacities of one machine, ready for use.
#[derive(Clone, Debug)]
pub struct Solver {
    /// One per resource.
    pub(crate) curves: [Curve; RESOURCES],
    /// True if every resource is as fast as unloaded until it saturates.
    flat: bool,
    memories: Vec<Latencies>,
    /// Latency of the interconnect over that of a read from the first memory, and its capacity in
    /// bytes per second.
    interconnect: Option<(f64, f64)>,
}

/// Figures of one memory, for the solver.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    node: usize,
    /// Unloaded latency over that of a read from the first memory.
    read: f64,
    write: f64,
    /// Seconds of the memory's time per byte.
    read_cost: f64,
    write_cost: f64,
}

impl Solver {
    /// Creates the solver of a machine that [`Machine::check`] accepts.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let dram = machine.memories[0].read_latency;
        let memories = machine.memories.iter().map(|memory| Latencies {
            node: memory.node,
            read: memory.read_latency.ratio(dram),
            write: memory.write_latency.ratio(dram),
            read_cost: memory.service.read_cost / memory.service.capacity.0,
            write_cost: memory.service.write_cost / memory.service.capacity.0,
        });
        let interconnect =
            machine.interconnect.map(|joint| (joint.latency.ratio(dram), joint.capacity.0));
        let curve = |resource: usize| match machine.memories.get(resource) {
            Some(memory) => Curve::new(&memory.service),
            None => Curve::flat(),
        };
        let curves: [Curve; RESOURCES] = std::array::from_fn(curve);
        let flat = curves.iter().all(Curve::is_flat);
        Self { flat, curves, memories: memories.collect(), interconnect }
    }

    /// Returns the solver of a machine whose latencies grow no more at any mix of reads and writes
    /// than they do at the mix at which they grow least.
    #[must_use]
    pub(crate) fn with_least_growth(self) -> Self {
        let curves = self.curves.each_ref().map(Curve::least);
        Self { flat: curves.iter().all(Curve::is_flat), curves, ..self }
    }

    /// Returns the response of a task with this demand and placement on a core of this node.
    #[must_use]
    pub fn response(&self, demand: &Demand, placement: &Placement, node: usize) -> Response {
        let flows = placement.apply(&demand.flows);
        let lines: f64 = flows.iter().map(|flow| flow.reads.0 + flow.writes.0).sum();
        let none = [0.0; RESOURCES];
        let mut response = Response { slowness: 1.0, rate: none, writes: none, share: none };
        if lines <= 0.0 {
            return response;
        }
        let (first, stall) = (&self.memories[0], demand.stall.clamp(LEAST_STALL, 1.0));
        response.slowness = 1.0 - stall;
        for (place, (memory, flow)) in self.memories.iter().zip(&flows).enumerate() {
            let (reads, writes) = (flow.reads.0, flow.writes.0);
            if reads + writes <= 0.0 {
                continue;
            }
            // The wait for these lines, for which local DRAM would have taken `part` of the time.
            let part = stall * (reads + writes) / lines;
            let local = reads * first.read + writes * first.write;
            let wait = part * (reads * memory.read + writes * memory.write) / local;
            response.share[place] = wait;
            response.writes[place] = writes * memory.write_cost;
            response.rate[place] = reads * memory.read_cost + response.writes[place];
            response.slowness += wait;
            if let Some((latency, capacity)) = self.interconnect.filter(|_| memory.node != node) {
                let wait = part * latency * (reads + writes) / local;
                response.share[INTERCONNECT] += wait;
                response.rate[INTERCONNECT] += (reads + writes) / capacity;
                response.slowness += wait;
            }
        }
        for values in [&mut response.share, &mut response.rate, &mut response.writes] {
            for value in values {
                *value /= response.slowness;
            }
        }
        response
    }

    /// Finds the stretch of each resource while these tasks run together.
    ///
    /// With one memory this is the exact root of a monotone function. With several, each memory in
    /// turn is set to its root while the others stay, until no stretch moves; the order is fixed,
    /// so equal tasks give equal results.
    #[must_use]
    pub fn solve(&self, running: &[Response]) -> Stretch {
        let columns = |of: fn(&Response) -> &[f64; RESOURCES]| -> [Vec<f64>; RESOURCES] {
            std::array::from_fn(|place| running.iter().map(|task| of(task)[place]).collect())
        };
        let (rates, shares) = (columns(|task| &task.rate), columns(|task| &task.share));
        let (rates, shares) = (slices(&rates), slices(&shares));
        let mut stretch = [1.0; RESOURCES];
        if self.curves.iter().any(Curve::minds_writes) {
            let writes = columns(|task| &task.writes);
            let groups = Groups { rates, shares, writes: slices(&writes) };
            settle(&groups, &self.curves, &mut stretch);
        } else {
            settle(&Groups { rates, shares, writes: [] }, &self.curves, &mut stretch);
        }
        Stretch(stretch)
    }

    /// Returns progress per time of a task that is alone on the machine. It is slower than
    /// [`Response::unloaded_speed`] if the task alone loads a memory enough.
    #[must_use]
    pub fn speed_alone(&self, response: &Response) -> f64 {
        // Most programs do not saturate any memory alone.
        if self.flat && response.rate.iter().all(|rate| *rate <= 1.0) {
            return response.unloaded_speed();
        }
        response.speed(&self.solve(std::slice::from_ref(response)))
    }
}

fn slices(columns: &[Vec<f64>; RESOURCES]) -> [&[f64]; RESOURCES] {
    columns.each_ref().map(Vec::as_slice)
}

/// Returns the progress per time of each of these tasks, in their order, while they run together on
/// the machine.
///
/// ```
/// use memweir_core::{BytesPerSec, MAX_MEDIA};
/// use memweir_flow::program::{Demand, Flow};
/// use memweir_flow::stretch::{Contender, speeds};
/// use memweir_flow::{Machine, Placement};
///
/// // One memory of 10 GB/s, and two tasks that each draw 8 GB/s and wait for half of their time.
/// let machine = Machine::uniform("example", 2, BytesPerSec::from_gb(10.0));
/// let mut demand = Demand { stall: 0.5, ..Demand::default() };
/// demand.flows[0] = Flow { reads: BytesPerSec::from_gb(8.0), ..Flow::default() };
/// let task = Contender { demand, placement: Placement::default(), node: 0 };
/// let speeds = speeds(&machine, &[task, task]);
/// // 10 of the 16 GB/s are served.
/// assert!((speeds[0] - 10.0 / 16.0).abs() < 1e-12 && speeds[0] == speeds[1]);
/// ```
#[must_use]
pub fn speeds(machine: &Machine, running: &[Contender]) -> Vec<f64> {
    let solver = Solver::new(machine);
    let responses: Vec<Response> = running
        .iter()
        .map(|task| solver.response(&task.demand, &task.placement, task.node))
        .collect();
    let stretch = solver.solve(&responses);
    responses.iter().map(|response| response.speed(&stretch)).collect()
}

#[cfg(test)]
mod tests;
