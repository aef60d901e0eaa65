//! Inputs and outputs of the scheduler.

use memweir_core::{BytesPerSec, Counts, JobId, MAX_MEDIA, Media, Nanos, Priority};

use serde::{Deserialize, Serialize};

use crate::predictor::PredictorKind;
use crate::target::TargetCurve;

/// The memory bus, as calibrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bus {
    /// Realistic peak bandwidth, if calibrated.
    pub peak: Option<BytesPerSec>,
    /// Saturation threshold `T_B` (iabw section 4.2), slightly below the peak.
    pub saturation: Option<BytesPerSec>,
    /// Bandwidth that one core alone can reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<BytesPerSec>,
    /// Latency that bursts add to an access of a bus that is just full, over its idle latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Bus {
    /// `T_B` over the peak in iabw section 2.1 and Table 2: 35 of 40 transactions per microsecond.
    const PAPER_SATURATION: f64 = 35.0 / 40.0;

    /// Returns the saturation threshold, or the paper's share of the peak where only the peak is
    /// known.
    #[must_use]
    pub fn saturation_threshold(&self) -> Option<BytesPerSec> {
        self.saturation.or(self.peak.map(|peak| peak * Self::PAPER_SATURATION))
    }
}

/// Rule for filling the cores of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreUse {
    /// Fill every core while there are jobs.
    #[default]
    All,
    /// Fill a core only if that pays: a job that the policy has chosen waits if it would slow the
    /// others down by more than it gains.
    ///
    /// A core stays idle only if the jobs of the quantum would require more than the calibrated
    /// peak *and* overload has been seen to cost more than a fair division of the bus explains, by
    /// five percent of the machine's throughput. The head of the run queue always runs. Where no
    /// peak is known, this is [`CoreUse::All`].
    ///
    /// The cost where there is nothing to gain: none on a bus that is less than half busy. On a
    /// busier one, at most every 64th quantum goes to one job alone, and fewer as long as the
    /// results confirm the predictions: less than two percent of the time. While cores are idle,
    /// every seventeenth quantum is filled, to test whether idling still pays.
    Auto,
}

/// Time for which a line occupies its medium, over that of a line at the medium's peak; more than
/// zero. Memories in which a write takes longer than a read carry less of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineCosts {
    /// Of a line read.
    pub read: f64,
    /// Of a line written.
    pub write: f64,
}

impl Default for LineCosts {
    /// All lines alike.
    fn default() -> Self {
        Self { read: 1.0, write: 1.0 }
    }
}

/// Everything that fixes the behavior of a [`crate::QuantumScheduler`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    /// Name in the table of policies ([`crate::policies::POLICIES`]), with options behind colons.
    pub policy: String,
    /// Predictor of the jobs' bandwidth.
    pub predictor: PredictorKind,
    /// Cores of the machine that the batch may use; zero counts as one.
    pub cores: u32,
    /// Cores of the machine that share the known peaks, if these are more.
    pub machine_cores: Option<u32>,
    /// Rule for filling the cores that the batch may use.
    pub core_use: CoreUse,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// The memory bus.
    pub bus: Bus,
    /// Calibrated curve from the ideal average bandwidth to the target, if there is one.
    pub target: Option<TargetCurve>,
    /// Media that the jobs' counts distinguish.
    pub media: Media,
    /// Realistic peak bandwidth of each of these media, where it is known: that of lines of cost 1.
    pub medium_peaks: [Option<BytesPerSec>; MAX_MEDIA],
    /// Costs of lines of each of these media, for the [speeds](crate::SpeedModel) of jobs.
    pub line_costs: [LineCosts; MAX_MEDIA],
    /// Seed of all randomness.
    pub seed: u64,
}

impl Default for SchedulerConfig {
    /// `round-robin` over one core, in quanta of the paper's length (iabw Table 2).
    fn default() -> Self {
        Self {
            policy: "round-robin".to_owned(),
            predictor: PredictorKind::Last,
            cores: 1,
            machine_cores: None,
            core_use: CoreUse::All,
            quantum: Nanos::from_millis(100),
            bus: Bus::default(),
            target: None,
            media: Media::default(),
            medium_peaks: [None; MAX_MEDIA],
            line_costs: [LineCosts::default(); MAX_MEDIA],
            seed: 0,
        }
    }
}

/// A kind of jobs: those that do the same work on as many cores, such as runs of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(pub u64);

/// Properties of a job that are known at submission (iabw section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The job.
    pub job: JobId,
    /// Cores that it occupies while it runs; zero counts as one.
    pub cores: u32,
    /// Estimated execution time alone, `T_j`.
    pub expected_time: Option<Nanos>,
    /// Estimated mean bandwidth alone, `B_j`. It must count the same traffic as the meter (reads
    /// alone, or reads and writes), or it cannot be compared with observations.
    pub expected_bandwidth: Option<BytesPerSec>,
    /// Priority, for policies with an objective.
    #[serde(default)]
    pub priority: Priority,
    /// Its kind, if it has one: what is unknown of the job is known once another of its kind has
    /// done its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

impl JobSpec {
    /// Creates the properties of a job on one core of which nothing is known.
    #[must_use]
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            cores: 1,
            expected_time: None,
            expected_bandwidth: None,
            priority: Priority::default(),
            kind: None,
        }
    }
}

/// The manner of a job's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has done its work.
    Completed,
    /// It has failed, was canceled, or its end is unknown.
    Unfinished,
}

/// Behavior of one job in the quantum that just ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The job.
    pub job: JobId,
    /// CPU time that the job used; absent if it could not be read. The next observation that has
    /// one contains it.
    pub cpu_time: Option<Nanos>,
    /// Counts of the job's meter; absent if the meter has failed, so that nothing can be learned.
    pub counts: Option<Counts>,
    /// Samples of its instruction pointer per code region (iabw section 4.2), empty where the
    /// meter takes none.
    pub instruction_pointers: Vec<u32>,
    /// Forecast of the job's demand, if the meter can look ahead (a declared profile).
    pub forecast: Option<BytesPerSec>,
}

impl Observation {
    /// Creates the behavior of a job under a meter that takes no samples and cannot look ahead.
    #[must_use]
    pub fn new(job: JobId, cpu_time: Nanos, counts: Option<Counts>) -> Self {
        let cpu_time = Some(cpu_time);
        Self { job, cpu_time, counts, instruction_pointers: Vec::new(), forecast: None }
    }
}

/// Behavior of the whole system in the quantum that just ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantumSummary {
    /// Length of the quantum.
    pub elapsed: Nanos,
    /// Bandwidth of all observed jobs together.
    pub bandwidth: BytesPerSec,
    /// True if `bandwidth` reached the saturation threshold `T_B`; always false if none is known.
    pub saturated: bool,
}

/// Jobs that may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Running {
    /// Every job: the operating system schedules.
    Everything,
    /// These jobs and no others.
    Only(Vec<JobId>),
}

/// The decision for the next quantum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Jobs that may run: the chosen ones, and the sleeping ones, which are never blocked because
    /// that would interrupt their system calls.
    pub running: Running,
    /// Jobs that occupy cores, in the order of choice, the head of the queue first; every job if
    /// the operating system schedules.
    pub chosen: Vec<JobId>,
    /// Sum of the predicted demands of the chosen jobs; if the operating system schedules, scaled
    /// to their fair share of the cores.
    pub predicted: BytesPerSec,
    /// Target of the policy, if it has one.
    pub target: Option<BytesPerSec>,
}
