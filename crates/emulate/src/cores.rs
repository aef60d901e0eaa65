//! Emulated cores: they give turns to the tasks on them, one core after the other.
//!
//! Every core has a clock of its own. [`Cores::run`] brings the clocks to a common time, in the
//! order of the cores; each thread has the turn until the clock of its core has reached that time
//! or the thread cannot continue. Within such a step, which the machine keeps short, threads of
//! later cores find in the shared cache or in a pipe what a thread of an earlier core left there,
//! as if it had always been there: this is the price of a result that depends on nothing but the
//! order.

use memweir_abi::softpmu::gate::FEMTOS_PER_NANO;
use memweir_core::Nanos;
use memweir_flow::kernel::Processor;
use memweir_linux::gate::{CoreCaches, Standing, ThreadView};

use crate::epoch::{Debt, Memories, Work};
use crate::threads::Threads;

/// A thread, as a task of the operating system.
#[derive(Clone, Debug)]
pub struct Task {
    /// The thread.
    pub view: ThreadView,
    /// Nanoseconds on a core.
    pub cpu_time: f64,
    /// Time that it owes for the epochs before. It makes progress at the speed of the last one.
    debt: Debt,
    /// Its work in this epoch, and the core of its last turn.
    epoch: Work,
    core: usize,
    life: Life,
}

/// State of a thread: one that has ended gets no further turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Ended,
}

/// One core.
#[derive(Clone, Debug)]
struct Core {
    node: usize,
    task: Option<usize>,
    /// The task whose data are in its private caches.
    last: Option<usize>,
    /// Its clock, in nanoseconds.
    clock: f64,
    /// Debt of the threads that have ended on it, and the work of theirs that it paid for in this
    /// epoch.
    debt: Debt,
    paid: Work,
}

impl Core {
    /// Pays what the threads owed that have ended here.
    fn pay_own_debt(&mut self, now: f64, until: f64) {
        // The clock of an idle core stands still.
        self.clock = self.clock.max(now);
        self.paid.add(&pay(&mut self.debt, &mut self.clock, until));
    }
}

/// Pays a debt until the clock has reached `until`; returns the work that was paid for.
fn pay(debt: &mut Debt, clock: &mut f64, until: f64) -> Work {
    if debt.nanos <= 0.0 || *clock >= until {
        return Work::default();
    }
    let paid = debt.pay(until - *clock);
    *clock = if debt.nanos > 0.0 { until } else { *clock + paid.granted };
    paid
}

/// The cores of a machine.
#[derive(Debug)]
pub struct Cores<T> {
    threads: T,
    memories: Memories,
    now: f64,
    cores: Vec<Core>,
    tasks: Vec<Task>,
    /// Tasks that an epoch charges, in order: all but those that ended in an earlier one.
    charged: Vec<usize>,
    /// Cores whose task cannot continue, each after the time at which that happened.
    left: Vec<(f64, usize)>,
}

impl<T: Threads> Cores<T> {
    /// Creates idle cores on these nodes.
    pub fn new(nodes: impl Iterator<Item = usize>, memories: Memories, threads: T) -> Self {
        let core = |node| Core {
            node,
            task: None,
            last: None,
            clock: 0.0,
            debt: Debt::default(),
            paid: Work::default(),
        };
        Self {
            threads,
            memories,
            now: 0.0,
            cores: nodes.map(core).collect(),
            tasks: Vec::new(),
            charged: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Returns the threads.
    pub fn threads(&self) -> &T {
        &self.threads
    }

    /// Adds a thread. Its number must be the one that the operating system gives it.
    pub fn add(&mut self, view: ThreadView) {
        self.charged.push(self.tasks.len());
        self.tasks.push(Task {
            view,
            cpu_time: 0.0,
            debt: Debt::default(),
            epoch: Work::default(),
            core: 0,
            life: Life::Alive,
        });
    }

    /// Returns a task by its number.
    #[must_use]
    pub fn task(&self, task: usize) -> &Task {
        &self.tasks[task]
    }

    /// Returns true if no core has a task.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.cores.iter().all(|core| core.task.is_none())
    }

    /// Returns the nanoseconds that the tasks of a job have been on cores.
    #[must_use]
    pub fn cpu_time(&self, job: u32) -> f64 {
        self.tasks.iter().filter(|t| t.view.job == job).map(|t| t.cpu_time).sum()
    }

    /// Keeps all cores idle for `length` from now on.
    pub fn pause(&mut self, length: Nanos) {
        for core in &mut self.cores {
            core.clock = core.clock.max(self.now) + length.as_f64();
        }
    }

    /// Ends an epoch of this length and charges every thread for the effect of contention.
    pub fn end_epoch(&mut self, length: Nanos) {
        let tasks = self.charged.iter().map(|number| &self.tasks[*number]);
        let of_tasks = tasks.map(|task| (self.cores[task.core].node, &task.epoch));
        let of_cores = self.cores.iter().map(|core| (core.node, &core.paid));
        let stretch = self.memories.stretch(length, of_tasks.chain(of_cores));
        let charge = |debt: &mut Debt, work: &mut Work, node| {
            let work = std::mem::take(work);
            debt.charge(&work, self.memories.evaluate(&work, node, &stretch));
        };
        for core in &mut self.cores {
            charge(&mut core.debt, &mut core.paid, core.node);
        }
        for number in &self.charged {
            let task = &mut self.tasks[*number];
            let core = &mut self.cores[task.core];
            charge(&mut task.debt, &mut task.epoch, core.node);
            if task.life == Life::Ended && task.debt.nanos != 0.0 {
                let debt = std::mem::take(&mut task.debt);
                task.cpu_time += debt.nanos.max(0.0);
                core.debt.inherit(&debt);
            }
        }
        self.charged.retain(|number| self.tasks[*number].life == Life::Alive);
    }

    /// Advances time until every core has paid what the threads owed that have ended on it.
    pub fn settle(&mut self) {
        let began = self.now;
        for core in self.cores.iter_mut().filter(|core| core.debt.nanos > 0.0) {
            core.clock = core.clock.max(began) + std::mem::take(&mut core.debt).nanos;
            self.now = self.now.max(core.clock);
        }
    }

    /// Pays the debt of a core, and runs its task until the core's clock has reached `until`.
    fn advance(&mut self, place: usize, until: f64) {
        let core = &mut self.cores[place];
        core.pay_own_debt(self.now, until);
        let Some(number) = core.task else { return };
        let task = &mut self.tasks[number];
        // Time that was due to a thread when it ended is due to the next one.
        task.debt.nanos += core.debt.nanos.min(0.0);
        core.debt.nanos = core.debt.nanos.max(0.0);
        task.core = place;
        while core.clock < until {
            let paid = pay(&mut task.debt, &mut core.clock, until);
            task.cpu_time += paid.granted;
            task.epoch.add(&paid);
            if core.clock >= until {
                return;
            }
            let available = until - core.clock;
            // Time that is due to a thread lengthens its turn.
            let time = available - task.debt.nanos;
            let progress = (time * task.debt.speed * FEMTOS_PER_NANO as f64) as u64;
            let caches = match core.last.replace(number) {
                Some(last) if last != number => CoreCaches::Others,
                _ => CoreCaches::Own,
            };
            let (spent, counts) =
                (self.threads.spent(task.view.thread), self.threads.counts(&task.view));
            self.threads.set_time(Nanos(core.clock as u64));
            let limit = spent.used.saturating_add(progress.max(1));
            let standing = self.threads.turn(task.view.thread, limit, caches);
            let after = self.threads.spent(task.view.thread);
            let used = after.used.saturating_sub(spent.used);
            let taken = used as f64 / FEMTOS_PER_NANO as f64 / task.debt.speed;
            let work = Work {
                progress: used,
                stalled: after.stalled.saturating_sub(spent.stalled),
                counts: self.threads.counts(&task.view).since(&counts),
                granted: taken,
            };
            // In time that was due to it, memories have already served it. A turn that was cut
            // short ends early, and one that went too far is paid for after the epoch.
            let takes = task.debt.nanos + taken;
            let passed = takes.clamp(0.0, available);
            let work = work.part(takes.max(0.0), task.debt.speed);
            task.epoch.add(&Work { granted: passed, ..work });
            task.debt.nanos = takes.min(0.0);
            (core.clock, task.cpu_time) = (core.clock + passed, task.cpu_time + passed);
            match standing {
                // Neither now nor later will it do anything: a stopped emulator, or a limit too
                // small.
                Standing::Ready if used == 0 => core.clock = until,
                Standing::Ready => {}
                _ => {
                    if standing == Standing::Gone {
                        task.life = Life::Ended;
                    }
                    self.left.push((core.clock, place));
                    return;
                }
            }
        }
    }
}

impl<T: Threads> Processor for Cores<T> {
    fn now(&self) -> f64 {
        self.now
    }

    fn put(&mut self, core: usize, task: usize, pause: Nanos) {
        let core = &mut self.cores[core];
        core.clock = core.clock.max(self.now) + pause.as_f64();
        core.task = Some(task);
    }

    fn take(&mut self, core: usize) -> usize {
        self.left.retain(|(_, other)| *other != core);
        self.cores[core].task.take().expect("a task is taken off a core that has one")
    }

    fn run(&mut self, until: f64) -> Option<usize> {
        for core in 0..self.cores.len() {
            if !self.left.iter().any(|(_, other)| *other == core) {
                self.advance(core, until);
            }
        }
        let first = (0..self.left.len())
            .min_by(|a, b| self.left[*a].0.total_cmp(&self.left[*b].0).then(a.cmp(b)));
        match first {
            Some(first) => {
                let (time, core) = self.left.remove(first);
                self.now = self.now.max(time.min(until));
                self.cores[core].task = None;
                Some(core)
            }
            None => {
                self.now = self.now.max(until);
                None
            }
        }
    }

    fn home(&self, _: usize) -> usize {
        0
    }
}
