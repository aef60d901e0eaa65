//! Limits of the jobs' bandwidth, as budgets of lines in each millisecond (MemGuard).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use memweir_core::units::LINE_BYTES;
use memweir_core::{BytesPerSec, JobId};
use memweir_scx::{Counter, PERIOD, Usage};

use crate::cgroup_tree::CgroupTree;
use crate::meter::perf::{PerfGroupMeter, PerfOpenError};

/// Overflows of a counter in a millisecond that uses up the budget. More stop a job closer to its
/// budget, and each costs an interrupt.
const OVERFLOWS: u32 = 16;

/// Limits of the jobs' bandwidth, and the events that count it.
pub struct BandwidthLimits {
    meter: PerfGroupMeter,
    rates: BTreeMap<JobId, BytesPerSec>,
}

/// Use of a limit by its job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitUse {
    /// The limit.
    pub limit: BytesPerSec,
    /// Lines that were counted.
    pub lines: u64,
    /// Most lines that counted in a millisecond, with what the job had used beyond its budget
    /// before.
    pub most: u32,
    /// Milliseconds in which the job used up its budget and was held.
    pub held: u64,
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
    pub fn open(
        rates: BTreeMap<JobId, BytesPerSec>,
        event_file: Option<&Path>,
    ) -> Result<Self, PerfOpenError> {
        let tree = CgroupTree::open().map_err(PerfOpenError::Unavailable)?;
        Ok(Self { meter: PerfGroupMeter::open(&tree, event_file)?, rates })
    }

    /// Returns the budget of a job and the counters of its group, if it has a limit.
    pub(super) fn budget(&self, job: JobId, group: &Path) -> io::Result<Option<Budget>> {
        let Some(rate) = self.rates.get(&job) else { return Ok(None) };
        let lines = lines_per_period(*rate);
        let counters = self.meter.overflow_counters(group, lines.div_ceil(OVERFLOWS));
        let counters = counters
            .map_err(|(what, error)| io::Error::new(error.kind(), format!("{what}: {error}")))?;
        Ok(Some(Budget { lines, counters }))
    }

    /// Returns what a job has used, if it has a limit.
    pub(super) fn used(&self, job: JobId, usage: Usage) -> Option<LimitUse> {
        let limit = *self.rates.get(&job)?;
        let Usage { lines, most, exhausted } = usage;
        Some(LimitUse { limit, lines, most, held: exhausted })
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
    fn a_rate_becomes_lines_in_a_millisecond() {
        assert_eq!(lines_per_period(BytesPerSec(64_000.0)), 1);
        assert_eq!(lines_per_period(BytesPerSec(500e6)), 7_813);
        assert_eq!(lines_per_period(BytesPerSec(1.0)), 1);
        assert_eq!(lines_per_period(BytesPerSec(10e12)), 156_250_000);
    }
}
