//! The effect of contention on an epoch: from the threads' work to the time that it takes.
//!
//! A thread is granted progress at the speed of its last epoch. When the epoch ends, its demand is
//! known, and the solver computes the true speed. The difference between the time that the progress
//! takes and the time that was granted for it is the thread's *debt*, which it pays, or gets back,
//! before it continues. So an epoch that is heavier than the one before costs its full time, one
//! epoch late, and nothing is lost.
//!
//! Memories serve a thread in the time that is granted to it, at the speed that the solver finds:
//! what it did beyond that, they serve while it pays. So a payment is work of the epoch in which it
//! is made, and costs more if others slow it down; work in time that was due to a thread is not,
//! because memories had room for it in the epoch before. In no epoch do they serve more than they
//! can.

use memweir_abi::softpmu::gate::FEMTOS_PER_NANO;
use memweir_core::{BytesPerSec, Counts, LINE_BYTES, MAX_MEDIA, Nanos};
use memweir_flow::stretch::{Response, Stretch};
use memweir_flow::{Demand, Machine, Placement, Solver, View};

/// Work done in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Progress in femtoseconds.
    pub progress: u64,
    /// The part of the progress that was waiting for memory.
    pub stalled: u64,
    /// Traffic.
    pub counts: Counts,
    /// Nanoseconds of a core that were granted for it.
    pub granted: f64,
}

impl Work {
    /// Adds further work.
    pub fn add(&mut self, other: &Self) {
        self.progress += other.progress;
        self.stalled += other.stalled;
        self.counts += other.counts;
        self.granted += other.granted;
    }

    /// Returns the part of this work that takes `nanos` nanoseconds at this speed.
    pub fn part(&self, nanos: f64, speed: f64) -> Self {
        let progress = nanos * speed * FEMTOS_PER_NANO as f64;
        let share = progress / self.progress.max(1) as f64;
        Self {
            progress: progress as u64,
            stalled: (self.stalled as f64 * share) as u64,
            counts: self.counts.scaled(share),
            granted: nanos,
        }
    }

    /// Returns the progress in nanoseconds.
    fn progress_nanos(&self) -> f64 {
        self.progress as f64 / FEMTOS_PER_NANO as f64
    }
}

/// Result of one thread's epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochResult {
    /// Progress per time.
    pub speed: f64,
    /// Nanoseconds that the work took beyond the time granted for it; less than zero if it took
    /// less.
    pub debt: f64,
}

/// Time that a core has to spend on work that was done before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Debt {
    /// Nanoseconds; less than zero if too much time was spent.
    pub nanos: f64,
    /// Progress per time of the work.
    pub speed: f64,
    /// The work of the last epoch that made progress.
    work: Work,
}

impl Default for Debt {
    /// No debt, of work that nothing slows down.
    fn default() -> Self {
        Self { nanos: 0.0, speed: 1.0, work: Work::default() }
    }
}

impl Debt {
    /// Adds the debt of an epoch.
    pub fn charge(&mut self, work: &Work, result: EpochResult) {
        self.nanos += result.debt;
        if work.progress > 0 {
            (self.speed, self.work) = (result.speed, *work);
        }
    }

    /// Takes over another debt.
    pub fn inherit(&mut self, other: &Self) {
        if self.nanos > 0.0 {
            let time = |debt: &Self| debt.work.progress_nanos() / debt.speed;
            let both = time(self) + time(other);
            self.work.add(&other.work);
            self.speed = self.work.progress_nanos() / both.max(f64::MIN_POSITIVE);
        } else {
            (self.speed, self.work) = (other.speed, other.work);
        }
        self.nanos += other.nanos;
    }

    /// Pays for at most this number of nanoseconds (>= 0), and returns what memories serve
    /// meanwhile; the time granted for it is what was paid.
    pub fn pay(&mut self, at_most: f64) -> Work {
        let nanos = self.nanos.clamp(0.0, at_most);
        self.nanos -= nanos;
        self.work.part(nanos, self.speed)
    }
}

/// The memories of one machine.
#[derive(Clone, Debug)]
pub struct Memories {
    solver: Solver,
    /// Per node: the memory that stands for each medium.
    memory: Vec<[usize; MAX_MEDIA]>,
}

impl Memories {
    /// Creates the memories of a machine that [`Machine::check`] accepts.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let view = View::new(machine);
        let of_node = |node: usize| {
            let mut row = [0; MAX_MEDIA];
            for memory in (0..machine.memories.len()).rev() {
                row[view.medium(node, memory).index()] = memory;
            }
            row
        };
        Self {
            solver: Solver::new(machine),
            memory: (0..machine.nodes.len()).map(of_node).collect(),
        }
    }

    /// Returns the response to contention of work that was done in this part of the time.
    fn response(&self, work: &Work, part: f64, node: usize) -> Response {
        let nanos = work.progress_nanos();
        let seconds = nanos / 1e9 / part;
        let mut demand = Demand {
            stall: work.stalled as f64 / FEMTOS_PER_NANO as f64 / nanos,
            ..Demand::default()
        };
        for (medium, memory) in memweir_core::MediumId::ALL.into_iter().zip(self.memory[node]) {
            let traffic = work.counts.traffic(medium);
            let rate = |lines: f64| BytesPerSec(lines * LINE_BYTES as f64 / seconds);
            demand.flows[memory].reads += rate(traffic.reads.as_f64());
            demand.flows[memory].writes += rate(traffic.writes.as_f64());
        }
        self.solver.response(&demand, &Placement::default(), node)
    }

    /// Returns the stretch of the memories in an epoch of this length, from the work of each thread
    /// and its node. Each asks for memory in the part of the epoch that was granted to it.
    #[must_use]
    pub fn stretch<'a>(
        &self,
        length: Nanos,
        works: impl Iterator<Item = (usize, &'a Work)>,
    ) -> Stretch {
        let busy = works.filter(|(_, work)| work.progress > 0);
        let responses: Vec<Response> = busy
            .map(|(node, work)| self.response(work, work.granted / length.as_f64(), node))
            .collect();
        self.solver.solve(&responses)
    }

    /// Returns the speed and the debt of one thread's work under this stretch.
    #[must_use]
    pub fn evaluate(&self, work: &Work, node: usize, stretch: &Stretch) -> EpochResult {
        let nanos = work.progress_nanos();
        if nanos <= 0.0 {
            return EpochResult { speed: 1.0, debt: -work.granted };
        }
        let speed = self.response(work, 1.0, node).speed(stretch);
        EpochResult { speed, debt: nanos / speed - work.granted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::{Lines, Traffic};

    /// Creates a millisecond of progress, half of it waiting for this number of lines read.
    fn work(lines: u64) -> Work {
        let mut traffic = [Traffic::default(); MAX_MEDIA];
        traffic[0].reads = Lines(lines);
        Work {
            progress: 1_000_000 * FEMTOS_PER_NANO,
            stalled: 500_000 * FEMTOS_PER_NANO,
            counts: Counts::by_medium(1_000_000, traffic),
            granted: 1e6,
        }
    }

    fn memories(gb: f64) -> Memories {
        Memories::new(&Machine::uniform("test", 4, BytesPerSec::from_gb(gb)))
    }

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn what_is_paid_for_has_the_traffic_of_its_progress() {
        // Half a millisecond at half speed: a quarter of the work.
        let paid = work(1000).part(0.5e6, 0.5);
        assert_eq!(
            (paid.progress, paid.stalled),
            (250_000 * FEMTOS_PER_NANO, 125_000 * FEMTOS_PER_NANO)
        );
        assert_eq!(paid.counts.reads, Lines(250));
        assert_eq!(paid.granted, 0.5e6);
        assert_eq!(Work::default().part(1e6, 1.0).counts, Counts::default());
    }

    #[test]
    fn a_debt_is_paid_once() {
        let mut debt = Debt::default();
        debt.charge(&work(1000), EpochResult { speed: 0.5, debt: 1e6 });
        assert_eq!(debt.pay(0.5e6), work(1000).part(0.5e6, 0.5));
        assert_eq!(debt.pay(2e6).granted, 0.5e6);
        assert_eq!((debt.pay(2e6).granted, debt.nanos), (0.0, 0.0));
        // Time that is due cannot be paid.
        debt.charge(&work(1000), EpochResult { speed: 0.5, debt: -1e6 });
        assert_eq!((debt.pay(2e6).granted, debt.nanos), (0.0, -1e6));
    }

    #[test]
    fn an_inherited_debt_has_the_mean_traffic_of_both() {
        let mut debt = Debt::default();
        debt.charge(&work(1000), EpochResult { speed: 1.0, debt: 1e6 });
        let mut other = Debt::default();
        other.charge(&work(3000), EpochResult { speed: 0.5, debt: 2e6 });
        debt.inherit(&other);
        // Two milliseconds of progress with 4,000 lines took three.
        let paid = debt.pay(3e6);
        assert_eq!((paid.granted, paid.counts.reads, debt.nanos), (3e6, Lines(4000), 0.0));
        // Nothing is left of a debt that is paid.
        debt.inherit(&other);
        assert_eq!(debt.pay(2e6).counts.reads, Lines(3000));
    }

    #[test]
    fn below_saturation_work_takes_its_progress() {
        let memories = memories(10.0);
        // 62,500 lines in a millisecond are 4 GB/s; two of them fit.
        let stretch = memories.stretch(MS, [(0, &work(62_500)), (0, &work(62_500))].into_iter());
        let result = memories.evaluate(&work(62_500), 0, &stretch);
        assert!((result.speed - 1.0).abs() < 1e-9 && result.debt.abs() < 1e-3, "{result:?}");
    }

    #[test]
    fn above_it_the_capacity_is_served_and_the_rest_is_debt() {
        let memories = memories(10.0);
        // Two of 8 GB/s ask for 16 of 10: both run at 10/16, and a millisecond takes 1.6.
        let stretch = memories.stretch(MS, [(0, &work(125_000)), (0, &work(125_000))].into_iter());
        let result = memories.evaluate(&work(125_000), 0, &stretch);
        assert!((result.speed - 0.625).abs() < 1e-9, "{result:?}");
        assert!((result.debt - 0.6e6).abs() < 1.0, "{result:?}");
        // A task without traffic is not slowed down.
        let calm = memories.evaluate(&Work { stalled: 0, ..work(0) }, 0, &stretch);
        assert!((calm.speed - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_core_that_was_idle_half_of_the_time_asks_for_half() {
        let memories = memories(10.0);
        let half = Work {
            progress: work(0).progress / 2,
            stalled: work(0).stalled / 2,
            granted: 0.5e6,
            ..work(62_500)
        };
        // 8 GB/s for half of the time on two cores are 8 of 10.
        let stretch = memories.stretch(MS, [(0, &half), (0, &half)].into_iter());
        assert!((stretch.memory(0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn slow_memories_stretch_even_whom_nobody_disturbs() {
        let text = "name = 'm'\nsource = 'test'\ncore_peak = 5e9\n[[nodes]]\ncores = 2\n\
                    [[memories]]\nmedium = 'dram'\ncapacity = 100e9\n\
                    [[memories]]\nmedium = 'pram'\ncapacity = 100e9\nread_cost = 1\n";
        let hardware = memweir_flow::Hardware::parse("m", text, std::path::Path::new(".")).unwrap();
        let memories = Memories::new(&hardware.machine);
        let mut traffic = [Traffic::default(); MAX_MEDIA];
        traffic[1].reads = Lines(1000);
        let slow = Work { counts: Counts::by_medium(1, traffic), ..work(0) };
        let stretch = memories.stretch(MS, [(0, &slow)].into_iter());
        // PRAM reads take 2.7 times as long (hmmsched Table I): 0.5 + 0.5 * 2.7.
        let result = memories.evaluate(&slow, 0, &stretch);
        assert!((result.speed - 1.0 / 1.85).abs() < 1e-9, "{result:?}");
    }
}
