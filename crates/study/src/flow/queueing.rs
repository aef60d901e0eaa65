//! Results of a job log in the terms of queueing: wait, response, slowdown, utilization.

use memweir_core::Nanos;
use memweir_flow::outcome::{Outcome, TaskOutcome};
use serde::Serialize;

/// Mean and percentiles over the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 % of the jobs have at most this (nearest rank).
    pub p95: f64,
    /// 99 % of the jobs have at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// Results of a run by job. Times are in simulated seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Queueing {
    /// Time from a job's submission until it first had a core.
    pub wait_s: Distribution,
    /// Time from a job's submission to its end.
    pub response_s: Distribution,
    /// Response over the time alone, or over the bound if that is longer; at least 1.
    pub bounded_slowdown: Distribution,
    /// Time that cores executed tasks over that of all cores, up to the last completion.
    pub utilization: f64,
}

impl Distribution {
    /// Returns the distribution of these values; zeros of none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(max) = values.last().copied() else { return Self::default() };
        let count = values.len();
        let rank = |percent: usize| values[(count * percent).div_ceil(100).max(1) - 1];
        let mean = values.iter().sum::<f64>() / count as f64;
        Self { mean, p50: rank(50), p95: rank(95), p99: rank(99), max }
    }

    fn each(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self {
            mean: mean(|d| d.mean),
            p50: mean(|d| d.p50),
            p95: mean(|d| d.p95),
            p99: mean(|d| d.p99),
            max: mean(|d| d.max),
        }
    }
}

impl Queueing {
    /// Returns the results of an outcome in which `jobs` has the job of each task; those of a job
    /// follow each other. `bound` is that of the bounded slowdown, in seconds.
    #[must_use]
    pub fn of(outcome: &Outcome, jobs: &[u32], cores: u32, bound: f64) -> Self {
        let (mut waits, mut responses, mut slowdowns) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = 0;
        for tasks in jobs.chunk_by(|a, b| a == b) {
            let tasks = &outcome.tasks[first..first + tasks.len()];
            first += tasks.len();
            let of = |figure: fn(&TaskOutcome) -> Nanos| tasks.iter().map(figure);
            let arrival = tasks[0].arrival;
            let start = of(|task| task.started).min().unwrap_or_default();
            let end = of(|task| task.finish).max().unwrap_or_default();
            let alone = of(|task| task.alone).max().unwrap_or_default().as_secs_f64();
            let response = end.saturating_sub(arrival).as_secs_f64();
            waits.push(start.saturating_sub(arrival).as_secs_f64());
            responses.push(response);
            slowdowns.push((response / alone.max(bound)).max(1.0));
        }
        let busy: f64 = outcome.tasks.iter().map(|task| task.running.as_secs_f64()).sum();
        let available = f64::from(cores) * outcome.turnaround.as_secs_f64();
        Self {
            wait_s: Distribution::of(waits),
            response_s: Distribution::of(responses),
            bounded_slowdown: Distribution::of(slowdowns),
            utilization: if available > 0.0 { busy / available } else { 0.0 },
        }
    }

    /// Returns the mean of each figure over several runs; `None` of none.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let all = |of: fn(&Self) -> Distribution| {
            Distribution::each(&runs.iter().map(of).collect::<Vec<_>>())
        };
        Some(Self {
            wait_s: all(|run| run.wait_s),
            response_s: all(|run| run.response_s),
            bounded_slowdown: all(|run| run.bounded_slowdown),
            utilization: runs.iter().map(|run| run.utilization).sum::<f64>() / runs.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let of = |count: u32| Distribution::of((1..=count).rev().map(f64::from).collect());
        let hundred = of(100);
        assert_eq!((hundred.p50, hundred.p95, hundred.p99, hundred.max), (50.0, 95.0, 99.0, 100.0));
        assert_eq!(hundred.mean, 50.5);
        let three = of(3);
        assert_eq!((three.p50, three.p95, three.max), (2.0, 3.0, 3.0));
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }
}
