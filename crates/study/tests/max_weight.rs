//! Gains of `max-weight` over the other policies, on the mixes of `experiments/max-weight`.
//!
//! Its constants were chosen on the files `training-*`; the others are test mixes. A single
//! repetition is a mix of its own where the programs are drawn, a seed of one mix otherwise.

use std::num::NonZeroUsize;
use std::path::Path;

use memweir_core::Stop;
use memweir_core::input::{Refusal, Replacement};
use memweir_study::ScenarioText;
use memweir_study::flow::report::Report;
use memweir_study::flow::study::Study;
use memweir_study::sweep::Grid;

/// The most by which a mix may take longer than under another policy.
const NEVER_LOSES: f64 = 0.005;

fn simulate(name: &str, sweep: &[&str], set: &[&str]) -> Report {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../experiments/max-weight/{name}"));
    let text = ScenarioText::read(&path).expect("a scenario");
    let grid = Grid::new(sweep.iter().map(|sweep| sweep.parse().expect("a sweep")).collect());
    let replacement = |set: &&str| Replacement::read(set, *set).expect("KEY=VALUE");
    let set: Vec<_> = set.iter().map(replacement).collect();
    let no_recordings = |_: &Path| Err(Refusal::new("there are none", "none"));
    let study = Study::read(&text, &set, grid.expect("a grid"), &no_recordings).expect("a study");
    study.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("runs")
}

/// Turnarounds under `max-weight` and under another policy, by repetition of each point.
fn against(report: &Report, other: &str) -> Vec<Vec<(f64, f64)>> {
    let of = |point: usize, policy: &str| -> Vec<f64> {
        let runs = report.points[point].runs.iter().filter(|run| run.policy == policy);
        runs.map(|run| run.turnaround_s).collect()
    };
    (0..report.points.len())
        .map(|point| of(point, "max-weight").into_iter().zip(of(point, other)).collect())
        .collect()
}

/// Returns the time that `max-weight` saves, as a share of that of the other policy.
fn saved(pairs: &[(f64, f64)]) -> f64 {
    let sum = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(part).sum::<f64>();
    1.0 - sum(|pair| pair.0) / sum(|pair| pair.1)
}

#[test]
fn no_paper_mix_takes_longer_than_under_the_os_or_round_robin() {
    for (name, sweep, least) in [
        ("spec.toml", "mix.paper=spec-01,spec-04,spec-07,spec-10", 0.025),
        ("npb.toml", "mix.paper=npb-01,npb-04,npb-07,npb-10", 0.005),
    ] {
        let report = simulate(name, &[sweep], &["optimum=none"]);
        for other in ["os", "round-robin", "long-job-first", "ideal-average"] {
            let points = against(&report, other);
            for (point, pairs) in points.iter().enumerate() {
                let at = &report.points[point].at;
                assert!(saved(pairs) > -NEVER_LOSES, "{other} at {at:?}: {pairs:?}");
            }
            let all: Vec<_> = points.concat();
            assert!(saved(&all) > least, "{other}: {}", saved(&all));
        }
    }
}

#[test]
fn jobs_with_lengths_of_their_own_gain_most() {
    for (name, least) in [("all-once.toml", 0.04), ("training-once.toml", 0.05)] {
        let report = simulate(name, &[], &["optimum=none", "repetitions=6"]);
        for other in ["os", "round-robin", "long-job-first", "ideal-average"] {
            let pairs = against(&report, other).concat();
            assert!(saved(&pairs) > least, "{name} {other}: {}", saved(&pairs));
            // Draw by draw.
            if other == "os" {
                assert!(pairs.iter().all(|pair| saved(&[*pair]) > -NEVER_LOSES), "{pairs:?}");
            }
        }
    }
}

#[test]
fn without_known_lengths_jobs_of_equal_length_still_gain() {
    let set = ["optimum=none", "knowledge=nothing", "repetitions=6"];
    let report = simulate("all-two-minutes.toml", &[], &set);
    for other in ["os", "round-robin", "ideal-average"] {
        let pairs = against(&report, other).concat();
        assert!(saved(&pairs) > 0.02, "{other}: {}", saved(&pairs));
    }
}

#[test]
fn two_nodes_with_two_media_each_gain() {
    let report = simulate("training-two-node.toml", &[], &["optimum=none", "repetitions=3"]);
    for other in ["os", "round-robin", "ideal-average"] {
        let pairs = against(&report, other).concat();
        assert!(saved(&pairs) > 0.05, "{other}: {}", saved(&pairs));
    }
}
