//! The table of policies: what `--policy` accepts, in the order in which help lists it.
//!
//! To add a policy, write its file below `policies/`, add one row to [`POLICIES`], and it can be
//! named wherever a policy is named.

pub mod ideal_average;
pub mod long_job_first;
pub mod os;
pub mod peak_bandwidth;
pub mod random;
pub mod round_robin;

use memweir_core::names::suggestion;

use crate::policy::{Policy, QuantumView};
use crate::scheduler::SchedulerConfig;

pub use ideal_average::IdealAverage;
pub use long_job_first::LongJobFirst;
pub use os::Os;
pub use peak_bandwidth::PeakBandwidth;
pub use random::Random;
pub use round_robin::RoundRobin;

/// What a policy decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidesBy {
    /// The run queue and what is known of the jobs' lengths.
    Queue,
    /// The bandwidth that the jobs require: without a meter it is nothing.
    Bandwidth,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// What the user writes.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// What it decides by.
    pub decides_by: DecidesBy,
    /// Builds it.
    pub build: fn(&SchedulerConfig) -> Box<dyn Policy>,
}

/// Every policy.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "os",
        summary: "block nobody: the operating system schedules",
        reference: "the baseline of iabw section 5",
        decides_by: DecidesBy::Queue,
        build: |_| Box::new(Os),
    },
    PolicyEntry {
        name: "round-robin",
        summary: "the run queue in order, whatever the jobs do to memory",
        reference: "iabw section 3.3",
        decides_by: DecidesBy::Queue,
        build: |_| Box::new(RoundRobin),
    },
    PolicyEntry {
        name: "random",
        summary: "any jobs, drawn anew each quantum",
        reference: "a control for the others",
        decides_by: DecidesBy::Queue,
        build: |config| Box::new(Random::new(config.seed)),
    },
    PolicyEntry {
        name: "long-job-first",
        summary: "the longest expected time first, to balance the cores at the end",
        reference: "iabw section 5.5",
        decides_by: DecidesBy::Queue,
        build: |_| Box::new(LongJobFirst::default()),
    },
    PolicyEntry {
        name: "peak-bandwidth",
        summary: "jobs that together come nearest to the peak bandwidth",
        reference: "iabw eq. (2), the policy of earlier work (PBW)",
        decides_by: DecidesBy::Bandwidth,
        build: |_| Box::new(PeakBandwidth::default()),
    },
    PolicyEntry {
        name: "ideal-average",
        summary: "jobs that together come nearest to the workload's ideal average bandwidth",
        reference: "iabw eq. (2), (8)-(11)",
        decides_by: DecidesBy::Bandwidth,
        build: |config| Box::new(IdealAverage::new(config.target.clone())),
    },
];

/// The names of all policies, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    POLICIES.iter().map(|entry| entry.name)
}

/// A policy that is not in the table; says which one may have been meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`: {help}")]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// The nearest valid choice and the list of all.
    pub help: String,
}

/// The row of the policy called `name`.
pub fn find(name: &str) -> Result<&'static PolicyEntry, UnknownPolicy> {
    POLICIES
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownPolicy { name: name.to_owned(), help: suggestion(name, names()) })
}

/// Chooses, in this order, every job that still fits the free cores.
pub(crate) fn take_what_fits(
    view: &QuantumView<'_>,
    order: impl IntoIterator<Item = usize>,
    chosen: &mut Vec<usize>,
) {
    let mut free = view.cores;
    for place in order {
        if free == 0 {
            break;
        }
        if view.queue[place].cores <= free {
            free -= view.queue[place].cores;
            chosen.push(place);
        }
    }
}
