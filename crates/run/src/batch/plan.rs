//! Everything about a batch that is checked, found and read before anything starts.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use memweir_core::input::InputError;
use memweir_core::placement::Placement;
use memweir_core::{BytesPerSec, JobId, MAX_MEDIA};
use memweir_linux::blocker::BandwidthLimits;
use memweir_linux::meter::perf::PerfOpenError;
use memweir_linux::qemu::Program;
use memweir_linux::topology::allowed_cpus;
use memweir_linux::{Mechanism, MeterChoice, OsError};
use memweir_policy::policies;
use memweir_policy::{Bus, LineCosts, TargetCurve};

use super::RunError;
use super::known::{Knowledge, find_programs};
use crate::jobs::{Batch, Job};
use crate::options::{self, PINNED, Pinning, RunOptions};
use crate::platform::Platform;
use crate::store::Store;
use crate::table::Format;

/// A batch that was checked and has not started.
pub struct Plan<'a> {
    pub(super) batch: &'a Batch,
    pub(super) options: &'a RunOptions,
    /// Name in the table of policies, or of a program.
    pub(super) policy: String,
    pub(super) pinning: Pinning,
    pub(super) programs: Vec<PathBuf>,
    pub(super) frame: Frame,
    pub(super) knowledge: Knowledge,
    /// Placement of each job's pages, where one was given.
    pub(super) placements: Vec<Option<Placement>>,
    pub(super) timeline: Option<(PathBuf, Format)>,
    pub(super) notices: Vec<String>,
}

/// Properties of the machine that a batch runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// CPUs that the batch may use.
    pub(super) cpus: Vec<usize>,
    /// True if these are fewer than memweir itself may use.
    pub(super) restricted: bool,
    /// Cores that share the peak of `bus`, where it is known.
    pub(super) machine_cores: Option<u32>,
    pub(super) bus: Bus,
    pub(super) medium_peaks: [Option<BytesPerSec>; MAX_MEDIA],
    pub(super) line_costs: [LineCosts; MAX_MEDIA],
    pub(super) target: Option<TargetCurve>,
}

impl Frame {
    /// Describes another machine: the cores that the batch may use, those that share the peaks,
    /// peak and saturation of its memories together, and the peak bandwidth and the costs of lines
    /// of each of its media, in the order of [`RunOptions::media`].
    #[must_use]
    pub fn elsewhere(
        cores: u32,
        machine_cores: Option<u32>,
        bus: Bus,
        medium_peaks: [Option<BytesPerSec>; MAX_MEDIA],
        line_costs: [LineCosts; MAX_MEDIA],
    ) -> Self {
        let cpus = (0..cores as usize).collect();
        Self { cpus, restricted: false, machine_cores, bus, medium_peaks, line_costs, target: None }
    }

    fn here(options: &RunOptions, notices: &mut Vec<String>) -> Result<Self, RunError> {
        let (cpus, restricted) = cpus(options, notices)?;
        let platform = Platform::find(options.platform.as_deref(), notices)?;
        Ok(Self {
            cpus,
            restricted,
            machine_cores: platform.as_ref().map(|platform| platform.machine.cores),
            bus: platform.as_ref().map(Platform::bus).unwrap_or_default(),
            medium_peaks: [None; MAX_MEDIA],
            line_costs: Default::default(),
            target: platform.as_ref().and_then(Platform::target_curve),
        })
    }
}

impl<'a> Plan<'a> {
    /// Opens the limits of the jobs' bandwidth; `None` if no job has one.
    pub(super) fn limits(&self) -> Result<Option<BandwidthLimits>, RunError> {
        let jobs = (0..).map(JobId).zip(&self.batch.jobs);
        let rates: Vec<(JobId, BytesPerSec)> =
            jobs.filter_map(|(id, job)| Some((id, job.bandwidth_limit?))).collect();
        if rates.is_empty() {
            return Ok(None);
        }
        match BandwidthLimits::open(self.options.perf_events.as_deref()) {
            Ok(mut limits) => {
                rates.into_iter().for_each(|(job, rate)| limits.insert(job, rate));
                Ok(Some(limits))
            }
            Err(PerfOpenError::Input(error)) => Err(error.into()),
            Err(PerfOpenError::Unavailable(probe)) => {
                let refusal = InputError::new("run", probe.reason).key("bandwidth_limit");
                let help = "`memweir doctor` says what this machine offers".to_owned();
                Err(RunError::NoMeter(refusal.help(probe.help.unwrap_or(help))))
            }
        }
    }

    /// Checks a batch that runs here and its options, and gathers what is known of them.
    pub(super) fn new(batch: &'a Batch, options: &'a RunOptions) -> Result<Self, RunError> {
        let mut notices = Vec::new();
        let frame = Frame::here(options, &mut notices)?;
        check_limits(batch, options)?;
        check_events(batch, options)?;
        check_cpus(batch)?;
        Self::on(frame, batch, options, notices)
    }

    /// Checks a batch that will run on another machine. Only options that do not concern a machine
    /// count; [`RunOptions::media`] must be the media of the other machine.
    ///
    /// # Errors
    /// As those of [`check`](super::check).
    pub fn elsewhere(
        batch: &'a Batch,
        options: &'a RunOptions,
        frame: Frame,
    ) -> Result<Self, RunError> {
        let refuse = |key, reason| InputError::new("run", reason).key(key).help("leave it out");
        if options.policy == PINNED || options.pinning != Pinning::Free {
            let reason = "jobs cannot be bound to CPUs of another machine";
            return Err(refuse("pinning", reason).into());
        }
        if has_limits(batch) {
            let reason = "the bandwidth of jobs on another machine cannot be limited";
            return Err(refuse("bandwidth_limit", reason).into());
        }
        if batch.jobs.iter().any(|job| job.colors.is_some()) {
            let reason = "the pages of jobs on another machine cannot be colored";
            return Err(refuse("colors", reason).into());
        }
        Self::on(frame, batch, options, Vec::new())
    }

    fn on(
        frame: Frame,
        batch: &'a Batch,
        options: &'a RunOptions,
        mut notices: Vec<String>,
    ) -> Result<Self, RunError> {
        let refuse = |key: &str, refusal: options::Refusal| refusal.written_in("run").key(key);
        check_names(batch)?;
        let name =
            options.check_policy(&options.policy).map_err(|error| refuse("policy", error))?;
        let (policy, pinning) = match name.as_str() {
            PINNED => ("os".to_owned(), Pinning::ByHand),
            _ => {
                let objective = options.objective.unwrap_or_default();
                let name = policies::with_objective(name, objective);
                (policies::with_core_use(name, options.core_use), options.pinning)
            }
        };
        options::quantum(options.quantum.as_millis_f64())
            .map_err(|error| refuse("quantum", error))?;
        let timeline = options
            .timeline
            .as_ref()
            .map(|path| Format::of(path).map(|format| (path.clone(), format)))
            .transpose()
            .map_err(|error| refuse("timeline", error))?;
        let placement = |job| placement_of(job, options);
        let placements = batch.jobs.iter().map(placement).collect::<Result<Vec<_>, _>>()?;
        check_pinning(batch, pinning, &frame.cpus)?;
        let programs = find_programs(batch)?;
        let store = Store::find(options.store.as_deref(), &mut notices)?;
        let cores = frame.cpus.len() as u32;
        let mut knowledge = Knowledge::gather(batch, &programs, store.as_ref(), cores)?;
        knowledge.place(&options.media, &placements);
        notices.append(&mut knowledge.notices);
        notices.extend(options::never_idle(&policy, options.core_use, frame.bus.peak));
        notices.extend(without_effect(&policy, &frame, &knowledge));
        Ok(Self {
            batch,
            options,
            policy,
            pinning,
            programs,
            frame,
            knowledge,
            placements,
            timeline,
            notices,
        })
    }

    /// Refuses the first job whose program cannot run under the emulator.
    pub fn check_emulation(&self) -> Result<(), InputError> {
        for (job, program) in self.batch.jobs.iter().zip(&self.programs) {
            let argv: Vec<Vec<u8>> =
                job.command.argv().into_iter().map(OsString::into_encoded_bytes).collect();
            Program::inspect(program, &argv)
                .map_err(|error| InputError::new("job", error.to_string()).key(&job.name))?;
        }
        Ok(())
    }

    /// Placements of the jobs' pages, for the jobs that have one.
    #[must_use]
    pub fn placements(&self) -> HashMap<JobId, Placement> {
        let jobs = (0..).map(JobId).zip(&self.placements);
        jobs.filter_map(|(job, placement)| Some((job, placement.clone()?))).collect()
    }

    /// Number of cores that the batch may use.
    pub(super) fn cores(&self) -> u32 {
        self.frame.cpus.len() as u32
    }

    /// CPUs to start a job on, all if empty.
    pub(super) fn cpus_of(&self, job: &Job) -> Vec<usize> {
        match self.pinning {
            Pinning::ByHand if !job.cpus.is_empty() => job.cpus.clone(),
            _ if self.frame.restricted => self.frame.cpus.clone(),
            _ => Vec::new(),
        }
    }
}

/// Returns the placement of a job's pages: the job's own, else the batch's.
///
/// # Errors
/// If the machine lacks a medium that it names.
pub fn placement_of(job: &Job, run: &RunOptions) -> Result<Option<Placement>, InputError> {
    let spec = job.placement.as_ref().or(run.placement.as_ref());
    let placed = spec.map(|spec| options::placed(spec, &run.media)).transpose();
    placed.map_err(|InputError { reason, help, .. }| InputError {
        help,
        ..job.refuse("placement", reason)
    })
}

fn check_names(batch: &Batch) -> Result<(), InputError> {
    if batch.jobs.is_empty() {
        return Err(InputError::new("run", "there are no jobs"));
    }
    let mut names = HashSet::new();
    match batch.jobs.iter().find(|job| !names.insert(job.name.as_str())) {
        Some(job) => Err(InputError::new("run", format!("two jobs have the name `{}`", job.name))),
        None => Ok(()),
    }
}

/// Checks that the mechanism can keep the jobs' limits.
fn check_limits(batch: &Batch, options: &RunOptions) -> Result<(), InputError> {
    let limited = batch.jobs.iter().find(|job| job.bandwidth_limit.is_some());
    let Some(Job { name, .. }) = limited else { return Ok(()) };
    if options.mechanism == Some(Mechanism::SchedExt) {
        return Ok(());
    }
    let reason =
        format!("only the mechanism `sched-ext` limits bandwidth, and `{name}` has a limit");
    let help = "add `--mechanism sched-ext`, or leave the limit out";
    Err(InputError::new("run", reason).key("bandwidth_limit").help(help))
}

/// Checks that perf events of a file are used: by the meter, or by limits of bandwidth.
fn check_events(batch: &Batch, options: &RunOptions) -> Result<(), InputError> {
    match options.meter {
        MeterChoice::Only(kind) if options.perf_events.is_some() && !has_limits(batch) => {
            options::counts_events(kind).map_err(|refusal| refusal.written_in("run").key("events"))
        }
        _ => Ok(()),
    }
}

/// Returns true if the bandwidth of a job is limited, for which perf events are counted.
pub(super) fn has_limits(batch: &Batch) -> bool {
    batch.jobs.iter().any(|job| job.bandwidth_limit.is_some())
}

/// Returns the CPUs that this process may use.
fn allowed() -> Result<Vec<usize>, RunError> {
    Ok(allowed_cpus().map_err(OsError::of("asking for the CPUs of this process"))?)
}

/// Returns the CPUs that the batch may use, and true if they are fewer than this process may use.
fn cpus(options: &RunOptions, notices: &mut Vec<String>) -> Result<(Vec<usize>, bool), RunError> {
    let mut allowed = allowed()?;
    let Some(cores) = options.cores else {
        // A quota is an amount of time, on any CPU: jobs may be bound to each by hand, and no job
        // is bound because of it.
        if options.policy != PINNED {
            allowed.truncate(options::within_quota(allowed.len(), notices));
        }
        return Ok((allowed, false));
    };
    options::cores(i64::from(cores), allowed.len() as u32)
        .map_err(|refusal| refusal.written_in("run").key("cores"))?;
    let chosen = allowed[..cores as usize].to_vec();
    let restricted = chosen.len() < allowed.len();
    Ok((chosen, restricted))
}

/// Checks that the CPUs which jobs name are there, also if no job is bound to them.
fn check_cpus(batch: &Batch) -> Result<(), RunError> {
    Ok(names_only(batch, &allowed()?, |cpu| format!("there is no CPU {cpu} here"))?)
}

/// Refuses a CPU that a job names and that is not among `cpus`.
fn names_only(
    batch: &Batch,
    cpus: &[usize],
    reason: fn(usize) -> String,
) -> Result<(), InputError> {
    let of = |job: &Job| job.cpus.iter().copied().find(|cpu| !cpus.contains(cpu));
    match batch.jobs.iter().find_map(|job| Some((job, of(job)?))) {
        Some((job, cpu)) => Err(job.refuse("cpus", reason(cpu)).help(format!("valid: {cpus:?}"))),
        None => Ok(()),
    }
}

/// Checks that binding by hand has at least one job with CPUs, and that all these CPUs are the
/// batch's.
fn check_pinning(batch: &Batch, pinning: Pinning, cpus: &[usize]) -> Result<(), InputError> {
    if pinning != Pinning::ByHand {
        return Ok(());
    }
    let refuse = |reason: String| InputError::new("run", reason).key("cpus");
    if batch.jobs.iter().all(|job| job.cpus.is_empty()) {
        return Err(refuse(format!("`{PINNED}` binds jobs to their `cpus`, and no job has any"))
            .help("give jobs a `cpus = [...]` in the jobs file"));
    }
    names_only(batch, cpus, |cpu| format!("CPU {cpu} is not the batch's to use"))
}

/// Names what was asked for and changes nothing, for want of a figure or of cores.
fn without_effect(policy: &str, frame: &Frame, knowledge: &Knowledge) -> Vec<String> {
    let jobs = &knowledge.jobs;
    let notices = [
        (
            policy.starts_with("long-job-first") && jobs.iter().all(|job| job.time.is_none()),
            "no job's length is known: `long-job-first` takes jobs as they stand in the run queue",
        ),
        (
            policy != "os" && frame.cpus.len() == 1 && jobs.len() > 1,
            "on one core the jobs take turns: every policy is `round-robin`, and priorities change \
             nothing",
        ),
    ];
    notices.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use memweir_linux::MeterKind;
    use memweir_policy::CoreUse;

    use super::*;
    use crate::jobs::Command;

    fn limited() -> Batch {
        let command = Command::Exec(vec!["true".into()]);
        let job = Job { bandwidth_limit: Some(BytesPerSec(1e9)), ..Job::new("a", command) };
        Batch { jobs: vec![job] }
    }

    #[test]
    fn a_limit_needs_the_mechanism_that_keeps_it() {
        let with = |mechanism| RunOptions { mechanism, ..RunOptions::default() };
        assert!(check_limits(&limited(), &with(Some(Mechanism::SchedExt))).is_ok());
        for mechanism in [None, Some(Mechanism::CgroupV2)] {
            let error = check_limits(&limited(), &with(mechanism)).unwrap_err();
            assert!(error.help.unwrap().contains("--mechanism sched-ext"));
            assert!(check_limits(&Batch::default(), &with(mechanism)).is_ok());
        }
    }

    #[test]
    fn cores_that_may_stay_idle_and_never_do_are_told() {
        let command = Command::Exec(vec!["true".into()]);
        let bound = Job { cpus: allowed().unwrap(), ..Job::new("a", command) };
        let batch = Batch { jobs: vec![bound] };
        for policy in ["os", PINNED] {
            let policy = policy.to_owned();
            let options = RunOptions { policy, core_use: CoreUse::Auto, ..RunOptions::default() };
            let notices = Plan::new(&batch, &options).unwrap().notices.join("; ");
            assert!(
                notices.contains("every core is filled: the policy blocks no job"),
                "{notices}"
            );
        }
    }

    #[test]
    fn perf_events_need_a_meter_or_limits_that_count_them() {
        let with = |meter| RunOptions {
            meter,
            perf_events: Some("events.toml".into()),
            ..RunOptions::default()
        };
        let software = MeterChoice::Only(MeterKind::Software);
        let error = check_events(&Batch::default(), &with(software)).unwrap_err().to_string();
        assert!(error.contains("events: software counts without perf events"), "{error}");
        assert!(check_events(&limited(), &with(software)).is_ok());
        for meter in [MeterChoice::Auto, MeterChoice::Only(MeterKind::Perf)] {
            assert!(check_events(&Batch::default(), &with(meter)).is_ok());
        }
        let without = RunOptions { perf_events: None, ..with(software) };
        assert!(check_events(&Batch::default(), &without).is_ok());
    }

    #[test]
    fn no_job_of_another_machine_is_limited_or_colored() {
        let options = RunOptions::default();
        let mut colored = Job::new("colored", Command::Exec(vec!["/bin/true".into()]));
        colored.colors = Some("0-3".parse().unwrap());
        for (key, batch) in
            [("bandwidth_limit", limited()), ("colors", Batch { jobs: vec![colored] })]
        {
            let bus = Bus { peak: None, ..Bus::default() };
            let frame = Frame::elsewhere(1, None, bus, [None; MAX_MEDIA], Default::default());
            let Err(error) = Plan::elsewhere(&batch, &options, frame) else {
                panic!("it is planned")
            };
            assert!(error.to_string().contains(&format!("{key}: ")), "{error}");
            assert!(error.to_string().contains("another machine"), "{error}");
        }
    }
}
