//! Choosing a mechanism by trying it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_core::JobId;
use memweir_scx::{Budgets, Scheduler};

use super::cgroup::CgroupBlocker;
use super::limits::BandwidthLimits;
use super::processes;
use super::sched_ext::{LONG_WAIT, SchedExtBlocker};
use super::sigstop::SigstopBlocker;
use super::{Blocker, Mechanism, SpawnTarget};
use crate::cgroup::{self, HierarchyKind, Version, locate, names};
use crate::files::{Files, KernelFiles};
use crate::guardian::{self, Guard};
use crate::launch::{Launch, Newborn, launch, limits};
use crate::owner::Owner;
use crate::probe::Probe;
use crate::scheduling_class;

/// Longest wait of a trial for the kernel to confirm that a process stopped. On a busy machine this
/// can take a second.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A blocker, ready for jobs.
pub struct Opened {
    /// The blocker.
    pub blocker: Box<dyn Blocker>,
    /// Messages for the user: mechanisms that were passed over, with the reasons.
    pub notices: Vec<String>,
}

/// No mechanism works here, or the requested one does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no way to block jobs: {}", self.reasons.join("; "))]
pub struct OpenError {
    /// Reasons, one per mechanism that was tried.
    pub reasons: Vec<String>,
    /// A way to enable the best one.
    pub help: Option<String>,
}

/// Opens the blocker of `forced`, or of the first mechanism that works here, in the order cgroup
/// v2, SIGSTOP, cgroup v1. The BPF scheduler must be forced: a machine takes one at a time, and
/// ordinary programs come before its tasks.
///
/// `batch_name` is part of the groups' names; `guardian` is the command of the process that resumes
/// the jobs if this one dies.
///
/// # Errors
///
/// If no mechanism that was tried works; the reasons name each.
pub fn open(
    forced: Option<Mechanism>,
    batch_name: &str,
    guardian: &guardian::Command,
) -> Result<Opened, OpenError> {
    let order = match forced {
        Some(mechanism) => vec![mechanism],
        None => vec![Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::CgroupV1],
    };
    let (mut reasons, mut help) = (Vec::new(), None);
    for mechanism in order {
        let opened = match mechanism {
            Mechanism::CgroupV2 => open_group(Version::V2, batch_name, guardian).map(Opened::from),
            Mechanism::CgroupV1 => open_group(Version::V1, batch_name, guardian).map(Opened::from),
            Mechanism::Sigstop => open_sigstop(guardian),
            Mechanism::SchedExt => open_sched_ext(batch_name, guardian, None),
        };
        match opened {
            Ok(mut opened) => {
                let passed_over = reasons
                    .iter()
                    .map(|reason| format!("blocking with {mechanism}, because {reason}"));
                opened.notices.extend(passed_over);
                return Ok(opened);
            }
            Err(missing) => {
                reasons.push(reason_of(mechanism, &missing));
                help = help.or(missing.help);
            }
        }
    }
    Err(OpenError { reasons, help })
}

/// Opens the blocker over the BPF scheduler, the only one that limits the bandwidth of jobs.
///
/// # Errors
///
/// If it does not work here.
pub fn open_limited(
    batch_name: &str,
    guardian: &guardian::Command,
    limits: BandwidthLimits,
) -> Result<Opened, OpenError> {
    open_sched_ext(batch_name, guardian, Some(limits)).map_err(|missing| OpenError {
        reasons: vec![reason_of(Mechanism::SchedExt, &missing)],
        help: missing.help,
    })
}

/// Tries a mechanism on a trial process and leaves nothing behind.
#[must_use]
pub fn probe(mechanism: Mechanism) -> Probe {
    let tried = match mechanism {
        Mechanism::CgroupV2 => probe_group(Version::V2),
        Mechanism::CgroupV1 => probe_group(Version::V1),
        Mechanism::Sigstop => try_sigstop().map(|()| {
            "signals stop and continue processes; other threads of a process stop late, and \
             processes that leave their session can be missed"
                .to_owned()
        }),
        Mechanism::SchedExt => try_sched_ext().map(|()| {
            "a BPF scheduler can be loaded and takes tasks; ordinary programs come before them"
                .to_owned()
        }),
    };
    tried.map_or_else(|missing| missing, Probe::available)
}

/// The reason why a mechanism does not work.
fn reason_of(mechanism: Mechanism, missing: &Probe) -> String {
    format!("{mechanism} does not work here: {}", missing.reason)
}

/// Opens the SIGSTOP blocker. Jobs and guardian stay in memweir's own groups: SIGKILL ends a
/// stopped process.
fn open_sigstop(guardian: &guardian::Command) -> Result<Opened, Probe> {
    let guard = start_guardian(guardian, Vec::new()).map_err(Probe::missing)?;
    Ok(Opened { blocker: Box::new(SigstopBlocker::new(guard)), notices: Vec::new() })
}

fn start_guardian(
    command: &guardian::Command,
    homes: Vec<PathBuf>,
) -> Result<Box<dyn Guard>, String> {
    let started = guardian::start(command, homes).map_err(|error| error.to_string())?;
    Ok(Box::new(started))
}

/// Opens the blocker over a BPF scheduler, which takes the groups of the v2 freezer.
fn open_sched_ext(
    batch: &str,
    guardian: &guardian::Command,
    limits: Option<BandwidthLimits>,
) -> Result<Opened, Probe> {
    let scheduler = load_scheduler(if limits.is_some() { Budgets::On } else { Budgets::Off })?;
    let OpenedGroup { blocker, notices } = open_group(Version::V2, batch, guardian)?;
    let files = Arc::new(KernelFiles);
    let blocker = SchedExtBlocker::new(scheduler, blocker, files, LONG_WAIT, limits);
    Ok(Opened { blocker: Box::new(blocker), notices })
}

fn load_scheduler(budgets: Budgets) -> Result<Box<dyn Scheduler>, Probe> {
    memweir_scx::load(budgets).map_err(|error| Probe {
        help: error.help().map(str::to_owned),
        ..Probe::missing(error.to_string())
    })
}

/// Loads a scheduler and gives it a process.
fn try_sched_ext() -> Result<(), Probe> {
    let scheduler = load_scheduler(Budgets::Off)?;
    let newborn = trial_process(&SpawnTarget::Session).map_err(Probe::missing)?;
    let entered = scheduling_class::enter(newborn.pid());
    entered.map_err(|error| Probe::missing(format!("the policy SCHED_EXT: {error}")))?;
    match scheduler.ended() {
        Some(ended) => Err(Probe::missing(format!("the kernel ended the scheduler: {ended}"))),
        None => Ok(()),
    }
}

/// A blocker over groups, with the notices of [`Opened`].
struct OpenedGroup {
    blocker: CgroupBlocker,
    notices: Vec<String>,
}

impl From<OpenedGroup> for Opened {
    fn from(opened: OpenedGroup) -> Self {
        Self { blocker: Box::new(opened.blocker), notices: opened.notices }
    }
}

fn open_group(
    version: Version,
    batch: &str,
    guardian: &guardian::Command,
) -> Result<OpenedGroup, Probe> {
    let name = group_name(batch)?;
    // Each leaf's switch is one file, next to what a job needs itself (its end, logs, counters).
    let handles = usize::try_from(limits::raise_open_files() / 8).unwrap_or(usize::MAX);
    let mut notices = Vec::new();
    let first = first_that_works(version, |place| {
        let parent = place.join(&name);
        // The guardian starts first: not even the trial's group may outlive this process.
        let guard = match version {
            Version::V2 => start_guardian(guardian, vec![names::home(place, &name)])?,
            Version::V1 => start_guardian_outside(guardian, &name, &mut notices)?,
        };
        let mut blocker =
            CgroupBlocker::new(Arc::new(KernelFiles), version, parent.clone(), guard, handles)
                .map_err(|error| error.to_string())?;
        try_group(&KernelFiles, version, &parent, || {
            blocker.prepare(TRIAL).map_err(|error| error.to_string())
        })?;
        blocker.retire(TRIAL).map_err(|error| error.to_string())?;
        if version == Version::V2 {
            let own = locate(HierarchyKind::Unified).ok().flatten().and_then(|found| found.own);
            blocker.weigh_parent(own.as_deref());
        }
        Ok(blocker)
    })?;
    if version == Version::V2 && !first.passed_over.is_empty() {
        notices.push(format!(
            "jobs run in {}, outside of memweir's own group, so that its limits do not hold for \
             them: {}",
            first.place.display(),
            first.passed_over.join("; ")
        ));
    }
    Ok(OpenedGroup { blocker: first.value, notices })
}

/// Starts the guardian of jobs that the v1 freezer blocks. They share the other groups of memweir
/// and die of a kill of one only when they are thawed, so the guardian lives outside of the
/// hierarchies through which whole groups are killed: the unified one and that of systemd.
fn start_guardian_outside(
    command: &guardian::Command,
    name: &str,
    notices: &mut Vec<String>,
) -> Result<Box<dyn Guard>, String> {
    let exposed = |kind| {
        let hierarchy = locate(kind).ok().flatten()?;
        (hierarchy.own.as_ref() != Some(&hierarchy.top)).then_some(hierarchy.top)
    };
    let homes: Vec<PathBuf> = [HierarchyKind::Unified, HierarchyKind::Systemd]
        .into_iter()
        .filter_map(exposed)
        .map(|top| names::home(&top, name))
        .collect();
    start_guardian(command, homes).or_else(|reason| {
        notices.push(format!(
            "the guardian stays in memweir's own group, and a kill of that group leaves jobs \
             frozen until memweir is started again: {reason}"
        ));
        start_guardian(command, Vec::new())
    })
}

/// Id of the trial job. No jobs file is that long.
const TRIAL: JobId = JobId(u32::MAX);

fn probe_group(version: Version) -> Result<String, Probe> {
    let files = KernelFiles;
    let name = group_name("probe")?;
    let first = first_that_works(version, |place| {
        let parent = &place.join(&name);
        files
            .create_dir(parent)
            .map_err(|error| format!("making {}: {error}", parent.display()))?;
        let leaf = parent.join("trial");
        let target = || {
            files.create_dir(&leaf).map_err(|error| error.to_string())?;
            match version {
                Version::V2 => files
                    .open_dir(&leaf)
                    .map(SpawnTarget::CgroupV2)
                    .map_err(|error| error.to_string()),
                Version::V1 => Ok(SpawnTarget::CgroupV1(leaf.clone())),
            }
        };
        let tried = try_group(&files, version, parent, target);
        let removed = cgroup::remove_tree_patiently(&files, parent)
            .map_err(|error| format!("removing {}: {error}", parent.display()));
        tried.and(removed)
    })?;
    Ok(format!("groups can be made, frozen and removed in {}", first.place.display()))
}

fn group_name(batch: &str) -> Result<String, Probe> {
    let owner =
        Owner::current().map_err(|error| Probe::missing(format!("reading /proc: {error}")))?;
    Ok(names::new_group(&owner, batch))
}

/// The best place for an owned group.
struct First<T> {
    value: T,
    place: PathBuf,
    /// Reasons why better places do not work.
    passed_over: Vec<String>,
}

/// Tries the places where an owned group may be, best first.
fn first_that_works<T>(
    version: Version,
    mut attempt: impl FnMut(&Path) -> Result<T, String>,
) -> Result<First<T>, Probe> {
    let hierarchy = locate(version.into())
        .map_err(|error| Probe::missing(format!("reading /proc/self/mountinfo: {error}")))?
        .ok_or_else(|| not_mounted(version))?;
    let mut reasons = Vec::new();
    for place in hierarchy.candidates() {
        match attempt(&place) {
            Ok(value) => return Ok(First { value, place, passed_over: reasons }),
            Err(reason) => reasons.push(reason),
        }
    }
    let help = match version {
        Version::V2 => {
            "run as root, or in a delegated group: \
             systemd-run --user --scope -p Delegate=yes memweir ..."
        }
        Version::V1 => "run as root",
    };
    Err(Probe::missing(reasons.join("; ")).help(help))
}

fn not_mounted(version: Version) -> Probe {
    match version {
        Version::V2 => Probe::missing("no cgroup v2 hierarchy is mounted")
            .help("mount -t cgroup2 none /sys/fs/cgroup/unified"),
        Version::V1 => {
            Probe::missing("no cgroup v1 hierarchy with the freezer is mounted (v2 replaces it)")
        }
    }
}

/// Spawns a process in a leaf of `parent`, freezes the parent until the process has stopped, thaws
/// it and ends the process.
fn try_group(
    files: &dyn Files,
    version: Version,
    parent: &Path,
    target: impl FnOnce() -> Result<SpawnTarget, String>,
) -> Result<(), String> {
    let newborn = trial_process(&target()?)?;
    let switch = parent.join(version.switch());
    let says = |error: io::Error| format!("{}: {error}", switch.display());
    files.write(&switch, version.frozen()).map_err(says)?;
    let stopped = wait_until(|| {
        let (file, word) = match version {
            Version::V2 => ("cgroup.events", "frozen 1"),
            Version::V1 => ("freezer.state", "FROZEN"),
        };
        files.read(&parent.join(file)).is_ok_and(|text| text.lines().any(|line| line == word))
    });
    files.write(&switch, version.thawed()).map_err(says)?;
    drop(newborn);
    if stopped { Ok(()) } else { Err(format!("{} does not freeze", parent.display())) }
}

fn try_sigstop() -> Result<(), Probe> {
    let newborn = trial_process(&SpawnTarget::Session).map_err(Probe::missing)?;
    let pid = newborn.pid();
    let send = |signal| KernelFiles.signal(pid, signal);
    let is_stopped = || processes::stat(pid).is_ok_and(|stat| stat.is_stopped());
    send(libc::SIGSTOP).map_err(|error| Probe::missing(format!("SIGSTOP: {error}")))?;
    let stopped = wait_until(is_stopped);
    send(libc::SIGCONT).map_err(|error| Probe::missing(format!("SIGCONT: {error}")))?;
    let resumed = wait_until(|| !is_stopped());
    if stopped && resumed {
        Ok(())
    } else {
        Err(Probe::missing("a process does not stop at SIGSTOP and continue at SIGCONT"))
    }
}

/// Spawns a process that waits at its gate forever.
fn trial_process(target: &SpawnTarget) -> Result<Newborn, String> {
    let description = Launch::silent(PathBuf::from("/proc/self/exe"), vec!["trial".into()])
        .map_err(|error| format!("opening /dev/null: {error}"))?;
    launch(&description, target).map_err(|error| error.to_string())
}

fn wait_until(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + STOP_TIMEOUT;
    let mut pause = Duration::from_micros(200);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}
