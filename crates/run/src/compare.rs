//! Comparison of policies: the same batch under several policies in turn, and the conclusions.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_core::metrics;
pub use memweir_core::verdict::{Difference, Verdict};
use serde::{Deserialize, Serialize};

use crate::batch::{self, RunError, run_batch};
use crate::files;
use crate::jobs::Batch;
use crate::observer::{Event, Observer};
use crate::options::RunOptions;
use crate::report::{BatchReport, LostOutput, Outcome};

/// Options of a comparison.
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
/// Every round starts with another variant, so that a drift of the machine affects all alike. Each
/// run has its own directory of logs (`round-1/os`) and its own timeline (`FILE.os-1.csv`). A
/// signal or a failed policy ends the comparison, and so does a run that fails after the first one;
/// the conclusions from the rounds before are returned.
pub fn compare(
    batch: &Batch,
    options: &RunOptions,
    compare: &CompareOptions,
    observer: &mut dyn Observer,
) -> Result<Compared, RunError> {
    compare_with(
        options,
        compare,
        |options| batch::check(batch, options),
        |options, _, observer| run_batch(batch, options, observer),
        observer,
    )
}

/// Refuses what [`compare`] would refuse whatever the jobs' profiles and the meters are.
pub fn check_input(
    batch: &Batch,
    options: &RunOptions,
    compare: &CompareOptions,
) -> Result<(), RunError> {
    check_each(options, compare, |options| batch::check_input(batch, options))
}

/// Checks the comparison, and the options of each variant by `check`.
fn check_each(
    options: &RunOptions,
    compare: &CompareOptions,
    check: impl Fn(&RunOptions) -> Result<(), RunError>,
) -> Result<(), RunError> {
    compare.check()?;
    compare.variants.iter().try_for_each(|variant| check(&of_run(options, variant, 0)))
}

/// Compares the results of `run`, which gets the options and the round of each run and may run it
/// anywhere; `check` refuses options before anything runs.
///
/// # Errors
/// Those of `check` and of the first `run`, and for options that compare nothing.
pub fn compare_with(
    options: &RunOptions,
    compare: &CompareOptions,
    check: impl Fn(&RunOptions) -> Result<(), RunError>,
    mut run: impl FnMut(&RunOptions, u32, &mut dyn Observer) -> Result<BatchReport, RunError>,
    observer: &mut dyn Observer,
) -> Result<Compared, RunError> {
    check_each(options, compare, check)?;
    let (mut runs, mut failure) = (Vec::new(), None);
    'rounds: for round in 0..compare.rounds {
        for variant in compare.order(round) {
            let rounds = compare.rounds;
            observer.event(Event::RunStarted { variant, round, rounds });
            let report = match run(&of_run(options, variant, round), round, observer) {
                Ok(report) => report,
                Err(error) if runs.is_empty() => return Err(error),
                Err(error) => {
                    failure = Some(error);
                    break 'rounds;
                }
            };
            let stopped = report.outcome.is_cut_short();
            let mut run = ComparedRun { round, variant: variant.clone(), report };
            if let Err((path, error)) = compare.keep(&run) {
                let reason = format!("the result of a run is not kept: {error}");
                observer.event(Event::Notice(&format!("{}: {reason}", path.display())));
                run.report.lost.push(LostOutput::new(path, reason));
            }
            runs.push(run);
            if stopped {
                break 'rounds;
            }
        }
    }
    Ok(Compared { comparison: Comparison::conclude(compare, runs), failure })
}

/// The options of one run of a comparison.
fn of_run(options: &RunOptions, variant: &str, round: u32) -> RunOptions {
    RunOptions {
        policy: variant.to_owned(),
        logs_of_run: Path::new(&format!("round-{}", round + 1)).join(variant),
        timeline: options.timeline.as_deref().map(|path| file_of(path, variant, round)),
        record: options.record.as_deref().map(|path| file_of(path, variant, round)),
        ..options.clone()
    }
}

/// `batch.csv` becomes `batch.os-1.csv`, and `batch` becomes `batch.os-1`.
fn file_of(path: &Path, variant: &str, round: u32) -> PathBuf {
    let ending = path.extension().map(OsStr::to_string_lossy);
    let ending = ending.map_or(String::new(), |ending| format!(".{ending}"));
    path.with_extension(format!("{variant}-{}{ending}", round + 1))
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

    /// Appends a run to the results file, if there is one.
    fn keep(&self, run: &ComparedRun) -> Result<(), (&Path, io::Error)> {
        let Some(path) = &self.results else { return Ok(()) };
        let append = || {
            let mut line = serde_json::to_vec(run)?;
            line.push(b'\n');
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            let before = file.metadata()?.len();
            file.write_all(&line).inspect_err(|_| match before {
                0 => files::remove_unfinished(path),
                // Half a line would spoil the lines before it for their readers.
                _ => drop(file.set_len(before)),
            })
        };
        append().map_err(|error| (path.as_path(), error))
    }
}

impl Comparison {
    /// Concludes from `runs`. Rounds that are not complete do not count. A job that ends with one
    /// code in some runs and with another in others voids the comparison, because the runs did
    /// different work; a job that ends with the same code in all of them does not.
    #[must_use]
    pub fn conclude(options: &CompareOptions, runs: Vec<ComparedRun>) -> Self {
        let of_variant = |variant: &str| -> Vec<&BatchReport> {
            runs.iter()
                .filter(|run| run.variant == variant && !run.report.outcome.is_cut_short())
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
        let compared: Vec<&ComparedRun> =
            runs.iter().filter(|run| (run.round as usize) < rounds).collect();
        let (void, failures) = match rounds {
            0 => (None, Vec::new()),
            _ => (different_work(&compared), constant_failures(&compared)),
        };
        let summary = |(index, variant): (usize, &String)| {
            let turnaround_s = turnarounds(variant);
            let deviations: Option<Vec<f64>> =
                of_variant(variant)[..rounds].iter().map(|report| report.bandwidth_std).collect();
            let difference = (index > 0 && void.is_none())
                .then(|| Difference::between(&baseline_s, &turnaround_s, options.confidence))
                .flatten();
            VariantSummary {
                variant: variant.clone(),
                mean_s: metrics::mean(&turnaround_s),
                rsd_percent: metrics::relative_std_deviation_percent(&turnaround_s),
                bandwidth_std: deviations.as_deref().and_then(metrics::mean),
                verdict: match index {
                    _ if void.is_some() => Verdict::Void,
                    0 => Verdict::Baseline,
                    _ => Verdict::of(difference),
                },
                turnaround_s,
                difference,
            }
        };
        let variants = options.variants.iter().enumerate().map(summary).collect();
        let (rounds, confidence) = (rounds as u32, options.confidence);
        Self { baseline, rounds, confidence, void, failures, variants, runs }
    }
}

/// Returns the first sign that the runs did different work; `None` if they did the same.
fn different_work(runs: &[&ComparedRun]) -> Option<String> {
    let named = |run: &ComparedRun| format!("{} in round {}", run.variant, run.round + 1);
    if let Some(run) = runs.iter().find(|run| run.report.outcome == Outcome::FailedFast) {
        return Some(format!("a failed job ended the batch under {}", named(run)));
    }
    let first = runs.first()?;
    runs.iter().find_map(|run| {
        let pairs = first.report.jobs.iter().zip(&run.report.jobs);
        let (before, now) = pairs.into_iter().find(|(a, b)| a.exit_code != b.exit_code)?;
        let code = |code: Option<i32>| code.map_or("no exit code".to_owned(), |c| c.to_string());
        Some(format!(
            "{} ended with {} under {} and with {} under {}",
            before.name,
            code(before.exit_code),
            named(first),
            code(now.exit_code),
            named(run)
        ))
    })
}

/// The jobs that failed in every run with the same code, by code.
fn constant_failures(runs: &[&ComparedRun]) -> Vec<ConstantFailure> {
    let mut failures: Vec<ConstantFailure> = Vec::new();
    let Some(first) = runs.first() else { return failures };
    for (index, job) in first.report.jobs.iter().enumerate() {
        let Some(exit_code) = job.exit_code.filter(|code| *code != 0) else { continue };
        let same = |run: &&ComparedRun| {
            run.report.jobs.get(index).and_then(|job| job.exit_code) == Some(exit_code)
        };
        if !runs.iter().all(same) {
            continue;
        }
        match failures.iter_mut().find(|failure| failure.exit_code == exit_code) {
            Some(failure) => failure.jobs.push(job.name.clone()),
            None => failures.push(ConstantFailure { exit_code, jobs: vec![job.name.clone()] }),
        }
    }
    failures
}

/// A comparison, and the failure of the run that ended it early.
#[derive(Debug)]
pub struct Compared {
    /// The conclusions from the runs before.
    pub comparison: Comparison,
    /// The failure, if there was one.
    pub failure: Option<RunError>,
}

/// Result of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant that the others are compared with.
    pub baseline: String,
    /// Rounds that were run to their end.
    pub rounds: u32,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// Reason for which no conclusion is possible: the runs did different work. Absent where they
    /// did the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// Jobs that failed in every run with the same code; these runs are compared all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ConstantFailure>,
    /// The variants, in the order in which they were given.
    pub variants: Vec<VariantSummary>,
    /// Every run, in the order in which they ran.
    pub runs: Vec<ComparedRun>,
}

/// Jobs that ended with the same code, not zero, in every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantFailure {
    /// The code.
    pub exit_code: i32,
    /// Their names.
    pub jobs: Vec<String>,
}

/// One run of a comparison; also one line of the results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Number of the round, from zero.
    pub round: u32,
    /// The variant.
    pub variant: String,
    /// Report of the run.
    pub report: BatchReport,
}

/// One variant over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Its name.
    pub variant: String,
    /// Turnaround of each round, in seconds.
    pub turnaround_s: Vec<f64>,
    /// Mean turnaround in seconds; absent where no round was completed.
    pub mean_s: Option<f64>,
    /// Relative standard deviation of the turnaround in percent; absent for a single round.
    pub rsd_percent: Option<f64>,
    /// Mean over the rounds of the standard deviation of bandwidth per quantum, bytes per second;
    /// absent where nothing was counted.
    pub bandwidth_std: Option<f64>,
    /// Difference from the baseline, round by round; absent for the baseline and for a single
    /// round.
    pub difference: Option<Difference>,
    /// The conclusion.
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::report::JobReport;

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
            cores: 2,
            turnaround_s,
            scheduler_s: 0.01,
            bandwidth_mean: Some(1e9),
            ..BatchReport::default()
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
    fn a_run_that_fails_leaves_the_conclusions_from_those_before() {
        let fails_at = |nth: u32| {
            let mut runs = 0;
            compare_with(
                &RunOptions::default(),
                &options(&["a", "b"], 3),
                |_| Ok(()),
                |options, round, _| {
                    runs += 1;
                    match runs {
                        runs if runs == nth => Err(InputError::new("run", "planted").into()),
                        _ => Ok(run(round, &options.policy, 1.5).report),
                    }
                },
                &mut Silent,
            )
        };
        assert!(matches!(fails_at(1), Err(RunError::Input(_))));
        let Compared { comparison, failure } = fails_at(4).expect("a round was complete");
        assert_eq!((comparison.rounds, comparison.runs.len()), (1, 3));
        assert!(failure.is_some_and(|error| error.to_string().contains("planted")));
    }

    #[test]
    fn a_steady_gain_is_measured_in_spite_of_drift() {
        // The machine gets slower from round to round; the gain is 1 s give or take 0.1.
        let runs = runs(&[&[10.0, 9.0], &[12.0, 11.1], &[14.0, 12.9]]);
        let comparison = Comparison::conclude(&options(&["a", "b"], 3), runs);
        let [a, b] = &comparison.variants[..] else { panic!("two variants") };
        assert_eq!((a.verdict, a.mean_s, a.difference), (Verdict::Baseline, Some(12.0), None));
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
        for cut_short in [Outcome::Interrupted, Outcome::PolicyFailed] {
            runs[5].report.outcome = cut_short;
            let comparison = Comparison::conclude(&options(&["a", "b"], 3), runs.clone());
            assert_eq!(comparison.rounds, 2);
            assert_eq!(comparison.variants[0].turnaround_s, [10.0, 10.0]);
            assert_eq!(comparison.runs.len(), 6);
        }
    }

    #[test]
    fn no_complete_round_has_no_figures() {
        let mut runs = runs(&[&[10.0, 9.0]]);
        runs[1].report.outcome = Outcome::Interrupted;
        let comparison = Comparison::conclude(&options(&["a", "b"], 3), runs);
        let [a, b] = &comparison.variants[..] else { panic!("two variants") };
        assert_eq!((comparison.rounds, a.mean_s, b.bandwidth_std), (0, None, None));
    }

    /// Two rounds of `a` and `b` in which the jobs of each run end with these codes.
    fn ended_with(codes: [&[i32]; 4]) -> Comparison {
        let mut runs = runs(&[&[10.0, 5.0], &[10.0, 5.1]]);
        for (run, codes) in runs.iter_mut().zip(codes) {
            run.report.jobs = codes.iter().enumerate().map(|(i, code)| job(i, *code)).collect();
        }
        Comparison::conclude(&options(&["a", "b"], 2), runs)
    }

    fn job(index: usize, exit_code: i32) -> JobReport {
        JobReport {
            name: format!("job{index}"),
            exit_code: Some(exit_code),
            ..JobReport::default()
        }
    }

    #[test]
    fn a_job_that_fails_in_some_runs_makes_the_comparison_void() {
        for codes in [[&[0, 0], &[0, 1], &[0, 0], &[0, 1]], [&[0, 2], &[0, 2], &[0, 2], &[0, 0]]] {
            let comparison = ended_with(codes.map(|codes: &[i32; 2]| &codes[..]));
            let void = comparison.void.as_deref().expect("different work");
            assert!(void.starts_with("job1 ended with "), "{void}");
            assert!(comparison.variants.iter().all(|v| v.verdict == Verdict::Void));
            assert!(comparison.variants.iter().all(|v| v.difference.is_none()));
            assert_eq!(comparison.failures, []);
        }
        let comparison = ended_with([&[0], &[1], &[0], &[0]]);
        let expected = "job0 ended with 0 under a in round 1 and with 1 under b in round 1";
        assert_eq!(comparison.void.as_deref(), Some(expected));
    }

    #[test]
    fn jobs_that_always_end_with_the_same_code_are_compared_and_named() {
        let comparison = ended_with([&[26, 0, 26, 7]; 4]);
        assert_eq!((comparison.void, comparison.variants[1].verdict), (None, Verdict::Faster));
        let failure = |exit_code, jobs: &[&str]| ConstantFailure {
            exit_code,
            jobs: jobs.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(comparison.failures, [failure(26, &["job0", "job2"]), failure(7, &["job3"])]);
    }

    #[test]
    fn a_batch_that_a_failed_job_ended_is_no_turnaround() {
        let mut runs = runs(&[&[10.0, 1.0], &[10.0, 1.1]]);
        runs[3].report.outcome = Outcome::FailedFast;
        let comparison = Comparison::conclude(&options(&["a", "b"], 2), runs);
        let expected = "a failed job ended the batch under b in round 2";
        assert_eq!(comparison.void.as_deref(), Some(expected));
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
            record: Some("out/decisions".into()),
            ..RunOptions::default()
        };
        let options = of_run(&options, "os", 1);
        assert_eq!(options.logs, Path::new("logs"));
        assert_eq!(options.logs_of_run, Path::new("round-2/os"));
        assert_eq!(options.timeline.as_deref(), Some(Path::new("out/batch.os-2.csv")));
        assert_eq!(options.record.as_deref(), Some(Path::new("out/decisions.os-2")));
    }
}
