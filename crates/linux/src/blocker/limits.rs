//! Limits of the jobs' bandwidth, as budgets of lines in each millisecond (MemGuard).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use memweir_core::units::LINE_BYTES;
use memweir_core::{BytesPerSec, JobId};
use memweir_scx::{Counter, PERIOD, Usage};
use serde::{Deserialize, Serialize};

use crate::OsError;
use crate::cgroup_tree::CgroupTree;
use crate::meter::perf::{PerfGroupMeter, PerfOpenError, counters};
use crate::probe::Probe;

/// Overflows of a counter in a millisecond that uses up the budget. More stop a job closer to its
/// budget, and each costs an interrupt.
const OVERFLOWS: u32 = 16;

/// Limits of the jobs' bandwidth, and the events that count it.
pub struct BandwidthLimits {
    open_counters: Box<OpenCounters>,
    jobs: BTreeMap<JobId, Limit>,
}

/// Opens the counters of a control group: see [`PerfGroupMeter::overflow_counters`].
pub(super) type OpenCounters = dyn Fn(&Path, u32) -> Result<Vec<(usize, Counter)>, OsError> + Send;

/// The limit of a job.
struct Limit {
    rate: BytesPerSec,
    counted: Counted,
}

/// The CPUs on which a job is counted, as far as they are known.
#[derive(Default)]
struct Counted {
    /// The CPU of each counter.
    cpus: Vec<usize>,
    /// CPUs with a counter that has counted nothing, or too little.
    failed: BTreeSet<usize>,
}

impl Counted {
    /// Takes in which counters count, in the order of `cpus`. Returns true the first time that one
    /// does not.
    fn update(&mut self, counts: impl IntoIterator<Item = bool>) -> bool {
        let had_none = self.failed.is_empty();
        let failed = self.cpus.iter().zip(counts).filter(|(_, counts)| !counts);
        self.failed.extend(failed.map(|(cpu, _)| *cpu));
        had_none && !self.failed.is_empty()
    }
}

/// A limit of a job's bandwidth, and how it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitUse {
    /// The limit.
    pub bandwidth: BytesPerSec,
    /// 64-byte lines that were counted.
    pub lines: u64,
    /// Most lines that counted in a millisecond, with what the job had used beyond its budget
    /// before.
    pub lines_per_ms_peak: u32,
    /// Milliseconds in which the job used up its budget and was held.
    pub held_ms: u64,
    /// CPUs on which a counter was missing at some time, so that the limit did not hold there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted_cpus: Vec<usize>,
}

/// A limit that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFailure {
    /// The job.
    pub job: JobId,
    /// Place or time of the failure, and its reason.
    reason: String,
}

impl LimitFailure {
    fn without_counters(job: JobId, cpus: &BTreeSet<usize>) -> Self {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let reason = format!(
            "on CPU {}: a counter is missing there, which another program (the NMI watchdog, a \
             profiler) may have taken",
            cpus.join(", ")
        );
        Self { job, reason }
    }

    /// The failure to open counters again after CPUs have come or gone.
    pub(super) fn of_hotplug(job: JobId, error: &io::Error) -> Self {
        Self { job, reason: format!("from here on: CPUs have come or gone, and {error}") }
    }

    /// Returns the notice for the user, who knows the job as `name`.
    #[must_use]
    pub fn notice(&self, name: &str) -> String {
        format!("the limit of {name} does not hold {}", self.reason)
    }
}

/// Returns the lines that a job of this rate may use in a period: at least 1.
fn lines_per_period(rate: BytesPerSec) -> u32 {
    (rate.0 * PERIOD.as_secs_f64() / LINE_BYTES as f64).round().max(1.0) as u32
}

impl BandwidthLimits {
    /// Chooses the events that count lines, from `event_file` or the shipped files.
    ///
    /// # Errors
    /// The event file is refused, or this machine cannot count the lines of control groups.
    pub fn open(event_file: Option<&Path>) -> Result<Self, PerfOpenError> {
        let tree = CgroupTree::open().map_err(PerfOpenError::Unavailable);
        match tree.and_then(|tree| PerfGroupMeter::open(&tree, event_file)) {
            Ok(meter) => {
                Ok(Self::of(Box::new(move |group, lines| meter.overflow_counters(group, lines))))
            }
            Err(PerfOpenError::Unavailable(probe)) => {
                let reason = format!("no counter of memory traffic works here: {}", probe.reason);
                Err(PerfOpenError::Unavailable(Probe { reason, ..probe }))
            }
            Err(refused) => Err(refused),
        }
    }

    pub(super) fn of(open_counters: Box<OpenCounters>) -> Self {
        Self { open_counters, jobs: BTreeMap::new() }
    }

    /// Limits a job that has no group yet.
    pub fn insert(&mut self, job: JobId, rate: BytesPerSec) {
        self.jobs.insert(job, Limit { rate, counted: Counted::default() });
    }

    pub(super) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Opens the budget of a job and the counters of its group, if it has a limit.
    pub(super) fn budget(&mut self, job: JobId, group: &Path) -> io::Result<Option<Budget>> {
        let Some(limit) = self.jobs.get_mut(&job) else { return Ok(None) };
        let lines = lines_per_period(limit.rate);
        let counters = (self.open_counters)(group, lines.div_ceil(OVERFLOWS));
        let counters =
            counters.map_err(|error| io::Error::new(error.source.kind(), error.to_string()))?;
        let (cpus, counters) = counters.into_iter().unzip();
        limit.counted.cpus = cpus;
        Ok(Some(Budget { lines, counters }))
    }

    /// Looks at the events of a job's counters. Returns the failure of its limit when it is new.
    pub(super) fn check(&mut self, job: JobId, events: &[BorrowedFd<'_>]) -> Option<LimitFailure> {
        let counted = &mut self.jobs.get_mut(&job)?.counted;
        // An event that cannot be read counts nothing that is known of.
        let counts = events.iter().map(|event| counters::counts(*event).unwrap_or(false));
        counted.update(counts).then(|| LimitFailure::without_counters(job, &counted.failed))
    }

    /// Forgets a job, and returns what it has used, if it has a limit.
    pub(super) fn remove(&mut self, job: JobId, usage: Usage) -> Option<LimitUse> {
        let Limit { rate, counted } = self.jobs.remove(&job)?;
        Some(LimitUse {
            bandwidth: rate,
            lines: usage.lines,
            lines_per_ms_peak: usage.most,
            held_ms: usage.exhausted,
            uncounted_cpus: counted.failed.into_iter().collect(),
        })
    }
}

/// The budget of a job.
pub(super) struct Budget {
    pub(super) lines: u32,
    pub(super) counters: Vec<Counter>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_counter_is_told_once_and_kept_for_the_report() {
        // Two events on each of two CPUs.
        let mut counted = Counted { cpus: vec![0, 3, 0, 3], ..Counted::default() };
        assert!(!counted.update([true; 4]));
        assert!(counted.update([true, true, true, false]));
        assert_eq!(counted.failed, BTreeSet::from([3]));
        assert!(!counted.update([false, true, true, true]));
        assert_eq!(counted.failed, BTreeSet::from([0, 3]));
        assert!(!Counted::default().update([]));
    }

    #[test]
    fn a_failure_names_the_job_and_the_cpus() {
        let failure = LimitFailure::without_counters(JobId(0), &BTreeSet::from([0, 3]));
        let notice = failure.notice("sort");
        assert!(notice.starts_with("the limit of sort does not hold on CPU 0, 3: "), "{notice}");
    }

    #[test]
    fn a_rate_becomes_lines_in_a_millisecond() {
        assert_eq!(lines_per_period(BytesPerSec(64_000.0)), 1);
        assert_eq!(lines_per_period(BytesPerSec(500e6)), 7_813);
        assert_eq!(lines_per_period(BytesPerSec(1.0)), 1);
        assert_eq!(lines_per_period(BytesPerSec(10e12)), 156_250_000);
    }
}
