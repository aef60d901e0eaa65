//! `memweir fit`: predictions by hand, measured copies, and what is refused.

use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::support::{World, both_of, json, refusal, send, stdout_of, wait_until};

/// A calibration with a peak of 10 GB/s.
const PLATFORM: &str = r#"
[peak]
bandwidth = 1e10
saturation = 8.75e9
kernel = "copy"
instances = 8
[target]
status = "not-measurable"
reason = "a test"
"#;

/// A job that waits for memory all of its time on 8 cores: four copies pay off.
const HEAVY: &str = "[[jobs]]\nname = \"heavy\"\ncommand = [\"true\"]\nread_bandwidth = 4e9\n\
                     expected_time_s = 2\n";
const LIGHT: &str = "[[jobs]]\nname = \"light\"\ncommand = [\"true\"]\nread_bandwidth = 0\n\
                     expected_time_s = 1\n";

fn world() -> World {
    let world = World::new();
    world.calibrated(PLATFORM);
    world.file("heavy.toml", HEAVY);
    world.file("both.toml", &format!("{HEAVY}{LIGHT}"));
    world
}

const CALIBRATED: [&str; 5] = ["fit", "--platform", "platform.toml", "--cores", "8"];

#[test]
fn one_number_for_one_command_and_a_line_for_each_of_several() {
    let world = world();
    let said = |file: &str| stdout_of(world.memweir().args(CALIBRATED).arg(file), 0);
    assert_eq!(said("heavy.toml"), "4\n");
    world.file("three.toml", &format!("{HEAVY}instances = 3\n"));
    assert_eq!(said("three.toml"), "4\n", "instances are copies");
    let both = said("both.toml");
    assert!(both.starts_with("heavy=") && both.contains("\nlight="), "{both}");
}

#[test]
fn a_signal_ends_the_copies_too() {
    let world = World::new();
    let copy = "echo $$ > new; mv new pid; sleep 1000; true";
    let mut fit = world.start(&["fit", "--measure", "--", "sh", "-c", copy]);
    wait_until("a copy runs", || world.has("pid"));
    send(&fit, Signal::SIGTERM);
    assert_eq!(fit.wait().expect("it ends").code(), Some(130));
    let copy = PathBuf::from("/proc").join(world.read("pid").trim());
    assert!(!copy.exists(), "{} runs", copy.display());
}

#[test]
fn points_before_a_copy_that_fails_are_kept() {
    let world = World::new();
    // Each of three copies side by side finds the others.
    let copy = "mkdir -p here; touch here/$$; sleep 0.5; there=$(ls here | wc -l); sleep 0.5; \
                rm here/$$; [ $there -lt 3 ]";
    let arguments = ["fit", "--measure", "--cores", "4", "--json", "curve.json"];
    let mut fit = world.memweir();
    let (numbers, said) = both_of(fit.args(arguments).args(["--", "sh", "-c", copy]), 3);
    assert_eq!(numbers, "");
    assert!(said.contains("a copy of sh failed: exit code 1"), "{said}");
    assert!(said.contains("measured") && said.contains("1.00"), "the curve: {said}");
    let report = world.json("curve.json");
    assert_eq!(report["incomplete"], "a copy of sh failed: exit code 1");
    let curve = report["curve"].as_array().expect("a curve");
    let copies: Vec<_> = curve.iter().map(|point| &point["copies"]).collect();
    assert_eq!(copies, [&serde_json::json!([1]), &serde_json::json!([2])]);
    assert!(curve[1]["measured"].as_f64().is_some_and(|measured| measured > 0.0), "{report}");
}

#[test]
fn points_are_in_the_json_as_they_are_measured() {
    let world = World::new();
    let arguments = ["fit", "--measure", "--cores", "64", "--json", "curve.json", "--"];
    let mut fit = world.start(&[&arguments[..], &["sleep", "0.2"]].concat());
    wait_until("a point is measured", || world.has("curve.json"));
    let report = world.json("curve.json");
    assert_eq!(report["incomplete"], "the measurement goes on");
    assert_eq!(report["curve"][0]["measured"], 1.0);
    send(&fit, Signal::SIGINT);
    assert_eq!(fit.wait().expect("it ends").code(), Some(130));
    assert_eq!(world.json("curve.json")["incomplete"], "SIGINT ended the measurement");
}

#[test]
fn the_curve_is_in_the_json() {
    let world = world();
    let report = json(world.memweir().args(CALIBRATED).args(["--json", "-", "heavy.toml"]), 0);
    assert_eq!(
        (report["cores"].as_u64(), report["jobs"][0]["copies"].as_u64()),
        (Some(8), Some(4))
    );
    let curve = report["curve"].as_array().expect("a curve");
    assert_eq!(curve.len(), 8);
    // As computed by hand in the tests of `fit`.
    let throughput = curve[3]["predicted"].as_f64().expect("a number");
    assert!((throughput - 4.0 / (1.6 + 0.25 / 2.2)).abs() < 1e-3, "{throughput}");
}

#[test]
fn copies_are_measured_without_profile_and_calibration() {
    let world = World::new();
    let arguments = ["fit", "--measure", "--cores", "2", "--json", "-", "--", "sleep", "0.6"];
    let report = json(world.memweir().args(arguments), 0);
    assert!(report["jobs"][0]["time_s"].as_f64().is_some_and(|time| time >= 0.6), "{report}");
    let measured = |nth: usize| report["curve"][nth]["measured"].as_f64().expect("measured");
    assert!(measured(1) > measured(0), "sleeping copies do not contend: {report}");
    let unlike = ["--", "sleep", "1.6", ":::", "sleep", "0.4"];
    let arguments = ["fit", "--measure", "--cores", "4", "--json", "-"];
    let report = json(world.memweir().args(arguments).args(unlike), 0);
    // Three long sleeps get done about as often as a short one.
    assert_eq!(report["curve"][2]["copies"], serde_json::json!([3, 1]), "{report}");
    let many = ["fit", "--measure", "--cores", "4096", "--", "false"];
    let message = refusal(world.memweir().args(many), 3);
    assert!(message.contains("--cores is 4096, but there are"), "{message}");
    let failed = ["fit", "--measure", "--", "false"];
    let message = refusal(world.memweir().args(failed), 3);
    assert!(message.contains("a copy of false failed: exit code 1"), "{message}");
    let absent = ["fit", "--measure", "--cores", "2", "--", "touch", "ran", ":::", "./absent"];
    let message = refusal(world.memweir().args(absent), 2);
    assert!(message.contains("absent") && !world.has("ran"), "{message}");
}

#[test]
fn what_is_not_known_is_refused_with_what_to_do() {
    let world = world();
    let message = refusal(world.memweir().args(["fit", "--platform", "no.toml", "heavy.toml"]), 2);
    assert!(message.contains("no.toml"), "{message}");
    let message = refusal(world.memweir().args(["fit", "heavy.toml"]), 2);
    assert!(message.contains("memweir calibrate") && message.contains("--measure"), "{message}");
    let message = refusal(world.memweir().args(CALIBRATED).args(["--", "true"]), 2);
    assert!(message.contains("nothing is known of `true`"), "{message}");
    assert!(message.contains("memweir profile"), "{message}");
    let one = ["fit", "--platform", "platform.toml", "--cores", "1", "both.toml"];
    let message = refusal(world.memweir().args(one), 2);
    assert!(message.contains("one copy of each command does not fit"), "{message}");
}
