//! The same batch under several policies, in turn, and what can be concluded.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_core::metrics;
pub use memweir_core::verdict::{Difference, Verdict};
use serde::{Deserialize, Serialize};

use crate::batch::{self, RunError, run_batch};
use crate::jobs::Batch;
use crate::observer::{Event, Observer};
use crate::options::RunOptions;
use crate::report::{BatchReport, Outcome};

/// What to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Names of [`policy_names`](crate::options::policy_names), the one that the others are
    /// compared with first.
    pub variants: Vec<String>,
    /// Rounds; in each, every variant runs once.
    pub rounds: u32,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// File to which each run's report is appended as it ends, one JSON object per line.
    pub results: Option<PathBuf>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { variants: Vec::new(), rounds: 3, confidence: 0.95, results: None }
    }
}

/// Runs the batch under each variant in turn, [`CompareOptions::rounds`] times.
///
/// Every round starts with another variant, so that a drift of the machine meets all alike. Each
/// run has its own directory of logs (`round-1/os`) and its own timeline (`FILE.os-1.csv`). A signal
/// ends the comparison; what may be concluded from the rounds before is returned.
pub fn compare(
    batch: &Batch,
    options: &RunOptions,
    compare: &CompareOptions,
    observer: &mut dyn Observer,
) -> Result<Comparison, RunError> {
    compare_with(
        options,
        compare,
        |options| batch::check(batch, options),
        |options, _, observer| run_batch(batch, options, observer),
        observer,
    )
}

/// Compares what `run` does with the options of each run and the number of its round, wherever that
/// is; `check` refuses options before anything runs.
///
/// # Errors
/// What `check` and `run` refuse, and a comparison of nothing.
pub fn compare_with(
    options: &RunOptions,
    compare: &CompareOptions,
    check: impl Fn(&RunOptions) -> Result<(), RunError>,
    mut run: impl FnMut(&RunOptions, u32, &mut dyn Observer) -> Result<BatchReport, RunError>,
    observer: &mut dyn Observer,
) -> Result<Comparison, RunError> {
    compare.check()?;
    for variant in &compare.variants {
        check(&of_run(options, variant, 0))?;
    }
    let mut runs = Vec::new();
    'rounds: for round in 0..compare.rounds {
        for variant in compare.order(round) {
            let rounds = compare.rounds;
            observer.event(Event::RunStarted { variant, round, rounds });
            let report = run(&of_run(options, variant, round), round, observer)?;
            let stopped = report.outcome == Outcome::Interrupted;
            let run = ComparedRun { round, variant: variant.clone(), report };
            if let Err(error) = compare.keep(&run) {
                observer.event(Event::Notice(&format!("this run's result is not kept: {error}")));
            }
            runs.push(run);
            if stopped {
                break 'rounds;
            }
        }
    }
    Ok(Comparison::conclude(compare, runs))
}

/// The options of one run of a comparison.
fn of_run(options: &RunOptions, variant: &str, round: u32) -> RunOptions {
    RunOptions {
        policy: variant.to_owned(),
        logs: options.logs.join(format!("round-{}", round + 1)).join(variant),
        timeline: options.timeline.as_deref().map(|path| file_of(path, variant, round)),
        record: options.record.as_deref().map(|path| file_of(path, variant, round)),
        ..options.clone()
    }
}

/// `batch.csv` becomes `batch.os-1.csv`.
fn file_of(path: &Path, variant: &str, round: u32) -> PathBuf {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(format!("{variant}-{}.{ending}", round + 1))
}

impl CompareOptions {
    fn check(&self) -> Result<(), InputError> {
        let refuse = |reason: &str, help: &str| {
            Err(InputError::new("run", reason).key("compare").help(help.to_owned()))
        };
        let mut seen = std::collections::HashSet::new();
        if self.variants.len() < 2 {
            return refuse("there is nothing to compare", "name at least two policies");
        }
        if !self.variants.iter().all(|variant| seen.insert(variant)) {
            return refuse("a policy is named twice", "name each policy once");
        }
        if self.rounds == 0 {
            return refuse("no round is to be run", "repeat at least once");
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return refuse("this is no level of confidence", "more than 0 and less than 1");
        }
        Ok(())
    }

    /// The variants in the order of a round.
    fn order(&self, round: u32) -> impl Iterator<Item = &String> {
        let count = self.variants.len();
        self.variants.iter().cycle().skip(round as usize % count).take(count)
    }

    /// Appends a run to the results, where they are wanted.
    fn keep(&self, run: &ComparedRun) -> io::Result<()> {
        let Some(path) = &self.results else { return Ok(()) };
        let mut line = serde_json::to_vec(run)?;
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }
}

impl Comparison {
    /// What may be concluded from `runs`. Rounds that are not complete do not count.
    #[must_use]
    pub fn conclude(options: &CompareOptions, runs: Vec<ComparedRun>) -> Self {
        let of_variant = |variant: &str| -> Vec<&BatchReport> {
            runs.iter()
                .filter(|run| run.variant == variant && run.report.outcome != Outcome::Interrupted)
                .map(|run| &run.report)
                .collect()
        };
        // Runs of a variant are in the order of the rounds, and only the last round can lack one.
        let rounds = options.variants.iter().map(|v| of_variant(v).len()).min().unwrap_or(0);
        let turnarounds = |variant: &str| -> Vec<f64> {
            of_variant(variant)[..rounds].iter().map(|report| report.turnaround_s).collect()
        };
        let baseline = options.variants.first().cloned().unwrap_or_default();
        let baseline_s = turnarounds(&baseline);
        let summary = |(index, variant): (usize, &String)| {
            let turnaround_s = turnarounds(variant);
            let deviations: Vec<f64> =
                of_variant(variant)[..rounds].iter().map(|report| report.bandwidth_std).collect();
            let difference = (index > 0)
                .then(|| Difference::between(&baseline_s, &turnaround_s, options.confidence))
                .flatten();
            VariantSummary {
                variant: variant.clone(),
                mean_s: metrics::mean(&turnaround_s).unwrap_or(0.0),
                rsd_percent: metrics::relative_std_deviation_percent(&turnaround_s),
                bandwidth_std: metrics::mean(&deviations).unwrap_or(0.0),
                verdict: if index == 0 { Verdict::Baseline } else { Verdict::of(difference) },
                turnaround_s,
                difference,
            }
        };
        let variants = options.variants.iter().enumerate().map(summary).collect();
        Self { baseline, rounds: rounds as u32, confidence: options.confidence, variants, runs }
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant that the others are compared with.
    pub baseline: String,
    /// Rounds that were run to their end.
    pub rounds: u32,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// The variants, in the order in which they were given.
    pub variants: Vec<VariantSummary>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<ComparedRun>,
}

/// One run of a comparison; also one line of the results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Number of the round, from zero.
    pub round: u32,
    /// The variant.
    pub variant: String,
    /// What it did.
    pub report: BatchReport,
}

/// One variant over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Its name.
    pub variant: String,
    /// Turnaround of each round, in seconds.
    pub turnaround_s: Vec<f64>,
    /// Mean turnaround in seconds.
    pub mean_s: f64,
    /// Relative standard deviation of the turnaround in percent; absent for a single round.
    pub rsd_percent: Option<f64>,
    /// Mean over the rounds of the standard deviation of bandwidth per quantum, bytes per second.
    pub bandwidth_std: f64,
    /// Difference from the baseline, round by round; absent for the baseline and for a single
    /// round.
    pub difference: Option<Difference>,
    /// What may be concluded.
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variants: &[&str], rounds: u32) -> CompareOptions {
        CompareOptions {
            variants: variants.iter().map(ToString::to_string).collect(),
            rounds,
            ..CompareOptions::default()
        }
    }

    fn run(round: u32, variant: &str, turnaround_s: f64) -> ComparedRun {
        let report = BatchReport {
            policy: variant.to_owned(),
            predictor: "last".to_owned(),
            meter: "declared".to_owned(),
            mechanism: "cgroup-v2".to_owned(),
            cores: 2,
            quantum_ms: 100,
            turnaround_s,
            scheduler_s: 0.01,
            bandwidth_mean: 1e9,
            bandwidth_std: 1e8,
            quanta: 10,
            bandwidth_breakdown: Vec::new(),
            ideal_average_bandwidth: None,
            target: None,
            peak_bandwidth: None,
            media: Vec::new(),
            outcome: Outcome::Finished,
            notices: Vec::new(),
            jobs: Vec::new(),
        };
        ComparedRun { round, variant: variant.to_owned(), report }
    }

    /// Runs of `a`, `b` and so on, one row per round.
    fn runs(rounds: &[&[f64]]) -> Vec<ComparedRun> {
        let mut runs = Vec::new();
        for (round, row) in rounds.iter().enumerate() {
            for (variant, turnaround) in ["a", "b", "c"].iter().zip(*row) {
                runs.push(run(round as u32, variant, *turnaround));
            }
        }
        runs
    }

    #[test]
    fn every_round_starts_with_another_variant() {
        let options = options(&["a", "b", "c"], 4);
        let order = |round| options.order(round).cloned().collect::<String>();
        assert_eq!([0, 1, 2, 3].map(order), ["abc", "bca", "cab", "abc"]);
    }

    #[test]
    fn a_steady_gain_is_measured_in_spite_of_drift() {
        // The machine gets slower from round to round; the gain is 1 s give or take 0.1.
        let runs = runs(&[&[10.0, 9.0], &[12.0, 11.1], &[14.0, 12.9]]);
        let comparison = Comparison::conclude(&options(&["a", "b"], 3), runs);
        let [a, b] = &comparison.variants[..] else { panic!("two variants") };
        assert_eq!((a.verdict, a.mean_s, a.difference), (Verdict::Baseline, 12.0, None));
        assert_eq!(b.verdict, Verdict::Faster);
        let difference = b.difference.expect("three rounds");
        assert!((difference.mean_s + 1.0).abs() < 1e-9);
        // t(2, 0.975) = 4.302653; s = 0.1; 4.302653 * 0.1 / sqrt(3) = 0.248413.
        assert!((difference.low_s + 1.248413).abs() < 1e-5, "{difference:?}");
        assert!((difference.high_s + 0.751586).abs() < 1e-5, "{difference:?}");
        assert!((difference.percent + 100.0 / 12.0).abs() < 1e-9);
        // 2 s around 12 s.
        assert!((a.rsd_percent.expect("three rounds") - 100.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_around_zero_is_no_difference() {
        let runs = runs(&[&[10.0, 11.0, 12.0], &[10.0, 9.0, 12.1], &[10.0, 10.1, 11.9]]);
        let comparison = Comparison::conclude(&options(&["a", "b", "c"], 3), runs);
        let verdicts: Vec<Verdict> = comparison.variants.iter().map(|v| v.verdict).collect();
        assert_eq!(verdicts, [Verdict::Baseline, Verdict::NoDifference, Verdict::Slower]);
    }

    #[test]
    fn one_round_concludes_nothing() {
        let comparison = Comparison::conclude(&options(&["a", "b"], 1), runs(&[&[10.0, 5.0]]));
        assert_eq!(comparison.variants[1].verdict, Verdict::TooFewRounds);
        assert_eq!(comparison.variants[1].difference, None);
    }

    #[test]
    fn an_incomplete_round_does_not_count() {
        let mut runs = runs(&[&[10.0, 9.0], &[10.0, 9.0], &[10.0, 9.0]]);
        runs[5].report.outcome = Outcome::Interrupted;
        let comparison = Comparison::conclude(&options(&["a", "b"], 3), runs);
        assert_eq!(comparison.rounds, 2);
        assert_eq!(comparison.variants[0].turnaround_s, [10.0, 10.0]);
        assert_eq!(comparison.runs.len(), 6);
    }

    #[test]
    fn results_are_kept_line_by_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("results.jsonl");
        let options = CompareOptions { results: Some(path.clone()), ..options(&["a", "b"], 1) };
        options.keep(&run(0, "a", 1.5)).expect("space");
        options.keep(&run(0, "b", 2.5)).expect("space");
        let text = std::fs::read_to_string(path).expect("a file");
        let kept: Vec<ComparedRun> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[1].variant.as_str(), kept[1].report.turnaround_s), ("b", 2.5));
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        assert!(options(&["a"], 3).check().is_err());
        assert!(options(&["a", "a"], 3).check().is_err());
        assert!(options(&["a", "b"], 0).check().is_err());
        let bold = CompareOptions { confidence: 1.0, ..options(&["a", "b"], 3) };
        assert!(bold.check().is_err());
        assert!(options(&["a", "b"], 3).check().is_ok());
    }

    #[test]
    fn each_run_has_its_own_files() {
        let options = RunOptions {
            logs: "logs".into(),
            timeline: Some("out/batch.csv".into()),
            ..RunOptions::default()
        };
        let options = of_run(&options, "os", 1);
        assert_eq!(options.logs, Path::new("logs/round-2/os"));
        assert_eq!(options.timeline.as_deref(), Some(Path::new("out/batch.os-2.csv")));
    }
}
