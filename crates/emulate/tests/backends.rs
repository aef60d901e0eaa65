//! One batch through two backends of the quantum loop: the simulated machine, and processes whose
//! mechanisms read the same counters at the same times. Every call to the scheduler is equal.

use std::io;
use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, JobId, Nanos};
use memweir_flow::{
    Demand, Experiment, Flow, Knowledge, Machine, Outcome, Overheads, Program, QuantumOutcome,
    Recorder, Simulation, Span, Task, TaskQuantum,
};
use memweir_linux::blocker::{Mechanism, SpawnTarget};
use memweir_linux::fake::{FakeBlocker, FakeControl};
use memweir_linux::launch::LaunchError;
use memweir_linux::world::{Occurrence, World};
use memweir_linux::{Capabilities, Launch, Meter, MeterError, MeterKind, Reading};
use memweir_policy::PredictorKind;
use memweir_policy::record::Call;
use memweir_run::batch::{Frame, Mechanisms, Plan};
use memweir_run::decisions;
use memweir_run::jobs::{Batch, Command, Job};
use memweir_run::observer::Silent;
use memweir_run::options::RunOptions;
use memweir_run::report::BatchReport;

/// CPU time and counts of every job up to the end of each quantum.
#[derive(Clone, Debug, Default)]
struct Counters {
    /// Ends of the quanta.
    ends: Vec<Nanos>,
    /// Per quantum, then per job.
    totals: Vec<Vec<(Nanos, Counts)>>,
}

impl Recorder for Counters {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        let mut totals = self.totals.last().cloned().unwrap_or_default();
        for task in tasks {
            totals.resize(totals.len().max(task.task.index() + 1), Default::default());
            let (cpu_time, counts) = &mut totals[task.task.index()];
            *cpu_time += task.cpu_time;
            *counts += task.counts;
        }
        self.ends.push(quantum.start + quantum.elapsed);
        self.totals.push(totals);
    }
}

impl Counters {
    /// The totals at the end of the quantum that `now` lies in.
    fn at(&self, now: Nanos) -> &[(Nanos, Counts)] {
        let quantum = self.ends.partition_point(|end| *end < now);
        &self.totals[quantum.min(self.totals.len() - 1)]
    }
}

/// Time and processes that end when those of the simulation do.
struct Replayed {
    now: Nanos,
    /// Ends of the jobs to come, the next one last.
    ends: Vec<(Nanos, JobId)>,
    counters: Arc<Counters>,
    control: FakeControl,
}

impl World for Replayed {
    fn now(&self) -> Nanos {
        self.now
    }

    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>> {
        let end = self.ends.pop_if(|(end, _)| *end <= until);
        self.now = end.map_or(until, |(end, _)| end);
        for (job, (cpu_time, _)) in (0..).map(JobId).zip(self.counters.at(self.now)) {
            self.control.set_cpu_time(job, *cpu_time);
        }
        let Some((_, job)) = end else { return Ok(Vec::new()) };
        self.control.empty(job);
        Ok(vec![Occurrence::Exited { job, code: 0, cpu_time: None }])
    }

    fn spawn(&mut self, job: JobId, _: &Launch, _: &SpawnTarget) -> Result<i32, LaunchError> {
        Ok(1_000 + job.0 as i32)
    }

    fn exec(&mut self, _: JobId) -> Result<(), LaunchError> {
        Ok(())
    }

    fn bind(&mut self, _: JobId, _: &[usize]) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, _: JobId) {}
}

/// Reads the counters of the quantum in which a job has this CPU time.
struct ReplayedMeter(Arc<Counters>);

impl Meter for ReplayedMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Software
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn attach(&mut self, _: JobId, _: i32) -> Result<(), MeterError> {
        Ok(())
    }

    fn read(&mut self, job: JobId, cpu_time: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        let of_job = self.0.totals.iter().filter_map(|totals| totals.get(job.index()));
        let total = of_job.into_iter().find(|(total, _)| *total == cpu_time);
        let counts = total.map(|(_, counts)| *counts).unwrap_or_default();
        Ok(Reading { counts, ..Reading::default() })
    }

    fn detach(&mut self, _: JobId) {}
}

/// Seven jobs of five programs of two phases each, on three cores that they overload together.
fn experiment(policy: &str) -> Experiment {
    let program = |number: u64| {
        let span = |length, gigabytes: f64| {
            let mut demand = Demand { instructions: 2e9, stall: 0.8, ..Demand::default() };
            let (reads, writes) = (gigabytes * 0.75, gigabytes * 0.25);
            demand.flows[0] =
                Flow { reads: BytesPerSec::from_gb(reads), writes: BytesPerSec::from_gb(writes) };
            Span { length: Nanos::from_millis(length), demand }
        };
        let spans = vec![
            span(130 + 37 * number, 0.7 * number as f64),
            span(220 - 23 * number, 5.0 - 0.6 * number as f64),
        ];
        Arc::new(Program { name: format!("program-{number}"), spans })
    };
    let task = |number: u64| Task::once(format!("job-{number}"), program(number % 5));
    let machine = Machine::uniform("example", 3, BytesPerSec::from_gb(8.0));
    let mut experiment = Experiment::new(machine, (0..7).map(task).collect(), policy);
    experiment.knowledge = Knowledge::FirstRun;
    // The mechanisms of the processes take no time.
    experiment.overheads = Overheads { quantum_switch: Nanos::ZERO, ..Overheads::default() };
    experiment.scheduler.predictor = PredictorKind::Last;
    experiment
}

/// Runs a batch of processes on which everything happens as in a simulation.
fn run_processes(
    experiment: &Experiment,
    outcome: &Outcome,
    counters: Counters,
) -> (BatchReport, Vec<Call>) {
    let directory = tempfile::tempdir().unwrap();
    let command = |task: &Task| Command::Exec(vec!["true".into(), (&task.program.name).into()]);
    let job = |task: &Task| Job::new(task.name.clone(), command(task));
    let batch = Batch { jobs: experiment.tasks.iter().map(job).collect() };
    let config = &experiment.scheduler;
    let record = directory.path().join("decisions.jsonl");
    // An empty file is an empty store.
    let store = directory.path().join("store");
    std::fs::write(&store, "").unwrap();
    let options = RunOptions {
        policy: config.policy.clone(),
        predictor: Some(config.predictor),
        quantum: config.quantum,
        media: config.media.clone(),
        seed: config.seed,
        store: Some(store),
        logs: directory.path().join("logs"),
        record: Some(record.clone()),
        ..RunOptions::default()
    };
    let counters = Arc::new(counters);
    let (blocker, control) = FakeBlocker::new(Mechanism::CgroupV2);
    let ends = outcome.tasks.iter().zip((0..).map(JobId)).map(|(task, job)| (task.finish, job));
    let mut ends: Vec<(Nanos, JobId)> = ends.collect();
    ends.sort_by(|one, other| other.cmp(one));
    let mechanisms = Mechanisms::new(
        Box::new(blocker),
        Some(Box::new(ReplayedMeter(counters.clone()))),
        Box::new(Replayed { now: Nanos::ZERO, ends, counters, control }),
        "fake".to_owned(),
        Vec::new(),
    );
    let frame = Frame::elsewhere(
        config.cores,
        config.machine_cores,
        config.bus,
        config.medium_peaks,
        config.line_costs,
    );
    let plan = Plan::elsewhere(&batch, &options, frame).unwrap();
    let report = plan.run(mechanisms, &mut Silent).unwrap();
    let record = decisions::read(&record).unwrap();
    assert_eq!(record.header.config, *config);
    (report, record.calls.into_iter().map(|(_, call)| call).collect())
}

#[test]
fn a_simulated_and_a_real_batch_with_equal_counters_have_equal_decisions() {
    for policy in ["os", "round-robin", "random", "peak-bandwidth", "ideal-average", "hmmsched"] {
        let experiment = experiment(policy);
        let (mut counters, mut simulated) = (Counters::default(), Vec::new());
        let simulation = Simulation::new(&experiment).recorder(&mut counters);
        let outcome = simulation.calls(&mut simulated).run().unwrap();
        let (report, real) = run_processes(&experiment, &outcome, counters);

        assert!(simulated.len() > 20, "{policy}: {} calls", simulated.len());
        let learned = simulated.iter().filter(|call| matches!(call, Call::Learn { .. }));
        assert_eq!(learned.count(), 7, "{policy}");
        for (number, (one, other)) in simulated.iter().zip(&real).enumerate() {
            assert_eq!(one, other, "{policy}: call {number}");
        }
        assert_eq!(simulated.len(), real.len(), "{policy}");
        assert_eq!(report.turnaround_s, outcome.turnaround.as_secs_f64(), "{policy}");
        for (job, task) in report.jobs.iter().zip(&outcome.tasks) {
            assert_eq!(job.quanta, task.quanta, "{policy}: {}", job.name);
            assert_eq!(job.memory_reads, Some(task.counts.reads.0), "{policy}: {}", job.name);
        }
    }
}
