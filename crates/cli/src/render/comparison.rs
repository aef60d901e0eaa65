//! A [`Comparison`] as text: a row per variant, and the conclusions in words.

use std::fmt::Write;

use memweir_core::metrics;
use memweir_run::compare::{ComparedRun, Comparison, ConstantFailure, Difference, Verdict};
use memweir_run::report::Outcome;

use super::batch;
use super::text::{Table, counted, interval, known, rate, seconds};

/// The whole comparison.
pub(crate) fn report(comparison: &Comparison) -> String {
    let table = Table::of(&comparison.variants)
        .left("policy", |variant| &*variant.variant)
        .right("turnaround", |variant| known(variant.mean_s, seconds))
        .right("RSD", |variant| spread(variant.rsd_percent))
        .right(format!("against {}", comparison.baseline), |variant| {
            known(variant.difference, |d| format!("{} ({:+.1} %)", change(d.mean_s), d.percent))
        })
        .right(interval(comparison.confidence), |variant| {
            let ends = |d: Difference| {
                let (scale, unit) = unit(d.low_s.abs().max(d.high_s.abs()));
                format!("{:+.2} to {:+.2} {unit}", d.low_s * scale, d.high_s * scale)
            };
            known(variant.difference, ends)
        })
        .right("bandwidth std", |variant| known(variant.bandwidth_std, rate))
        .left("verdict", |variant| verdict(variant.verdict));
    let profiles = comparison.runs.first().map(|run| batch::profiles(&run.report.jobs));
    let mut text = profiles.unwrap_or_default();
    text += &table.to_string();
    let is_interrupted = |run: &ComparedRun| run.report.outcome == Outcome::Interrupted;
    if let Some(run) = comparison.runs.iter().find(|run| is_interrupted(run)) {
        let _ = write!(text, "\n\nA signal ended the comparison in round {}.", run.round + 1);
    }
    if comparison.rounds == 0 {
        return text + "\n\nNo round was completed: nothing is compared.\n";
    }
    let _ = writeln!(
        text,
        "\n\n{}, interleaved; differences are paired round by round, negative is faster",
        counted(u64::from(comparison.rounds), "round")
    );
    if let Some(sentence) = foreign_use(comparison) {
        let _ = writeln!(text, "{sentence}");
    }
    for failure in &comparison.failures {
        let _ = writeln!(text, "{}", failed(failure));
    }
    if let Some(reason) = &comparison.void {
        let _ =
            writeln!(text, "The comparison is void, for the runs did different work: {reason}.");
        return text;
    }
    for variant in &comparison.variants {
        let sentence =
            conclusion(&variant.variant, &comparison.baseline, variant.verdict, variant.difference);
        if let Some(sentence) = sentence {
            let _ = writeln!(text, "{sentence}");
        }
    }
    text
}

/// A sentence about other work on the processors, in the mean over the runs.
fn foreign_use(comparison: &Comparison) -> Option<String> {
    let used = |run: &ComparedRun| run.report.foreign_cores;
    let used: Option<Vec<f64>> = comparison.runs.iter().map(used).collect();
    let cores = comparison.runs.first()?.report.cores;
    batch::foreign_use(metrics::mean(&used?), cores, "the batches")
}

/// One line about the jobs that failed in every run with the same code.
fn failed(failure: &ConstantFailure) -> String {
    const NAMED: usize = 3;
    let names = failure.jobs.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let rest = match failure.jobs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{names}{rest} ended with exit code {} in every run; the runs are compared all the same.",
        failure.exit_code
    )
}

/// The unit that gives seconds two decimals that tell, and how many of it a second has.
fn unit(largest: f64) -> (f64, &'static str) {
    if largest > 0.0 && largest < 0.1 { (1e3, "ms") } else { (1.0, "s") }
}

/// A difference with its sign.
fn change(value: f64) -> String {
    let (scale, unit) = unit(value.abs());
    format!("{:+.2} {unit}", value * scale)
}

/// A relative standard deviation in percent, if there is one.
pub(super) fn spread(rsd_percent: Option<f64>) -> String {
    known(rsd_percent, |rsd| format!("{rsd:.1} %"))
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Baseline => "baseline",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference measured",
        Verdict::TooFewRounds => "too few rounds",
        Verdict::Void => "void",
    }
}

/// One sentence about a variant that was compared.
pub(super) fn conclusion(
    name: &str,
    baseline: &str,
    verdict: Verdict,
    difference: Option<Difference>,
) -> Option<String> {
    let change = difference.map(|d| {
        let (low, high) = (d.low_s.abs().min(d.high_s.abs()), d.low_s.abs().max(d.high_s.abs()));
        let (scale, unit) = unit(high);
        format!("{:.1} % ({:.2} to {:.2} {unit})", d.percent.abs(), low * scale, high * scale)
    });
    match (verdict, change) {
        (Verdict::Faster, Some(change)) => {
            Some(format!("{name} is faster than {baseline} by {change}."))
        }
        (Verdict::Slower, Some(change)) => {
            Some(format!("{name} is slower than {baseline} by {change}."))
        }
        (Verdict::NoDifference, _) => Some(format!(
            "No difference between {name} and {baseline} was measured: the interval contains zero."
        )),
        (Verdict::TooFewRounds, _) => {
            Some(format!("{name}: one round cannot show a difference; use --repeat 3 or more."))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use memweir_run::compare::VariantSummary;

    use super::*;

    fn variant(name: &str, verdict: Verdict, interval: Option<(f64, f64)>) -> VariantSummary {
        VariantSummary {
            variant: name.into(),
            turnaround_s: vec![17.0, 17.2],
            mean_s: Some(17.1),
            rsd_percent: interval.map(|_| 0.8),
            bandwidth_std: Some(3e9),
            difference: interval.map(|(low_s, high_s)| Difference {
                mean_s: f64::midpoint(low_s, high_s),
                low_s,
                high_s,
                percent: f64::midpoint(low_s, high_s) / 17.1 * 100.0,
            }),
            verdict,
        }
    }

    /// Three rounds, none of which failed.
    fn comparison(variants: Vec<VariantSummary>) -> Comparison {
        Comparison {
            baseline: "os".into(),
            rounds: 3,
            confidence: 0.95,
            void: None,
            failures: Vec::new(),
            variants,
            runs: vec![],
        }
    }

    #[test]
    fn the_comparison_says_in_words_what_may_be_concluded() {
        let text = report(&comparison(vec![
            variant("os", Verdict::Baseline, None),
            variant("ideal-average", Verdict::Faster, Some((-1.8, -1.0))),
            variant("random", Verdict::NoDifference, Some((-0.3, 0.5))),
            variant("peak-bandwidth", Verdict::Slower, Some((0.5, 0.9))),
        ]));
        for needle in [
            "95 % interval",
            "-1.40 s (-8.2 %)",
            "-1.80 to -1.00 s",
            "ideal-average is faster than os by 8.2 % (1.00 to 1.80 s).",
            "No difference between random and os was measured: the interval contains zero.",
            "peak-bandwidth is slower than os by 4.1 % (0.50 to 0.90 s).",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
    }

    #[test]
    fn short_times_have_digits_that_tell_them_apart() {
        let variant = VariantSummary {
            mean_s: Some(0.0042),
            ..variant("random", Verdict::Slower, Some((0.0002, 0.0004)))
        };
        let text = report(&comparison(vec![variant]));
        for needle in ["4.200 ms", "+0.30 ms (", "+0.20 to +0.40 ms", "(0.20 to 0.40 ms)."] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
    }

    #[test]
    fn a_void_comparison_says_why_and_claims_nothing() {
        let variants = ["os", "random"].map(|name| variant(name, Verdict::Void, None));
        let text = report(&Comparison {
            rounds: 2,
            void: Some("gzip ended with 0 under os and with 2 under random".into()),
            failures: vec![ConstantFailure {
                exit_code: 26,
                jobs: ["a", "b", "c", "d", "e"].map(String::from).into(),
            }],
            ..comparison(variants.into())
        });
        assert!(text.contains("different work: gzip ended with 0 under os and with 2"), "{text}");
        let line = "a, b, c and 2 more ended with exit code 26 in every run";
        assert_eq!(text.matches(line).count(), 1, "{text}");
        assert!(!text.contains("faster than"), "{text}");
    }

    #[test]
    fn an_interrupted_comparison_has_no_figures() {
        let unknown = |name| VariantSummary {
            mean_s: None,
            bandwidth_std: None,
            turnaround_s: Vec::new(),
            ..variant(name, Verdict::TooFewRounds, None)
        };
        let variants = vec![unknown("os"), unknown("random")];
        let text = report(&Comparison { rounds: 0, ..comparison(variants) });
        assert!(text.contains("No round was completed: nothing is compared."), "{text}");
        assert!(!text.contains("0.000 s") && !text.contains("one round"), "{text}");
    }

    #[test]
    fn one_round_claims_nothing() {
        let variants = vec![variant("random", Verdict::TooFewRounds, None)];
        let text = report(&Comparison { rounds: 1, ..comparison(variants) });
        assert!(text.contains("1 round, interleaved"), "{text}");
        assert!(text.contains("one round cannot show a difference"), "{text}");
    }
}
