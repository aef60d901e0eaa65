//! A machine in miniature: cores, one bus, and jobs that require bandwidth as they go.
//!
//! It drives a [`QuantumScheduler`] as a live batch does: a quantum timer, jobs that end in
//! mid-quantum, counters read once per quantum. An overloaded bus gives every job the same share of
//! its demand, and may carry less than its peak.

use std::sync::LazyLock;

use memweir_core::{BytesPerSec, Counts, JobId, Lines, Nanos};
use memweir_policy::{
    Bus, Candidate, Decision, JobSpec, Observation, QuantumScheduler, QuantumView, Running,
    SchedulerConfig, SpeedModel, policies,
};
use proptest::prelude::{Strategy, prop};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const QUANTUM: Nanos = Nanos::from_millis(100);

/// Speeds on a machine of one core whose peak is not known.
static SPEEDS: LazyLock<SpeedModel> =
    LazyLock::new(|| SpeedModel::new(&SchedulerConfig::default()));

pub(crate) fn config(policy: &str, cores: u32) -> SchedulerConfig {
    SchedulerConfig {
        policy: policy.to_owned(),
        cores,
        quantum: QUANTUM,
        seed: 1,
        ..SchedulerConfig::default()
    }
}

pub(crate) fn scheduler(config: SchedulerConfig) -> QuantumScheduler {
    QuantumScheduler::new(config).expect("the policy exists")
}

pub(crate) fn spec(job: u32) -> JobSpec {
    JobSpec::new(JobId(job))
}

/// A scheduler with this many jobs of which nothing is known.
pub(crate) fn with_jobs(config: SchedulerConfig, jobs: u32) -> QuantumScheduler {
    let mut scheduler = scheduler(config);
    (0..jobs).for_each(|job| scheduler.admit(spec(job)));
    scheduler
}

/// A job that used the CPU for the whole of a quantum, at `gb` GB/s.
pub(crate) fn busy(job: u32, gb: f64) -> Observation {
    busy_for(job, gb, QUANTUM)
}

/// A job that used the CPU for `span`, at `gb` GB/s in that time.
pub(crate) fn busy_for(job: u32, gb: f64, span: Nanos) -> Observation {
    let lines = (gb * 1e9 / 64.0 * span.as_secs_f64()).round() as u64;
    let counts = Counts::new(span.0, Lines(lines), Lines::ZERO);
    Observation::new(JobId(job), span, Some(counts))
}

pub(crate) fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

/// A view with this many free cores, of a bus whose peak is not known.
pub(crate) fn view<'a>(
    running: &'a [Candidate],
    queue: &'a [Candidate],
    cores: u32,
) -> QuantumView<'a> {
    QuantumView {
        quantum: 0,
        cores,
        committed: running.iter().map(|job| job.demand).sum(),
        running,
        queue,
        bus: Bus::default(),
        highest_observed: BytesPerSec::ZERO,
        batch: &None,
        speeds: &SPEEDS,
    }
}

pub(crate) fn blocking_policies() -> impl Strategy<Value = &'static str> {
    let names: Vec<_> = policies::names().filter(|name| *name != "os").collect();
    prop::sample::select(names)
}

pub(crate) fn ids(jobs: &[u32]) -> Vec<JobId> {
    jobs.iter().copied().map(JobId).collect()
}

pub(crate) fn running(decision: &Decision) -> Vec<u32> {
    match &decision.running {
        Running::Everything => panic!("nobody is blocked"),
        Running::Only(jobs) => jobs.iter().map(|job| job.0).collect(),
    }
}

/// A job of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Seconds that it takes alone.
    pub(crate) seconds: f64,
    /// Bandwidth that it requires while it runs, in GB/s.
    pub(crate) gb: f64,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) config: SchedulerConfig,
    /// Peak of the bus, in GB/s.
    pub(crate) peak: f64,
    /// Share of the peak that is lost when demand is twice the peak; other overloads in proportion.
    pub(crate) congestion: f64,
    /// Relative half-width of a uniform noise on each job's requirement in each quantum.
    pub(crate) noise: f64,
    /// True if the jobs are submitted with their time and bandwidth.
    pub(crate) declared: bool,
    pub(crate) seed: u64,
}

struct Progress {
    work: Work,
    done: f64,
    gb_now: f64,
    cpu: f64,
    bytes: f64,
    /// Progress since the last observation, in seconds: an instruction is a nanosecond.
    progress: f64,
}

impl Progress {
    fn observation(&mut self, job: u32) -> Observation {
        let cpu_time = Nanos::from_secs_f64(std::mem::take(&mut self.cpu));
        let counts = Counts {
            instructions: (std::mem::take(&mut self.progress) * 1e9) as u64,
            reads: Lines((std::mem::take(&mut self.bytes) / 64.0).round() as u64),
            ..Counts::default()
        };
        let forecast = Some(BytesPerSec::from_gb(self.work.gb));
        Observation { forecast, ..Observation::new(JobId(job), cpu_time, Some(counts)) }
    }
}

/// Runs jobs to their end; `on_span` sees which jobs ran together and which waited, each time that
/// changes, and for how many seconds. Returns the turnaround in seconds.
pub(crate) fn run(
    batch: &Batch,
    jobs: &[Work],
    mut on_span: impl FnMut(&[u32], &[u32], f64),
) -> f64 {
    let mut scheduler = scheduler(batch.config.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(batch.seed);
    let mut progress: Vec<Progress> = jobs
        .iter()
        .map(|work| Progress {
            work: *work,
            done: 0.0,
            gb_now: work.gb,
            cpu: 0.0,
            bytes: 0.0,
            progress: 0.0,
        })
        .collect();
    for (job, work) in jobs.iter().enumerate() {
        scheduler.admit(JobSpec {
            expected_time: batch.declared.then(|| Nanos::from_secs_f64(work.seconds)),
            expected_bandwidth: batch.declared.then(|| BytesPerSec::from_gb(work.gb)),
            ..spec(job as u32)
        });
    }
    let quantum = batch.config.quantum.as_secs_f64();
    let mut now = 0.0;
    let mut left = jobs.len();
    while left > 0 {
        for job in &mut progress {
            job.gb_now = job.work.gb * (1.0 + batch.noise * rng.random_range(-1.0..=1.0));
        }
        let mut decision = scheduler.select();
        let mut seen: Vec<u32> = Vec::new();
        let end = now + quantum;
        while now < end - 1e-12 && left > 0 {
            let together: Vec<u32> = decision.chosen.iter().map(|job| job.0).collect();
            seen.extend(together.iter().filter(|job| !seen.contains(job)).collect::<Vec<_>>());
            let asked: f64 = together.iter().map(|job| progress[*job as usize].gb_now).sum();
            let overload = (asked / batch.peak - 1.0).max(0.0);
            let carries = batch.peak / (1.0 + batch.congestion * overload);
            let share = (carries / asked).min(1.0);
            // A job without demand is not slowed down by a full bus.
            let speed = |job: &Progress| if job.gb_now > 0.0 { share } else { 1.0 };
            let span = together
                .iter()
                .map(|job| &progress[*job as usize])
                .map(|job| (job.work.seconds - job.done) / speed(job))
                .fold(end - now, f64::min);
            let waiting: Vec<u32> = (0..progress.len() as u32)
                .filter(|job| !together.contains(job))
                .filter(|job| progress[*job as usize].done < progress[*job as usize].work.seconds)
                .collect();
            on_span(&together, &waiting, span);
            now += span;
            let mut ended = false;
            for job in &together {
                let state = &mut progress[*job as usize];
                state.progress += span * speed(state);
                state.done += span * speed(state);
                state.cpu += span;
                state.bytes += span * share * state.gb_now * 1e9;
                if state.done >= state.work.seconds - 1e-9 {
                    state.done = state.work.seconds;
                    scheduler.retire(JobId(*job));
                    left -= 1;
                    ended = true;
                }
            }
            if ended {
                match scheduler.backfill() {
                    Some(filled) => decision = filled,
                    None => decision.chosen.retain(|job| {
                        progress[job.index()].done < progress[job.index()].work.seconds
                    }),
                }
                if decision.chosen.is_empty() && left > 0 {
                    panic!("cores are idle while {left} jobs wait");
                }
            }
        }
        let elapsed = Nanos::from_secs_f64(quantum - (end - now).max(0.0));
        let observations: Vec<Observation> =
            seen.iter().map(|job| progress[*job as usize].observation(*job)).collect();
        scheduler.observe(elapsed, &observations);
    }
    now
}
