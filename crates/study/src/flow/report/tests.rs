use super::*;

fn run(policy: &str, repetition: u32, turnaround_s: f64, optimum_s: Option<f64>) -> Run {
    Run {
        policy: policy.to_owned(),
        repetition,
        seed: 1,
        turnaround_s,
        weighted_speedup: turnaround_s / 10.0,
        bandwidth_mean: 1e9,
        bandwidth_std: 1e8,
        ideal_average_bandwidth: None,
        target: None,
        quanta: 100,
        copied_bytes: 0,
        optimum_s,
        optimum_is: optimum_s.map(|_| Certainty::Bound),
        queueing: None,
        tasks: Vec::new(),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn policies_are_compared_with_os_or_the_first() {
    assert_eq!(baseline(&names(&["random", "os"])), "os");
    assert_eq!(baseline(&names(&["random", "round-robin"])), "random");
}

#[test]
fn gains_and_shares_by_hand() {
    let runs = [
        run("os", 0, 10.0, Some(8.0)),
        run("ideal-average", 0, 8.0, Some(8.0)),
        run("os", 1, 12.0, Some(8.0)),
        run("ideal-average", 1, 10.0, Some(8.0)),
    ];
    let all = summaries(&names(&["os", "ideal-average"]), &runs, 0.95);
    let (os, ours) = (&all[0], &all[1]);
    assert_eq!(
        (os.verdict, os.mean_s, os.gain, os.difference),
        (Verdict::Baseline, 11.0, 0.0, None)
    );
    assert_eq!((os.share_of_possible, os.optimum_is), (Some(0.0), Some(Certainty::Bound)));
    // 10/8 - 1 = 0.25 and 12/10 - 1 = 0.2.
    assert!((ours.gain - 0.225).abs() < 1e-12, "{}", ours.gain);
    // It saves 2 + 2 of 2 + 4 seconds.
    assert!(ours.share_of_possible.is_some_and(|share| (share - 4.0 / 6.0).abs() < 1e-12));
    assert_eq!(ours.difference.map(|difference| difference.mean_s), Some(-2.0));
    assert_eq!(ours.verdict, Verdict::Faster);
    assert!((ours.weighted_speedup - 0.9).abs() < 1e-12);
}

fn point(at: &str, turnarounds: [f64; 2]) -> Point {
    let policies = names(&["os", "ideal-average"]);
    let runs: Vec<Run> =
        policies.iter().zip(turnarounds).map(|(policy, time)| run(policy, 0, time, None)).collect();
    Point {
        at: vec![("cores".to_owned(), at.to_owned())],
        machine: "iabw".to_owned(),
        memories: Vec::new(),
        cores: 4,
        tasks: 8,
        log: None,
        predictor: "last".to_owned(),
        quantum_ms: 100.0,
        confidence: 0.95,
        peak_bandwidth: 5e9,
        baseline: "os".to_owned(),
        policies: summaries(&policies, &runs, 0.95),
        runs,
    }
}

#[test]
fn a_sweep_as_a_whole_by_hand() {
    let points = [point("1", [10.0, 8.0]), point("2", [10.0, 12.5]), point("3", [12.0, 10.0])];
    let all = overall(&points);
    assert_eq!(all.len(), 1, "the baseline is compared with nothing");
    let ours = &all[0];
    assert_eq!((ours.policy.as_str(), ours.points), ("ideal-average", 3));
    // 25 %, -20 % and 20 %.
    assert!((ours.mean - 0.25 / 3.0).abs() < 1e-12, "{}", ours.mean);
    assert_eq!((ours.best, ours.best_at[0].1.as_str()), (0.25, "1"));
    assert!((ours.worst + 0.2).abs() < 1e-12);
    assert_eq!((ours.worst_at[0].1.as_str(), ours.faster, ours.slower), ("2", 0, 0));
}

#[test]
fn nothing_is_claimed_without_repetitions_or_optimum() {
    let runs = [run("os", 0, 10.0, None), run("random", 0, 9.0, None)];
    let all = summaries(&names(&["os", "random"]), &runs, 0.95);
    assert_eq!(all[1].verdict, Verdict::TooFewRounds);
    assert_eq!((all[1].rsd_percent, all[1].share_of_possible), (None, None));
    let runs = [run("os", 0, 8.0, Some(8.0)), run("random", 0, 9.0, Some(8.0))];
    let all = summaries(&names(&["os", "random"]), &runs, 0.95);
    assert_eq!(all[1].share_of_possible, None, "nothing can be gained");
    let runs = [run("os", 0, 8.0, Some(7.999)), run("random", 0, 9.0, Some(7.999))];
    let all = summaries(&names(&["os", "random"]), &runs, 0.95);
    assert_eq!(all[1].share_of_possible, None, "less than a thousandth can be gained");
}
