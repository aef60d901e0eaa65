//! Load balancing: which core a task comes to, and who takes from whom.

use super::{Kernel, Processor, Timer};

/// Looks around in vain after which a core takes a task from a queue that is longer by one: the
/// balancing of Linux halves what it demands of an imbalance with every failure
/// (`detach_tasks`, `shr_bound`).
const PATIENCE: u32 = 3;

impl<P: Processor + ?Sized> Kernel<P> {
    /// Gives an idle core something to do: from its own queue, else from the longest.
    pub(super) fn fill(&mut self, core: usize) {
        if self.cores[core].first().is_none() && self.queued > 0 {
            let node = self.cores[core].node;
            if let Some(busiest) = self.cores.busiest(node, 2) {
                self.pull(busiest, core);
            }
        }
        self.dispatch(core);
    }

    /// Moves the first waiting task of one core to another.
    pub(super) fn pull(&mut self, from: usize, to: usize) {
        if let Some(task) = self.cores[from].first() {
            self.dequeue(task, from);
            self.enqueue(task, to);
            self.dispatch(to);
        }
    }

    /// A core looks for a queue that is longer than its own.
    pub(super) fn look_around(&mut self, core: usize) {
        let next = self.now() + self.config.balance;
        self.timers.set(core, Timer::Balance, next);
        let (node, load) = (self.cores[core].node, self.cores.load(core));
        if self.queued > 0 {
            if let Some(busiest) = self.cores.busiest(node, load + 2) {
                self.cores[core].failures = 0;
                self.pull(busiest, core);
            } else if load > 0
                && let Some(busiest) = self.cores.busiest_of(node, load + 1)
            {
                self.cores[core].failures += 1;
                if self.cores[core].failures > PATIENCE {
                    self.cores[core].failures = 0;
                    self.pull(busiest, core);
                }
            }
        } else if load == 0 && self.cores.several_nodes() {
            self.fetch_home(core);
        }
    }

    /// An idle core takes a task over that runs on another node than its home.
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

    /// The core for a task that is let run.
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
