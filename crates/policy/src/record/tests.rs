use memweir_core::medium::data::MediumData;
use memweir_core::placement::divide;
use memweir_core::{BytesPerSec, Counts, Lines, Media};
use proptest::prelude::*;

use super::*;
use crate::predictor::PredictorKind;
use crate::scheduler::{Bus, Kind, QuantumScheduler};

const QUANTUM: Nanos = Nanos::from_millis(100);

fn config(policy: &str) -> SchedulerConfig {
    SchedulerConfig {
        policy: policy.to_owned(),
        predictor: PredictorKind::Phase { threshold: 0.4 },
        cores: 2,
        bus: Bus { peak: Some(BytesPerSec(1e10 / 3.0)), ..Bus::default() },
        media: Media::with_dram(&[MediumData::shipped("pram").unwrap()]).unwrap(),
        seed: u64::MAX,
        ..SchedulerConfig::default()
    }
}

/// Behavior of the jobs of a made-up batch, with arrivals and departures.
#[derive(Clone, Debug)]
struct Course {
    /// Cores and expected bandwidth.
    jobs: Vec<(u32, Option<f64>)>,
    /// Length in percent of a quantum, and what each job does in it.
    quanta: Vec<(u64, Vec<Seen>)>,
}

/// CPU time in milliseconds, lines, and the share of them that is not DRAM's.
type Seen = (u64, u64, f64);

fn course() -> impl Strategy<Value = Course> {
    let job = (1_u32..3, prop::option::of(0.0_f64..1e10));
    let seen = (0_u64..100, 0_u64..1 << 24, 0.0_f64..1.0);
    let quantum = (1_u64..150, prop::collection::vec(seen, 6));
    (prop::collection::vec(job, 1..6), prop::collection::vec(quantum, 1..12))
        .prop_map(|(jobs, quanta)| Course { jobs, quanta })
}

/// Drives a scheduler through a course, as a batch would, and returns the text of its record.
fn record(policy: &str, course: &Course) -> String {
    let config = config(policy);
    let names = (0..course.jobs.len()).map(|n| format!("job-{n}")).collect();
    let text = Header::new(config.clone(), names).line();
    let mut scheduler = RecordingScheduler::recording(QuantumScheduler::new(config).unwrap());
    for (number, (cores, bandwidth)) in (0..).zip(&course.jobs) {
        scheduler.admit(JobSpec {
            cores: *cores,
            expected_time: bandwidth.map(|_| Nanos::from_millis(700)),
            expected_bandwidth: bandwidth.map(BytesPerSec),
            kind: Some(Kind(u64::from(number / 2))),
            ..JobSpec::new(JobId(number))
        });
    }
    let mut decision = scheduler.select();
    for (number, (span, seen)) in (0..).zip(&course.quanta) {
        let observation = |job: &JobId| {
            let (cpu, lines, share) = seen[job.index()];
            let counts = Counts::new(lines * 3, Lines(lines), Lines(lines / 3));
            Observation {
                job: *job,
                cpu_time: (cpu > 2).then(|| Nanos::from_millis(cpu)),
                counts: Some(divide(&counts, &[1.0 - share, share, 0.0, 0.0])),
                instruction_pointers: vec![cpu as u32, 7],
                forecast: (cpu > 50).then_some(BytesPerSec(share * 1e9 / 3.0)),
            }
        };
        if number == 4 {
            scheduler.learn(Nanos(QUANTUM.0 / 3), &observation(&JobId(0)));
            scheduler.retire(JobId(0));
            while scheduler.backfill().is_some() {}
        }
        let observations: Vec<_> = decision.chosen.iter().map(observation).collect();
        scheduler.observe(Nanos(QUANTUM.0 * span / 100), &observations);
        decision = scheduler.select();
    }
    text + &lines(scheduler.take_calls().iter())
}

fn lines<'a>(calls: impl Iterator<Item = &'a Call>) -> String {
    let mut text = String::new();
    let mut number = 0;
    for call in calls {
        number += 1;
        text += &call.line(number);
    }
    text + &end_line(number)
}

fn steady(quanta: usize) -> Course {
    // Jobs 0 and 1 stream from DRAM, 2 and 3 from PRAM, and 4 computes.
    let seen: Vec<_> = [(99, 4_000_000, 0.0), (99, 3_000_000, 0.1), (98, 2_000_000, 1.0)]
        .into_iter()
        .chain([(97, 1_000_000, 0.9), (99, 10, 0.5), (0, 0, 0.0)])
        .collect();
    Course { jobs: vec![(1, None); 5], quanta: vec![(100, seen); quanta] }
}

#[test]
fn a_record_replays_identically_and_tells_what_another_policy_would_do() {
    let record = Record::parse("x", &record("hmmsched", &steady(20))).unwrap();
    assert_eq!((record.header.name(JobId(3)), record.truncated.clone()), ("job-3".into(), None));
    let same = replay(&record, None).unwrap();
    assert_eq!(same.differences, []);
    // One before the first quantum, one after each, and one for the job that ended.
    assert_eq!(same.decisions, 22);
    assert_eq!(same.time, Nanos::from_millis(2_000));
    let other = replay(&record, Some("round-robin")).unwrap();
    let jobs = other.differences.iter().filter(|difference| difference.concerns_jobs());
    assert!(jobs.clone().count() > 3, "{other:?}");
    let first = jobs.clone().next().unwrap();
    assert!(first.line > 6 && first.quantum > 0, "{first:?}");
    assert_eq!(first.reasons.len(), 2);
    assert!(first.reasons.iter().any(|(_, why)| *why == "head of the run queue"), "{first:?}");
    assert!(replay(&record, Some("rund-robin")).unwrap_err().help.unwrap().contains("round-robin"));
}

#[test]
fn a_policy_says_why_it_would_choose() {
    let record = Record::parse("x", &record("round-robin", &steady(20))).unwrap();
    let replayed = replay(&record, Some("hmmsched")).unwrap();
    let reasons: Vec<&str> = replayed
        .differences
        .iter()
        .flat_map(|difference| difference.reasons.iter().map(|(_, reason)| *reason))
        .collect();
    let steps = ["largest", "smallest"].map(|which| format!("{which} effective bandwidth on NVM"));
    assert!(steps.iter().any(|step| reasons.contains(&step.as_str())), "{reasons:?}");
    for reason in reasons {
        let known = reason == "head of the run queue" || reason.contains("effective bandwidth");
        assert!(known, "{reason}");
    }
}

#[test]
fn a_decision_that_was_tampered_with_is_found_by_its_line() {
    let text = record("hmmsched", &steady(6));
    let tampered: String = text
        .lines()
        .enumerate()
        .map(|(index, line)| match index {
            12 => line.replace("\"chosen\":[", "\"chosen\":[9,") + "\n",
            _ => format!("{line}\n"),
        })
        .collect();
    assert_ne!(text, tampered);
    let record = Record::parse("x", &tampered).unwrap();
    let lines: Vec<_> = replay(&record, None).unwrap().differences.iter().map(|d| d.line).collect();
    assert_eq!(lines, [13]);
}

#[test]
fn a_record_that_breaks_off_is_read_up_to_there() {
    let text = record("hmmsched", &steady(3));
    let whole = Record::parse("x", &text).unwrap();
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    let text = &text[..end];
    let cut = &text[..text.len() - 20];
    let record = Record::parse("x", cut).unwrap();
    assert_eq!(record.calls, whole.calls[..whole.calls.len() - 1]);
    let number = text.lines().count();
    assert!(record.truncated.unwrap().starts_with(&format!("x:{number}: the record breaks off")));
    // In the middle it is damage.
    let second = text.lines().nth(1).unwrap();
    let error = Record::parse("x", &text.replacen(second, &second[..10], 1)).unwrap_err();
    assert_eq!(error.line, Some(2));
}

#[test]
fn a_record_cut_at_the_end_of_a_line_is_truncated() {
    let text = record("hmmsched", &steady(3));
    let whole = Record::parse("x", &text).unwrap();
    assert_eq!((whole.decisions() > 3, whole.truncated), (true, None));
    for calls in 0..whole.calls.len() {
        let cut: String = text.split_inclusive('\n').take(1 + calls).collect();
        let record = Record::parse("x", &cut).unwrap();
        assert_eq!(record.calls, whole.calls[..calls]);
        let said = format!("x: the record has no end line; calls after number {calls} may");
        assert!(record.truncated.unwrap().starts_with(&said));
    }
    // An end line ends the record, after all of its calls.
    let refused = |text: String| Record::parse("x", &text).unwrap_err().to_string();
    assert!(refused(text.clone() + &end_line(99)).contains("a line after the end of the record"));
    assert!(refused(text.replace("{\"end\":", "{\"end\":1")).contains("not "));
}

#[test]
fn a_record_without_an_inner_call_is_refused() {
    let text = record("hmmsched", &steady(3));
    let count = text.lines().count() - 1;
    for removed in 1..count - 1 {
        let left = text.lines().enumerate().filter(|(line, _)| *line != removed);
        let cut: String = left.map(|(_, line)| format!("{line}\n")).collect();
        let error = Record::parse("x", &cut).unwrap_err();
        assert_eq!(error.line, Some(removed + 1));
        let reason = format!("call {removed} is missing: call {} follows", removed + 1);
        assert!(error.to_string().contains(&reason), "{error}");
    }
}

/// The version in the text of a header.
fn written() -> String {
    format!(":{VERSION},")
}

#[test]
fn a_record_of_version_1_is_read_without_numbers() {
    let text = record("os", &steady(2));
    let calls = Record::parse("x", &text).unwrap().calls;
    // Without numbers and, as it has no comma, without the end line.
    let number = |line: &str| line.split_once(',').map(|(_, rest)| format!("{{{rest}\n"));
    let old: String = text.lines().skip(1).filter_map(number).collect();
    let header = text.lines().next().unwrap().replacen(&written(), ":1,", 1) + "\n";
    let read = Record::parse("x", &(header + &old)).unwrap();
    assert_eq!((read.calls, read.truncated.is_some()), (calls, true));
}

#[test]
fn what_is_no_record_is_refused() {
    let text = record("os", &steady(1));
    let refusal = |text: &str| Record::parse("x", text).unwrap_err().to_string();
    assert!(refusal("").contains("x:1: no record of decisions"));
    assert!(refusal("{}\n").contains("no record"));
    assert!(refusal("\"a\"\n").contains("memweir run --record"));
    assert!(refusal(&text.replace(FORMAT, "diary")).contains("a record of `diary`"));
    assert!(refusal(&text.replacen(&written(), ":99,", 1)).contains("version 99"));
    let damaged = refusal(&text.replacen("\"quantum\":", "\"quantum\":-", 1));
    assert!(damaged.contains("x:1: a damaged header"), "{damaged}");
}

proptest! {
    #[test]
    fn every_course_replays_to_the_bit(
        course in course(),
        policy in prop::sample::select(crate::policies::names().collect::<Vec<_>>()),
        idle: bool,
    ) {
        let auto = if idle && policy != "os" { ":auto-cores" } else { "" };
        let text = record(&format!("{policy}{auto}"), &course);
        let record = Record::parse("x", &text).unwrap();
        let again = lines(record.calls.iter().map(|(_, call)| call));
        prop_assert_eq!(record.header.line() + &again, text);
        prop_assert_eq!(replay(&record, None).unwrap().differences, []);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Record::parse("x", &text);
    }

    #[test]
    fn a_damaged_record_is_refused_or_replayed(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = record("hmmsched", &steady(4)).into_bytes();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(record) = Record::parse("x", &String::from_utf8_lossy(&bytes)) {
            let _ = replay(&record, None);
        }
    }
}
