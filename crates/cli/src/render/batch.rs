//! A [`BatchReport`] as text: one row per job, then the batch.

use std::fmt::Write;

use memweir_core::metrics::BandwidthBand;
use memweir_run::report::{BatchReport, JobReport, MediumReport, Outcome, ProfileSource};

use super::bars::bar;
use super::text::{Table, age, count, counted, known, percent, rate, seconds};

/// Rows of the jobs' table that a person reads at once; longer batches show the slowest jobs.
const ROWS_SHOWN: usize = 40;
/// Most profiles that are listed.
const PROFILES_SHOWN: usize = 12;
/// Width of the breakdown's longest possible bar in cells.
const BAR_CELLS: usize = 40;

/// The whole report.
pub(crate) fn report(batch: &BatchReport) -> String {
    let mut text = format!(
        "policy {}, predictor {}, meter {}, mechanism {}, {}, quantum {} ms\n\n",
        batch.policy,
        batch.predictor,
        batch.meter,
        batch.mechanism,
        counted(u64::from(batch.cores), "core"),
        batch.quantum_ms
    );
    jobs(&batch.jobs, &mut text);
    limits(&batch.jobs, &mut text);
    text.push_str(&profiles(&batch.jobs));
    summary(batch, &mut text);
    media(&batch.media, &mut text);
    breakdown(&batch.bandwidth_breakdown, &mut text);
    text
}

fn jobs(jobs: &[JobReport], text: &mut String) {
    let mut shown: Vec<&JobReport> = jobs.iter().collect();
    let hidden = shown.len().saturating_sub(ROWS_SHOWN);
    if hidden > 0 {
        // Failures first, then the longest: people look for these in a batch of hundreds.
        shown.sort_by(|a, b| {
            let failed = |job: &JobReport| job.exit_code != Some(0);
            failed(b).cmp(&failed(a)).then(b.wall_s.total_cmp(&a.wall_s))
        });
        shown.truncate(ROWS_SHOWN);
    }
    let table = Table::of(shown)
        .left("job", |job| &*job.name)
        .right("wall", |job| seconds(job.wall_s))
        .right("running", |job| seconds(job.running_s))
        .right("bandwidth", |job| known(job.bandwidth_mean, rate))
        .right("peak", |job| known(job.bandwidth_peak, rate))
        .right("speed", |job| known(job.measured_speed, speed))
        .right("predicted", |job| known(job.predicted_speed, speed))
        .right("quanta", |job| count(job.quanta))
        .right("exit", exit);
    let _ = writeln!(text, "{table}");
    if hidden > 0 {
        let _ = writeln!(text, "... and {hidden} more (every job is in --json)");
    }
    text.push('\n');
}

/// A speed over that of the job alone.
fn speed(speed: f64) -> String {
    format!("{speed:.2}")
}

/// An exit code in words where a number says little.
fn exit(job: &&JobReport) -> String {
    match job.exit_code {
        None if job.never_started => "not started".into(),
        None => "left running".into(),
        Some(code @ 129..=192) => format!("{code} (signal {})", code - 128),
        Some(code) => code.to_string(),
    }
}

/// The limits of bandwidth, one line for each job that has one.
fn limits(jobs: &[JobReport], text: &mut String) {
    let limited: Vec<_> =
        jobs.iter().filter_map(|job| Some((&job.name, job.limit.as_ref()?))).collect();
    for (name, limit) in limited.iter().take(ROWS_SHOWN) {
        let _ = writeln!(
            text,
            "limit of {name}: {}, used up and held in {} ms; at most {} lines in one",
            rate(limit.bandwidth.0),
            count(limit.held_ms),
            count(limit.lines_per_ms_peak.into())
        );
        if !limit.uncounted_cpus.is_empty() {
            let cpus = limit.uncounted_cpus.iter().map(ToString::to_string).collect::<Vec<_>>();
            let _ = writeln!(
                text,
                "limit of {name}: it did not hold on CPU {}, for want of a counter",
                cpus.join(", ")
            );
        }
    }
    hidden(limited.len(), ROWS_SHOWN, "limits", text);
    if !limited.is_empty() {
        text.push('\n');
    }
}

/// Says how many of all lines are not shown, if any.
fn hidden(all: usize, shown: usize, what: &str, text: &mut String) {
    if all > shown {
        let _ = writeln!(text, "... and {} more {what} (every one is in --json)", all - shown);
    }
}

/// The recorded profiles that the batch used, one line each with their jobs, source and age.
pub(crate) fn profiles(jobs: &[JobReport]) -> String {
    let mut used: Vec<(&ProfileSource, Vec<&str>)> = Vec::new();
    for job in jobs {
        let Some(source) = &job.profile else { continue };
        let same = |(other, _): &&mut (&ProfileSource, _)| {
            (&other.key, &other.file) == (&source.key, &source.file)
        };
        match used.iter_mut().find(same) {
            Some((_, names)) => names.push(&job.name),
            None => used.push((source, vec![&job.name])),
        }
    }
    let mut text = String::new();
    for (source, names) in used.iter().take(PROFILES_SHOWN) {
        let place = match (&source.key, &source.file) {
            (Some(key), _) => format!("{} of the store", key.get(..10).unwrap_or(key)),
            (None, Some(file)) => file.clone(),
            (None, None) => "a recording".to_owned(),
        };
        let more = match names.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let _ = writeln!(
            text,
            "profile of {}{more}: {place}, {} meter, {} old",
            names[0],
            source.meter,
            age(source.age_s)
        );
    }
    hidden(used.len(), PROFILES_SHOWN, "profiles", &mut text);
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn summary(batch: &BatchReport, text: &mut String) {
    text.push_str(match batch.outcome {
        Outcome::Finished => "",
        Outcome::Interrupted => "the batch was interrupted before all jobs had ended\n",
        Outcome::FailedFast => "a job failed, which ended the batch before all others had ended\n",
        Outcome::PolicyFailed => "the policy failed before all jobs had ended\n",
    });
    let _ = write!(
        text,
        "turnaround {}, {} {}",
        seconds(batch.turnaround_s),
        count(batch.quanta),
        if batch.quanta == 1 { "quantum" } else { "quanta" },
    );
    if let Some(mean) = batch.bandwidth_mean {
        let _ = write!(text, "; bandwidth per quantum {} mean", rate(mean));
        if let Some(deviation) = batch.bandwidth_std {
            let _ = write!(text, ", {} standard deviation", rate(deviation));
        }
    }
    text.push('\n');
    let known = [
        ("ideal average bandwidth", batch.ideal_average_bandwidth),
        ("target", batch.target),
        ("peak", batch.peak_bandwidth),
    ];
    let known: Vec<String> = known
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {}", rate(value))))
        .collect();
    if !known.is_empty() {
        let _ = writeln!(text, "{}", known.join(", "));
    }
    if let Some(sentence) = foreign_use(batch.foreign_cores, batch.cores, "the batch") {
        let _ = writeln!(text, "{sentence}");
    }
}

/// A sentence about other work on the processors of `what`; `None` where there was hardly any.
pub(super) fn foreign_use(used: Option<f64>, cores: u32, what: &str) -> Option<String> {
    const NEGLIGIBLE: f64 = 0.05;
    let used = used.filter(|used| *used > NEGLIGIBLE * f64::from(cores))?;
    let cores = if cores == 1 { "core".to_owned() } else { format!("{cores} cores") };
    Some(format!(
        "something else used {used:.2} of the {cores} while {what} ran: other programs, or the \
         host of a virtual machine"
    ))
}

/// Traffic by medium.
fn media(media: &[MediumReport], text: &mut String) {
    if media.is_empty() {
        return;
    }
    let table = Table::of(media)
        .left("medium", |medium| &*medium.name)
        .right("reads", |medium| count(medium.memory_reads))
        .right("writes", |medium| known(medium.memory_writes, count))
        .right("gamma", |medium| format!("{:.2}", medium.gamma))
        .right("delta", |medium| format!("{:.2}", medium.delta));
    let _ = writeln!(text, "\nlines of 64 bytes by medium, latencies over DRAM's\n{table}");
}

/// The BTR breakdown of iabw Fig. 10: share of the quanta in each band of system bandwidth.
fn breakdown(bands: &[BandwidthBand], text: &mut String) {
    if bands.iter().all(|band| band.share == 0.0) {
        return;
    }
    let labels: Vec<String> = bands
        .iter()
        .map(|band| match band.to {
            Some(to) => format!("{} to {}", rate(band.from.0), rate(to.0)),
            None => format!("{} and more", rate(band.from.0)),
        })
        .collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let longest = bands.iter().map(|band| band.share).fold(0.0, f64::max);
    text.push_str("\nsystem bandwidth per quantum\n");
    for (band, label) in bands.iter().zip(labels) {
        let bar = bar(band.share / longest, BAR_CELLS);
        let _ = writeln!(text, " {label:>width$}  {:>7}  {bar}", percent(band.share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::BytesPerSec;
    use memweir_linux::blocker::LimitUse;

    fn job(name: &str, wall_s: f64, exit_code: Option<i32>) -> JobReport {
        JobReport {
            name: name.into(),
            command: vec![name.into()],
            exit_code,
            wall_s,
            running_s: wall_s / 2.0,
            quanta: 12,
            memory_reads: Some(10),
            bandwidth_mean: Some(1.5e9),
            bandwidth_peak: Some(2.5e9),
            predicted_speed: Some(0.82),
            measured_speed: Some(0.8),
            ..JobReport::default()
        }
    }

    fn batch(jobs: Vec<JobReport>) -> BatchReport {
        BatchReport {
            policy: "ideal-average".into(),
            predictor: "window:3".into(),
            meter: "declared".into(),
            mechanism: "cgroup-v2".into(),
            cores: 2,
            quantum_ms: 100.0,
            turnaround_s: 15.7,
            scheduler_s: 0.01,
            foreign_cores: Some(0.01),
            bandwidth_mean: Some(12.3e9),
            bandwidth_std: Some(2.1e9),
            quanta: 157,
            bandwidth_breakdown: vec![
                BandwidthBand { from: BytesPerSec(0.0), to: Some(BytesPerSec(4e9)), share: 0.25 },
                BandwidthBand { from: BytesPerSec(4e9), to: None, share: 0.75 },
            ],
            ideal_average_bandwidth: Some(12.5e9),
            peak_bandwidth: Some(40e9),
            jobs,
            ..BatchReport::default()
        }
    }

    #[test]
    fn media_that_were_told_apart_have_a_table() {
        let medium = |name: &str, gamma, lines| MediumReport {
            name: name.into(),
            kind: memweir_core::medium::MediumKind::Nvm,
            gamma,
            delta: 2.0 * gamma,
            memory_reads: lines,
            memory_writes: Some(lines / 2),
        };
        let media = vec![medium("dram", 1.0, 4_000), medium("pram", 2.7, 12_000)];
        let text = report(&BatchReport { media, ..batch(vec![job("a", 1.0, Some(0))]) });
        let row = text.lines().find(|line| line.contains("pram")).expect("a row");
        for figure in ["12,000", "6,000", "2.70", "5.40"] {
            assert!(row.contains(figure), "{figure} is missing in {row}");
        }
    }

    #[test]
    fn the_report_has_every_figure() {
        let jobs = vec![job("gzip", 3.0, Some(0)), job("xz", 9.0, Some(143)), job("z", 1.0, None)];
        let text = report(&batch(jobs));
        for needle in [
            "policy ideal-average, predictor window:3, meter declared",
            "1.5 GB/s",
            "143 (signal 15)",
            "left running",
            "turnaround 15.70 s, 157 quanta",
            "12.3 GB/s mean, 2.1 GB/s standard deviation",
            "ideal average bandwidth 12.5 GB/s, peak 40.0 GB/s",
            "4.0 GB/s and more   75.0 %  ████████████████████████████████████████",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
        assert!(!text.contains("target"), "{text}");
    }

    #[test]
    fn other_work_on_the_cores_is_told_from_a_twentieth_of_them_on() {
        let told = |foreign_cores| {
            report(&BatchReport { foreign_cores, ..batch(Vec::new()) }).contains("something else")
        };
        assert!(!told(None) && !told(Some(0.1)) && told(Some(0.11)));
        let sentence = foreign_use(Some(0.966), 2, "the batch").expect("half of the cores");
        assert!(sentence.starts_with("something else used 0.97 of the 2 cores"), "{sentence}");
    }

    #[test]
    fn what_was_not_measured_is_not_shown_as_zero() {
        let unmeasured = JobReport {
            memory_reads: None,
            bandwidth_mean: None,
            bandwidth_peak: None,
            ..job("a", 1.0, Some(0))
        };
        let text = report(&batch(vec![unmeasured]));
        let row = text.lines().find(|line| line.starts_with(" a ")).expect("its row");
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        assert_eq!(cells[3..5], ["-", "-"], "{row}");
        let blind = BatchReport { bandwidth_mean: None, bandwidth_std: None, ..batch(Vec::new()) };
        assert!(report(&blind).contains("turnaround 15.70 s, 157 quanta\n"));
    }

    #[test]
    fn each_limit_has_a_line() {
        let limit = LimitUse {
            bandwidth: BytesPerSec(500e6),
            lines: 9_000_000,
            lines_per_ms_peak: 7_900,
            held_ms: 1_234,
            uncounted_cpus: Vec::new(),
        };
        let failed = LimitUse { uncounted_cpus: vec![0, 3], ..limit.clone() };
        let limited = |name, limit| JobReport { limit: Some(limit), ..job(name, 1.0, Some(0)) };
        let jobs = vec![limited("a", limit), job("b", 1.0, Some(0)), limited("c", failed)];
        let text = report(&batch(jobs));
        let line =
            "limit of a: 500.0 MB/s, used up and held in 1,234 ms; at most 7,900 lines in one\n";
        assert!(text.contains(line) && !text.contains("limit of b"), "{text}");
        let line = "limit of c: it did not hold on CPU 0, 3, for want of a counter\n";
        assert!(text.contains(line) && !text.contains("limit of a: it did"), "{text}");
    }

    #[test]
    fn each_profile_has_a_line_with_its_age() {
        let source = |key: &str, age_s| ProfileSource {
            source: memweir_run::report::SourceKind::Store,
            key: Some(key.into()),
            file: None,
            meter: "software".into(),
            recorded: jiff::Timestamp::UNIX_EPOCH,
            age_s,
        };
        let with = |name, key, age_s| JobReport {
            profile: Some(source(key, age_s)),
            ..job(name, 1.0, Some(0))
        };
        let jobs = [
            with("gzip.1", "0123456789abcdef", 90.0),
            with("gzip.2", "0123456789abcdef", 90.0),
            with("xz", "fedcba9876543210", 3.0 * 86_400.0),
            job("unknown", 1.0, Some(0)),
        ];
        assert_eq!(
            profiles(&jobs),
            "profile of gzip.1 and 1 more: 0123456789 of the store, software meter, 1 minute old\n\
             profile of xz: fedcba9876 of the store, software meter, 3 days old\n\n"
        );
        assert_eq!(profiles(&jobs[3..]), "");
    }

    #[test]
    fn a_batch_of_hundreds_shows_its_failures_first() {
        let mut jobs: Vec<_> =
            (0..500).map(|i| job(&format!("j{i}"), f64::from(i), Some(0))).collect();
        jobs[3].exit_code = Some(1);
        let text = report(&batch(jobs));
        assert!(text.contains("and 460 more"), "{text}");
        assert!(text.lines().nth(4).unwrap().starts_with(" j3 "), "{text}");
        assert!(text.contains(" j499 ") && !text.contains(" j100 "), "{text}");
    }
}
