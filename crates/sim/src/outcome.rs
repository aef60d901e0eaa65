//! What came of an experiment, and the metrics of the papers over it.

use memweir_core::metrics::{self, BandwidthBand};
use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Traffic};

/// What came of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the first arrival to the last completion.
    pub turnaround: Nanos,
    /// The tasks, in their order.
    pub tasks: Vec<TaskOutcome>,
    /// The quanta, in their order. The last one ends with the last task.
    pub quanta: Vec<QuantumOutcome>,
    /// What the tasks moved, per memory in the machine's order.
    pub served: [Traffic; MAX_MEDIA],
    /// What migrating pages moved besides.
    pub copied: Bytes,
    /// Ideal average bandwidth of the batch when the first tasks were submitted, iabw eq. (10).
    pub ideal_average: Option<BytesPerSec>,
}

/// What became of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    /// Its name.
    pub name: String,
    /// When it was submitted.
    pub arrival: Nanos,
    /// When it was complete.
    pub finish: Nanos,
    /// Time that it spent on a core.
    pub running: Nanos,
    /// Time that it takes when it is alone on the machine, on its home node.
    pub alone: Nanos,
    /// What it moved, by medium as seen from the cores that it ran on.
    pub counts: Counts,
    /// Quanta in which it occupied a core.
    pub quanta: u64,
}

/// What happened in one quantum.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantumOutcome {
    /// When it began, from the first arrival on.
    pub start: Nanos,
    /// How long it was.
    pub elapsed: Nanos,
    /// Bandwidth of all tasks together.
    pub bandwidth: BytesPerSec,
    /// The same per memory, in the machine's order.
    pub memories: [BytesPerSec; MAX_MEDIA],
    /// Who had cores of their own, by number; nobody where the operating system schedules.
    pub chosen: Vec<JobId>,
    /// What the chosen were predicted to require together.
    pub predicted: BytesPerSec,
    /// What the policy aimed at, if it aims at something.
    pub target: Option<BytesPerSec>,
}

impl TaskOutcome {
    /// From submission to completion.
    #[must_use]
    pub fn turnaround(&self) -> Nanos {
        self.finish - self.arrival
    }

    /// Time on a core over the time alone: what contention cost it; 1 if nothing did.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.running.as_f64() / self.alone.as_f64().max(1.0)
    }
}

impl Outcome {
    /// Weighted speedup, iabw eq. (1): the sum over the tasks of the time alone over the time that
    /// they spent on a core. As many as there are tasks if nothing contended.
    #[must_use]
    pub fn weighted_speedup(&self) -> f64 {
        let times: Vec<(Nanos, Nanos)> =
            self.tasks.iter().map(|task| (task.alone, task.running)).collect();
        metrics::weighted_speedup(&times)
    }

    /// Bandwidth of each quantum that was at least half as long as `quantum`, or of the only one:
    /// a bandwidth over next to no time says nothing.
    #[must_use]
    pub fn bandwidths(&self, quantum: Nanos) -> Vec<BytesPerSec> {
        let whole =
            |seen: &&QuantumOutcome| seen.elapsed >= Nanos(quantum.0 / 2) || self.quanta.len() == 1;
        self.quanta.iter().filter(whole).map(|seen| seen.bandwidth).collect()
    }

    /// Everything that the tasks moved, over the turnaround.
    #[must_use]
    pub fn mean_bandwidth(&self) -> BytesPerSec {
        self.tasks
            .iter()
            .fold(Counts::default(), |sum, task| sum + task.counts)
            .bandwidth(self.turnaround)
    }

    /// Standard deviation of the bandwidth of the quanta, iabw Fig. 9(b); `None` of fewer than two.
    #[must_use]
    pub fn bandwidth_deviation(&self, quantum: Nanos) -> Option<BytesPerSec> {
        let rates: Vec<f64> = self.bandwidths(quantum).iter().map(|rate| rate.0).collect();
        metrics::std_deviation(&rates).map(BytesPerSec)
    }

    /// BTR breakdown, iabw Fig. 10: shares of the quanta in bands of equal width up to `peak`.
    #[must_use]
    pub fn breakdown(&self, quantum: Nanos, peak: BytesPerSec, bands: usize) -> Vec<BandwidthBand> {
        metrics::bandwidth_breakdown(&self.bandwidths(quantum), peak, bands)
    }
}
