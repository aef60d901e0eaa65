//! Outcome of an experiment, and the metrics of the papers over it.

use memweir_core::metrics;
use memweir_core::{Bytes, BytesPerSec, Counts, MAX_MEDIA, Nanos, Traffic};

/// Outcome of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the first arrival to the last completion.
    pub turnaround: Nanos,
    /// The tasks, in their order.
    pub tasks: Vec<TaskOutcome>,
    /// The quanta, in their order. The last one ends with the last task.
    pub quanta: Vec<QuantumOutcome>,
    /// Traffic of the tasks, per memory in the machine's order.
    pub served: [Traffic; MAX_MEDIA],
    /// Bytes copied by page migration, which `served` does not include.
    pub copied: Bytes,
    /// Ideal average bandwidth of the batch when the first tasks were submitted, iabw eq. (10).
    pub ideal_average: Option<BytesPerSec>,
}

/// Outcome of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    /// Its name.
    pub name: String,
    /// Time of submission.
    pub arrival: Nanos,
    /// Start of the first quantum in which it had a core, or its admission if that was later. Where
    /// the operating system schedules, a task has a core as soon as it is admitted.
    pub started: Nanos,
    /// Time of completion.
    pub finish: Nanos,
    /// Time that it spent on a core.
    pub running: Nanos,
    /// Time that it takes alone on the machine, on its home node.
    pub alone: Nanos,
    /// Its traffic, by medium as seen from the cores that it ran on.
    pub counts: Counts,
    /// Quanta in which it occupied a core.
    pub quanta: u64,
}

/// Record of one quantum.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantumOutcome {
    /// Start, counted from the first arrival.
    pub start: Nanos,
    /// Length of the quantum.
    pub elapsed: Nanos,
    /// Bandwidth of all tasks together.
    pub bandwidth: BytesPerSec,
    /// Bandwidth per memory, in the machine's order.
    pub memories: [BytesPerSec; MAX_MEDIA],
    /// Number of tasks that had cores of their own; zero where the operating system schedules.
    pub chosen: u32,
    /// Predicted demand of these tasks together.
    pub predicted: BytesPerSec,
    /// Target of the policy, if it has one.
    pub target: Option<BytesPerSec>,
}

impl TaskOutcome {
    /// Returns the time from submission to completion.
    #[must_use]
    pub fn turnaround(&self) -> Nanos {
        self.finish - self.arrival
    }

    /// Returns the time on a core over the time alone; 1 without contention.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.running.as_f64() / self.alone.as_f64().max(1.0)
    }
}

impl Outcome {
    /// Returns the weighted speedup, iabw eq. (1): the sum over the tasks of the time alone over
    /// the time on a core. Without contention it equals the number of tasks.
    #[must_use]
    pub fn weighted_speedup(&self) -> f64 {
        let times = |task: &TaskOutcome| (task.alone.as_f64(), task.running.as_f64());
        let times: Vec<_> = self.tasks.iter().map(times).collect();
        metrics::weighted_speedup(&times)
    }

    /// Returns the bandwidth of each quantum that was at least half as long as `quantum`, or of the
    /// only quantum: a bandwidth over a very short time means little.
    #[must_use]
    pub fn bandwidths(&self, quantum: Nanos) -> Vec<BytesPerSec> {
        let whole =
            |seen: &&QuantumOutcome| seen.elapsed >= Nanos(quantum.0 / 2) || self.quanta.len() == 1;
        self.quanta.iter().filter(whole).map(|seen| seen.bandwidth).collect()
    }

    /// Returns the traffic of all tasks over the turnaround.
    #[must_use]
    pub fn mean_bandwidth(&self) -> BytesPerSec {
        self.tasks
            .iter()
            .fold(Counts::default(), |sum, task| sum + task.counts)
            .bandwidth(self.turnaround)
    }

    /// Returns the standard deviation of the bandwidth of the quanta, iabw Fig. 9(b); `None` for
    /// fewer than two.
    #[must_use]
    pub fn bandwidth_deviation(&self, quantum: Nanos) -> Option<BytesPerSec> {
        let rates: Vec<f64> = self.bandwidths(quantum).iter().map(|rate| rate.0).collect();
        metrics::std_deviation(&rates).map(BytesPerSec)
    }
}
