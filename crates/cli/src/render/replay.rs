//! A replay as text: the number of decisions, and the differences between them.

use std::fmt::Write;

use memweir_policy::record::{Answer, Difference, Record, Replay};

use super::text::{Table, count, counted, rate, seconds, shortened};

/// Width of a column of jobs.
const JOBS_WIDTH: usize = 48;

/// The whole report of a replay under `policy`, with at most `limit` differences.
pub(crate) fn report(record: &Record, policy: &str, replay: &Replay, limit: usize) -> String {
    let recorded = &record.header.config.policy;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, {} by {recorded} in {}",
        counted(record.header.jobs.len() as u64, "job"),
        counted(replay.decisions as u64, "decision"),
        seconds(replay.time.as_secs_f64())
    );
    let differing = replay.differences.len() as u64;
    if differing == 0 {
        let _ = writeln!(text, "{policy} decides the same in all of them");
        return text;
    }
    let verb = if differing == 1 { "differs" } else { "differ" };
    let _ = writeln!(text, "{} {verb} under {policy}\n", count(differing));
    let table = Table::of(replay.differences.iter().take(limit))
        .right("line", |difference| difference.line)
        .right("at", |difference| seconds(difference.time.as_secs_f64()))
        .right("quantum", |difference| difference.quantum)
        .left("recorded", |difference| answer(record, &difference.recorded, difference))
        .left("now", |difference| answer(record, &difference.replayed, difference));
    let _ = writeln!(text, "{table}");
    if replay.differences.len() > limit {
        let hidden = (replay.differences.len() - limit) as u64;
        let _ = writeln!(text, "... and {} more (--limit, --json)", count(hidden));
    }
    text
}

/// The selected jobs; where both answers select the same, the other differences.
fn answer(record: &Record, answer: &Answer, difference: &Difference) -> String {
    let jobs = |answer: &Answer| {
        let names: Vec<_> = answer.chosen().iter().map(|job| record.header.name(*job)).collect();
        if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }
    };
    let same_jobs = difference.recorded.chosen() == difference.replayed.chosen();
    match answer {
        Answer::Summary(summary) => {
            let saturated = if summary.saturated { ", saturated" } else { "" };
            format!("{} observed{saturated}", rate(summary.bandwidth.0))
        }
        Answer::Decision(Some(decision)) if same_jobs => {
            let target =
                decision.target.map_or(String::new(), |t| format!(", target {}", rate(t.0)));
            format!("{} predicted{target}", rate(decision.predicted.0))
        }
        Answer::Decision(_) => shortened(&jobs(answer), JOBS_WIDTH),
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{JobId, Nanos};
    use memweir_policy::SchedulerConfig;
    use memweir_policy::record::Header;
    use memweir_policy::{Decision, Running};

    use super::*;

    fn decision(jobs: &[u32]) -> Answer {
        let chosen: Vec<JobId> = jobs.iter().copied().map(JobId).collect();
        Answer::Decision(Some(Decision {
            running: Running::Only(chosen.clone()),
            chosen,
            predicted: memweir_core::BytesPerSec(2e9),
            target: None,
        }))
    }

    fn replayed(recorded: Answer, now: Answer) -> String {
        let names = ["gzip", "sort", "xz"].map(str::to_owned).to_vec();
        let record = Record {
            header: Header::new(SchedulerConfig::default(), names),
            calls: Vec::new(),
            truncated: None,
        };
        let difference = Difference {
            line: 7,
            quantum: 3,
            time: Nanos::from_millis(400),
            recorded,
            replayed: now,
            reasons: Vec::new(),
        };
        let differences = vec![difference.clone(), difference];
        let replay = Replay { decisions: 12, time: Nanos::from_millis(900), differences };
        report(&record, "os", &replay, 1)
    }

    #[test]
    fn a_difference_names_line_time_and_jobs() {
        let text = replayed(decision(&[0, 2]), decision(&[0, 1]));
        for needle in [
            "3 jobs, 12 decisions by round-robin in 0.900 s",
            "2 differ under os",
            "gzip, xz",
            "gzip, sort",
            "... and 1 more",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
        let text = replayed(decision(&[0]), Answer::Decision(None));
        assert!(text.contains("nobody"), "{text}");
        assert!(replayed(decision(&[0]), decision(&[0])).contains("2.0 GB/s predicted"));
    }
}
