//! Results of a scenario as data: every run, and the conclusions about the policies at each point
//! of a sweep. `sim --json` writes these structures field by field.

use memweir_core::metrics;
use memweir_core::verdict::{Difference, Verdict};
use serde::Serialize;

use super::log::LogFigures;
use super::queueing::Queueing;
use crate::sweep::as_object;

use memweir_flow::machine::{Machine, Memory};

/// Results of a scenario under all of its policies, at every point of its sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of memweir.
    pub version: &'static str,
    /// The scenario's file.
    pub scenario: String,
    /// The points of the sweep in order; a single one without a sweep.
    pub points: Vec<Point>,
    /// Each policy over the points of a sweep at which it is not the baseline; empty without a
    /// sweep.
    pub overall: Vec<Overall>,
}

/// Gains of a policy over all points of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overall {
    /// The policy.
    pub policy: String,
    /// Number of points at which it was compared.
    pub points: usize,
    /// Mean of its gains at these points.
    pub mean: f64,
    /// Largest gain.
    pub best: f64,
    /// The swept values of the largest gain.
    #[serde(serialize_with = "as_object")]
    pub best_at: Vec<(String, String)>,
    /// Smallest gain.
    pub worst: f64,
    /// The swept values of the smallest gain.
    #[serde(serialize_with = "as_object")]
    pub worst_at: Vec<(String, String)>,
    /// Number of points at which it was faster than the baseline by more than chance.
    pub faster: usize,
    /// Number of points at which it was slower by more than chance.
    pub slower: usize,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The swept keys and their values at this point, in the order of the sweeps.
    #[serde(serialize_with = "as_object")]
    pub at: Vec<(String, String)>,
    /// The machine.
    pub machine: String,
    /// Its memories.
    pub memories: Vec<MemoryFigures>,
    /// Number of cores that the tasks could use.
    pub cores: u32,
    /// Number of tasks.
    pub tasks: usize,
    /// The job log; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogFigures>,
    /// The predictor, with its parameter.
    pub predictor: String,
    /// Length of a quantum in milliseconds.
    pub quantum_ms: f64,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// Peak bandwidth of the local DRAM in bytes per second.
    pub peak_bandwidth: f64,
    /// The policy that the others are compared with.
    pub baseline: String,
    /// The policies in the order in which they were named.
    pub policies: Vec<PolicySummary>,
    /// Every run, by repetition and then in the order of the policies.
    pub runs: Vec<Run>,
}

/// Parameters of a simulated memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryFigures {
    /// Its name.
    pub name: String,
    /// Bandwidth at requests of cost 1, in bytes per second.
    pub capacity: f64,
    /// Unloaded latency of a read in nanoseconds.
    pub read_latency_ns: f64,
    /// Unloaded latency of a write in nanoseconds.
    pub write_latency_ns: f64,
    /// Read latency over that of the first memory: `g` of the model.
    pub read_ratio: f64,
    /// Write latency over the read latency of the first memory.
    pub write_ratio: f64,
}

impl MemoryFigures {
    /// Returns the figures of all memories of a machine.
    #[must_use]
    pub fn of(machine: &Machine) -> Vec<Self> {
        let dram = machine.memories[0].read_latency;
        let figures = |memory: &Memory| Self {
            name: memory.name.clone(),
            capacity: memory.service.capacity.0,
            read_latency_ns: memory.read_latency.as_f64() / 1e3,
            write_latency_ns: memory.write_latency.as_f64() / 1e3,
            read_ratio: memory.read_latency.ratio(dram),
            write_ratio: memory.write_latency.ratio(dram),
        };
        machine.memories.iter().map(figures).collect()
    }
}

/// One repetition of a scenario under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The policy.
    pub policy: String,
    /// Number of the repetition, from zero.
    pub repetition: u32,
    /// Seed of all random numbers in the run.
    pub seed: u64,
    /// Time from the start to the end of the last task, in seconds.
    pub turnaround_s: f64,
    /// Weighted speedup, iabw eq. (1).
    pub weighted_speedup: f64,
    /// Traffic with all memories over the turnaround, in bytes per second.
    pub bandwidth_mean: f64,
    /// Standard deviation over the quanta of at least half of their length (iabw Fig. 9b).
    pub bandwidth_std: f64,
    /// Ideal average bandwidth of the tasks, iabw eq. (10), in bytes per second.
    pub ideal_average_bandwidth: Option<f64>,
    /// The last scheduling bandwidth target, in bytes per second; absent without a target.
    pub target: Option<f64>,
    /// Number of quanta.
    pub quanta: u64,
    /// Bytes copied by page migration.
    pub copied_bytes: u64,
    /// The shortest possible turnaround or a lower bound, in seconds; absent if it was not
    /// requested.
    pub optimum_s: Option<f64>,
    /// Certainty of `optimum_s`.
    pub optimum_is: Option<Certainty>,
    /// Results by job; absent without a job log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<Queueing>,
    /// The tasks, in the order of the scenario.
    pub tasks: Vec<TaskRun>,
}

/// Certainty of a shortest turnaround; see [`memweir_flow::optimal::Certainty`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// A schedule with this turnaround exists, and none is shorter.
    Best,
    /// No schedule is shorter.
    Bound,
}

memweir_core::named! { pub Certainty, "certainty": Best = "best", Bound = "bound" }

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskRun {
    /// Its name.
    pub name: String,
    /// Time alone on the machine, in seconds.
    pub alone_s: f64,
    /// Time from arrival to end, in seconds.
    pub turnaround_s: f64,
    /// Time on a core, in seconds.
    pub running_s: f64,
    /// Time on a core over the time alone: the cost of contention.
    pub slowdown: f64,
    /// Mean bandwidth while it was on a core, in bytes per second.
    pub bandwidth_mean: f64,
}

/// One policy over all repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// Its name.
    pub policy: String,
    /// Turnaround of each repetition, in seconds.
    pub turnaround_s: Vec<f64>,
    /// Mean turnaround, in seconds.
    pub mean_s: f64,
    /// Relative standard deviation of the turnaround in percent; absent with one repetition.
    pub rsd_percent: Option<f64>,
    /// Relative gain in throughput: mean over the repetitions of the baseline's turnaround over its
    /// own, minus one.
    pub gain: f64,
    /// Difference of turnaround from the baseline, paired by repetition; absent for the baseline
    /// and for one repetition.
    pub difference: Option<Difference>,
    /// Conclusion from the difference.
    pub verdict: Verdict,
    /// Mean weighted speedup.
    pub weighted_speedup: f64,
    /// Mean of the mean bandwidths, in bytes per second.
    pub bandwidth_mean: f64,
    /// Mean of the bandwidths' standard deviations per quantum, in bytes per second.
    pub bandwidth_std: f64,
    /// Time saved over the time that the optimum saves, both against the baseline; absent if no
    /// optimum is known, or if the optimum saves at most the share [`LEAST_POSSIBLE`]. If the
    /// optimum is only a bound, a positive value is a lower limit.
    pub share_of_possible: Option<f64>,
    /// Certainty of the optimum: best only if it is so in every repetition.
    pub optimum_is: Option<Certainty>,
    /// Results by job, each the mean over the repetitions; absent without a job log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<Queueing>,
}

/// Returns the name of the policy with which the others are compared: `os` if present, else the
/// first.
#[must_use]
pub fn baseline(policies: &[String]) -> &str {
    let os = policies.iter().find(|policy| *policy == "os");
    os.or(policies.first()).map_or("", String::as_str)
}

/// Summarizes the runs of one point by policy.
#[must_use]
pub fn summaries(policies: &[String], runs: &[Run], confidence: f64) -> Vec<PolicySummary> {
    let baseline = baseline(policies);
    let of_baseline = of_policy(runs, baseline);
    let summary = |policy: &String| {
        let own = of_policy(runs, policy);
        let turnaround_s = turnarounds(&own);
        let difference = (policy != baseline)
            .then(|| Difference::between(&turnarounds(&of_baseline), &turnaround_s, confidence))
            .flatten();
        let mean = |value: fn(&Run) -> f64| -> f64 {
            metrics::mean(&own.iter().map(|run| value(run)).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        PolicySummary {
            policy: policy.clone(),
            mean_s: metrics::mean(&turnaround_s).unwrap_or(0.0),
            rsd_percent: metrics::relative_std_deviation_percent(&turnaround_s),
            gain: gain(&turnarounds(&of_baseline), &turnaround_s),
            verdict: if policy == baseline { Verdict::Baseline } else { Verdict::of(difference) },
            difference,
            weighted_speedup: mean(|run| run.weighted_speedup),
            bandwidth_mean: mean(|run| run.bandwidth_mean),
            bandwidth_std: mean(|run| run.bandwidth_std),
            share_of_possible: share_of_possible(&of_baseline, &own),
            optimum_is: certainty(&own),
            queueing: Queueing::mean(
                &own.iter().filter_map(|run| run.queueing).collect::<Vec<_>>(),
            ),
            turnaround_s,
        }
    };
    policies.iter().map(summary).collect()
}

/// Summarizes all points of a sweep by policy.
#[must_use]
pub fn overall(points: &[Point]) -> Vec<Overall> {
    let mut policies: Vec<&str> = Vec::new();
    for policy in points.iter().flat_map(|point| &point.policies) {
        if policy.verdict != Verdict::Baseline && !policies.contains(&policy.policy.as_str()) {
            policies.push(&policy.policy);
        }
    }
    policies.into_iter().filter_map(|policy| overall_of(policy, points)).collect()
}

fn overall_of(policy: &str, points: &[Point]) -> Option<Overall> {
    let compared: Vec<(&Point, &PolicySummary)> = points
        .iter()
        .flat_map(|point| point.policies.iter().map(move |summary| (point, summary)))
        .filter(|(_, summary)| summary.policy == policy && summary.verdict != Verdict::Baseline)
        .collect();
    let gains: Vec<f64> = compared.iter().map(|(_, summary)| summary.gain).collect();
    let by_gain = |a: &&(&Point, &PolicySummary), b: &&(&Point, &PolicySummary)| {
        a.1.gain.total_cmp(&b.1.gain)
    };
    let (best, worst) = (compared.iter().max_by(by_gain)?, compared.iter().min_by(by_gain)?);
    let with = |verdict| compared.iter().filter(|(_, summary)| summary.verdict == verdict).count();
    Some(Overall {
        policy: policy.to_owned(),
        points: compared.len(),
        mean: metrics::mean(&gains)?,
        best: best.1.gain,
        best_at: best.0.at.clone(),
        worst: worst.1.gain,
        worst_at: worst.0.at.clone(),
        faster: with(Verdict::Faster),
        slower: with(Verdict::Slower),
    })
}

fn of_policy<'a>(runs: &'a [Run], policy: &str) -> Vec<&'a Run> {
    runs.iter().filter(|run| run.policy == policy).collect()
}

fn turnarounds(runs: &[&Run]) -> Vec<f64> {
    runs.iter().map(|run| run.turnaround_s).collect()
}

/// Returns the mean over the pairs of the relative gain in throughput.
fn gain(baseline: &[f64], policy: &[f64]) -> f64 {
    let gains: Vec<f64> = baseline
        .iter()
        .zip(policy)
        .filter(|(_, own)| **own > 0.0)
        .map(|(baseline, own)| baseline / own - 1.0)
        .collect();
    metrics::mean(&gains).unwrap_or(0.0)
}

/// Returns the certainty of these optima together.
fn certainty(runs: &[&Run]) -> Option<Certainty> {
    let best = runs.iter().all(|run| run.optimum_is == Some(Certainty::Best));
    runs.first()?.optimum_is?;
    Some(if best { Certainty::Best } else { Certainty::Bound })
}

/// Least saving of the optimum, as a share of the baseline's turnaround, for which a policy's share
/// of it is stated. Below, differences in the start times of tasks exceed the possible gain.
pub const LEAST_POSSIBLE: f64 = 0.001;

/// Returns the time that `policy` saves against `baseline`, over the time that the optimum saves.
fn share_of_possible(baseline: &[&Run], policy: &[&Run]) -> Option<f64> {
    let (mut saved, mut possible, mut total) = (0.0, 0.0, 0.0);
    for (baseline, own) in baseline.iter().zip(policy) {
        total += baseline.turnaround_s;
        saved += baseline.turnaround_s - own.turnaround_s;
        possible += baseline.turnaround_s - own.optimum_s?;
    }
    (possible > LEAST_POSSIBLE * total).then(|| saved / possible)
}

#[cfg(test)]
mod tests;
