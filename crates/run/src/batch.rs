//! Runs one batch: composes the decisions of `memweir-policy` with the mechanisms of
//! `memweir-linux`. The jobs come from [`crate::jobs`], the choices from [`crate::options`]; events
//! go to an [`Observer`], and the result is a [`BatchReport`].

mod backend;
mod foreign;
mod known;
mod launcher;
mod ledger;
mod mechanisms;
mod meters;
mod pinning;
mod plan;
mod recorder;
mod slots;

pub(crate) use known::program_of;
pub use known::{Alone, Knowledge, Known, find_programs, invocation, unknown_jobs};
pub use ledger::bandwidth;
pub use mechanisms::{Mechanisms, Totals};
pub use meters::{default_predictor, native_options};
pub use plan::{Frame, Plan, placement_of};
pub use recorder::{QuantumRecorder, RowSubject};

use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_linux::blocker::{self, OpenError, Opened};
use memweir_linux::world::Live;
use memweir_linux::{MeterError, OsError, clock, leftovers};
use memweir_policy::record::{Header, RecordingScheduler};
use memweir_policy::{CoreUse, QuantumLoop, QuantumScheduler, SchedulerConfig};

use crate::decisions::DecisionLog;
use crate::jobs::Batch;
use crate::logs::Logs;
use crate::observer::{Event, Observer};
use crate::options::RunOptions;
use crate::platform::PlatformError;
use crate::policy_program::PolicyFailure;
use crate::report::BatchReport;
use crate::store::StoreError;
use crate::table::Table;
use crate::timeline;
use backend::ProcessBackend;
use foreign::ForeignUse;
use meters::Chosen;

/// Error that kept a batch from running, or ended it early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Input was refused before anything started.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No meter that was requested, or that the policy needs, works here.
    #[error(transparent)]
    NoMeter(InputError),
    /// No blocking mechanism works here.
    #[error(transparent)]
    Blocker(#[from] OpenError),
    /// The requested meter cannot serve the jobs.
    #[error("meter: {0}")]
    Meter(#[from] MeterError),
    /// The named profile store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The named calibration cannot be used.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A file of results, or the directory of logs, cannot be made.
    #[error("making {path}: {source}", path = path.display())]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The operating system refused something that the batch cannot do without.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Refuses a batch that [`run_batch`] would refuse, without starting anything.
pub fn check(batch: &Batch, options: &RunOptions) -> Result<(), RunError> {
    let plan = Plan::new(batch, options)?;
    meters::choose(&plan)?;
    plan.limits()?;
    Ok(())
}

/// Refuses a batch that [`run_batch`] would refuse whatever its jobs' profiles and the meters are.
pub fn check_input(batch: &Batch, options: &RunOptions) -> Result<(), RunError> {
    Plan::new(batch, options).map(drop)
}

/// Runs the jobs of `batch` until all are over or a signal ends the batch.
///
/// SIGINT, SIGTERM and SIGHUP are blocked in the calling thread for the duration: the first ends
/// the batch in an orderly way, as [`RunOptions::on_exit`] says, the second at once. Other threads
/// of the caller must have them blocked already. At SIGTSTP all jobs are blocked, until this
/// process is continued. The failure of a policy in another process ends it in the same way, and is
/// in the report.
pub fn run_batch(
    batch: &Batch,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<BatchReport, RunError> {
    let plan = Plan::new(batch, options)?;
    let Chosen { meter, reason, notices: of_meter } = meters::choose(&plan)?;
    let limits = plan.limits()?;
    let mut told = leftovers::clean();
    // From here on a signal must end the jobs in an orderly way.
    let world = Live::new().and_then(Live::suspendable);
    let world = world.map_err(OsError::of("preparing to wait for events"))?;
    let Opened { blocker, notices } = match limits {
        None => blocker::open(options.mechanism, "run", &options.guardian)?,
        Some(limits) => blocker::open_limited("run", &options.guardian, limits)?,
    };
    let mechanism = blocker.mechanism();
    if let Some(meter) = &meter {
        observer.event(Event::MeterChosen { kind: meter.kind(), reason: &reason });
    }
    let why = match options.mechanism {
        Some(_) => "it was asked for",
        None => "it is the first that works here",
    };
    observer.event(Event::MechanismChosen { mechanism, reason: why });
    told.extend(meter.as_ref().map(|meter| meter.capabilities().caveats).unwrap_or_default());
    told.extend(of_meter);
    told.extend(notices);
    let mechanism = mechanism.to_string();
    let world = Box::new(world);
    let mechanisms = Mechanisms::new(blocker, meter, world, mechanism, told);
    let foreign = ForeignUse::start(&plan.frame.cpus);
    let mut report = plan.run(mechanisms, observer)?;
    report.foreign_cores = foreign.and_then(|foreign| foreign.cores(&report));
    Ok(report)
}

impl Plan<'_> {
    /// Runs the batch by these mechanisms until all jobs are over or a signal ends the batch.
    ///
    /// # Errors
    /// As those of [`run_batch`].
    pub fn run(
        &self,
        mechanisms: Mechanisms,
        observer: &mut dyn Observer,
    ) -> Result<BatchReport, RunError> {
        let config = self.scheduler_config(mechanisms.meter.as_deref());
        let predictor = config.predictor.to_string();
        let (logs, timeline, decisions) = self.outputs(&config)?;
        let failure = PolicyFailure::default();
        let scheduler = self.scheduler(config, &failure)?;
        let scheduler = match &decisions {
            Some(_) => RecordingScheduler::recording(scheduler),
            None => RecordingScheduler::silent(scheduler),
        };
        let used_before = clock::process_cpu_time();
        let recorder = QuantumRecorder::new(observer, self.options.media.clone());
        let recorder = recorder.with_files(timeline, decisions);
        let mut backend = ProcessBackend::new(self, mechanisms, &logs, recorder, failure);
        let mut quanta = QuantumLoop::new(scheduler, self.options.quantum);
        let driven = quanta.run(&mut backend);
        let calls = quanta.take_calls();
        if let Err(error) = driven {
            backend.abandon(&calls);
            return Err(error);
        }
        let report = backend.finish(&calls);
        let ideal_average = quanta.ideal_average_bandwidth();
        Ok(BatchReport {
            predictor,
            scheduler_s: (clock::process_cpu_time().saturating_sub(used_before)).as_secs_f64(),
            ideal_average_bandwidth: ideal_average.map(|rate| rate.0),
            ..report
        })
    }

    /// Creates the logs, the timeline and the log of decisions.
    fn outputs(
        &self,
        config: &SchedulerConfig,
    ) -> Result<(Logs, Option<Table>, Option<DecisionLog>), RunError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| RunError::Output { path, source }
        };
        let timeline =
            |(path, format): &(PathBuf, _)| timeline::create(path, *format).map_err(failed(path));
        let names = self.batch.jobs.iter().map(|job| job.name.clone()).collect();
        let header = Header::new(config.clone(), names);
        let decisions = |path: &PathBuf| DecisionLog::create(path, &header).map_err(failed(path));
        let logs = Logs::create(&self.options.logs, &self.options.logs_of_run)
            .map_err(|(path, source)| RunError::Output { path, source })?;
        let timeline = self.timeline.as_ref().map(timeline).transpose()?;
        Ok((logs, timeline, self.options.record.as_ref().map(decisions).transpose()?))
    }

    /// Creates the scheduler with the policy of the table, or of the program, that has the name.
    fn scheduler(
        &self,
        config: SchedulerConfig,
        failure: &PolicyFailure,
    ) -> Result<QuantumScheduler, RunError> {
        match self.options.program(&config.policy) {
            Some(program) => {
                let limit = self.options.decision_timeout;
                let policy = program.start(&config, limit, failure.clone());
                Ok(QuantumScheduler::with_policy(config, policy))
            }
            None => QuantumScheduler::new(config)
                .map_err(|refusal| refusal.written_in("run").key("policy").into()),
        }
    }

    fn scheduler_config(&self, meter: Option<&dyn memweir_linux::Meter>) -> SchedulerConfig {
        SchedulerConfig {
            policy: self.policy.clone(),
            predictor: self.options.predictor.unwrap_or(meters::default_predictor(meter)),
            cores: self.cores(),
            machine_cores: self.frame.machine_cores,
            quantum: self.options.quantum,
            bus: self.frame.bus,
            target: self.frame.target.clone(),
            media: self.options.media.clone(),
            medium_peaks: self.frame.medium_peaks,
            line_costs: self.frame.line_costs,
            // Part of the name of a policy of the table by now.
            core_use: match self.options.program(&self.policy) {
                Some(_) => self.options.core_use,
                None => CoreUse::All,
            },
            seed: self.options.seed,
        }
    }
}
