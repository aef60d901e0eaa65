//! One run of a scenario: its experiment and its results.

use memweir_core::Nanos;
use memweir_core::Stop;
use memweir_core::input::Refusal;
use memweir_flow::batch::Simulation;
use memweir_flow::experiment::{Experiment, SimError};
use memweir_flow::migration::Pager;
use memweir_flow::optimal::hindsight::{self, HINDSIGHT};
use memweir_flow::optimal::planned::{self, PLANNED};
use memweir_flow::optimal::{self, Effort, lower_bound, optimal};
use memweir_flow::outcome::{Outcome, TaskOutcome};
use memweir_flow::record::Recorder;

use super::log::LogSpec;
use super::migration::MigrationSpec;
use super::queueing::Queueing;
use super::report::{self, Run, TaskRun};
use super::workload::Prepared;
use super::{Optimum, Scenario};

impl Scenario {
    /// Returns the seed of a repetition.
    #[must_use]
    pub fn seed_of(&self, repetition: u32) -> u64 {
        self.seed.wrapping_add(u64::from(repetition))
    }

    /// Returns the experiment of one repetition under the policy with this index.
    #[must_use]
    pub fn experiment(&self, policy: usize, repetition: u32, prepared: &Prepared) -> Experiment {
        let seed = self.seed_of(repetition);
        let mut experiment = Experiment::new(
            self.hardware.machine.clone(),
            prepared.tasks.clone(),
            &self.policies[policy],
        );
        let scheduler = &mut experiment.scheduler;
        scheduler.predictor = self.predictor;
        scheduler.cores = self.cores;
        scheduler.quantum = self.quantum;
        scheduler.target.clone_from(&self.target);
        scheduler.seed = seed;
        if self.custom.find(&self.policies[policy]).is_some() {
            scheduler.core_use = self.core_use;
        }
        let log = self.workload.log.as_ref();
        Experiment {
            admission: log.map(LogSpec::admission).unwrap_or_default(),
            jobs: log.map(LogSpec::job_of_task).unwrap_or_default(),
            knowledge: self.knowledge,
            knowledge_error: self.knowledge_error,
            overheads: self.overheads,
            kernel: self.kernel,
            seed,
            ..experiment
        }
    }

    /// Returns the pager of a run, if pages migrate.
    fn migrator(&self, prepared: &Prepared) -> Option<Pager> {
        let (migration, pages) = (self.migration.as_ref()?, prepared.pages.clone()?);
        migration.migrator(&self.hardware.machine, pages)
    }

    /// Returns the shortest turnaround of a repetition's tasks under any policy, as far as the
    /// scenario requests it.
    fn shortest(&self, repetition: u32, prepared: &Prepared) -> Option<(Nanos, report::Certainty)> {
        let experiment = self.experiment(0, repetition, prepared);
        match self.optimum {
            // If pages move, no bound for the initial placement holds.
            _ if self.migration.as_ref().is_some_and(MigrationSpec::moves) => None,
            // The optimum is that of tasks which are all admitted.
            _ if self.workload.log.is_some() => None,
            Optimum::None => None,
            Optimum::Bound => {
                experiment.check().ok()?;
                let Experiment { machine, tasks, scheduler, .. } = &experiment;
                Some((lower_bound(machine, tasks, scheduler.cores), report::Certainty::Bound))
            }
            Optimum::Search => {
                let found = optimal(&experiment, Effort::default()).ok()?;
                let certainty = match found.certainty {
                    optimal::Certainty::Best => report::Certainty::Best,
                    optimal::Certainty::Bound => report::Certainty::Bound,
                };
                Some((found.turnaround, certainty))
            }
        }
    }

    /// Prepares the workload of a repetition with its optimum.
    pub(super) fn prepare_to_run(&self, repetition: u32) -> Result<Prepared, Refusal> {
        let mut prepared = self.prepare(repetition)?;
        prepared.optimum = self.shortest(repetition, &prepared);
        Ok(prepared)
    }

    /// Runs one repetition under the policy with this index.
    pub(super) fn execute(
        &self,
        policy: usize,
        repetition: u32,
        prepared: &Prepared,
        recorder: Option<&mut dyn Recorder>,
        stop: &Stop,
    ) -> Result<Run, SimError> {
        let experiment = self.experiment(policy, repetition, prepared);
        let outcome = match &*self.policies[policy] {
            PLANNED => planned::run(&experiment, recorder, stop)?,
            HINDSIGHT => self.in_hindsight(experiment.clone(), prepared, recorder, stop)?,
            _ => self.simulate(&experiment, prepared, recorder, stop)?,
        };
        let queueing = |log: &LogSpec| {
            Queueing::of(&outcome, &experiment.jobs, self.cores, log.figures.bound_s)
        };
        let target = outcome.quanta.iter().rev().find_map(|quantum| quantum.target);
        let deviation = outcome.bandwidth_deviation(self.quantum);
        Ok(Run {
            policy: self.policies[policy].clone(),
            repetition,
            seed: self.seed_of(repetition),
            turnaround_s: outcome.turnaround.as_secs_f64(),
            weighted_speedup: outcome.weighted_speedup(),
            bandwidth_mean: outcome.mean_bandwidth().0,
            bandwidth_std: deviation.map_or(0.0, |rate| rate.0),
            ideal_average_bandwidth: outcome.ideal_average.map(|rate| rate.0),
            target: target.map(|rate| rate.0),
            quanta: outcome.quanta.len() as u64,
            copied_bytes: outcome.copied.0,
            optimum_s: prepared.optimum.map(|(turnaround, _)| turnaround.as_secs_f64()),
            optimum_is: prepared.optimum.map(|(_, certainty)| certainty),
            queueing: self.workload.log.as_ref().map(queueing),
            tasks: outcome.tasks.iter().map(task).collect(),
        })
    }

    /// Simulates an experiment under the schedule that turns out to be the shortest.
    fn in_hindsight(
        &self,
        mut experiment: Experiment,
        prepared: &Prepared,
        recorder: Option<&mut dyn Recorder>,
        stop: &Stop,
    ) -> Result<Outcome, SimError> {
        hindsight::POLICY.clone_into(&mut experiment.scheduler.policy);
        (experiment.knowledge, experiment.knowledge_error) = Default::default();
        experiment.time_factors = hindsight::shortest(experiment.tasks.len(), |factors| {
            experiment.time_factors = factors.to_vec();
            let outcome = self.simulate(&experiment, prepared, None, stop)?;
            let tasks = outcome.tasks.iter();
            let first = tasks.clone().map(|task| task.arrival).min().unwrap_or_default();
            Ok::<_, SimError>(tasks.map(|task| task.finish - first).collect())
        })?;
        self.simulate(&experiment, prepared, recorder, stop)
    }

    /// Simulates an experiment with the scenario's migration of pages.
    fn simulate(
        &self,
        experiment: &Experiment,
        prepared: &Prepared,
        recorder: Option<&mut dyn Recorder>,
        stop: &Stop,
    ) -> Result<Outcome, SimError> {
        let mut simulation = Simulation::new(experiment).stop(stop.clone());
        if let Some(custom) = self.custom.find(&experiment.scheduler.policy) {
            simulation = simulation.policy(custom.build(&experiment.scheduler));
        }
        if let Some(recorder) = recorder {
            simulation = simulation.recorder(recorder);
        }
        let mut migrator = self.migrator(prepared);
        if let Some(migrator) = &mut migrator {
            simulation = simulation.migrator(migrator);
        }
        simulation.run()
    }
}

fn task(task: &TaskOutcome) -> TaskRun {
    TaskRun {
        name: task.name.clone(),
        alone_s: task.alone.as_secs_f64(),
        turnaround_s: task.turnaround().as_secs_f64(),
        running_s: task.running.as_secs_f64(),
        slowdown: task.slowdown(),
        bandwidth_mean: task.counts.bandwidth(task.running).0,
    }
}
