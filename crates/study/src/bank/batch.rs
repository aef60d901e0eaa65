//! Batches at bank level: the programs of a scenario with `policies` are jobs, of which a policy
//! decides who runs in which quantum.
//!
//! The policies, the quantum loop and the operating system are those of the flow level; the machine
//! below them answers every request. A quantum of 100 ms is too long for that, so time is
//! *compressed*: with a compression of 1,000 the scheduler and the operating system take each
//! microsecond for a millisecond. They see the bandwidths of the machine, and times that are as
//! many times longer.

mod backend;

use memweir_bank::experiment::{Conditions, Machine, ProgramSpec, Source};
use memweir_bank::outcome::ProgramRun;
use memweir_bank::stream::Level;
use memweir_bank::synthetic::Structure;
use memweir_core::input::{InputError, Refusal, Section};
use memweir_core::units::LINE_BYTES;
use memweir_core::{Bytes, BytesPerSec, JobId, Nanos};
use memweir_flow::experiment::{KernelConfig, Knowledge, KnowledgeError};
use memweir_flow::kernel::Kernel;
use memweir_flow::optimal::hindsight::{self, HINDSIGHT};
use memweir_policy::quantum_loop::Quantum;
use memweir_policy::record::RecordingScheduler;
use memweir_policy::{
    Bus, JobSpec, Kind, PredictorKind, QuantumLoop, QuantumScheduler, SchedulerConfig,
};

use super::report::{BatchJob, BatchRun};
use super::study::Ready;
use crate::flow::CustomPolicies;
use crate::scheduling::{knowledge, knowledge_error, paper_scaled_to, policy_names, quantum};
use backend::{BankBatch, Cores};

/// Keys of a batch beside `policies`, which makes one of the programs.
const KEYS: [&str; 6] =
    ["compression", "quantum_ms", "knowledge", "knowledge_error", "predictor", "target"];

/// Factors by which time may be compressed.
const COMPRESSIONS: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Instructions of each of the programs that show how much memory can carry.
const PEAK_INSTRUCTIONS: u64 = 500_000;

/// Intensity of these programs: more lines per 1,000 instructions than any memory delivers.
const PEAK_INTENSITY: f64 = 100.0;

/// Policies under which the programs run as a batch, and the conditions of all of them.
#[derive(Clone, Debug)]
pub struct BatchSpec {
    /// The policies, the baseline first.
    pub policies: Vec<String>,
    /// Those of them that are not in the table.
    pub custom: CustomPolicies,
    /// Factor by which time seems longer to the scheduler and the operating system than it is.
    pub compression: u32,
    /// Length of a quantum as it seems to them.
    pub quantum: Nanos,
    /// The scheduler's knowledge of the jobs.
    pub knowledge: Knowledge,
    /// Its error.
    pub knowledge_error: KnowledgeError,
    /// Predictor of a job's next bandwidth.
    pub predictor: PredictorKind,
    /// The target of the policies that have one.
    pub target: BatchTarget,
}

/// The target of the policies that have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchTarget {
    /// The ideal average bandwidth itself.
    #[default]
    Ideal,
    /// iabw eq. (11), scaled to the measured peak.
    Paper,
}

memweir_core::named! { pub BatchTarget, "target": Ideal = "none", Paper = "paper" }

impl BatchSpec {
    /// Reads the keys of a batch from a scenario; `None` if it names no policies.
    pub(super) fn read(
        root: &mut Section<'_>,
        custom: &CustomPolicies,
    ) -> Result<Option<Self>, InputError> {
        let Some(named) = root.take("policies") else {
            return match KEYS.iter().find_map(|key| root.take(key)) {
                Some(value) => {
                    let help = "name `policies` to compare, or leave it out";
                    Err(value.refuse("is for a batch, which these programs are not").help(help))
                }
                None => Ok(None),
            };
        };
        let policies = policy_names(&named, [HINDSIGHT].into_iter().chain(custom.names()))?;
        let compression = root.map("compression", |v| v.whole_in(COMPRESSIONS))?;
        Ok(Some(Self {
            policies,
            custom: custom.clone(),
            compression: compression.unwrap_or(1_000),
            quantum: quantum(root)?,
            knowledge: knowledge(root)?,
            knowledge_error: knowledge_error(root)?,
            predictor: root
                .map("predictor", |v| v.checked(v.string()?.parse()))?
                .unwrap_or(PredictorKind::Last),
            target: root.map("target", |v| v.named())?.unwrap_or_default(),
        }))
    }
}

/// A batch, and what it runs on.
pub(super) struct Batch<'a> {
    pub(super) spec: &'a BatchSpec,
    pub(super) machine: &'a Machine,
    pub(super) ready: &'a [Ready],
    pub(super) conditions: Conditions,
    /// Peak bandwidth of the machine, which the policies are told.
    pub(super) peak: BytesPerSec,
}

impl Batch<'_> {
    /// Runs the jobs under a policy, or under the schedule that is the best in hindsight.
    ///
    /// # Errors
    /// If they do not fit on the machine or into its memory, or the end is requested.
    pub(super) fn run(&self, policy: &str) -> Result<BatchRun, Refusal> {
        let (ends, quanta) = match policy {
            HINDSIGHT => {
                let run = |factors: &[f64]| self.operate(hindsight::POLICY, self.told(factors));
                let ends =
                    |factors: &[f64]| Ok(run(factors)?.0.iter().map(|end| end.finish).collect());
                run(&hindsight::shortest(self.ready.len(), ends)?)?
            }
            _ => self.operate(policy, self.known())?,
        };
        Ok(self.outcome(policy, &ends, quanta))
    }

    /// Runs the jobs, of which the scheduler knows this, under a policy.
    fn operate(
        &self,
        policy: &str,
        jobs: Vec<JobSpec>,
    ) -> Result<(Vec<End>, Vec<Quantum>), Refusal> {
        let Self { spec, machine, ref conditions, .. } = *self;
        let config = SchedulerConfig {
            policy: policy.to_owned(),
            predictor: spec.predictor,
            cores: machine.cores,
            quantum: spec.quantum,
            bus: Bus { peak: Some(self.peak), ..Bus::default() },
            target: (spec.target == BatchTarget::Paper).then(|| paper_scaled_to(self.peak)),
            seed: conditions.seed,
            ..SchedulerConfig::default()
        };
        let scheduler = match spec.custom.find(policy) {
            Some(custom) => {
                let policy = custom.build(&config);
                QuantumScheduler::with_policy(config, policy)
            }
            None => QuantumScheduler::new(config)?,
        };
        let programs: Vec<ProgramSpec> = self.ready.iter().map(|(spec, _)| spec.clone()).collect();
        machine.operate(&programs, conditions.clone(), |system| {
            let cores = Cores::new(system, machine.cores, &programs, spec.compression);
            let nodes = std::iter::repeat_n(0, machine.cores as usize);
            let costs = (KernelConfig::default(), Nanos::ZERO);
            let kernel = Kernel::on(nodes, costs, conditions.seed, Box::new(cores));
            let mut batch = BankBatch::new(kernel, jobs);
            let scheduler = RecordingScheduler::silent(scheduler);
            QuantumLoop::new(scheduler, spec.quantum).run(&mut batch)?;
            Ok::<_, Refusal>(batch.finish())
        })?
    }

    /// Returns what the scheduler knows of each job.
    fn known(&self) -> Vec<JobSpec> {
        let BatchSpec { knowledge, knowledge_error, .. } = *self.spec;
        let job = |place| {
            let factors = knowledge_error.factors(self.conditions.seed, place);
            let known = (knowledge == Knowledge::Alone).then_some(factors);
            let kind = (knowledge == Knowledge::FirstRun).then(|| kind(self.ready, place));
            JobSpec { kind, ..self.job(place, known) }
        };
        (0..self.ready.len()).map(job).collect()
    }

    /// Returns the jobs with these factors on their known times.
    fn told(&self, factors: &[f64]) -> Vec<JobSpec> {
        let factors = factors.iter().enumerate();
        factors.map(|(place, factor)| self.job(place, Some((*factor, 1.0)))).collect()
    }

    /// Returns a job with its time and bandwidth alone, each times a factor, if they are known.
    fn job(&self, place: usize, factors: Option<(f64, f64)>) -> JobSpec {
        let (spec, alone) = &self.ready[place];
        let time = |(times, _)| {
            Nanos::from_secs_f64(alone.run.time_s * f64::from(self.spec.compression) * times)
        };
        let bandwidth = |(_, bandwidths)| BytesPerSec(alone.run.bandwidth * bandwidths);
        JobSpec {
            cores: spec.threads.into(),
            expected_time: factors.map(time),
            expected_bandwidth: factors.map(bandwidth),
            ..JobSpec::new(JobId(place as u32))
        }
    }

    fn outcome(&self, policy: &str, ends: &[End], quanta: Vec<Quantum>) -> BatchRun {
        let job = |((_, alone), end): (&Ready, &End)| BatchJob {
            program: alone.run.program.clone(),
            alone_s: alone.run.time_s,
            finish_s: end.finish.as_secs_f64(),
            running_s: end.running.as_secs_f64(),
        };
        let turnaround = ends.iter().map(|end| end.finish).max().unwrap_or_default();
        let lines: u64 = ends.iter().map(|end| end.lines).sum();
        BatchRun {
            policy: policy.to_owned(),
            turnaround_s: turnaround.as_secs_f64(),
            bandwidth: (lines * LINE_BYTES) as f64 / turnaround.as_secs_f64(),
            gain: None,
            jobs: self.ready.iter().zip(ends).map(job).collect(),
            quanta,
        }
    }
}

/// End of a job, in uncompressed time.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    finish: Nanos,
    /// Time that its threads spent on cores, together.
    running: Nanos,
    lines: u64,
}

/// Returns the kind of a job: the number of the first that does the same work. Its name says
/// nothing: programs without one are called after their source.
fn kind(ready: &[Ready], place: usize) -> Kind {
    fn work((spec, _): &Ready) -> (&Source, u64, u16) {
        (&spec.source, spec.instructions, spec.threads)
    }
    let first = ready.iter().position(|other| work(other) == work(&ready[place]));
    Kind(first.unwrap_or(place) as u64)
}

/// Measures the bandwidth that the memories carry when every core reads as fast as it can, which is
/// what a calibration measures on a real machine.
pub(super) fn peak(machine: &Machine, conditions: Conditions) -> Result<BytesPerSec, Refusal> {
    let structure = Structure {
        intensity: PEAK_INTENSITY,
        burst_intensity: PEAK_INTENSITY,
        footprint: Bytes(64 << 20),
        ..Structure::default()
    };
    let source = Source::Synthetic(Box::new(structure));
    let reader = ProgramSpec {
        level: Level::Memory,
        ..ProgramSpec::new("reader", source, PEAK_INSTRUCTIONS)
    };
    let execution = machine.execute(&vec![reader; machine.cores as usize], conditions)?;
    let runs = ProgramRun::of(&execution, machine.clock);
    Ok(BytesPerSec(runs.iter().map(|run| run.bandwidth).sum()))
}
