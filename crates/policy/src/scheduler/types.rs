//! What goes into the scheduler and what comes out of it.

use memweir_core::{BytesPerSec, Counts, JobId, MAX_MEDIA, Media, Nanos};

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
}

impl Bus {
    /// `T_B` over the peak in iabw section 2.1 and Table 2: 35 of 40 transactions per microsecond.
    const PAPER_SATURATION: f64 = 35.0 / 40.0;

    /// The saturation threshold, or the paper's share of the peak where only that is known.
    #[must_use]
    pub fn saturation_threshold(&self) -> Option<BytesPerSec> {
        self.saturation.or(self.peak.map(|peak| peak * Self::PAPER_SATURATION))
    }
}

/// Whether the cores of the machine are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreUse {
    /// As far as there are jobs.
    #[default]
    All,
    /// As far as that pays: a job that the policy has chosen waits if it would slow the others down
    /// by more than it gains.
    ///
    /// A core is left idle only if the jobs of the quantum would require more than the calibrated
    /// peak *and* overload has been seen to cost more than a fair division of the bus explains, by
    /// five percent of what the machine gets done. The head of the run queue always runs. Where no
    /// peak is known, this is [`CoreUse::All`].
    ///
    /// What it costs where nothing is to be gained: nothing on a bus that is less than half busy.
    /// On a busier one, one job has each 64th quantum to itself at most, and the less often the
    /// less that tells: less than two percent of the time. While cores are idle, each seventeenth
    /// quantum is filled, to learn whether that is still right.
    Auto,
}

/// Everything that fixes the behavior of a [`crate::QuantumScheduler`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    /// Name in the table of policies ([`crate::policies::POLICIES`]), with options behind colons.
    pub policy: String,
    /// How the jobs' next bandwidth is predicted.
    pub predictor: PredictorKind,
    /// Cores of the machine that the batch may use; zero counts as one.
    pub cores: u32,
    /// Whether they are filled.
    pub core_use: CoreUse,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// The memory bus.
    pub bus: Bus,
    /// Calibrated curve from the ideal average bandwidth to the target, if there is one.
    pub target: Option<TargetCurve>,
    /// The media that the jobs' counts tell apart.
    pub media: Media,
    /// Realistic peak bandwidth of each of these media, where it is known.
    pub medium_peaks: [Option<BytesPerSec>; MAX_MEDIA],
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for SchedulerConfig {
    /// `round-robin` over one core, in quanta of the paper's length (iabw Table 2).
    fn default() -> Self {
        Self {
            policy: "round-robin".to_owned(),
            predictor: PredictorKind::Last,
            cores: 1,
            core_use: CoreUse::All,
            quantum: Nanos::from_millis(100),
            bus: Bus::default(),
            target: None,
            media: Media::default(),
            medium_peaks: [None; MAX_MEDIA],
            seed: 0,
        }
    }
}

/// What is known of a job when it is submitted (iabw section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The job.
    pub job: JobId,
    /// Cores that it occupies while it runs; zero counts as one.
    pub cores: u32,
    /// Estimated execution time alone, `T_j`.
    pub expected_time: Option<Nanos>,
    /// Estimated mean bandwidth alone, `B_j`. It must count what the meter counts (reads alone,
    /// or reads and writes), or it cannot be compared with what is observed.
    pub expected_bandwidth: Option<BytesPerSec>,
}

/// What one job did in the quantum that just ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The job.
    pub job: JobId,
    /// CPU time that it used.
    pub cpu_time: Nanos,
    /// What was counted for it; absent where its meter has failed, which teaches nothing.
    pub counts: Option<Counts>,
    /// Samples of its instruction pointer per code region (iabw section 4.2), empty where the
    /// meter takes none.
    pub instruction_pointers: Vec<u32>,
    /// What it will require next, where the meter can look ahead (a declared profile).
    pub forecast: Option<BytesPerSec>,
}

/// What the whole system did in the quantum that just ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantumSummary {
    /// How long it was.
    pub elapsed: Nanos,
    /// Bandwidth of all observed jobs together.
    pub bandwidth: BytesPerSec,
    /// Whether that reached the saturation threshold `T_B`; never, where none is known.
    pub saturated: bool,
}

/// Who may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Running {
    /// Every job: the operating system schedules.
    Everything,
    /// These jobs and no others.
    Only(Vec<JobId>),
}

/// What was decided for the next quantum, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Who may run: the chosen jobs, and the sleeping ones, which are never blocked because that
    /// would break their system calls off.
    pub running: Running,
    /// The jobs that occupy cores, in the order of choice, the head of the queue first; every
    /// job where the operating system schedules.
    pub chosen: Vec<JobId>,
    /// Sum of the predicted demands of the chosen jobs; their fair share of the cores of it where
    /// the operating system schedules.
    pub predicted: BytesPerSec,
    /// The bandwidth aimed at, for policies that aim at one.
    pub target: Option<BytesPerSec>,
}
