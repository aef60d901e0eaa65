//! The simulated operating system: a fair scheduler with a run queue per core and load balancing.
//!
//! It executes all tasks that are not blocked: everything under the policy `os`, else the jobs that
//! a policy has selected, which get cores of their own as long as there are enough. Callers decide
//! which tasks are blocked.
//!
//! It models these parts of Linux (CFS and EEVDF, 6.12): a queue per core in the order of virtual
//! runtime; a time slice, after which the task that ran least goes on; placement of a woken task on
//! an idle core (its last one if possible, and preferably on its home node); an idle core that
//! takes a waiting task from the longest queue; and periodic load balancing within a node and among
//! nodes, with the intervals, the thresholds and the retries of Linux, so that an odd task rotates
//! among the cores.
//!
//! It differs from Linux in these points. All tasks have the same weight and no group. A slice is
//! not cut to timer ticks, only its end preempts a task, and a wake-up never does. Load is the
//! number of tasks and not its decaying average; interrupts and other processes, which make the
//! average fluctuate, are a random delay of up to a tick per balancing attempt. Caches are never
//! cold, so a migration has no cost of its own. There are no shared cores (SMT), no frequency
//! scaling and no other processes. NUMA balancing is reduced to one rule: an idle core takes over a
//! task that runs elsewhere and has its home on the core's node.

mod balance;
mod cores;
mod timers;

use memweir_core::Nanos;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::Execution;
use crate::experiment::{Experiment, KernelConfig};
use cores::Cores;
use timers::{Timer, Timers};

/// Location of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Nowhere: blocked or complete.
    Away,
    /// In the queue of a core.
    Queued(usize),
    /// On a core.
    Running(usize),
}

/// Scheduling state of a task.
#[derive(Clone, Copy, Debug)]
struct Thread {
    whereabouts: Whereabouts,
    /// Virtual runtime in its queue; while it is away, its lead over its last queue.
    vruntime: i64,
    /// Time at which it was last put on its core.
    dispatched: f64,
    last_core: Option<usize>,
    /// True from a wake-up to the first dispatch, which comes with a random pause.
    fresh: bool,
}

impl Thread {
    /// Returns the virtual runtime of a running task at `now`.
    fn vruntime_at(&self, now: f64) -> i64 {
        self.vruntime + (now - self.dispatched) as i64
    }
}

/// Cores on which tasks run, either simulated or emulated with real programs. Times are in
/// nanoseconds from the start.
pub trait Processor {
    /// Returns the current time.
    fn now(&self) -> f64;

    /// Puts a task that is on no core on an idle one. The core does no work for `pause`.
    fn put(&mut self, core: usize, task: usize, pause: Nanos);

    /// Takes the task off a core and returns it.
    fn take(&mut self, core: usize) -> usize;

    /// Replaces the task on a core by `task` and returns the task that was on it.
    fn exchange(&mut self, core: usize, task: usize, pause: Nanos) -> usize {
        let before = self.take(core);
        self.put(core, task, pause);
        before
    }

    /// Advances time to `until`, or to the moment at which a task completes or can no longer run.
    /// Returns the core of that task, which is off the core by then.
    fn run(&mut self, until: f64) -> Option<usize>;

    /// Returns the node on which most of a task's traffic was when it was submitted.
    fn home(&self, task: usize) -> usize;
}

/// The operating system.
pub struct Kernel<P: Processor + ?Sized> {
    execution: Box<P>,
    config: KernelConfig,
    context_switch: Nanos,
    cores: Cores,
    threads: Vec<Thread>,
    timers: Timers,
    /// Number of tasks in queues.
    queued: usize,
    random: ChaCha8Rng,
}

impl Kernel<dyn Execution> {
    /// Creates an operating system on as many of the machine's cores as the scheduler has.
    pub(crate) fn new(experiment: &Experiment, execution: Box<dyn Execution>) -> Self {
        let nodes = experiment.machine.core_nodes().take(experiment.scheduler.cores as usize);
        let costs = (experiment.kernel, experiment.overheads.context_switch);
        let mut kernel = Self::on(nodes, costs, experiment.seed, execution);
        for _ in &experiment.tasks {
            kernel.add_task();
        }
        kernel
    }

    /// Returns the execution of the tasks.
    pub(crate) fn execution(&mut self) -> &mut dyn Execution {
        &mut *self.execution
    }
}

impl<P: Processor + ?Sized> Kernel<P> {
    /// Creates an operating system without tasks, on cores of these nodes. A core that switches
    /// tasks does no work for `context_switch`.
    pub fn on(
        nodes: impl Iterator<Item = usize>,
        (config, context_switch): (KernelConfig, Nanos),
        seed: u64,
        execution: Box<P>,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut cores = Cores::new(nodes);
        let mut timers = Timers::new(cores.len());
        for core in 0..cores.len() {
            cores[core].first_slice = Nanos(random.random_range(1..=config.slice.0));
            let node = cores[core].node;
            let interval = balance::busy_interval(config, cores.node(node).group.cores);
            let look = Nanos(random.random_range(1..=interval.0));
            timers.set(core, Timer::Balance, look);
        }
        Self {
            threads: Vec::new(),
            execution,
            config,
            context_switch,
            cores,
            timers,
            queued: 0,
            random,
        }
    }

    /// Adds a blocked task and returns its number.
    pub fn add_task(&mut self) -> usize {
        self.threads.push(Thread {
            whereabouts: Whereabouts::Away,
            vruntime: 0,
            dispatched: 0.0,
            last_core: None,
            fresh: false,
        });
        self.threads.len() - 1
    }

    /// Returns the processor that executes the tasks.
    pub fn processor(&mut self) -> &mut P {
        &mut self.execution
    }

    /// Wakes the blocked ones of `tasks` in random order, and removes the others from the list.
    pub fn wake(&mut self, tasks: &mut Vec<usize>) {
        tasks.retain(|task| self.threads[*task].whereabouts == Whereabouts::Away);
        tasks.shuffle(&mut self.random);
        for task in tasks {
            let core = self.choose_core(*task);
            self.threads[*task].fresh = true;
            self.enqueue(*task, core);
            self.dispatch(core);
        }
    }

    /// Blocks all tasks.
    pub fn block_all(&mut self) {
        for core in 0..self.cores.len() {
            while let Some(task) = self.cores[core].first() {
                self.dequeue(task, core);
            }
            if self.cores[core].current.is_some() {
                self.take_off(core);
            }
        }
    }

    /// Blocks a task.
    pub fn block(&mut self, task: usize) {
        match self.threads[task].whereabouts {
            Whereabouts::Away => {}
            Whereabouts::Queued(core) => self.dequeue(task, core),
            Whereabouts::Running(core) => {
                self.take_off(core);
                self.fill(core);
            }
        }
    }

    /// Advances time to `until`, or to the completion of a task, which it returns.
    pub fn run(&mut self, until: Nanos) -> Option<usize> {
        loop {
            let (time, core, timer) = self.timers.next();
            if let Some(core) = self.execution.run(time.min(until).as_f64()) {
                let task = self.completed(core);
                self.fill(core);
                return Some(task);
            }
            if time > until {
                return None;
            }
            match timer {
                Timer::Slice => self.slice_over(core),
                Timer::Balance => self.look_around(core),
            }
        }
    }

    fn now(&self) -> Nanos {
        nanos_of(self.execution.now())
    }

    /// Records the completion of the task on a core; the execution has already taken it off.
    fn completed(&mut self, core: usize) -> usize {
        let task = self.cores[core].current.expect("a task completes on the core that it is on");
        self.leave(core, task);
        task
    }

    /// Takes the task off a core and returns it.
    fn take_off(&mut self, core: usize) -> usize {
        let task = self.execution.take(core);
        self.leave(core, task);
        task
    }

    /// Updates the state of a task that has left its core.
    fn leave(&mut self, core: usize, task: usize) {
        let ran = (self.execution.now() - self.threads[task].dispatched) as i64;
        let floor = self.cores[core].floor(self.threads[task].vruntime + ran);
        let thread = &mut self.threads[task];
        thread.vruntime += ran - floor;
        thread.whereabouts = Whereabouts::Away;
        thread.last_core = Some(core);
        self.cores.lose(core);
        self.cores[core].current = None;
    }

    /// Puts a task that is away in a core's queue.
    fn enqueue(&mut self, task: usize, core: usize) {
        let current = self.cores[core].current.map(|running| self.vruntime(running));
        let floor = self.cores[core].floor(current.unwrap_or(i64::MAX));
        let most = self.config.slice.0 as i64;
        let thread = &mut self.threads[task];
        // Neither a long absence nor a long run elsewhere counts for more than one slice.
        thread.vruntime = floor + thread.vruntime.clamp(-most, most);
        thread.whereabouts = Whereabouts::Queued(core);
        self.cores.gain(core, task, thread.vruntime);
        self.queued += 1;
        self.arm(core);
    }

    /// Removes a task from a core's queue.
    fn dequeue(&mut self, task: usize, core: usize) {
        let current = self.cores[core].current.map(|running| self.vruntime(running));
        let floor = self.cores[core].floor(current.unwrap_or(i64::MAX));
        let thread = &mut self.threads[task];
        self.cores.drop_queued(core, task, thread.vruntime);
        thread.vruntime -= floor;
        thread.whereabouts = Whereabouts::Away;
        self.queued -= 1;
    }

    /// Returns the virtual runtime of a running task.
    fn vruntime(&self, task: usize) -> i64 {
        self.threads[task].vruntime_at(self.execution.now())
    }

    /// Puts the first task of a core's queue on the core if the core is idle.
    fn dispatch(&mut self, core: usize) {
        if self.cores[core].current.is_some() {
            return;
        }
        let Some(task) = self.cores[core].first() else { return };
        let mut pause =
            if self.cores[core].last == Some(task) { Nanos::ZERO } else { self.context_switch };
        let thread = &mut self.threads[task];
        if std::mem::take(&mut thread.fresh) && self.config.jitter > Nanos::ZERO {
            pause += Nanos(self.random.random_range(0..=self.config.jitter.0));
        }
        self.cores[core].start_first(task, thread.vruntime);
        thread.whereabouts = Whereabouts::Running(core);
        thread.dispatched = self.execution.now();
        self.queued -= 1;
        self.execution.put(core, task, pause);
        self.timers.clear(core, Timer::Slice);
        self.arm(core);
    }

    /// Starts the slice of the task on a core if other tasks wait for the core and no slice has
    /// started.
    fn arm(&mut self, core: usize) {
        if !self.timers.is_set(core, Timer::Slice) && !self.cores[core].idle_or_alone() {
            self.begin_slice(core, self.now());
        }
    }

    fn begin_slice(&mut self, core: usize, now: Nanos) {
        let slice = std::mem::replace(&mut self.cores[core].first_slice, self.config.slice);
        self.timers.set(core, Timer::Slice, now + slice);
    }

    fn slice_over(&mut self, core: usize) {
        let (Some(running), Some(first)) = (self.cores[core].current, self.cores[core].first())
        else {
            self.timers.clear(core, Timer::Slice);
            return;
        };
        let now = self.execution.now();
        let vruntime = self.threads[running].vruntime_at(now);
        if self.threads[first].vruntime <= vruntime {
            self.rotate(core, (running, vruntime), first, now);
        }
        self.begin_slice(core, nanos_of(now));
    }

    /// Puts the first task of a core's queue on the core; the running task joins the queue.
    fn rotate(&mut self, core: usize, (running, vruntime): (usize, i64), first: usize, now: f64) {
        let thread = &mut self.threads[running];
        thread.vruntime = vruntime;
        thread.whereabouts = Whereabouts::Queued(core);
        thread.last_core = Some(core);
        self.cores[core].rotate(running, vruntime);
        let thread = &mut self.threads[first];
        thread.whereabouts = Whereabouts::Running(core);
        thread.dispatched = now;
        thread.fresh = false;
        self.execution.exchange(core, first, self.context_switch);
    }
}

/// Rounds a time up to whole nanoseconds. Rounding by a conversion takes a fraction of the time of
/// a call of the mathematical library, and time slices end often.
fn nanos_of(time: f64) -> Nanos {
    let whole = time as u64;
    Nanos(whole + u64::from((whole as f64) < time))
}
