//! Options of a batch: a jobs file may set some of them for the whole batch, and the command line
//! overrides it.

mod cores;
mod media;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_core::cache::CacheHierarchy;
pub use memweir_core::input::Refusal;
use memweir_core::input::{Document, InputError, short};
use memweir_core::names::choose;
use memweir_core::placement::PlacementSpec;
use memweir_core::{ABSURD_BANDWIDTH, BytesPerSec, Media, Nanos};
use memweir_linux::guardian;
use memweir_linux::launch::resolve_program;
use memweir_linux::meter::MeterChoice;
use memweir_linux::qemu::QemuPaths;
use memweir_linux::{Mechanism, MeterKind};
use memweir_policy::policies::{self, AUTO_CORES, DecidesBy, Objective};
use memweir_policy::{CoreUse, PredictorKind};

use crate::files;
use crate::policy_program::{DECISION_TIMEOUT, PolicyProgram};
pub use cores::{Cores, cores_or_auto};
pub use media::{media, placed};

/// The shortest quantum: below it, switching costs a measurable share of the time.
pub const SHORTEST_QUANTUM: Nanos = Nanos::from_millis(10);
/// The longest quantum.
pub const LONGEST_QUANTUM: Nanos = Nanos::from_millis(10_000);
/// The quantum of iabw section 2.2.
pub const DEFAULT_QUANTUM: Nanos = Nanos::from_millis(100);

/// The lowest limit of a job's bandwidth: one line in each millisecond.
pub const LOWEST_LIMIT: BytesPerSec = BytesPerSec(64e3);

/// A year: a longer job is a mistake of unit.
const ABSURD_SECONDS: f64 = 365.0 * 86_400.0;

/// Argument with which the command becomes a guardian.
pub const GUARDIAN_ARGUMENT: &str = "guardian";

/// Binding of jobs to CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// None: the kernel places them on any of the batch's cores.
    #[default]
    Free,
    /// Each chosen single-core job is bound to a core of its own for the quantum.
    OneJobPerCore,
    /// Each job is bound to the `cpus` of the jobs file for its whole life.
    ByHand,
}

/// Treatment of the jobs when memweir is told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExit {
    /// They get SIGTERM, and two seconds later SIGKILL.
    #[default]
    Kill,
    /// They are thawed and left running.
    Release,
}

/// Treatment of the batch when a job fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It goes on.
    #[default]
    Continue,
    /// It ends; the other jobs are killed.
    FailFast,
}

/// Files that the software meter needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoftwareMeterOptions {
    /// The emulator and its plugin.
    pub qemu: QemuPaths,
    /// A file with the cache geometry; that of the machine if absent.
    pub caches: Option<PathBuf>,
}

/// The policy of a run that names none.
pub const DEFAULT_POLICY: &str = "max-weight";

/// Options of a run: everything that determines it but the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// A name of [`policy_names`], or of a program.
    pub policy: String,
    /// Policies in other processes, which `policy` may name.
    pub programs: Vec<PolicyProgram>,
    /// Time limit of a decision of theirs.
    pub decision_timeout: Duration,
    /// Objective of a policy that can follow several; the default one if absent.
    pub objective: Option<Objective>,
    /// The predictor; the default of `memweir-policy` if absent.
    pub predictor: Option<PredictorKind>,
    /// The meter, or the rule to choose one.
    pub meter: MeterChoice,
    /// The blocking mechanism; the first that works if absent.
    pub mechanism: Option<Mechanism>,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// Cores that the batch may use; all allowed ones if absent.
    pub cores: Option<u32>,
    /// Rule for filling them.
    pub core_use: CoreUse,
    /// Binding of jobs to CPUs.
    pub pinning: Pinning,
    /// Treatment of the jobs when memweir is told to end.
    pub on_exit: OnExit,
    /// Treatment of the batch when a job fails.
    pub on_failure: OnFailure,
    /// Directory for the jobs' output, made if it does not exist.
    pub logs: PathBuf,
    /// The run's own directory below `logs`; empty for a single run.
    pub logs_of_run: PathBuf,
    /// File for one row per job and quantum, Parquet or CSV by its ending.
    pub timeline: Option<PathBuf>,
    /// Seed of everything random.
    pub seed: u64,
    /// The calibration of this machine; the one in the XDG data directory if absent.
    pub platform: Option<PathBuf>,
    /// The profile store; the one in the XDG data directory if absent.
    pub store: Option<PathBuf>,
    /// Command of the process that resumes the jobs if this one dies: a program that calls
    /// [`memweir_linux::guardian::main`]. By default this program with the argument
    /// [`GUARDIAN_ARGUMENT`].
    pub guardian: guardian::Command,
    /// The software meter's files.
    pub software: SoftwareMeterOptions,
    /// A file of perf events to use instead of the built-in table.
    pub perf_events: Option<PathBuf>,
    /// The media that counts tell apart.
    pub media: Media,
    /// Placement of the pages of jobs without a placement of their own; local DRAM if absent.
    pub placement: Option<PlacementSpec>,
    /// File for the scheduler's configuration and every decision, to be replayed.
    pub record: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            policy: DEFAULT_POLICY.to_owned(),
            programs: Vec::new(),
            decision_timeout: DECISION_TIMEOUT,
            objective: None,
            predictor: None,
            meter: MeterChoice::Auto,
            mechanism: None,
            quantum: DEFAULT_QUANTUM,
            cores: None,
            core_use: CoreUse::default(),
            pinning: Pinning::default(),
            on_exit: OnExit::default(),
            on_failure: OnFailure::default(),
            logs: PathBuf::from("memweir-logs"),
            logs_of_run: PathBuf::new(),
            timeline: None,
            seed: 1,
            platform: None,
            store: None,
            guardian: guardian::Command::this_program([GUARDIAN_ARGUMENT]),
            software: SoftwareMeterOptions::default(),
            perf_events: None,
            media: Media::dram_only(),
            placement: None,
            record: None,
        }
    }
}

impl RunOptions {
    /// Returns the program that a policy names.
    #[must_use]
    pub fn program(&self, policy: &str) -> Option<&PolicyProgram> {
        self.programs.iter().find(|program| program.name == policy)
    }

    /// Checks the name of a policy of these options, and the options behind it.
    ///
    /// # Errors
    /// If there is no such policy; the refusal suggests the nearest name.
    pub fn check_policy(&self, given: &str) -> Result<String, Refusal> {
        let name = given.split(':').next().unwrap_or(given);
        let programs = self.programs.iter().map(|program| program.name.as_str());
        let names: Vec<&str> = policy_names().into_iter().chain(programs).collect();
        let name = choose("policy", name, names.iter().map(|known| (*known, *known)))?;
        if self.program(name).is_none() && name != PINNED {
            return policies::find(given).map(|_| given.to_owned());
        }
        choose("policy", given, [(name, name)]).map(str::to_owned)
    }

    /// Checks that the policy can follow the objective. In a comparison, an objective holds for
    /// those policies that have one.
    pub fn check_objective(&self) -> Result<(), InputError> {
        if self.objective.is_none() || policies::has_objectives(&self.policy) {
            return Ok(());
        }
        let reason = format!("`{}` has no objective to choose", self.policy);
        let help = format!("the policy `{DEFAULT_POLICY}` has");
        Err(Refusal::new(reason, help).written_in("run").key("objective"))
    }
}

/// Options that a jobs file sets for the whole batch. The command line overrides them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchOptions {
    /// See [`RunOptions::policy`].
    pub policy: Option<String>,
    /// See [`RunOptions::objective`].
    pub objective: Option<Objective>,
    /// See [`RunOptions::predictor`].
    pub predictor: Option<PredictorKind>,
    /// See [`RunOptions::meter`].
    pub meter: Option<MeterChoice>,
    /// See [`RunOptions::mechanism`].
    pub mechanism: Option<Mechanism>,
    /// See [`RunOptions::quantum`].
    pub quantum: Option<Nanos>,
    /// See [`RunOptions::cores`].
    pub cores: Option<u32>,
    /// See [`RunOptions::core_use`].
    pub core_use: Option<CoreUse>,
    /// See [`RunOptions::pinning`].
    pub pinning: Option<Pinning>,
    /// See [`RunOptions::on_exit`].
    pub on_exit: Option<OnExit>,
    /// See [`RunOptions::on_failure`].
    pub on_failure: Option<OnFailure>,
    /// See [`RunOptions::seed`].
    pub seed: Option<u64>,
    /// See [`RunOptions::media`].
    pub media: Option<Media>,
    /// See [`RunOptions::placement`].
    pub placement: Option<PlacementSpec>,
}

impl BatchOptions {
    /// Returns `options` with these choices on top; absent ones leave it as it is.
    #[must_use]
    pub fn over(self, options: RunOptions) -> RunOptions {
        RunOptions {
            policy: self.policy.unwrap_or(options.policy),
            objective: self.objective.or(options.objective),
            predictor: self.predictor.or(options.predictor),
            meter: self.meter.unwrap_or(options.meter),
            mechanism: self.mechanism.or(options.mechanism),
            quantum: self.quantum.unwrap_or(options.quantum),
            cores: self.cores.or(options.cores),
            core_use: self.core_use.unwrap_or(options.core_use),
            pinning: self.pinning.unwrap_or(options.pinning),
            on_exit: self.on_exit.unwrap_or(options.on_exit),
            on_failure: self.on_failure.unwrap_or(options.on_failure),
            seed: self.seed.unwrap_or(options.seed),
            media: self.media.unwrap_or(options.media),
            placement: self.placement.or(options.placement),
            ..options
        }
    }
}

/// The name under which `run` offers [`Pinning::ByHand`] as if it were a policy, so that a
/// comparison can put it beside the others.
pub const PINNED: &str = "pinned";

/// The policies by name, and [`PINNED`].
pub fn policy_names() -> Vec<&'static str> {
    policies::names().chain([PINNED]).collect()
}

/// Returns true if a policy decides by the jobs' bandwidth, so that it is useless without a meter.
#[must_use]
pub fn needs_bandwidth(policy: &str) -> bool {
    policies::find(policy).is_ok_and(|choice| choice.decides_by() != DecidesBy::Queue)
}

/// Returns true if a policy decides by the jobs' traffic with each medium.
#[must_use]
pub fn needs_media(policy: &str) -> bool {
    policies::find(policy).is_ok_and(|choice| choice.decides_by() == DecidesBy::Media)
}

/// Checks the name of a policy of memweir and the options behind it.
pub fn policy(given: &str) -> Result<String, Refusal> {
    RunOptions::default().check_policy(given)
}

/// Finds a job's program as an absolute path: on `PATH`, or, if its name has a slash, from the
/// `directory` in which the job runs.
pub fn program(name: &OsStr, directory: &Path) -> Result<PathBuf, Refusal> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if name.as_encoded_bytes().contains(&b'/') {
        resolve_program(directory.join(name).as_os_str(), &path)
    } else {
        resolve_program(name, &path)
    }
}

/// Reads a file with the caches that the software meter simulates; see [`parse_caches`].
///
/// # Errors
/// If the file cannot be read or describes no caches.
pub fn caches(path: &Path) -> Result<CacheHierarchy, InputError> {
    let name = path.display().to_string();
    parse_caches(&name, &files::text(path)?)
}

/// Reads the tables `l1d`, `l2` and `llc`, each with `size` in bytes, `ways` and `line` in bytes;
/// `name` stands in messages.
///
/// # Errors
/// If the text is not such a file; the error has the line.
pub fn parse_caches(name: &str, text: &str) -> Result<CacheHierarchy, InputError> {
    let caches: CacheHierarchy = Document { name, text }.deserialize()?;
    caches.validate().map_err(|error| InputError::new(name, error.to_string()))?;
    Ok(caches)
}

/// Checks a quantum, given in milliseconds. A value that is no number counts as too short.
pub fn quantum(milliseconds: f64) -> Result<Nanos, Refusal> {
    let quantum = Nanos::from_secs_f64(milliseconds / 1e3);
    let (wrong, help) = if quantum < SHORTEST_QUANTUM {
        ("short", "the shortest is 10 ms")
    } else if quantum > LONGEST_QUANTUM {
        ("long", "the longest is 10000 ms")
    } else {
        return Ok(quantum);
    };
    Err(Refusal::new(format!("a quantum of {milliseconds} ms is too {wrong}"), help))
}

/// Checks the time that a job is expected to take alone, given in seconds.
pub fn expected_time(seconds: f64) -> Result<Nanos, Refusal> {
    if seconds > 0.0 && seconds <= ABSURD_SECONDS {
        return Ok(Nanos::from_secs_f64(seconds));
    }
    Err(Refusal::new(
        format!("{} s is no time that a job takes", short(seconds)),
        "seconds, more than 0 and at most a year",
    ))
}

/// Checks a bandwidth that a job draws or may draw, given in bytes per second.
pub fn bandwidth(rate: f64) -> Result<BytesPerSec, Refusal> {
    if (0.0..=ABSURD_BANDWIDTH).contains(&rate) {
        return Ok(BytesPerSec(rate));
    }
    Err(Refusal::new(
        format!("{} bytes per second is no memory bandwidth", short(rate)),
        format!("bytes per second, from 0 to {ABSURD_BANDWIDTH:e}"),
    ))
}

/// Checks a limit of a job's bandwidth; 0 is none.
pub fn bandwidth_limit(rate: BytesPerSec) -> Result<Option<BytesPerSec>, Refusal> {
    if rate > BytesPerSec::ZERO && rate < LOWEST_LIMIT {
        return Err(Refusal::new(
            format!("a limit of {} bytes per second is too low", rate.0),
            "the lowest is 64e3, one line in each millisecond; 0 is no limit",
        ));
    }
    Ok(Some(rate).filter(|rate| *rate > BytesPerSec::ZERO))
}

/// Returns how many of the `allowed` CPUs the CPU quotas of the control groups around this process
/// leave, at least one, with a notice where these are fewer.
pub fn within_quota(allowed: usize, notices: &mut Vec<String>) -> usize {
    // The standard library reads the quotas of both versions of control groups.
    let quota = std::thread::available_parallelism().map_or(allowed, usize::from);
    if quota < allowed {
        notices.push(format!(
            "a CPU quota leaves jobs {quota} of {allowed} cores at a time; `--cores` takes more"
        ));
    }
    quota.min(allowed)
}

/// Refuses perf events for a meter that counts without them.
pub fn counts_events(meter: MeterKind) -> Result<(), Refusal> {
    match meter {
        MeterKind::Perf => Ok(()),
        _ => {
            let reason = format!("{meter} counts without perf events");
            Err(Refusal::new(reason, "`--events` needs the perf meter"))
        }
    }
}

/// Returns the notice about a file of perf events that the chosen meter, if there is one, does not
/// count.
#[must_use]
pub fn unused_events(file: Option<&Path>, meter: Option<MeterKind>) -> Option<String> {
    let why = match meter {
        Some(MeterKind::Perf) => return None,
        Some(kind) => format!("the meter is {kind}"),
        None => "no meter counts".to_owned(),
    };
    let file = file?.display();
    Some(format!("the perf events of {file} are not counted: {why}; `--meter perf` says why"))
}

/// Returns the notice about a placement of pages, which a meter that counts real traffic does not
/// use.
#[must_use]
pub fn unused_placement(meter: MeterKind) -> Option<String> {
    let counts = matches!(meter, MeterKind::Perf | MeterKind::Resctrl);
    let why = "counts what the pages' real places are: the placement is not used";
    counts.then(|| format!("{meter} {why}"))
}

/// Returns the notice about cores that may stay idle, by `core_use` or by the name of the policy,
/// and never do: where the policy blocks no job, or without a calibrated peak.
#[must_use]
pub fn never_idle(policy: &str, core_use: CoreUse, peak: Option<BytesPerSec>) -> Option<String> {
    let choice = policies::find(policy).ok();
    let is_named = choice.as_ref().is_some_and(|choice| choice.options.has(&AUTO_CORES));
    if core_use != CoreUse::Auto && !is_named {
        return None;
    }
    let why = match (choice, peak) {
        (Some(choice), _) if !choice.entry.options.contains(&AUTO_CORES) => {
            "the policy blocks no job"
        }
        (_, None) => {
            "without a calibrated peak nobody can say what is too much (`memweir calibrate` finds \
             it)"
        }
        _ => return None,
    };
    Some(format!("every core is filled: {why}"))
}

/// Checks a number of cores against those that this process may use.
pub fn cores(cores: i64, available: u32) -> Result<u32, Refusal> {
    match u32::try_from(cores) {
        Ok(cores) if (1..=available).contains(&cores) => Ok(cores),
        _ => Err(Refusal::new(
            format!("{cores} cores cannot be used"),
            format!("from 1 to {available} here"),
        )),
    }
}

memweir_core::named! {
    pub Pinning, "pinning":
    Free = "free",
    OneJobPerCore = "one-job-per-core",
    ByHand = "by-hand",
}

memweir_core::named! { pub OnExit, "on_exit": Kill = "kill", Release = "release" }

memweir_core::named! { pub OnFailure, "on_failure": Continue = "continue", FailFast = "fail-fast" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_not_counted_are_told() {
        let told = |meter| unused_events(Some(Path::new("e.toml")), meter);
        let declared = told(Some(MeterKind::Declared)).unwrap();
        assert!(declared.contains("e.toml are not counted: the meter is declared"), "{declared}");
        assert!(told(None).unwrap().contains("no meter counts"));
        assert_eq!(told(Some(MeterKind::Perf)), None);
        assert_eq!(unused_events(None, Some(MeterKind::Resctrl)), None);
    }

    #[test]
    fn idle_cores_that_never_come_are_told() {
        use CoreUse::{All, Auto};

        let peak = Some(BytesPerSec(1e9));
        let told = |policy, core_use, peak| never_idle(policy, core_use, peak).unwrap_or_default();
        let unblocked = "every core is filled: the policy blocks no job";
        assert_eq!(told("os", Auto, peak), unblocked);
        for policy in ["random", "random:auto-cores", "a-program"] {
            assert!(told(policy, Auto, None).contains("without a calibrated peak"), "{policy}");
            assert_eq!(told(policy, Auto, peak), "");
        }
        assert!(told("random:auto-cores", All, None).contains("without a calibrated peak"));
        for policy in ["os", "random"] {
            assert_eq!(told(policy, All, None), "");
        }
    }

    #[test]
    fn a_placement_is_for_meters_that_pretend() {
        assert!(unused_placement(MeterKind::Perf).unwrap().starts_with("perf counts what"));
        assert_eq!(unused_placement(MeterKind::Software), None);
        assert_eq!(unused_placement(MeterKind::Declared), None);
    }
}
