//! The daemon as a whole: its lock, its mechanisms and its loop.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_core::input::InputError;
use memweir_linux::blocker::{self, BandwidthLimits, Mechanism, Opened};
use memweir_linux::meter::perf::PerfOpenError;
use memweir_linux::meter::{OpenedMeter, native};
use memweir_linux::notify::{ServiceState, notify};
use memweir_linux::peer::{Credentials, UserGroup};
use memweir_linux::topology::allowed_cpus;
use memweir_linux::world::Live;
use memweir_linux::{Meter, OsError, leftovers};
use memweir_policy::policies::Objective;
use memweir_policy::record::RecordingScheduler;
use memweir_policy::{QuantumLoop, QuantumScheduler, SchedulerConfig, policies};
use memweir_run::batch::{Mechanisms, RunError, default_predictor, native_options};
use memweir_run::observer::{Event, Observer};
use memweir_run::options::{self, RunOptions};
use memweir_run::platform::Platform;

use crate::attempt::Attempts;
use crate::backend::QueueBackend;
use crate::profiles::{Keeper, Profiles};
use crate::queue::{Capacity, Retention};
use crate::recovery::recover;
use crate::server::Server;
use crate::service::{Facts, Service};
use crate::store::{Store, StoreError};

/// Cores' worth of jobs per core that take turns where a meter counts.
const TURNS: u32 = 2;

/// Objective if none is named. The turnaround of a queue is no aim: jobs come and go, and each of
/// their submitters waits for one.
const DEFAULT_OBJECTIVE: Objective = Objective::Slowdown;

/// Longest wait for a lock. A state directory may stay locked after the death of a daemon: a
/// process that it was about to start has the lock, too, until it notices.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// Options of a daemon.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Socket for clients.
    pub socket: PathBuf,
    /// State directory.
    pub state: PathBuf,
    /// Cores' worth of jobs that are started and take turns; twice the cores where a meter counts,
    /// otherwise as many as cores.
    pub admit: Option<u32>,
    /// Ended jobs that are kept.
    pub retention: Retention,
    /// Most unfinished jobs of one user but root and the user of the daemon.
    pub user_jobs: u32,
    /// Group whose members command all jobs, as root does; for the daemon of root alone.
    pub operators: Option<UserGroup>,
    /// Options that a batch has as well. Those of single jobs and of reports do not count.
    pub run: RunOptions,
}

/// Error that kept a daemon from starting, or ended it.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A batch would have failed as well.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The queue cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another daemon uses the state directory.
    #[error(
        "{state}: another daemon uses it; stop that one, or name another directory with --state",
        state = state.display()
    )]
    InUse {
        /// The state directory.
        state: PathBuf,
    },
    /// A file, a socket or another resource of the operating system cannot be used.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Returns the conversion of the operating system's error in the use of a file or socket.
fn at(path: &Path) -> impl FnOnce(io::Error) -> OsError {
    OsError::of(path.display().to_string())
}

/// The state directory of this daemon, which no other daemon can use until this is dropped.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "closing the file gives the lock back")] File);

/// Takes the state directory, making it if it is missing.
///
/// # Errors
/// If another daemon uses it, it cannot be made, or the options are for another kind of daemon.
pub fn claim(options: &DaemonOptions) -> Result<Claim, DaemonError> {
    if options.operators.is_some() && !Credentials::of_this_process().is_root() {
        let refusal = InputError::new("daemon", "the daemon of a user serves that user alone");
        let help = "leave it out, or start the daemon as root";
        return Err(RunError::from(refusal.key("operators").help(help)).into());
    }
    lock(&options.state).map(Claim)
}

/// Runs the queue of a state directory until a signal ends the daemon; its jobs run on.
///
/// `ready` is called once clients can connect. Signals that end the daemon must be blocked in all
/// other threads of the caller.
///
/// # Errors
/// If the daemon cannot start, or can no longer wait for events. No job stays blocked then.
pub fn run(
    _claim: Claim,
    options: &DaemonOptions,
    observer: &mut dyn Observer,
    ready: impl FnOnce(&Service),
) -> Result<(), DaemonError> {
    let owner = Credentials::of_this_process().user;
    let store = Store::open(&options.state.join("queue.sqlite"))?;
    let attempts = Attempts::new(&options.state);
    attempts.create().map_err(at(&options.state))?;
    let mut told = Vec::new();
    let setup = Setup::new(options, &mut told)?;
    // Before the first thread, which inherits the blocked signals.
    let preparing = "preparing to wait for events";
    let mut world = Live::new().map_err(OsError::of(preparing))?;
    let waker = world.waker().map_err(OsError::of(preparing))?;
    let run = &options.run;
    let (Opened { blocker, notices }, no_limits) = open_blocker(run)?;
    told.extend(notices);
    observer.event(Event::BusKnown(setup.config.bus));
    if let Some(meter) = &setup.meter {
        observer.event(Event::MeterChosen { kind: meter.kind(), reason: "it counts here" });
    }
    let mechanism = blocker.mechanism().to_string();
    let facts = Facts {
        state: options.state.clone(),
        policy: setup.config.policy.clone(),
        meter: setup.meter.as_ref().map(|meter| meter.kind().to_string()),
        mechanism: mechanism.clone(),
        retention: options.retention,
        peak: setup.config.bus.peak,
        no_limits,
        operators: options.operators.clone(),
        user_jobs: Some(options.user_jobs),
    };
    let profiles = open_profiles(run, &mut told)?;
    let service = Service::open(store, setup.capacity, owner, waker, facts)?;
    let service = Arc::new(service.with_profiles(profiles));
    let keeper = keeper(&service)?;
    let (meter, world) = (setup.meter, Box::new(world));
    let mechanisms = Mechanisms::new(blocker, meter, world, mechanism, told);
    let mut backend =
        QueueBackend::new(Arc::clone(&service), mechanisms, run.quantum, keeper, observer);
    recover(&service, &mut backend).map_err(at(&options.state))?;
    // The groups of an earlier daemon are empty now, unless its jobs could not be adopted.
    leftovers::clean().into_iter().for_each(|notice| service.notice(notice));
    let server = Server::bind(&options.socket, owner).map_err(at(&options.socket))?;
    service.start_upkeep(options.retention).map_err(at(&options.state))?;
    server.start(Arc::clone(&service)).map_err(at(&options.socket))?;
    if let Err(error) = notify(ServiceState::Ready) {
        service.notice(format!("the service manager cannot be told: {error}"));
    }
    ready(&service);
    let scheduler = QuantumScheduler::new(setup.config)
        .map_err(|refusal| refusal.written_in("daemon").key("policy"))
        .map_err(RunError::from)?;
    let mut quanta = QuantumLoop::new(RecordingScheduler::silent(scheduler), run.quantum);
    let driven = quanta.run(&mut backend);
    // No job stays blocked, whatever goes wrong.
    backend.run_all();
    driven.map(drop).map_err(DaemonError::from)
}

/// Opens the mechanism that blocks jobs, with limits of their bandwidth if it can keep any.
/// Otherwise also returns the reason why not.
fn open_blocker(run: &RunOptions) -> Result<(Opened, Option<String>), RunError> {
    const GROUP: &str = "daemon";
    let limited = limits(run)?.and_then(|limits| {
        let opened = blocker::open_limited(GROUP, &run.guardian, limits);
        opened.map_err(|error| error.reasons.join("; "))
    });
    match limited {
        Ok(opened) => Ok((opened, None)),
        Err(reason) => Ok((blocker::open(run.mechanism, GROUP, &run.guardian)?, Some(reason))),
    }
}

/// Returns true if the bandwidth of jobs can be limited, for which perf events are counted.
#[must_use]
pub fn can_limit(run: &RunOptions) -> bool {
    run.mechanism == Some(Mechanism::SchedExt)
}

/// Opens the limits of the jobs' bandwidth, or returns the reason for which there can be none.
fn limits(run: &RunOptions) -> Result<Result<BandwidthLimits, String>, RunError> {
    if !can_limit(run) {
        let reason = "that needs `memweir daemon --mechanism sched-ext`";
        return Ok(Err(reason.to_owned()));
    }
    match BandwidthLimits::open(run.perf_events.as_deref()) {
        Ok(limits) => Ok(Ok(limits)),
        Err(PerfOpenError::Input(error)) => Err(error.into()),
        Err(PerfOpenError::Unavailable(probe)) => Ok(Err(probe.reason)),
    }
}

/// Opens the profile store. A store that was named must be there.
fn open_profiles(run: &RunOptions, told: &mut Vec<String>) -> Result<Option<Profiles>, RunError> {
    match Profiles::open(run.store.as_deref()) {
        Ok(profiles) => Ok(Some(profiles)),
        Err(error) if run.store.is_some() => Err(error.into()),
        Err(error) => {
            told.push(format!("profiles are neither used nor kept: {error}"));
            Ok(None)
        }
    }
}

fn keeper(service: &Arc<Service>) -> Result<Option<Keeper>, RunError> {
    let started = service.profiles().map(|_| Keeper::start(Arc::clone(service)));
    Ok(started.transpose().map_err(OsError::of("starting the thread that keeps profiles"))?)
}

/// Locks the state directory until the returned file is closed.
fn lock(state: &Path) -> Result<File, DaemonError> {
    let made = DirBuilder::new().recursive(true).mode(0o711).create(state);
    made.map_err(at(state))?;
    let path = state.join("lock");
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(at(&path))?;
    match lock_patiently(&file).map_err(at(&path))? {
        Lock::Taken => Ok(file),
        Lock::Busy => Err(DaemonError::InUse { state: state.to_owned() }),
    }
}

/// End of an attempt to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// The lock is held until the file is closed.
    Taken,
    /// Another process has had it for the whole time.
    Busy,
}

/// Locks a file, for which it waits up to [`LOCK_TIMEOUT`].
pub(crate) fn lock_patiently(file: &File) -> io::Result<Lock> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock::Taken),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_POLL);
            }
            Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
        }
    }
}

/// The choices of a daemon that depend on the machine.
struct Setup {
    config: SchedulerConfig,
    capacity: Capacity,
    meter: Option<Box<dyn Meter>>,
}

impl Setup {
    fn new(options: &DaemonOptions, told: &mut Vec<String>) -> Result<Self, RunError> {
        let run = &options.run;
        let cores = cores(run, told)?;
        let policy = options::policy(&run.policy)
            .map_err(|error| error.written_in("daemon").key("policy"))?;
        let policy = policies::with_objective(policy, run.objective.unwrap_or(DEFAULT_OBJECTIVE));
        let policy = policies::with_core_use(policy, run.core_use);
        let meter = meter(run, &policy, told)?;
        let turns = if meter.is_some() { TURNS } else { 1 };
        let admit = admit(options.admit, cores, turns, told);
        let platform = Platform::find(run.platform.as_deref(), told)?;
        let bus = platform.as_ref().map(Platform::bus).unwrap_or_default();
        told.extend(options::never_idle(&policy, run.core_use, bus.peak));
        let config = SchedulerConfig {
            policy,
            predictor: run.predictor.unwrap_or(default_predictor(meter.as_deref())),
            cores,
            machine_cores: platform.as_ref().map(|platform| platform.machine.cores),
            quantum: run.quantum,
            bus,
            target: platform.as_ref().and_then(Platform::target_curve),
            seed: run.seed,
            ..SchedulerConfig::default()
        };
        Ok(Self { config, capacity: Capacity { cores, admit }, meter })
    }
}

fn cores(run: &RunOptions, told: &mut Vec<String>) -> Result<u32, RunError> {
    let allowed = allowed_cpus().map_err(OsError::of("asking for the CPUs of this process"))?;
    let all = allowed.len();
    let Some(cores) = run.cores else { return Ok(options::within_quota(all, told) as u32) };
    let checked = options::cores(i64::from(cores), all as u32);
    checked.map_err(|error| error.written_in("daemon").key("cores").into())
}

/// Returns the cores' worth of jobs that start: as `asked`, or enough for so many turns.
fn admit(asked: Option<u32>, cores: u32, turns: u32, told: &mut Vec<String>) -> u32 {
    let wanted = asked.unwrap_or(cores.saturating_mul(turns));
    if wanted < cores {
        told.push(format!(
            "jobs start on all {cores} cores, although --admit is {wanted}; `--cores {wanted}` \
             limits them"
        ));
    }
    wanted.max(cores)
}

/// Opens the meter, if one works here. Without one, a policy knows of the jobs what is expected.
fn meter(
    run: &RunOptions,
    policy: &str,
    told: &mut Vec<String>,
) -> Result<Option<Box<dyn Meter>>, RunError> {
    let found = native(run.meter, &native_options(run, policy))?;
    if !can_limit(run) {
        let kind = found.meter.as_ref().map(|opened| opened.meter.kind());
        told.extend(options::unused_events(run.perf_events.as_deref(), kind));
    }
    if let Some(OpenedMeter { meter, description }) = found.meter {
        told.push(format!("meter {}: {description}", meter.kind()));
        return Ok(Some(meter));
    }
    let passed = found.passed_over.join("; ");
    if run.meter != memweir_linux::MeterChoice::Auto {
        let refusal = InputError::new("daemon", passed).key("meter");
        return Err(RunError::NoMeter(refusal.help("`memweir doctor` says what there is")));
    }
    told.push(format!(
        "no meter counts here, so a job's bandwidth is known from --expect-bandwidth and the \
         profile store alone: {passed}"
    ));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_until_another_process_has_noticed_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path()).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| lock(directory.path()));
            // So that it has begun to wait, most of the time.
            std::thread::sleep(5 * LOCK_POLL);
            drop(first);
            assert!(second.join().unwrap().is_ok());
        });
    }

    #[test]
    fn no_core_is_left_without_a_job_that_could_start_and_a_notice_says_so() {
        let mut told = Vec::new();
        assert_eq!(admit(None, 2, 1, &mut told), 2);
        assert_eq!(admit(None, 2, TURNS, &mut told), 4);
        assert_eq!(admit(Some(3), 2, 1, &mut told), 3);
        assert_eq!(told, [""; 0]);
        assert_eq!(admit(Some(1), 2, TURNS, &mut told), 2);
        assert!(told[0].contains("--admit is 1") && told[0].contains("`--cores 1`"), "{told:?}");
    }
}
