use std::io::Cursor;

use memweir_core::{Stop, metrics};
use proptest::prelude::*;

use super::*;
use crate::ScenarioText;
use crate::flow::study::Study;
use crate::sweep::Grid;

fn parse(text: &str) -> Result<JobLog, InputError> {
    JobLog::parse("log", Cursor::new(text.to_owned()), None)
}

/// A job of SWF with these fields; the others are unknown.
fn swf(job: u32, submit: i64, length: f64, allocated: i64, requested: i64, status: i64) -> String {
    format!(
        "{job} {submit} 3 {length} {allocated} -1 -1 {requested} -1 -1 {status} 1 1 -1 1 -1 -1 -1\n"
    )
}

#[test]
fn jobs_of_swf_are_read_or_left_out_with_the_reason() {
    let text = "; Version: 2.2\n; Computer: a | b\n\n".to_owned()
        + &swf(1, 100, 60.0, 4, 8, 1)
        + &swf(2, 50, 12.5, -1, 2, 0)
        + &swf(3, 60, -1.0, 4, 4, 5)
        + &swf(4, 60, 9.0, 4, 4, 5)
        + &swf(5, 60, 0.0, 4, 4, 1)
        + &swf(6, 60, 5.0, -1, -1, 1)
        + &swf(7, -1, 5.0, 1, 1, 1)
        + &swf(8, 60, 5.0, 1, 1, 3);
    let log = parse(&text).unwrap();
    let job = |name: &str, submitted, length, cores| LoggedJob {
        name: name.to_owned(),
        program: None,
        submitted,
        length,
        cores,
    };
    let jobs = [job("2", 50.0, 12.5, 2), job("4", 60.0, 9.0, 4), job("1", 100.0, 60.0, 4)];
    assert_eq!(log.jobs, jobs);
    let reasons = [
        LeftOut::Cancelled,
        LeftOut::NoLength,
        LeftOut::NoCores,
        LeftOut::NoSubmission,
        LeftOut::Part,
    ];
    assert_eq!(log.left_out, reasons.map(|reason| (reason, 1)).into());
}

/// Lines as Slurm prints them for `--format JobID,JobName,Submit,Elapsed,NCPUS,State`.
const SACCT: &str = "\
JobID|JobName|Submit|Elapsed|NCPUS|State
100|lbm|2026-03-01T10:00:00|01:02:03|4|COMPLETED
100.batch|batch|2026-03-01T10:00:05|01:02:03|4|COMPLETED
101_7|milc|2026-02-28T23:59:50|2-00:00:01|1|TIMEOUT
102|gcc|2026-03-01T10:00:00|00:00:00|2|CANCELLED by 1000
103|gcc|2026-03-01T10:00:00|00:05:00|2|RUNNING
104|gcc|2026-03-01T10:00:01|00:10|2|FAILED
105|gcc|2026-03-01T10:00:01|00:00:00|2|COMPLETED
";

#[test]
fn jobs_of_sacct_are_read_without_their_steps() {
    let log = parse(SACCT).unwrap();
    let figures = |job: &LoggedJob| (job.name.clone(), job.length, job.cores);
    let found: Vec<_> = log.jobs.iter().map(figures).collect();
    let job = |name: &str, length, cores| (name.to_owned(), length, cores);
    assert_eq!(found, [job("101_7", 172_801.0, 1), job("100", 3723.0, 4), job("104", 10.0, 2)]);
    // Ten seconds before March, and ten hours and a second after.
    assert_eq!(log.jobs[1].submitted - log.jobs[0].submitted, 36_010.0);
    assert_eq!(log.jobs[2].program.as_deref(), Some("gcc"));
    let reasons = [LeftOut::Cancelled, LeftOut::Unfinished, LeftOut::NoLength];
    assert_eq!(log.left_out, reasons.map(|reason| (reason, 1)).into());
}

#[test]
fn wrong_lines_are_refused_with_line_and_field() {
    let sacct = |line: &str| SACCT.lines().next().unwrap().to_owned() + "\n" + line;
    for (text, wanted) in [
        ("1 2 3\n".to_owned(), "log:1: line: has 3 fields, and a job in the format `swf` 18"),
        (swf(1, 0, 1.0, 1, 1, 1) + &swf(2, 0, 1e11, 1, 1, 1), "log:2: run time: `100000000000` is"),
        (swf(1, 0, 1.0, 1, 1, 1).replace(" 3 ", " x ").replacen(" 0 ", " y ", 1), "log:1: submit"),
        ("JobID|Submit\n".to_owned(), "log:1: line of names: there is no column `ElapsedRaw`"),
        (sacct("1|a|2026-03-01T10:00:00|1|1\n"), "log:2: line: has 5 fields; the line of names"),
        (sacct("1|a|yesterday|1|1|COMPLETED\n"), "log:2: Submit: `yesterday` is no time such as"),
        (sacct("1|a|Unknown|1:2:3:4|1|COMPLETED\n"), "log:2: Elapsed: `1:2:3:4` is no length"),
        (sacct("1|a|Unknown|1:-2|1|COMPLETED\n"), "log:2: Elapsed:"),
        (sacct("1|a|Unknown|1:02|many|COMPLETED\n"), "log:2: cores: `many` is no number"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
}

fn study(log: &str, scenario: &str) -> Result<Study, InputError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("jobs.swf"), log).unwrap();
    let text = ScenarioText::new("s", scenario, directory.path());
    let recordings = |_: &Path| unreachable!("the scenario names no recording");
    Study::read(&text, &[], Grid::default(), &recordings)
}

const MACHINE: &str = "policies = [\"os\"]\noverheads = { quantum_switch_us = 0 }\n\
    kernel = { jitter_us = 0 }\n[machine]\nname = \"m\"\nsource = \"a test\"\ncore_peak = 10e9\n\
    [[machine.nodes]]\ncores = 2\n[[machine.memories]]\nmedium = \"dram\"\ncapacity = 100e9\n";

fn run(log: &str, table: &str) -> crate::flow::report::Report {
    let study = study(log, &format!("{MACHINE}[log]\nfile = \"jobs.swf\"\n{table}")).unwrap();
    study.run(&Stop::default(), std::num::NonZeroUsize::MIN, |_| ()).unwrap()
}

/// Two cores, and room for as many tasks: first come, first served, by hand.
#[test]
fn waits_and_responses_are_those_of_first_come_first_served() {
    let log = swf(1, 0, 20.0, 2, 2, 1)
        + &swf(2, 0, 10.0, 1, 1, 1)
        + &swf(3, 5, 30.0, 2, 2, 1)
        + &swf(4, 5, 2.0, 1, 1, 1)
        + &swf(5, 5, 2.0, 3, 3, 1);
    let report = run(&log, "bandwidth = 0\nadmit = 1");
    let point = &report.points[0];
    let figures = point.log.as_ref().unwrap();
    assert_eq!((figures.jobs, figures.admitted, figures.bound_s), (4, 2, 10.0));
    assert_eq!(figures.left_out, [(LeftOut::TooLarge, 1)].into());
    // Job 2 waits for job 1 until 20, job 3 for both until 30, job 4 until 60.
    let queueing = point.runs[0].queueing.unwrap();
    let waits = [0.0, 20.0, 25.0, 55.0];
    let responses = [20.0, 30.0, 55.0, 57.0];
    let slowdowns = [1.0, 3.0, 55.0 / 30.0, 5.7];
    let near = |found: f64, wanted: f64| (found - wanted).abs() < 1e-3;
    for (found, wanted) in [
        (queueing.wait_s, &waits),
        (queueing.response_s, &responses),
        (queueing.bounded_slowdown, &slowdowns),
    ] {
        assert!(near(found.mean, metrics::mean(wanted).unwrap()), "{found:?} {wanted:?}");
        assert!(near(found.max, wanted.iter().copied().fold(0.0, f64::max)), "{found:?}");
    }
    // 40 + 10 + 60 + 2 core seconds in 62 seconds of two cores.
    assert!(near(queueing.utilization, 112.0 / 124.0), "{}", queueing.utilization);
}

#[test]
fn a_scale_shortens_all_times_and_a_slice_takes_a_part() {
    let log: String = (0..10).map(|job| swf(job, 100 * i64::from(job), 60.0, 1, 1, 1)).collect();
    let report = run(&log, "bandwidth = 1e9\ntime_scale = 0.01\nskip = 2\nfirst = 3");
    let run = &report.points[0].runs[0];
    let names: Vec<&str> = run.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["2", "3", "4"]);
    assert!((run.turnaround_s - 2.6).abs() < 1e-3, "{}", run.turnaround_s);
    let figures = report.points[0].log.as_ref().unwrap();
    assert!((figures.bound_s - 0.1).abs() < 1e-12);
}

#[test]
fn bandwidths_come_from_where_the_scenario_says() {
    let log: String = (0..400).map(|job| swf(job, i64::from(job), 1.0, 1, 1, 1)).collect();
    let rates = |table: &str| -> Vec<f64> {
        let report = run(&log, table);
        report.points[0].runs[0].tasks.iter().map(|task| task.bandwidth_mean).collect()
    };
    let mean = |rates: &[f64]| metrics::mean(rates).unwrap();
    let drawn = rates("bandwidth = { mean = 2e9, spread = 0.5 }\nwrite_share = 0.2");
    assert!((mean(&drawn) / 2e9 - 1.0).abs() < 0.1, "{}", mean(&drawn));
    assert!((metrics::std_deviation(&drawn).unwrap() / 1e9 - 1.0).abs() < 0.25);
    let uniform = rates("bandwidth = { from = 1e9, to = 3e9 }");
    assert!(uniform.iter().all(|rate| (0.99e9..3.01e9).contains(rate)));
    assert!((mean(&uniform) / 2e9 - 1.0).abs() < 0.1);
    let pool = rates("bandwidth = \"catalog\"");
    assert!(pool.iter().any(|rate| *rate > 1e9) && pool.iter().any(|rate| *rate < 0.5e9));
}

#[test]
fn wrong_tables_are_refused_with_their_key() {
    let log = swf(1, 0, 20.0, 2, 2, 1);
    for (table, wanted) in [
        ("", "`bandwidth`"),
        ("bandwidth = \"catalogue\"", "unknown source of bandwidths `catalogue`"),
        ("bandwidth = \"store\"", "there is no profile store here"),
        ("bandwidth = { from = 2, to = 1 }", "`from` is more than `to`"),
        ("bandwidth = 12e9", "log.bandwidth: 12.0 GB/s is more than a core of `m` can move"),
        ("bandwidth = { from = 1, to = 12e9 }", "log.bandwidth.to: 12.0 GB/s is more than"),
        ("bandwidth = { mean = 12e9, spread = 1 }", "log.bandwidth.mean: 12.0 GB/s is"),
        ("bandwidth = 1\nskip = 1", "has no job to simulate; 0 are left out"),
        ("bandwidth = 1\nfirst = 2.9", "log.first: must be a whole number"),
        ("bandwidth = 1\nformat = \"csv\"", "unknown format of job logs `csv`"),
        ("bandwidth = 1\n[mix]\n", "a job log is a whole workload"),
    ] {
        let scenario = format!("{MACHINE}[log]\nfile = \"jobs.swf\"\n{table}");
        let error = study(&log, &scenario).unwrap_err().to_string();
        assert!(error.contains(wanted), "{table}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-zA-Z|:;T. \n-]{0,300}", sacct in any::<bool>()) {
        let head = if sacct { SACCT.lines().next().unwrap_or_default() } else { "; SWF" };
        let _ = parse(&format!("{head}\n{text}"));
    }
}
