use std::path::Path;

use memweir_core::{BytesPerSec, Nanos, Priority};
use memweir_linux::{Mechanism, MeterChoice};
use memweir_policy::CoreUse;
use proptest::prelude::*;

use super::*;
use crate::options::{BatchOptions, OnExit, OnFailure, Pinning};

fn parse(text: &str) -> Result<JobsFile, memweir_core::input::InputError> {
    JobsFile::parse("jobs.toml", text, Path::new("/"), 4)
}

/// Returns the refusal of a file.
fn refusal(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

const MINIMAL: &str = "[[jobs]]\ncommand = [\"true\"]\n";

#[test]
fn everything_that_a_file_can_say_is_read() {
    let file = parse(
        r#"
        policy = "round-robin"
        predictor = "window:3"
        meter = "declared"
        mechanism = "sigstop"
        quantum_ms = 50
        cores = 2
        pinning = "one-job-per-core"
        on_exit = "release"
        on_failure = "fail-fast"
        seed = 7
        media = "pram, cxl"
        placement = "cxl"

        [[jobs]]
        name = "sorter"
        command = ["sort", "-n"]
        directory = "tmp"
        env = { LC_ALL = "C" }
        stdin = "etc/passwd"
        cores = 2
        expected_time_s = 1.5
        read_bandwidth = 3.2e9
        write_bandwidth = 1000
        bandwidth_limit = 500e6
        placement = "pram=25%"
        cpus = [0, 1]
        priority = -2

        [[jobs]]
        command = "yes | head -1"
        bandwidth_limit = 0
        instances = 2
        "#,
    )
    .expect("a correct file");
    let options = file.options;
    assert_eq!(options.policy.as_deref(), Some("round-robin"));
    assert_eq!(options.predictor.map(|p| p.to_string()).as_deref(), Some("window:3"));
    assert_eq!(options.meter, "declared".parse::<MeterChoice>().ok());
    assert_eq!(options.mechanism, Some(Mechanism::Sigstop));
    assert_eq!(options.quantum, Some(Nanos::from_millis(50)));
    assert_eq!((options.cores, options.seed), (Some(2), Some(7)));
    let media = options.media.expect("media");
    let names: Vec<&str> = media.iter().map(|(_, medium)| medium.name.as_str()).collect();
    assert_eq!(names, ["dram", "pram", "cxl"]);
    let placements = [options.placement, file.batch.jobs[0].placement.clone()];
    assert_eq!(
        placements.map(|p| p.map(|p| p.to_string())),
        ["cxl=100%", "pram=25%"].map(|t| Some(t.to_owned()))
    );
    assert_eq!(file.batch.jobs[1].placement, None);
    assert_eq!(options.pinning, Some(Pinning::OneJobPerCore));
    assert_eq!(options.on_exit, Some(OnExit::Release));
    assert_eq!(options.on_failure, Some(OnFailure::FailFast));

    let jobs = file.batch.jobs;
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["sorter", "sh.1", "sh.2"]);
    let sorter = &jobs[0];
    assert_eq!(sorter.directory.as_deref(), Some(Path::new("/tmp")));
    assert_eq!(sorter.stdin.as_deref(), Some(Path::new("/etc/passwd")));
    assert_eq!(sorter.env["LC_ALL".as_ref() as &std::ffi::OsStr], "C");
    assert_eq!((sorter.cores, &sorter.cpus[..]), (2, &[0, 1][..]));
    assert_eq!(sorter.priority, Priority(-2));
    assert_eq!(sorter.expected_time, Some(Nanos::from_millis(1500)));
    assert_eq!(sorter.expected_bandwidth(), Some(BytesPerSec(3.2e9 + 1000.0)));
    assert_eq!(sorter.bandwidth_limit, Some(BytesPerSec(500e6)));
    assert_eq!(jobs[1].bandwidth_limit, None, "0 is no limit");
    assert_eq!(jobs[1].command, Command::Shell("yes | head -1".into()));
    assert_eq!(jobs[1].directory.as_deref(), Some(Path::new("/")));
}

#[test]
fn what_a_file_says_goes_over_the_defaults() {
    let file = parse(&format!("quantum_ms = 50\n{MINIMAL}")).expect("a correct file");
    let options = file.options.over(crate::options::RunOptions::default());
    assert_eq!(options.quantum, Nanos::from_millis(50));
    assert_eq!(options.policy, "max-weight");
}

#[test]
fn cores_can_be_left_idle_where_that_pays() {
    let read =
        |cores: &str| parse(&format!("cores = {cores}\n{MINIMAL}")).expect("correct").options;
    let (two, auto, both) = (read("2"), read("\"auto\""), read("\"auto:2\""));
    assert_eq!((two.cores, two.core_use), (Some(2), Some(CoreUse::All)));
    assert_eq!((auto.cores, auto.core_use), (None, Some(CoreUse::Auto)));
    assert_eq!((both.cores, both.core_use), (Some(2), Some(CoreUse::Auto)));
    // The command line overrides the file, separately for the number of cores and for their use.
    let file = both.over(crate::options::RunOptions::default());
    let options = BatchOptions { core_use: Some(CoreUse::All), ..BatchOptions::default() };
    let options = options.over(file);
    assert_eq!((options.cores, options.core_use), (Some(2), CoreUse::All));
}

#[test]
fn wrong_keys_and_choices_are_answered_with_the_nearest() {
    for (text, said) in [
        (
            format!("\npolcy = \"os\"\n{MINIMAL}"),
            "jobs.toml:2: polcy: unknown key\n  help: did you mean `policy`?",
        ),
        (
            format!("policy = \"ideal-avg\"\n{MINIMAL}"),
            "jobs.toml:1: policy: unknown policy `ideal-avg`\n  help: did you mean `ideal-average`?",
        ),
        (
            format!("meter = \"prf\"\n{MINIMAL}"),
            "jobs.toml:1: meter: unknown meter `prf`\n  help: did you mean `perf`?",
        ),
        (
            format!("mechanism = \"cgroup\"\n{MINIMAL}"),
            "jobs.toml:1: mechanism: unknown mechanism `cgroup`\n  help: did you mean `cgroup-v",
        ),
        (
            format!("predictor = \"windw:3\"\n{MINIMAL}"),
            "jobs.toml:1: predictor: unknown predictor `windw:3`\n  help: did you mean `window",
        ),
        (format!("predictor = \"window:0\"\n{MINIMAL}"), "jobs.toml:1: predictor: "),
        (
            format!("on_exit = \"kil\"\n{MINIMAL}"),
            "jobs.toml:1: on_exit: unknown on_exit `kil`\n  help: did you mean `kill`?",
        ),
        (
            format!("{MINIMAL}comand = \"x\"\n"),
            "jobs.toml:3: jobs[0].comand: unknown key\n  help: did you mean `command`?",
        ),
    ] {
        let refused = refusal(&text);
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
}

#[test]
fn absurd_values_are_refused_where_they_stand() {
    for (line, said) in [
        ("quantum_ms = 9", "quantum_ms: a quantum of 9 ms is too short"),
        ("quantum_ms = -100", "quantum_ms: a quantum of -100 ms is too short"),
        ("quantum_ms = nan", "quantum_ms: a quantum of NaN ms is too short"),
        ("quantum_ms = 10001", "quantum_ms: a quantum of 10001 ms is too long"),
        ("quantum_ms = inf", "quantum_ms: a quantum of inf ms is too long"),
        ("cores = 0", "cores: 0 cores cannot be used\n  help: from 1 to 4 here"),
        ("cores = 5", "cores: 5 cores cannot be used"),
        ("cores = -1", "cores: -1 cores cannot be used"),
        ("cores = 99999999999999999999", "cores: 99999999999999999999 is out of range"),
        ("cores = \"auto:5\"", "cores: 5 cores cannot be used"),
        (
            "cores = \"atuo\"",
            "cores: `atuo` is not a number of cores\n  help: did you mean `auto`? from 1 to 4 here",
        ),
        ("cores = \"2\"", "cores: must be a whole number, not a string"),
        ("media = \"prm\"", "media: unknown medium `prm`\n  help: did you mean `pram`?"),
        ("media = \"pram,pram\"", "media: two media are called `pram`"),
        ("media = [\"pram\"]", "media: must be a string, not an array"),
        ("placement = \"hot\"", "placement: how much DRAM is there"),
        ("seed = -3", "seed: -3 is out of range\n  help: a whole number, 0 or more"),
    ] {
        let refused = refusal(&format!("{line}\n{MINIMAL}"));
        assert!(refused.starts_with(&format!("jobs.toml:1: {said}")), "{refused}");
    }
    for (line, said) in [
        ("name = \"\"", "name: `` is no name for a job"),
        ("name = \"../x\"", "name: `/` cannot stand in a name"),
        ("name = \".x\"", "name: `.x` is no name for a job"),
        ("cores = 9", "cores: 9 cores cannot be used"),
        ("instances = 0", "instances: 0 is out of range\n  help: a whole number, from 1 to 10000"),
        ("expected_time_s = 0", "expected_time_s: 0 s is no time"),
        ("expected_time_s = -1.5", "expected_time_s: -1.5 s is no time"),
        ("expected_time_s = inf", "expected_time_s: inf s is no time"),
        ("read_bandwidth = -1", "read_bandwidth: -1 bytes per second is no memory bandwidth"),
        ("write_bandwidth = 1e15", "write_bandwidth: 1000000000000000 bytes per second is no"),
        ("read_bandwidth = 1e300", "read_bandwidth: 1e300 bytes per second is no memory bandwidth"),
        ("bandwidth_limit = -1", "bandwidth_limit: -1 bytes per second is no memory bandwidth"),
        (
            "bandwidth_limit = 1000",
            "bandwidth_limit: a limit of 1000 bytes per second is too low\n  help: the lowest is 64e3",
        ),
        ("directory = \"no/such\"", "directory: there is no directory `/no/such`"),
        ("stdin = \"tmp\"", "stdin: `/tmp` is a directory"),
        ("profile = \"no.parquet\"", "profile: there is no file `/no.parquet`"),
        ("env = { \"A=B\" = \"x\" }", "env.A=B: is no name for an environment variable"),
        ("env = { A = 1 }", "env.A: must be a string, not an integer"),
        ("priority = 11", "priority: 11 is no priority from -10 to 10"),
        ("priority = 0.5", "priority: must be a whole number, not a float"),
        ("cpus = [-1]", "cpus[0]: -1 is out of range"),
        ("placement = \"pram=70\"", "placement: `70` is no share of `pram`"),
        ("placement = 1", "placement: must be a string, not an integer"),
        ("cpus = 1", "cpus: must be an array of CPU numbers, not an integer"),
    ] {
        let refused = refusal(&format!("{MINIMAL}{line}\n"));
        assert!(refused.starts_with(&format!("jobs.toml:3: jobs[0].{said}")), "{refused}");
    }
    // Names are those of files, which are limited in bytes: these letters have two each.
    let refused = refusal(&format!("{MINIMAL}name = \"{}\"\n", "\u{e4}".repeat(51)));
    assert!(refused.contains("from 1 to 100 bytes"), "{refused}");
    let refused = refusal(&format!("{MINIMAL}read_bandwidth = 1e9\n"));
    assert!(refused.contains("gives a bandwidth but no time"), "{refused}");
}

#[test]
fn a_value_that_the_machine_or_the_options_show_to_be_wrong_has_its_place() {
    let text = format!("{MINIMAL}cpus = [77]\nplacement = \"pram\"\n");
    let job = &parse(&text).expect("correct by itself").batch.jobs[0];
    assert_eq!(job.refuse("cpus", "x").to_string(), "jobs.toml:3: jobs[0].cpus: x");
    assert_eq!(job.refuse("colors", "x").to_string(), "true: colors: x");
    let options = crate::options::RunOptions::default();
    let refused = crate::batch::placement_of(job, &options).unwrap_err().to_string();
    assert!(refused.starts_with("jobs.toml:4: jobs[0].placement: "), "{refused}");
}

#[test]
fn commands_that_cannot_run_are_refused() {
    for (command, said) in [
        ("[]", "is empty"),
        ("\"  \"", "is empty"),
        ("[\"\"]", "is empty"),
        ("3", "must be a string for the shell or an array of strings, not an integer"),
        ("[\"true\", 3]", "must be a string, not an integer"),
        ("[\"true\", \"\\u0000\"]", "contains a zero byte"),
        ("[\"no-such-program-at-all\"]", ""),
        ("[\"/etc/passwd\"]", ""),
        ("[\"./no/such\"]", ""),
    ] {
        let refused = refusal(&format!("\n[[jobs]]\ncommand = {command}\n"));
        assert!(refused.starts_with("jobs.toml:3: jobs[0].command"), "{refused}");
        assert!(refused.contains(said), "{refused}");
    }
    assert!(refusal("[[jobs]]\nname = \"x\"\n").contains("`command` is missing"));
}

#[test]
fn names_must_differ() {
    let job = "[[jobs]]\ncommand = [\"true\"]\nname = \"same\"\n";
    let refused = refusal(&format!("{job}{job}"));
    assert!(refused.starts_with("jobs.toml:4: jobs[1]: a job before has the name `same`"));
    // A name that comes from the program gives way.
    let file = parse(&format!("{MINIMAL}{MINIMAL}{MINIMAL}instances = 2\n")).expect("correct");
    let names: Vec<&str> = file.batch.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["true", "true-2", "true.1", "true.2"]);
}

#[test]
fn a_file_without_jobs_is_refused() {
    assert!(refusal("").contains("there are no jobs"));
    assert!(refusal("jobs = []").contains("there are no jobs"));
    assert!(refusal("jobs = 3").contains("must be an array of tables"));
    assert!(refusal("jobs = [3]").starts_with("jobs.toml:1: jobs[0]: must be a table"));
    assert!(refusal("[[jobs]\n").starts_with("jobs.toml:1: "));
    let missing = JobsFile::read(Path::new("/no/such.toml"), 1);
    assert!(missing.expect_err("refused").to_string().contains("cannot be read"));
}

proptest! {
    /// No text makes the reader panic, and every refusal names the file.
    #[test]
    fn no_text_is_too_odd(text in "\\PC{0,200}") {
        if let Err(error) = parse(&text) {
            prop_assert_eq!(error.source_name, "jobs.toml");
        }
    }

    /// The same for texts that look like jobs files.
    #[test]
    fn no_jobs_file_is_too_odd(
        lines in prop::collection::vec(
            (
                "name|command|env|cores|cpus|instances|expected_time_s|read_bandwidth|policy|media|placement|jobs|\
                 quantum_ms|directory|stdin|x",
                "true|-1|1e400|0|\"a\"|\"\"|\\[\\]|\\[1\\]|\\[\"true\"\\]|\\{\\}|\\{a=1\\}|0xff|nan|1979-05-27",
            ),
            0..8,
        ),
        table in prop::bool::ANY,
    ) {
        let mut text = if table { MINIMAL.to_owned() } else { String::new() };
        for (key, value) in lines {
            text.push_str(&format!("{key} = {value}\n"));
        }
        if let Err(error) = parse(&text) {
            prop_assert!(!error.reason.is_empty());
        }
    }
}
