//! `hmmsched`: the scheduler of Hwang and Park for hybrid main memory, section V.

mod classes;
mod order;

use super::AUTO_CORES;
use super::options::{Options, PolicyOption};
use crate::ebw::{EffectiveBandwidth, Translation, Weights};
use crate::policy::{Candidate, Policy, QuantumView};
use crate::scheduler::SchedulerConfig;
use classes::{Class, Classes};
use order::{Complementary, LowestFirst};

/// Share of the total EBW below which the least demanding jobs are latency-sensitive. The paper
/// gives no value; a tenth separates the CPU-bound jobs of its mixes from the memory-bound ones.
const DEFAULT_ALPHA: f64 = 0.1;

/// The share of the bandwidth-sensitive jobs' execution time up to which latency-sensitive ones
/// come first: "less than a tenth".
const GUARD: f64 = 0.1;

/// Threshold of the classes.
pub const ALPHA: PolicyOption = PolicyOption::number(
    "alpha",
    0.0,
    1.0,
    "share of the total EBW below which jobs are latency-sensitive (0.1)",
);
/// Disables the classes: every job is bandwidth-sensitive.
pub const NO_CLASSES: PolicyOption =
    PolicyOption::flag("no-classes", "take every job as bandwidth-sensitive");
/// Disables the starvation guard: latency-sensitive jobs always come first.
pub const NO_GUARD: PolicyOption =
    PolicyOption::flag("no-guard", "latency-sensitive jobs first, however long they have run");
/// Disables the four-step order: bandwidth-sensitive jobs come in the order of the run queue.
pub const NO_ORDER: PolicyOption =
    PolicyOption::flag("no-order", "bandwidth-sensitive jobs in the order of the run queue");
/// Counts transactions instead of effective bandwidth.
pub const COUNTS: PolicyOption =
    PolicyOption::flag("counts", "count transactions instead of translating them to EBW");
/// Treats remote memory as local.
pub const NO_REMOTE: PolicyOption =
    PolicyOption::flag("no-remote", "take remote memory as if it were local");

/// Options that may follow `hmmsched`.
pub const OPTIONS: &[PolicyOption] =
    &[ALPHA, NO_CLASSES, NO_GUARD, NO_ORDER, COUNTS, NO_REMOTE, AUTO_CORES];

/// Latency-sensitive jobs first, then jobs that complement each other on DRAM and NVM.
///
/// Before each selection all schedulable jobs, including the running ones, are classified by
/// effective bandwidth ([`EffectiveBandwidth`], eq. (6), (7)): in ascending order, the jobs whose
/// running sum stays below `alpha` times the total are latency-sensitive, the others
/// bandwidth-sensitive (hmmsched section V-A-2). Each free core then goes to
///
/// 1. the latency-sensitive job with the lowest EBW, as long as the latency-sensitive jobs together
///    have executed for less than a tenth of the time of the bandwidth-sensitive ones;
/// 2. else to a bandwidth-sensitive job, in turn the one with the largest `EBW_D`, the smallest
///    `EBW_NV`, the largest `EBW_NV`, and the smallest `EBW_D`;
/// 3. else, when no job of that class is left, to one of the other class: no core is idle while a
///    job that fits is waiting.
///
/// The text leaves some points open. This implementation reads them as follows:
///
/// * The paper's cores fall idle one by one; here a whole quantum is chosen at once. The execution
///   times of point 1 therefore include the coming quantum of every job that has already been
///   chosen for it. Otherwise the latency-sensitive jobs would all run in one quantum and none of
///   them in the next nine.
/// * Before anything has executed, no class is below a tenth of the other, and bandwidth-sensitive
///   jobs come first.
/// * The order of point 2 continues from choice to choice, in mid-quantum too, as the cores of the
///   paper fall idle at any time. The head of the run queue, which always runs (iabw section 4.1)
///   and is not chosen by any rule here, takes the step that it fits best: the one for which the
///   fewest waiting jobs would have come before it. The order continues after that step, so that on
///   four cores a quantum has four successive steps. A latency-sensitive head has no part in the
///   order, which then continues where it stopped.
/// * The sentence that calls tasks "greater than" `alpha` latency-sensitive contradicts the formula
///   after it; the formula holds.
///
/// EBW is that of a job's predicted demand, divided over media and directions in the proportion of
/// its latest traffic ([`Candidate::traffic`]); with the predictor `last` that is the paper's
/// "latest EBW".
///
/// On a machine with DRAM alone two of the four steps do not distinguish jobs and are skipped: jobs
/// with the largest and the smallest bandwidth alternate.
#[derive(Clone, Debug)]
pub struct Hmmsched {
    weights: Weights,
    alpha: f64,
    guard: Guard,
    order: Order,
    /// Execution time of one core per quantum, in seconds.
    quantum: f64,
    /// Effective bandwidths of the running jobs, then of the waiting jobs.
    ebw: Vec<EffectiveBandwidth>,
    classes: Classes,
    latency_sensitive: LowestFirst,
    bandwidth_sensitive: Complementary,
    /// Reason for each job of the last selection.
    reasons: Vec<&'static str>,
}

/// Condition under which latency-sensitive jobs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// While they have executed less than [`GUARD`] of the time of the others.
    Tenth,
    /// Always.
    Off,
}

/// Order in which bandwidth-sensitive jobs are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Complementary,
    Queue,
}

impl Hmmsched {
    /// Creates the policy for the machine of `config`.
    #[must_use]
    pub fn new(config: &SchedulerConfig, options: &Options) -> Self {
        let translation = match (options.has(&COUNTS), options.has(&NO_REMOTE)) {
            (true, _) => Translation::Counts,
            (false, true) => Translation::LatencyOfLocal,
            (false, false) => Translation::Latency,
        };
        let alpha = match options.has(&NO_CLASSES) {
            true => 0.0,
            false => options.number(&ALPHA).unwrap_or(DEFAULT_ALPHA),
        };
        Self {
            weights: Weights::new(&config.media, translation),
            alpha,
            guard: if options.has(&NO_GUARD) { Guard::Off } else { Guard::Tenth },
            order: if options.has(&NO_ORDER) { Order::Queue } else { Order::Complementary },
            quantum: config.quantum.as_secs_f64(),
            ebw: Vec::new(),
            classes: Classes::default(),
            latency_sensitive: LowestFirst::default(),
            bandwidth_sensitive: Complementary::default(),
            reasons: Vec::new(),
        }
    }
}

impl Policy for Hmmsched {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let mut executed = self.prepare(view);
        let mut free = view.cores;
        self.reasons.clear();
        while free > 0 {
            let fits = |place: usize| view.queue[place].cores <= free;
            let first = self.first_class(&executed);
            let pick = self.take(first, fits).map(|place| (place, first));
            let second = first.other();
            let pick = pick.or_else(|| self.take(second, fits).map(|place| (place, second)));
            let Some((place, class)) = pick else { break };
            let job = &view.queue[place];
            chosen.push(place);
            self.reasons.push(match class {
                Class::LatencySensitive => "latency-sensitive, lowest effective bandwidth",
                Class::BandwidthSensitive => self.bandwidth_sensitive.reason(),
            });
            free -= job.cores;
            executed.add(class, coming(self.quantum, job));
        }
    }

    fn reason(&self, nth: usize) -> Option<&'static str> {
        self.reasons.get(nth).copied()
    }
}

impl Hmmsched {
    /// Classifies all jobs and puts the waiting ones in their lists. Returns the execution time of
    /// each class.
    fn prepare(&mut self, view: &QuantumView<'_>) -> Executed {
        let jobs = || view.running.iter().chain(view.queue);
        self.ebw.clear();
        self.ebw.extend(jobs().map(|job| self.weights.effective_bandwidth(&job.traffic)));
        let totals = self.ebw.iter().map(|ebw| ebw.total().0);
        let classes = self.classes.classify(totals, self.alpha);
        let mut executed = Executed::default();
        for (job, class) in jobs().zip(classes) {
            executed.add(*class, job.executed.as_secs_f64());
        }
        for (job, class) in view.running.iter().zip(classes) {
            executed.add(*class, coming(self.quantum, job));
        }
        let waiting = view.running.len()..;
        let of_class = |wanted| {
            self.ebw[waiting.clone()]
                .iter()
                .zip(&classes[waiting.clone()])
                .map(move |(ebw, class)| (*class == wanted).then_some(*ebw))
        };
        self.latency_sensitive.fill(of_class(Class::LatencySensitive));
        self.bandwidth_sensitive.fill(of_class(Class::BandwidthSensitive));
        if view.running.len() == 1 && classes[0] == Class::BandwidthSensitive {
            self.bandwidth_sensitive.follow(self.ebw[0]);
        }
        executed
    }

    /// Returns the class to which the next core is offered.
    fn first_class(&self, executed: &Executed) -> Class {
        match self.guard {
            Guard::Tenth if executed.latency >= GUARD * executed.bandwidth => {
                Class::BandwidthSensitive
            }
            Guard::Tenth | Guard::Off => Class::LatencySensitive,
        }
    }

    /// Takes the next job of a class that fits.
    fn take(&mut self, class: Class, fits: impl Fn(usize) -> bool) -> Option<usize> {
        match (class, self.order) {
            (Class::LatencySensitive, _) => self.latency_sensitive.take(fits),
            (Class::BandwidthSensitive, Order::Complementary) => {
                self.bandwidth_sensitive.take(fits)
            }
            (Class::BandwidthSensitive, Order::Queue) => {
                self.bandwidth_sensitive.take_in_queue_order(fits)
            }
        }
    }
}

/// Returns the execution time of `job` in the coming quantum, in seconds over its cores.
fn coming(quantum: f64, job: &Candidate) -> f64 {
    quantum * f64::from(job.cores)
}

/// Seconds of execution per class.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    latency: f64,
    bandwidth: f64,
}

impl Executed {
    fn add(&mut self, class: Class, seconds: f64) {
        match class {
            Class::LatencySensitive => self.latency += seconds,
            Class::BandwidthSensitive => self.bandwidth += seconds,
        }
    }
}
