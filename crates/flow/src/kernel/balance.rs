//! Load balancing: the choice of a core for a task, and the tasks that cores pull from each other.
//!
//! The periodic balancing follows `sched_balance_rq` and `calculate_imbalance` of Linux 6.12 for
//! tasks of equal weight. A node's cores balance among each other, and the first core of each node
//! balances with the other nodes, as in the scheduling domains `MC` and `NUMA`.

use std::cmp::Reverse;

use memweir_core::Nanos;
use rand::RngExt;

use super::cores::{Core, Node};
use super::{Kernel, Processor, Timer};
use crate::experiment::KernelConfig;

/// Load of a task and capacity of a core (`NICE_0_LOAD`, `SCHED_CAPACITY_SCALE`).
const UNIT: u64 = 1024;

/// Load of the busiest group, in percent of the local group's, up to which two overloaded groups
/// count as balanced (`imbalance_pct` of domains that share a cache and of nodes).
const IMBALANCE_PCT: u64 = 117;

/// Balancing interval of a core with work, per core of the domain: 1 ms (`min_interval`) times 16
/// (`busy_factor`).
const BUSY_INTERVAL: Nanos = Nanos::from_millis(16);

/// Period of the timer tick, which starts the balancing: 250 Hz.
const TICK: Nanos = Nanos::from_millis(4);

/// Periodic balancing of a core or a node (`struct sched_domain`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Domain {
    /// Consecutive attempts that found an imbalance and moved nothing (`nr_balance_failed`).
    failures: u32,
    /// True if the last attempt found no imbalance.
    balanced: bool,
}

/// A core, or the cores of a node (`struct sched_group`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    /// Tasks on the cores and in their queues.
    pub(super) tasks: u64,
    /// Number of cores.
    pub(super) cores: u64,
}

impl Group {
    /// Returns the load per capacity of one core (`avg_load`).
    fn average(self) -> u64 {
        self.tasks * UNIT / self.cores
    }

    /// Returns the load that this group pulls from `busiest` in a domain with `all` tasks and
    /// cores; zero if the two are balanced (`sched_balance_find_src_group`, `calculate_imbalance`).
    fn imbalance(self, busiest: Self, all: Self) -> u64 {
        let (own, most, mean) = (self.average(), busiest.average(), all.average());
        let overloaded = |group: Self| group.tasks > group.cores;
        let close = overloaded(self) && 100 * most <= IMBALANCE_PCT * own;
        if !overloaded(busiest) || own >= mean || close {
            return 0;
        }
        let excess = (most - mean) * busiest.cores;
        excess.min((mean - own) * self.cores)
    }
}

/// Returns the time between two attempts of a core with work in a domain of `cores` cores.
pub(super) fn busy_interval(config: KernelConfig, cores: u64) -> Nanos {
    config.balance.unwrap_or(Nanos(BUSY_INTERVAL.0 * cores))
}

impl<P: Processor + ?Sized> Kernel<P> {
    /// Gives an idle core a task: from its own queue, else from the longest.
    pub(super) fn fill(&mut self, core: usize) {
        if self.cores[core].first().is_none() && self.queued > 0 {
            let node = self.cores[core].node;
            if let Some(busiest) = self.cores.busiest(node) {
                self.pull(busiest, core);
            }
        }
        self.dispatch(core);
    }

    /// Moves the first waiting task of one core to another. Returns false if there is none.
    fn pull(&mut self, from: usize, to: usize) -> bool {
        let Some(task) = self.cores[from].first() else { return false };
        self.dequeue(task, from);
        self.enqueue(task, to);
        self.dispatch(to);
        true
    }

    /// Balances the load of a core with the others of its node, and of its node with the others.
    pub(super) fn look_around(&mut self, core: usize) {
        let now = self.now();
        if self.queued > 0 && self.cores.load(core) > 0 {
            self.balance_cores(core);
            if self.cores.several_nodes() {
                self.balance_nodes(core, now);
            }
        } else if self.queued > 0 {
            self.fill(core);
        } else if self.cores.load(core) == 0 && self.cores.several_nodes() {
            self.fetch_home(core);
        }
        let Core { node, domain, .. } = self.cores[core];
        let cores = self.cores.node(node).group.cores;
        let next = now + self.interval(domain, cores);
        self.timers.set(core, Timer::Balance, next);
    }

    /// Pulls tasks from the core with the longest queue of the same node.
    fn balance_cores(&mut self, core: usize) {
        let node = self.cores[core].node;
        let all = self.cores.node(node).group;
        let group = |core| Group { tasks: self.cores.load(core).into(), cores: 1 };
        let busiest = self.cores.busiest_beside(core);
        let imbalance = busiest.map_or(0, |from| group(core).imbalance(group(from), all));
        let mut domain = self.cores[core].domain;
        self.attempt(&mut domain, imbalance, busiest, core);
        self.cores[core].domain = domain;
    }

    /// Pulls tasks from the node with the highest load, if `core` is the one that balances for its
    /// node and the next attempt is due.
    fn balance_nodes(&mut self, core: usize, now: Nanos) {
        let node = self.cores[core].node;
        let first = core == 0 || self.cores[core - 1].node != node;
        let Node { group, mut domain, next } = *self.cores.node(node);
        if !first || now < next {
            return;
        }
        let all = self.cores.groups().fold(Group::default(), |all, group| Group {
            tasks: all.tasks + group.tasks,
            cores: all.cores + group.cores,
        });
        let by_load = self.cores.groups().enumerate().filter(|(_, group)| group.cores > 0);
        // Ties go to the next node after this one, as among cores.
        let order = |other: usize| Reverse((other < node, other));
        let busiest = by_load.max_by_key(|(other, group)| (group.average(), order(*other)));
        let imbalance = busiest.map_or(0, |(_, busiest)| group.imbalance(busiest, all));
        let from = busiest.and_then(|(other, _)| self.cores.busiest_of(other));
        self.attempt(&mut domain, imbalance, from, core);
        let next = now + self.interval(domain, all.cores);
        let state = self.cores.node(node);
        (state.domain, state.next) = (domain, next);
    }

    /// Moves waiting tasks until the imbalance is gone. A task whose load exceeds the imbalance
    /// stays; each failure in a row halves the load that counts (`detach_tasks`).
    fn attempt(&mut self, domain: &mut Domain, imbalance: u64, from: Option<usize>, to: usize) {
        let load = UNIT >> domain.failures.min(UNIT.ilog2());
        let mut left = imbalance;
        while let Some(from) = from
            && left >= load
            && left > 0
            && self.pull(from, to)
        {
            left = left.saturating_sub(UNIT);
        }
        domain.balanced = imbalance == 0;
        let failed = imbalance > 0 && left == imbalance;
        domain.failures = if failed { domain.failures + 1 } else { 0 };
    }

    /// Returns the time to the next attempt in a domain of `cores` cores. It doubles after an
    /// attempt that found no imbalance (`max_interval`). Interrupts keep the ticks of real cores
    /// out of step with the slices of tasks, so each attempt is up to a tick late, at random.
    fn interval(&mut self, domain: Domain, cores: u64) -> Nanos {
        let interval = busy_interval(self.config, cores);
        let doubled = Nanos(interval.0 * if domain.balanced { 2 } else { 1 });
        doubled + Nanos(self.random.random_range(0..=TICK.0))
    }

    /// Moves a task that runs on another node to an idle core of its home node.
    fn fetch_home(&mut self, core: usize) {
        let node = self.cores[core].node;
        let stray = |other: &usize| {
            let task = self.cores[*other].current;
            self.cores[*other].node != node
                && task.is_some_and(|task| self.execution.home(task) == node)
        };
        if let Some(other) = (0..self.cores.len()).find(stray) {
            let task = self.take_off(other);
            self.enqueue(task, core);
            self.dispatch(core);
        }
    }

    /// Returns the core for a task that wakes up.
    pub(super) fn choose_core(&self, task: usize) -> usize {
        let home = self.execution.home(task);
        let last = self.threads[task].last_core.filter(|core| self.cores.load(*core) == 0);
        let at_home = last.filter(|core| self.cores[*core].node == home);
        at_home
            .or_else(|| self.cores.idle_of(home))
            .or(last)
            .unwrap_or_else(|| self.cores.least_loaded(home))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(tasks: u64, cores: u64) -> Group {
        Group { tasks, cores }
    }

    #[test]
    fn imbalances_by_hand() {
        // Local group, busiest group, all groups; the load to move, where a task has 1024.
        let cases = [
            // The mean is 1.5: half a task too many, half a task too few.
            ((1, 1), (2, 1), (3, 2), 512),
            // The mean is 1.25: the local core lacks a quarter.
            ((1, 1), (2, 1), (5, 4), 256),
            // The mean is 3, two tasks from each.
            ((1, 1), (5, 1), (6, 2), 2048),
            // 300 exceeds 117 % of 200, but 700 does not exceed 117 % of 600.
            ((2, 1), (3, 1), (5, 2), 512),
            ((6, 1), (7, 1), (13, 2), 0),
            // The local core has more than the mean.
            ((2, 1), (2, 1), (5, 4), 0),
            // No task waits.
            ((0, 1), (1, 1), (1, 2), 0),
            // Nodes of four cores: means of 1.25, 2 and 1.625; 1.5 tasks on four cores each.
            ((5, 4), (8, 4), (13, 8), 1536),
        ];
        for (local, busiest, all, expected) in cases {
            let [local, busiest, all] = [local, busiest, all].map(|(t, c)| group(t, c));
            assert_eq!(local.imbalance(busiest, all), expected, "{local:?} {busiest:?}");
        }
    }
}
