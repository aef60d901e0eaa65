//! Several hogs at once, each on its own CPU: threads that start together, and keep up the load
//! on the bus until the last of them has measured.
//!
//! Threads and not processes, because they share nothing but the code: each has arrays of its own,
//! allocated from the CPU that uses them.

use std::io;
use std::panic;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use memweir_core::{Bytes, BytesPerSec, LINE_BYTES, Lines, Nanos};
use memweir_linux::clock::thread_cpu_time;
use memweir_linux::hog::{CHUNK, Hog, Kernel, pin_thread};

use super::plan::HogPlan;

/// Load of a member of a team.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Hog: a step, then `idle` nops.
    Steady {
        /// Nops after each step.
        idle: u32,
    },
    /// HogSim.
    Replay(HogPlan),
}

impl Load {
    fn steps_per_round(&self) -> u64 {
        match self {
            Self::Steady { .. } => CHUNK,
            Self::Replay(plan) => plan.steps(),
        }
    }
}

/// Limit of a member's measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this time, at the next check of the clock.
    Time(Nanos),
    /// After moving this much, rounded up to a whole step.
    Work(Bytes),
    /// After this many rounds of its plan; a round of a steady load is [`CHUNK`] steps.
    Rounds(u64),
}

/// Behavior of a member that has reached its limit while others have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It stops, as jobs do.
    Stop,
    /// It goes on uncounted, so that the others see the same contention to their end.
    KeepUpTheLoad,
}

/// Measurement of one member up to its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Steps of its kernel.
    pub steps: u64,
    /// Lines that they moved.
    pub lines: Lines,
    /// The time they took.
    pub elapsed: Nanos,
    /// CPU time in it: less than `elapsed` where other programs took the CPU.
    pub cpu_time: Nanos,
}

impl Measured {
    /// Returns the bandwidth over the elapsed time.
    #[must_use]
    pub fn bandwidth(&self) -> BytesPerSec {
        self.lines.over(self.elapsed)
    }
}

/// Hogs that are ready to run.
#[derive(Debug)]
pub struct Team {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    hog: Hog,
    cpu: Option<usize>,
}

impl Team {
    /// One hog for each entry of `cpus`, bound to that CPU if one is named, with two arrays of
    /// `array` bytes. Once `stop` is set, they can only end.
    ///
    /// # Errors
    /// If memory cannot be allocated or a CPU cannot be used.
    pub fn new(
        kernel: Kernel,
        array: Bytes,
        cpus: &[Option<usize>],
        stop: &AtomicBool,
    ) -> io::Result<Self> {
        let make = |cpu: Option<usize>| -> io::Result<Member> {
            cpu.map_or(Ok(()), pin_thread)?;
            Ok(Member { hog: Hog::new(kernel, array, stop)?, cpu })
        };
        let member = |cpu: Option<usize>| {
            // The pages of the arrays come from the memory node of the CPU that touches them.
            let made = thread::scope(|scope| scope.spawn(|| make(cpu)).join());
            made.unwrap_or_else(|payload| panic::resume_unwind(payload))
        };
        Ok(Self { members: cpus.iter().copied().map(member).collect::<Result<_, _>>()? })
    }

    /// Lets every hog go on with another kernel on the same arrays.
    pub fn switch_to(&mut self, kernel: Kernel) {
        self.members.iter_mut().for_each(|member| member.hog.switch_to(kernel));
    }

    /// Number of hogs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there is no hog.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Runs the named members at once, each with its load, and returns their measurements in the
    /// order of `loads`. A member must be named at most once; the others rest. Once `stop` is set,
    /// all end early and return their measurements so far.
    ///
    /// # Errors
    /// If a CPU cannot be used.
    pub fn run(
        &mut self,
        loads: &[(usize, &Load)],
        limit: Limit,
        afterwards: Afterwards,
        stop: &AtomicBool,
    ) -> io::Result<Vec<Measured>> {
        let start = Barrier::new(loads.len());
        let busy = AtomicUsize::new(loads.len());
        let (start, busy) = (&start, &busy);
        let mut outcomes: Vec<(usize, io::Result<Measured>)> = thread::scope(|scope| {
            let mut threads = Vec::with_capacity(loads.len());
            for (index, member) in self.members.iter_mut().enumerate() {
                let Some(place) = loads.iter().position(|(named, _)| *named == index) else {
                    continue;
                };
                let load = loads[place].1;
                threads.push(scope.spawn(move || {
                    let pinned = member.cpu.map_or(Ok(()), pin_thread);
                    start.wait();
                    let measured = member.work(load, limit, stop);
                    busy.fetch_sub(1, Ordering::Relaxed);
                    if afterwards == Afterwards::KeepUpTheLoad {
                        member.keep_up(load, busy);
                    }
                    (place, pinned.map(|()| measured))
                }));
            }
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
            };
            threads.into_iter().map(join).collect()
        });
        outcomes.sort_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

impl Member {
    fn work(&mut self, load: &Load, limit: Limit, stop: &AtomicBool) -> Measured {
        let goal = match limit {
            Limit::Time(_) => u64::MAX,
            Limit::Work(bytes) => bytes.0.div_ceil(self.hog.lines_moved(1).0 * LINE_BYTES),
            Limit::Rounds(rounds) => rounds.saturating_mul(load.steps_per_round()),
        };
        let mut turns = Turns::new(load);
        let mut steps = 0;
        let (start, cpu_start) = (Instant::now(), thread_cpu_time());
        while steps < goal && !stop.load(Ordering::Relaxed) {
            if let Limit::Time(time) = limit
                && Nanos::from(start.elapsed()) >= time
            {
                break;
            }
            let (count, idle) = turns.next(goal - steps);
            self.hog.steps(count, idle);
            steps += count;
        }
        Measured {
            steps,
            lines: self.hog.lines_moved(steps),
            elapsed: Nanos::from(start.elapsed()),
            cpu_time: thread_cpu_time().saturating_sub(cpu_start),
        }
    }

    fn keep_up(&mut self, load: &Load, busy: &AtomicUsize) {
        let mut turns = Turns::new(load);
        while busy.load(Ordering::Relaxed) > 0 {
            let (count, idle) = turns.next(u64::MAX);
            self.hog.steps(count, idle);
        }
    }
}

/// A load in pieces short enough to look at the clock in between.
struct Turns<'a> {
    load: &'a Load,
    group: usize,
    done: u64,
}

impl<'a> Turns<'a> {
    fn new(load: &'a Load) -> Self {
        Self { load, group: 0, done: 0 }
    }

    /// The steps, at most `limit`, and the nops of the next piece.
    fn next(&mut self, limit: u64) -> (u64, u32) {
        let piece = |idle: u32| (CHUNK / (1 + u64::from(idle) / 8)).max(1).min(limit);
        match self.load {
            Load::Steady { idle } => (piece(*idle), *idle),
            Load::Replay(plan) => {
                while self.done == plan.groups()[self.group].steps {
                    self.group = (self.group + 1) % plan.groups().len();
                    self.done = 0;
                }
                let group = plan.groups()[self.group];
                let count = piece(group.idle).min(group.steps - self.done);
                self.done += count;
                (count, group.idle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Group;
    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn pieces_of_a_plan_add_up_to_its_groups_in_order() {
        let group = |steps, idle| Group { steps, idle };
        let plan = HogPlan::new(
            Kernel::Read,
            vec![group(0, 9), group(3 * CHUNK + 5, 0), group(0, 1), group(2, 1_000_000)],
        )
        .unwrap();
        let load = Load::Replay(plan);
        let mut turns = Turns::new(&load);
        let pieces: Vec<_> = (0..8).map(|_| turns.next(u64::MAX)).collect();
        let (c, big) = (CHUNK, 1_000_000);
        let round = [(c, 0), (c, 0), (c, 0), (5, 0), (1, big), (1, big)];
        assert_eq!(pieces[..6], round);
        assert_eq!(pieces[6..], round[..2]);
    }

    #[test]
    fn members_are_reported_in_the_order_of_their_loads() {
        let mut team =
            Team::new(Kernel::Read, Bytes(1 << 20), &[None, None, None], &GO_ON).unwrap();
        let (light, heavy) = (Load::Steady { idle: 100 }, Load::Steady { idle: 0 });
        let work = Limit::Work(Bytes(1 << 20));
        let measured =
            team.run(&[(2, &heavy), (0, &light)], work, Afterwards::KeepUpTheLoad, &GO_ON).unwrap();
        assert_eq!(measured.len(), 2);
        assert!(measured.iter().all(|measured| measured.steps == (1 << 20) / 64));
        assert!(measured.iter().all(|measured| measured.cpu_time > Nanos::ZERO));
        assert!(measured.iter().all(|measured| measured.bandwidth() > BytesPerSec::ZERO));
        assert_eq!(team.run(&[], work, Afterwards::Stop, &GO_ON).unwrap(), []);
    }

    #[test]
    fn rounds_are_whole_rounds_of_the_plan() {
        let mut team = Team::new(Kernel::Copy, Bytes(1 << 20), &[None], &GO_ON).unwrap();
        let groups = vec![Group { steps: 40, idle: 0 }, Group { steps: 2, idle: 100 }];
        let replay = Load::Replay(HogPlan::new(Kernel::Copy, groups).unwrap());
        let mut steps = |load| {
            let limit = Limit::Rounds(3);
            team.run(&[(0, load)], limit, Afterwards::Stop, &GO_ON).unwrap()[0].steps
        };
        assert_eq!(steps(&replay), 3 * 42);
        assert_eq!(steps(&Load::Steady { idle: 0 }), 3 * CHUNK);
    }

    #[test]
    fn members_end_early_when_they_are_stopped() {
        let mut team = Team::new(Kernel::Read, Bytes(1 << 20), &[None, None], &GO_ON).unwrap();
        let load = Load::Steady { idle: 0 };
        let stop = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            scope.spawn(|| stop.store(true, Ordering::Relaxed));
            team.run(&[(0, &load), (1, &load)], Limit::Rounds(u64::MAX), Afterwards::Stop, &stop)
        });
        assert_eq!(measured.unwrap().len(), 2);
    }
}
