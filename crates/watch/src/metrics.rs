//! Series for Prometheus: of the subjects of a watch, or of the jobs of a batch.
//!
//! [`Metrics`] is a handle that a measuring loop updates and that an exporter reads, from another
//! thread. A value that was never measured has no series. The series of a job that has ended stay
//! for [`KEEP_ENDED`], so that a scrape still finds their last values.

mod export;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memweir_core::{BytesPerSec, LINE_BYTES, Nanos};
use memweir_linux::MeterKind;
use memweir_linux::cgroup_tree::GroupState;
use memweir_linux::meter::cgroup::Scope;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use serde::Serialize;

use crate::watch::{MeterFailure, Row};

/// Time for which the series of an ended job stay.
pub const KEEP_ENDED: Nanos = Nanos(300_000_000_000);

/// First bound of the histogram of switches in seconds; each further bound is twice as long. The
/// last is 0.16 s, longer than a default quantum.
const SHORTEST_SWITCH_S: f64 = 10e-6;
const SWITCH_BUCKETS: u16 = 15;

/// Medium of traffic that a meter does not tell apart.
const UNTOLD_MEDIUM: &str = "dram";

/// State of a job or a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its processes may run.
    Running,
    /// Its processes are frozen, or its job was not selected.
    Blocked,
    /// It has not started.
    #[default]
    Waiting,
    /// It has no processes.
    Empty,
    /// It is over.
    Ended,
}

memweir_core::named! {
    pub State, "state":
    Running = "running",
    Blocked = "blocked",
    Waiting = "waiting",
    Empty = "empty",
    Ended = "ended",
}

impl State {
    /// Returns the state of a control group; one without a state is gone.
    pub(crate) fn of(group: Option<GroupState>) -> Self {
        match group {
            None => Self::Ended,
            // The kernel also calls a group frozen that was told to freeze and has no processes.
            Some(group) if !group.populated => Self::Empty,
            Some(group) if group.frozen => Self::Blocked,
            Some(_) => Self::Running,
        }
    }
}

/// Direction of memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From memory.
    Read,
    /// To memory.
    Write,
    /// Reads and writes together, from a meter that does not tell them apart.
    Both,
}

memweir_core::named! { Direction, "direction": Read = "read", Write = "write", Both = "both" }

/// The meter in use, and its blind spots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterFacts {
    /// The meter.
    pub kind: MeterKind,
    /// True if it counts instructions.
    pub instructions: bool,
    /// True if it counts writes apart from reads.
    pub writes: bool,
    /// True if it counts media apart.
    pub media: bool,
}

impl MeterFacts {
    /// Returns the direction of what the meter counts as reads.
    #[must_use]
    pub fn direction_of_reads(&self) -> Direction {
        if self.kind == MeterKind::Resctrl { Direction::Both } else { Direction::Read }
    }

    /// Returns the blind spots, with commas between them.
    fn blind_to(&self) -> String {
        let writes = if self.kind == MeterKind::Resctrl { "direction" } else { "writes" };
        [(self.instructions, "instructions"), (self.media, "media"), (self.writes, writes)]
            .into_iter()
            .filter(|(counted, _)| !counted)
            .map(|(_, name)| name)
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Values of one job. Absent and empty ones were not measured and have no series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name for people.
    pub name: String,
    /// Number of the Slurm job that it belongs to.
    pub slurm_jobid: Option<String>,
    /// State now.
    pub state: State,
    /// Bytes since the start, by direction and name of the medium.
    pub memory: BTreeMap<(Direction, String), f64>,
    /// Bytes since the start, by L3 domain and scope.
    pub resctrl: BTreeMap<(u32, Scope), u64>,
    /// CPU time in seconds.
    pub cpu_s: Option<f64>,
    /// Time in seconds of the quanta in which the job was selected.
    pub selected_s: Option<f64>,
    /// Time in seconds of the quanta in which it was blocked.
    pub blocked_s: Option<f64>,
}

/// All values at one moment.
#[derive(Debug, Default)]
struct Values {
    jobs: BTreeMap<String, Job>,
    /// Jobs that wait without series of their own.
    queued: usize,
    meter: Option<MeterFacts>,
    target: Option<BytesPerSec>,
    peak: Option<BytesPerSec>,
    /// Quanta by whether the bus was saturated.
    quanta: BTreeMap<bool, u64>,
    errors: BTreeMap<(MeterKind, &'static str), u64>,
    /// Lengths of switches, from the first one on.
    switches: Option<Histogram>,
}

#[derive(Debug, Default)]
struct Job {
    series: Series,
    ended: Option<Nanos>,
}

/// Series of one watch or batch. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Values>>);

impl Metrics {
    fn values(&self) -> MutexGuard<'_, Values> {
        // Every update leaves whole values behind, also one that panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the meter in use.
    pub fn set_meter(&self, meter: MeterFacts) {
        self.values().meter = Some(meter);
    }

    /// Sets the highest bandwidth that the machine sustains.
    pub fn set_peak(&self, peak: BytesPerSec) {
        self.values().peak = Some(peak);
    }

    /// Sets the bandwidth that the policy aims at; `None` for one that aims at none.
    pub fn set_target(&self, target: Option<BytesPerSec>) {
        self.values().target = target;
    }

    /// Sets the number of jobs that wait in a queue and have no series of their own.
    pub fn set_queued(&self, jobs: usize) {
        self.values().queued = jobs;
    }

    /// Counts a quantum that ended with the bus saturated or not.
    pub fn quantum_ended(&self, saturated: bool) {
        let mut values = self.values();
        // A share of saturated quanta needs both series from the start.
        values.quanta.entry(!saturated).or_default();
        *values.quanta.entry(saturated).or_default() += 1;
    }

    /// Counts a switch between two quanta, from blocking the jobs of one to resuming those of the
    /// next.
    pub fn switched(&self, took: Nanos) {
        let buckets =
            || Histogram::new(exponential_buckets(SHORTEST_SWITCH_S, 2.0, SWITCH_BUCKETS));
        self.values().switches.get_or_insert_with(buckets).observe(took.as_secs_f64());
    }

    /// Counts a failure of a meter, for a reason out of few.
    pub fn meter_failed(&self, meter: MeterKind, reason: &'static str) {
        *self.values().errors.entry((meter, reason)).or_default() += 1;
    }

    /// Changes the series of a job, which are made if there are none.
    pub fn update(&self, jobid: &str, change: impl FnOnce(&mut Series)) {
        let mut values = self.values();
        let job = values.jobs.entry(jobid.to_owned()).or_default();
        job.ended = None;
        change(&mut job.series);
    }

    /// Ends a job at `now`, a time that only grows.
    pub fn end(&self, jobid: &str, now: Nanos) {
        if let Some(job) = self.values().jobs.get_mut(jobid) {
            job.series.state = State::Ended;
            job.ended = Some(now);
        }
    }

    /// Removes the jobs that ended [`KEEP_ENDED`] before `now`.
    pub fn expire(&self, now: Nanos) {
        let kept = |job: &Job| job.ended.is_none_or(|ended| now.saturating_sub(ended) < KEEP_ENDED);
        self.values().jobs.retain(|_, job| kept(job));
    }

    /// Takes in what a watch measured up to `now`.
    pub fn watched(&self, rows: &[Row], failures: &[MeterFailure], now: Nanos) {
        let meter = self.values().meter;
        for row in rows {
            self.update(&row.jobid, |series| series.take(row, meter));
            if row.state == State::Ended {
                self.end(&row.jobid, now);
            }
        }
        for failure in failures {
            self.meter_failed(failure.meter, failure.error.reason.name());
        }
        self.expire(now);
    }
}

impl Series {
    /// Takes in a row. The last values of a subject that has ended stay.
    fn take(&mut self, row: &Row, meter: Option<MeterFacts>) {
        let has_ended = row.state == State::Ended;
        self.name.clone_from(&row.name);
        self.slurm_jobid.clone_from(&row.slurm_jobid);
        self.state = row.state;
        self.cpu_s = row.cpu_total_s.or(self.cpu_s.filter(|_| has_ended));
        if row.total.is_none() && !has_ended {
            self.memory.clear();
            self.resctrl.clear();
        }
        if let Some((total, meter)) = row.total.zip(meter) {
            let bytes = |lines: u64| lines as f64 * LINE_BYTES as f64;
            let reads = (meter.direction_of_reads(), UNTOLD_MEDIUM.to_owned());
            self.memory.insert(reads, bytes(total.reads.0));
            if meter.writes {
                let writes = (Direction::Write, UNTOLD_MEDIUM.to_owned());
                self.memory.insert(writes, bytes(total.writes.0));
            }
        }
        let domains = row.domains.iter().map(|d| ((d.domain, d.scope), d.bytes.0));
        self.resctrl.extend(domains);
    }
}
