//! Use of the batch's processors by anything else while it runs, for which a batch takes longer
//! than its policy explains.

use memweir_core::Nanos;
use memweir_linux::{clock, cpu_use};

use crate::report::BatchReport;

/// A measurement that goes on.
pub(super) struct ForeignUse<'a> {
    cpus: &'a [usize],
    began: Nanos,
    /// Time that the processors had been busy by then.
    busy: Nanos,
}

impl<'a> ForeignUse<'a> {
    /// Starts measuring; `None` where the kernel does not say how busy processors are.
    pub(super) fn start(cpus: &'a [usize]) -> Option<Self> {
        Some(Self { cpus, began: clock::monotonic(), busy: cpu_use::busy(cpus).ok()? })
    }

    /// Returns the processors that were in use, in the mean, by what is not in the report.
    pub(super) fn cores(&self, report: &BatchReport) -> Option<f64> {
        let busy = cpu_use::busy(self.cpus).ok()?.saturating_sub(self.busy);
        let elapsed = clock::monotonic().saturating_sub(self.began);
        let jobs: f64 = report.jobs.iter().map(|job| job.running_s).sum();
        Some(foreign_cores(busy, elapsed, jobs + report.scheduler_s, self.cpus.len()))
    }
}

/// Never negative, and never more than `cores` have left: the kernel counts the time of processors
/// in ticks, that of jobs exactly.
fn foreign_cores(busy: Nanos, elapsed: Nanos, own_s: f64, cores: usize) -> f64 {
    if elapsed == Nanos::ZERO {
        return 0.0;
    }
    let in_use = (busy.as_secs_f64() / elapsed.as_secs_f64()).min(cores as f64);
    (in_use - own_s / elapsed.as_secs_f64()).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_busy_time_is_foreign() {
        let millis = Nanos::from_millis;
        assert_eq!(foreign_cores(millis(4750), millis(2000), 3.75, 4), 0.5);
        assert_eq!(foreign_cores(millis(3700), millis(2000), 3.75, 4), 0.0);
        assert_eq!(foreign_cores(millis(1), Nanos::ZERO, 0.0, 4), 0.0);
    }

    #[test]
    fn ticks_that_end_in_a_short_batch_are_no_more_than_its_cores() {
        // Seven ticks in 25 ms on two cores, of which the batch had 5 ms.
        let foreign = foreign_cores(Nanos::from_millis(70), Nanos::from_millis(25), 0.005, 2);
        assert!((foreign - 1.8).abs() < 1e-9, "{foreign}");
    }
}
