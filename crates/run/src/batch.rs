//! Runs one batch: composes the decisions of `memweir-policy` with the mechanisms of
//! `memweir-linux`. The jobs come from [`crate::jobs`], the choices from [`crate::options`]; events
//! go to an [`Observer`], and the result is a [`BatchReport`].

mod engine;
mod known;
mod ledger;
mod live;
mod meters;
mod pinning;
mod plan;
mod world;

pub use known::{Knowledge, Known, invocation, unknown_jobs};
pub use live::Live;
pub use world::{Occurrence, World};

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_core::placement::Placement;
use memweir_core::{BytesPerSec, Counts, JobId, MAX_MEDIA, Medium, MediumId, Nanos, metrics};
use memweir_linux::blocker::{self, OpenError, Opened};
use memweir_linux::{Blocker, Meter, MeterError, MeterKind, leftovers};
use memweir_policy::record::{Header, RecordingScheduler};
use memweir_policy::{Bus, CoreUse, QuantumScheduler, SchedulerConfig};
use nix::time::{ClockId, clock_gettime};

use crate::decisions::DecisionLog;
use crate::jobs::Batch;
use crate::logs::Logs;
use crate::observer::{Event, Observer};
use crate::options::{Pinning, RunOptions};
use crate::platform::PlatformError;
use crate::report::{Band, BatchReport, JobReport, MediumReport};
use crate::store::{MediumLines, StoreError};
use crate::timeline::Timeline;
use engine::{BatchResult, Engine, Parts, Rules, Starter};
use ledger::Ledger;
use meters::Chosen;
use pinning::CoreMap;
use plan::Plan;

/// Bands of equal width below the peak in the breakdown of bandwidth, as in iabw Fig. 10.
const BANDS: usize = 10;

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
    #[error("{what}: {source}")]
    Os {
        /// The operation that failed, with the object's name.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// Refuses a batch that [`run_batch`] would refuse, without starting anything.
pub fn check(batch: &Batch, options: &RunOptions) -> Result<(), RunError> {
    let plan = Plan::new(batch, options)?;
    plan.meter()?;
    Ok(())
}

/// Runs the jobs of `batch` until all are over or a signal ends the batch.
///
/// SIGINT, SIGTERM and SIGHUP are blocked in the calling thread for the duration: the first ends
/// the batch in an orderly way, as [`RunOptions::on_exit`] says, the second at once. Other threads
/// of the caller must have them blocked already.
pub fn run_batch(
    batch: &Batch,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<BatchReport, RunError> {
    Plan::new(batch, options)?.run(observer)
}

/// Another machine than this one, with its mechanisms.
pub struct Surroundings<'a> {
    /// Time, processes and signals.
    pub world: &'a mut dyn World,
    /// Blocks jobs there.
    pub blocker: Box<dyn Blocker>,
    /// Counts their traffic there.
    pub meter: Box<dyn Meter>,
    /// Name of the blocking mechanism in reports.
    pub mechanism: String,
    /// Notices for the user about that machine.
    pub notices: Vec<String>,
}

/// Properties of another machine that a scheduler needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Number of cores.
    pub cores: u32,
    /// Peak and saturation of its memories together.
    pub bus: Bus,
    /// Peak bandwidth of each of its media, in the order of [`RunOptions::media`].
    pub medium_peaks: [Option<BytesPerSec>; MAX_MEDIA],
}

/// A batch that was checked for another machine and has not started.
pub struct Prepared<'a>(Plan<'a>);

impl<'a> Prepared<'a> {
    /// Checks a batch that will run on another machine. Only options that do not concern a machine
    /// count; [`RunOptions::media`] must be the media of the other machine.
    ///
    /// # Errors
    /// As those of [`check`].
    pub fn new(batch: &'a Batch, options: &'a RunOptions, frame: &Frame) -> Result<Self, RunError> {
        Plan::elsewhere(batch, options, frame).map(Self)
    }

    /// The jobs' programs, as absolute paths in the order of the batch.
    #[must_use]
    pub fn programs(&self) -> &[std::path::PathBuf] {
        &self.0.programs
    }

    /// Placements of the jobs' pages, for the jobs that have one.
    #[must_use]
    pub fn placements(&self) -> HashMap<JobId, Placement> {
        self.0.placed()
    }

    /// Runs the batch with the loop, the decisions and the report of [`run_batch`].
    ///
    /// # Errors
    /// As those of [`run_batch`].
    pub fn run(
        self,
        surroundings: Surroundings<'_>,
        observer: &mut dyn Observer,
    ) -> Result<BatchReport, RunError> {
        let output = Output::create(&self.0)?;
        let Surroundings { world, blocker, meter, mechanism, notices } = surroundings;
        self.0.drive(
            Equipment { world, blocker, meter: Some(meter), mechanism, notices },
            output,
            observer,
        )
    }
}

/// Output files of a batch.
struct Output {
    logs: Logs,
    timeline: Option<Timeline>,
}

impl Output {
    fn create(plan: &Plan<'_>) -> Result<Self, RunError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| RunError::Output { path, source }
        };
        let directory = &plan.options.logs;
        let timeline =
            |(path, format): &(PathBuf, _)| Timeline::create(path, *format).map_err(failed(path));
        Ok(Self {
            logs: Logs::create(directory).map_err(failed(directory))?,
            timeline: plan.timeline.as_ref().map(timeline).transpose()?,
        })
    }
}

/// The mechanisms that drive a batch.
struct Equipment<'a> {
    world: &'a mut dyn World,
    blocker: Box<dyn Blocker>,
    meter: Option<Box<dyn Meter>>,
    mechanism: String,
    /// Notices for the user about the above.
    notices: Vec<String>,
}

impl Plan<'_> {
    /// Runs the batch on this machine.
    fn run(self, observer: &mut dyn Observer) -> Result<BatchReport, RunError> {
        let Chosen { meter, reason, notices: of_meter } = self.meter()?;
        let output = Output::create(&self)?;
        let mut told = leftovers::clean();
        // From here on a signal must end the jobs in an orderly way.
        let mut world = Live::new().map_err(|source| RunError::Os {
            what: "preparing to wait for events".to_owned(),
            source,
        })?;
        let Opened { blocker, notices } =
            blocker::open(self.options.mechanism, "run", &self.options.guardian)?;
        let mechanism = blocker.mechanism();
        match &meter {
            Some(meter) => {
                observer.event(Event::MeterChosen { kind: meter.kind(), reason: &reason });
            }
            None => told.push(reason),
        }
        let why = match self.options.mechanism {
            Some(_) => "it was asked for",
            None => "it is the first that works here",
        };
        observer.event(Event::MechanismChosen { mechanism, reason: why });
        told.extend(meter.as_ref().map(|meter| meter.capabilities().caveats).unwrap_or_default());
        told.extend(of_meter);
        told.extend(notices);
        let mechanism = mechanism.to_string();
        let world = &mut world;
        self.drive(Equipment { world, blocker, meter, mechanism, notices: told }, output, observer)
    }

    fn drive(
        self,
        equipment: Equipment<'_>,
        Output { logs, timeline }: Output,
        observer: &mut dyn Observer,
    ) -> Result<BatchReport, RunError> {
        let Equipment { world, blocker, meter, mechanism, notices } = equipment;
        let mut told = self.notices.clone();
        told.extend(notices);
        for notice in &told {
            observer.event(Event::Notice(notice));
        }
        let kind = meter.as_ref().map(|meter| meter.kind());
        let config = self.scheduler_config(meter.as_deref());
        let predictor = config.predictor.to_string();
        let expected: Vec<_> = self.knowledge.jobs.iter().map(|known| known.time).collect();
        let used_before = own_cpu_time();
        let (scheduler, decisions) = self.scheduler(config)?;
        let books = Engine::new(Parts {
            batch: self.batch,
            rules: Rules {
                quantum: self.options.quantum,
                on_exit: self.options.on_exit,
                on_failure: self.options.on_failure,
            },
            specs: self.knowledge.specs(self.batch),
            scheduler,
            blocker,
            meter,
            world,
            starter: self.starter(logs.clone()),
            cores: (self.pinning == Pinning::OneJobPerCore)
                .then(|| CoreMap::new(self.cpus.clone())),
            ledger: Ledger::new(self.batch, &expected, self.cores(), self.options.quantum),
            timeline,
            decisions,
            media: self.options.media.clone(),
            observer,
        })
        .run()?;
        told.extend(books.notices.iter().cloned());
        Ok(BatchReport {
            predictor,
            meter: kind.map_or("none", MeterKind::name).to_owned(),
            mechanism,
            scheduler_s: (own_cpu_time().saturating_sub(used_before)).as_secs_f64(),
            notices: told,
            ..self.report(&books, &logs)
        })
    }

    fn meter(&self) -> Result<Chosen, RunError> {
        meters::choose(self)
    }

    fn scheduler_config(&self, meter: Option<&dyn memweir_linux::Meter>) -> SchedulerConfig {
        SchedulerConfig {
            policy: self.policy.clone(),
            predictor: self.options.predictor.unwrap_or(meters::default_predictor(meter)),
            cores: self.cores(),
            quantum: self.options.quantum,
            bus: self.bus,
            target: self.target.clone(),
            media: self.options.media.clone(),
            medium_peaks: self.medium_peaks,
            // Part of the policy's name by now.
            core_use: CoreUse::All,
            seed: self.options.seed,
        }
    }

    /// Creates the scheduler, and the log of its decisions if one was requested.
    fn scheduler(
        &self,
        config: SchedulerConfig,
    ) -> Result<(RecordingScheduler, Option<DecisionLog>), RunError> {
        let scheduler = QuantumScheduler::new(config.clone())
            .map_err(|error| InputError::new("run", error.to_string()).key("policy"))?;
        let Some(path) = &self.options.record else {
            return Ok((RecordingScheduler::silent(scheduler), None));
        };
        let names = self.batch.jobs.iter().map(|job| job.name.clone()).collect();
        let log = DecisionLog::create(path, &Header::new(config, names))
            .map_err(|source| RunError::Output { path: path.clone(), source })?;
        Ok((RecordingScheduler::recording(scheduler), Some(log)))
    }

    /// Traffic of all jobs by medium; empty if the media were not told apart.
    fn media(&self, books: &BatchResult) -> Vec<MediumReport> {
        let media = &self.options.media;
        if media.len() == 1 || !books.sees.as_ref().is_some_and(|sees| sees.media) {
            return Vec::new();
        }
        let jobs = (0..self.batch.jobs.len() as u32).map(JobId);
        let total = jobs.fold(Counts::default(), |sum, job| sum + books.ledger.counts(job));
        let medium = |(id, medium): (MediumId, &Medium)| MediumReport {
            name: medium.name.clone(),
            kind: medium.kind,
            gamma: media.gamma(id),
            delta: media.delta(id),
            memory_reads: total.traffic(id).reads.0,
            memory_writes: total.traffic(id).writes.0,
        };
        media.iter().map(medium).collect()
    }

    fn starter(&self, logs: Logs) -> Starter {
        Starter {
            programs: self.programs.clone(),
            cpus: self.batch.jobs.iter().map(|job| self.cpus_of(job)).collect(),
            bound: HashMap::new(),
            logs,
        }
    }

    /// Builds the report, except for what only the run knows.
    fn report(&self, books: &BatchResult, logs: &Logs) -> BatchReport {
        let bandwidths = books.ledger.bandwidths();
        let highest = bandwidths.iter().copied().fold(BytesPerSec::ZERO, BytesPerSec::max);
        let rates: Vec<f64> = bandwidths.iter().map(|rate| rate.0).collect();
        let media = self.media(books);
        let job = |(index, job): (usize, &crate::jobs::Job)| JobReport {
            name: job.name.clone(),
            command: job
                .command
                .argv()
                .iter()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            profile: self.knowledge.jobs[index].source.clone(),
            stdout: Some(logs.stdout_path(&job.name)),
            stderr: Some(logs.stderr_path(&job.name)),
            media: match media.is_empty() {
                true => Vec::new(),
                false => {
                    let counts = books.ledger.counts(JobId(index as u32));
                    MediumLines::of(&counts, &self.options.media)
                }
            },
            ..books.ledger.job_report(JobId(index as u32), books.sees.as_ref())
        };
        BatchReport {
            policy: match self.pinning {
                Pinning::ByHand => self.options.policy.clone(),
                _ => self.policy.clone(),
            },
            predictor: String::new(),
            meter: String::new(),
            mechanism: String::new(),
            cores: self.cores(),
            quantum_ms: self.options.quantum.0 / 1_000_000,
            turnaround_s: books.ledger.turnaround(books.outcome, books.ended).as_secs_f64(),
            scheduler_s: 0.0,
            bandwidth_mean: metrics::mean(&rates),
            bandwidth_std: metrics::std_deviation(&rates),
            quanta: books.ledger.quanta(),
            bandwidth_breakdown: breakdown(bandwidths, self.bus.peak.unwrap_or(highest)),
            ideal_average_bandwidth: books.ideal_average.map(|rate| rate.0),
            target: books.target.map(|rate| rate.0),
            peak_bandwidth: self.bus.peak.map(|rate| rate.0),
            outcome: books.outcome,
            notices: Vec::new(),
            lost: books.lost.clone(),
            jobs: self.batch.jobs.iter().enumerate().map(job).collect(),
            media,
        }
    }
}

/// CPU time that this process has used; zero where the kernel does not say.
fn own_cpu_time() -> Nanos {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Nanos::ZERO, |time| {
        Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    })
}

/// Shares of the quanta per band of bandwidth; empty where nothing was counted.
fn breakdown(bandwidths: &[BytesPerSec], peak: BytesPerSec) -> Vec<Band> {
    if bandwidths.is_empty() || peak <= BytesPerSec::ZERO {
        return Vec::new();
    }
    metrics::bandwidth_breakdown(bandwidths, peak, BANDS)
        .into_iter()
        .map(|band| Band { from: band.from.0, to: band.to.map(|to| to.0), share: band.share })
        .collect()
}
