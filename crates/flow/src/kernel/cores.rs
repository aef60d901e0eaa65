//! The cores with their run queues, and the longest and shortest queues of each node.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use memweir_core::Nanos;

use super::balance::{Domain, Group};

/// A core.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) node: usize,
    /// The task on the core.
    pub(super) current: Option<usize>,
    /// The task that was last put on the core.
    pub(super) last: Option<usize>,
    /// Waiting tasks by virtual runtime. A task that leaves the core has usually run most and joins
    /// at the end, so entries are rarely moved.
    queue: VecDeque<(i64, usize)>,
    /// Virtual runtime that every task of the queue has reached; never decreases.
    floor: i64,
    /// Length of the next slice. The first slice on a core has a length of its own, so that cores
    /// are not in step.
    pub(super) first_slice: Nanos,
    /// Its balancing with the other cores of its node.
    pub(super) domain: Domain,
}

impl Core {
    /// Returns the waiting task that ran least.
    pub(super) fn first(&self) -> Option<usize> {
        self.queue.front().map(|(_, task)| *task)
    }

    /// Returns true if no task waits for the core, or none is on it.
    pub(super) fn idle_or_alone(&self) -> bool {
        self.current.is_none() || self.queue.is_empty()
    }

    /// Returns the virtual runtime that every task has reached, where the one on the core has
    /// reached `current`.
    pub(super) fn floor(&mut self, current: i64) -> i64 {
        let first = self.queue.front().map_or(i64::MAX, |(vruntime, _)| *vruntime);
        let least = first.min(current);
        if least != i64::MAX {
            self.floor = self.floor.max(least);
        }
        self.floor
    }

    /// Exchanges the task on the core for the first task of the queue.
    pub(super) fn rotate(&mut self, running: usize, vruntime: i64) {
        if let Some((_, first)) = self.queue.pop_front() {
            self.join(vruntime, running);
            self.current = Some(first);
            self.last = Some(first);
        }
    }

    /// Moves the first task of the queue onto the core.
    pub(super) fn start_first(&mut self, task: usize, vruntime: i64) {
        self.quit(vruntime, task);
        self.current = Some(task);
        self.last = Some(task);
    }

    /// Inserts a task into the queue.
    fn join(&mut self, vruntime: i64, task: usize) {
        if self.queue.back().is_none_or(|last| *last < (vruntime, task)) {
            self.queue.push_back((vruntime, task));
            return;
        }
        let place = self.queue.partition_point(|other| *other < (vruntime, task));
        self.queue.insert(place, (vruntime, task));
    }

    /// Removes a task from the queue.
    fn quit(&mut self, vruntime: i64, task: usize) {
        if let Ok(place) = self.queue.binary_search(&(vruntime, task)) {
            self.queue.remove(place);
        }
    }
}

/// All cores, and the number of tasks of each by node.
#[derive(Debug)]
pub(super) struct Cores {
    cores: Vec<Core>,
    loads: Vec<u32>,
    /// Per node: cores by number of tasks.
    by_load: Vec<BTreeSet<(u32, usize)>>,
    nodes: Vec<Node>,
}

/// State of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    /// Number of its tasks and cores.
    pub(super) group: Group,
    /// Its balancing with the other nodes.
    pub(super) domain: Domain,
    /// Time of its next balancing with the other nodes.
    pub(super) next: Nanos,
}

impl Cores {
    /// Creates cores on these nodes.
    pub(super) fn new(nodes: impl Iterator<Item = usize>) -> Self {
        let core = |node| Core {
            node,
            current: None,
            last: None,
            queue: VecDeque::new(),
            floor: 0,
            first_slice: Nanos::ZERO,
            domain: Domain::default(),
        };
        let cores: Vec<Core> = nodes.map(core).collect();
        let (mut by_load, mut nodes) = (Vec::new(), Vec::new());
        for (place, core) in cores.iter().enumerate() {
            by_load.resize_with(by_load.len().max(core.node + 1), BTreeSet::new);
            by_load[core.node].insert((0, place));
            nodes.resize(by_load.len(), Node::default());
            nodes[core.node].group.cores += 1;
        }
        Self { loads: vec![0; cores.len()], cores, by_load, nodes }
    }

    pub(super) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(super) fn several_nodes(&self) -> bool {
        self.by_load.len() > 1
    }

    /// Returns the number of tasks on a core and in its queue.
    pub(super) fn load(&self, core: usize) -> u32 {
        self.loads[core]
    }

    /// Returns the node of this number.
    pub(super) fn node(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    /// Returns the numbers of tasks and cores of each node.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.nodes.iter().map(|node| node.group)
    }

    fn set_load(&mut self, core: usize, load: u32) {
        let node = self.cores[core].node;
        let list = &mut self.by_load[node];
        list.remove(&(self.loads[core], core));
        list.insert((load, core));
        let group = &mut self.nodes[node].group;
        group.tasks = group.tasks + u64::from(load) - u64::from(self.loads[core]);
        self.loads[core] = load;
    }

    /// Adds a task to a core's queue.
    pub(super) fn gain(&mut self, core: usize, task: usize, vruntime: i64) {
        self.cores[core].join(vruntime, task);
        self.set_load(core, self.loads[core] + 1);
    }

    /// Removes a task from a core's queue, to go elsewhere.
    pub(super) fn drop_queued(&mut self, core: usize, task: usize, vruntime: i64) {
        self.cores[core].quit(vruntime, task);
        self.set_load(core, self.loads[core] - 1);
    }

    /// Removes the task that leaves a core from the load of the core.
    pub(super) fn lose(&mut self, core: usize) {
        self.set_load(core, self.loads[core] - 1);
    }

    /// Returns the core with the longest queue, if a task waits there: of this node, else of the
    /// others in order.
    pub(super) fn busiest(&self, node: usize) -> Option<usize> {
        self.beginning_with(node).find_map(|node| self.busiest_of(node))
    }

    /// Returns the core of a node with the longest queue, if a task waits there.
    pub(super) fn busiest_of(&self, node: usize) -> Option<usize> {
        let (load, core) = self.by_load.get(node)?.last()?;
        (*load > 1).then_some(*core)
    }

    /// Returns the core of the same node with the longest queue, if a task waits there. Ties go to
    /// the next core after `core`, in a circle, as each CPU's scheduling groups begin with its own.
    pub(super) fn busiest_beside(&self, core: usize) -> Option<usize> {
        let by_load = &self.by_load[self.cores[core].node];
        let (load, _) = by_load.last().filter(|(load, _)| *load > 1)?;
        let next = by_load.range((*load, core + 1)..).next();
        next.or_else(|| by_load.range((*load, 0)..).next()).map(|(_, busiest)| *busiest)
    }

    /// Returns an idle core of a node.
    pub(super) fn idle_of(&self, node: usize) -> Option<usize> {
        let (load, core) = self.by_load.get(node)?.first()?;
        (*load == 0).then_some(*core)
    }

    /// Returns the core with the fewest tasks; ties go to this node.
    pub(super) fn least_loaded(&self, node: usize) -> usize {
        self.beginning_with(node)
            .filter_map(|node| self.by_load.get(node)?.first())
            .min_by_key(|(load, _)| *load)
            .map_or(0, |(_, core)| *core)
    }

    /// Returns this node, and the others in order.
    fn beginning_with(&self, node: usize) -> impl Iterator<Item = usize> {
        let others = (0..self.by_load.len()).filter(move |other| *other != node);
        std::iter::once(node).chain(others)
    }
}

impl Index<usize> for Cores {
    type Output = Core;

    fn index(&self, core: usize) -> &Core {
        &self.cores[core]
    }
}

impl IndexMut<usize> for Cores {
    fn index_mut(&mut self, core: usize) -> &mut Core {
        &mut self.cores[core]
    }
}
