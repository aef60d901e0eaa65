//! The text of known values.

use std::collections::BTreeSet;

use memweir_core::{Bytes, Counts, Lines};
use memweir_linux::MeterError;
use memweir_linux::meter::Reason;
use memweir_linux::meter::cgroup::DomainBytes;

use super::*;
use crate::subject::Kind;

const PERF: MeterFacts =
    MeterFacts { kind: MeterKind::Perf, instructions: true, writes: true, media: false };

fn row(jobid: &str) -> Row {
    Row {
        t_s: 1.0,
        span_s: 1.0,
        jobid: jobid.to_owned(),
        name: "a.service".to_owned(),
        kind: Kind::Unit,
        state: State::Running,
        cpu_s: Some(0.5),
        cpu_total_s: Some(2.5),
        total: Some(Counts::new(0, Lines(10), Lines(2))),
        ..Row::default()
    }
}

/// Lines of samples whose names begin with `name`.
fn samples(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.openmetrics();
    text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[test]
fn a_watched_subject_has_series_of_what_was_measured() {
    let metrics = Metrics::default();
    metrics.set_meter(PERF);
    metrics.watched(&[row("/a")], &[], Nanos::ZERO);
    let labels = "jobid=\"/a\",name=\"a.service\"";
    assert_eq!(
        samples(&metrics, "memweir_job_"),
        [
            format!(
                "memweir_job_memory_bytes_total{{{labels},direction=\"read\",medium=\"dram\",meter=\"perf\"}} 640.0"
            ),
            format!(
                "memweir_job_memory_bytes_total{{{labels},direction=\"write\",medium=\"dram\",meter=\"perf\"}} 128.0"
            ),
            format!("memweir_job_cpu_seconds_total{{{labels}}} 2.5"),
        ]
    );
    assert_eq!(
        samples(&metrics, "memweir_jobs{state=\"running\"}"),
        ["memweir_jobs{state=\"running\"} 1.0"]
    );
    assert_eq!(
        samples(&metrics, "memweir_meter_info"),
        ["memweir_meter_info{meter=\"perf\",blind_to=\"media\"} 1.0"]
    );
    // A reading that failed leaves a gap instead of a rate of zero.
    let gap = Row { total: None, cpu_total_s: None, ..row("/a") };
    let error = MeterError { reason: Reason::Limit, text: String::new() };
    let failure = MeterFailure { meter: MeterKind::Perf, jobid: "/a".to_owned(), error };
    metrics.watched(&[gap], &[failure.clone(), failure], Nanos::ZERO);
    assert_eq!(samples(&metrics, "memweir_job_"), [] as [String; 0]);
    assert_eq!(
        samples(&metrics, "memweir_meter_errors"),
        ["memweir_meter_errors_total{meter=\"perf\",reason=\"limit\"} 2.0"]
    );
}

#[test]
fn bytes_by_domain_have_the_labels_of_node_exporters() {
    let metrics = Metrics::default();
    let kind = MeterKind::Resctrl;
    metrics.set_meter(MeterFacts { kind, instructions: false, writes: false, media: false });
    let bytes = |scope, bytes| DomainBytes { domain: 1, scope, bytes: Bytes(bytes) };
    let domains = vec![bytes(Scope::Total, 100), bytes(Scope::Local, 64)];
    let step = Row { slurm_jobid: Some("7".to_owned()), domains, ..row("/s") };
    metrics.watched(&[step], &[], Nanos::ZERO);
    assert_eq!(
        samples(&metrics, "memweir_job_resctrl"),
        [
            "memweir_job_resctrl_bytes_total{jobid=\"/s\",domain=\"1\",scope=\"total\"} 100.0",
            "memweir_job_resctrl_bytes_total{jobid=\"/s\",domain=\"1\",scope=\"local\"} 64.0",
        ]
    );
    let memory = samples(&metrics, "memweir_job_memory");
    assert!(memory[0].contains("slurm_jobid=\"7\",direction=\"both\""), "{memory:?}");
    assert_eq!(memory.len(), 1, "no writes that were not counted");
    let info = samples(&metrics, "memweir_meter_info");
    assert!(info[0].contains("blind_to=\"instructions,media,direction\""), "{info:?}");
}

#[test]
fn series_of_ended_jobs_stay_for_a_while_and_then_go() {
    let metrics = Metrics::default();
    metrics.set_meter(PERF);
    metrics.watched(&[row("/a")], &[], Nanos::ZERO);
    let ended = Row { state: State::Ended, cpu_total_s: None, total: None, ..row("/a") };
    metrics.watched(&[ended], &[], Nanos::MILLI);
    assert_eq!(samples(&metrics, "memweir_job_").len(), 3, "the last values");
    assert_eq!(samples(&metrics, "memweir_jobs{state=\"ended\"}")[0].chars().last(), Some('0'));
    let before = KEEP_ENDED;
    metrics.expire(before);
    assert_eq!(samples(&metrics, "memweir_job_").len(), 3);
    metrics.expire(before + Nanos::MILLI);
    assert!(samples(&metrics, "memweir_job_").is_empty());
    // A subject that comes again before that lives on.
    metrics.watched(&[row("/b")], &[], Nanos::ZERO);
    metrics.end("/b", Nanos::ZERO);
    metrics.watched(&[row("/b")], &[], Nanos::MILLI);
    metrics.expire(KEEP_ENDED + KEEP_ENDED);
    assert_eq!(samples(&metrics, "memweir_job_cpu").len(), 1);
}

#[test]
fn a_batch_has_series_of_its_quanta() {
    let metrics = Metrics::default();
    assert!(samples(&metrics, "memweir_quanta").is_empty());
    metrics.quantum_ended(true);
    metrics.quantum_ended(true);
    metrics.quantum_ended(false);
    metrics.set_target(Some(BytesPerSec(5e9)));
    metrics.set_peak(BytesPerSec(8e9));
    metrics.update("0", |series| {
        series.name = "gzip".to_owned();
        (series.selected_s, series.blocked_s) = (Some(1.5), Some(0.5));
    });
    assert_eq!(
        samples(&metrics, "memweir_quanta"),
        [
            "memweir_quanta_total{saturated=\"false\"} 1.0",
            "memweir_quanta_total{saturated=\"true\"} 2.0"
        ]
    );
    assert_eq!(
        samples(&metrics, "memweir_target"),
        ["memweir_target_bytes_per_second 5000000000.0"]
    );
    let blocked = "memweir_job_blocked_seconds_total{jobid=\"0\",name=\"gzip\"} 0.5";
    assert_eq!(samples(&metrics, "memweir_job_blocked"), [blocked]);
    metrics.set_target(None);
    assert!(samples(&metrics, "memweir_target").is_empty());
}

#[test]
fn names_of_others_cannot_break_the_text() {
    let metrics = Metrics::default();
    let odd = Row { name: "a\"} 1\n\\".to_owned(), ..row("/x") };
    metrics.watched(&[odd], &[], Nanos::ZERO);
    let cpu = samples(&metrics, "memweir_job_cpu");
    assert_eq!(cpu, ["memweir_job_cpu_seconds_total{jobid=\"/x\",name=\"a\\\"} 1\\n\\\\\"} 2.5"]);
}

#[test]
fn the_textfile_names_counters_as_their_samples() {
    let metrics = Metrics::default();
    metrics.watched(&[row("/a")], &[], Nanos::ZERO);
    let text = metrics.prometheus_text();
    let cpu: Vec<&str> = text.lines().filter(|line| line.contains("job_cpu")).collect();
    assert_eq!(cpu[0], "# HELP memweir_job_cpu_seconds_total CPU time of all processes of the job");
    assert_eq!(cpu[1], "# TYPE memweir_job_cpu_seconds_total counter");
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    assert!(text.contains("# TYPE memweir_build_info gauge\n"));
}

#[test]
fn switches_make_a_histogram_from_the_first_one_on() {
    let metrics = Metrics::default();
    assert!(!metrics.openmetrics().contains("memweir_switch"));
    metrics.switched(Nanos(150_000));
    metrics.switched(Nanos(15_000));
    for text in [metrics.openmetrics(), metrics.prometheus_text()] {
        // 10 us times 2 to the fourth is the first bound above 150 us.
        for line in [
            "# TYPE memweir_switch_duration_seconds histogram",
            "memweir_switch_duration_seconds_count 2",
            "memweir_switch_duration_seconds_bucket{le=\"0.00002\"} 1",
            "memweir_switch_duration_seconds_bucket{le=\"0.00008\"} 1",
            "memweir_switch_duration_seconds_bucket{le=\"0.00016\"} 2",
            "memweir_switch_duration_seconds_bucket{le=\"+Inf\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}

/// A row of the manual's table of metrics: names and labels.
fn documented(row: &str) -> (Vec<&str>, BTreeSet<&str>) {
    let mut columns = row.split('|').skip(1).map(|column| column.split('`').skip(1).step_by(2));
    let names = columns.next().expect("names").collect();
    (names, columns.next().expect("labels").collect())
}

/// Names of the labels of a sample whose values hold no quotes.
fn labels(sample: &str) -> BTreeSet<&str> {
    let (_, labels) = sample.split_once('{').unwrap_or_default();
    let outside = labels.split('"').step_by(2);
    outside.filter_map(|text| Some(text.strip_suffix('=')?.trim_start_matches(','))).collect()
}

#[test]
fn the_manual_lists_every_metric_with_its_labels() {
    let metrics = Metrics::default();
    metrics.set_meter(PERF);
    let domains = vec![DomainBytes { domain: 0, scope: Scope::Total, bytes: Bytes(1) }];
    let error = MeterError { reason: Reason::Gone, text: String::new() };
    let failure = MeterFailure { meter: MeterKind::Perf, jobid: "/a".to_owned(), error };
    metrics.watched(&[Row { domains, ..row("/a") }], &[failure], Nanos::ZERO);
    metrics.update("/a", |series| {
        (series.selected_s, series.blocked_s) = (Some(1.0), Some(1.0));
    });
    metrics.quantum_ended(true);
    metrics.set_target(Some(BytesPerSec(1.0)));
    metrics.set_peak(BytesPerSec(1.0));
    metrics.switched(Nanos(1));
    let text = metrics.openmetrics();
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let mut found = BTreeSet::new();
    for row in manual.lines().filter(|line| line.starts_with("| `memweir_")) {
        let (names, expected) = documented(row);
        for name in names {
            let is_of = |line: &&str| {
                let rest = line.strip_prefix(name);
                let rest = rest.map(|rest| rest.strip_prefix("_bucket").unwrap_or(rest));
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            let sample = text.lines().find(is_of).unwrap_or_else(|| panic!("no {name}:\n{text}"));
            assert_eq!(labels(sample), expected, "{sample}");
            found.insert(name.strip_suffix("_total").unwrap_or(name));
        }
    }
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(families, found);
}
