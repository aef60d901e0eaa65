use memweir_core::{MAX_MEDIA, Nanos, Priority};
use proptest::prelude::*;

use super::*;
use crate::ebw::{TrafficRate, TrafficRates};
use crate::policy::ImpossibleChoice;

fn rate() -> impl Strategy<Value = BytesPerSec> {
    (0.0..1e12).prop_map(BytesPerSec)
}

fn candidate(number: u32) -> impl Strategy<Value = Candidate> {
    let time = || (0..u64::MAX).prop_map(Nanos);
    let traffic = (rate(), rate()).prop_map(|(reads, writes)| TrafficRate { reads, writes });
    let traffic = prop::array::uniform(traffic);
    let times = (proptest::option::of(time()), time(), time(), time());
    (1..9u32, rate(), traffic, times, -9..9i32).prop_map(
        move |(cores, demand, traffic, (expected_time, executed, progress, age), priority)| {
            Candidate {
                job: JobId(number),
                cores,
                demand,
                expected_time,
                traffic: TrafficRates(traffic),
                executed,
                progress,
                age,
                priority: Priority(priority),
            }
        },
    )
}

fn config(peak: Option<BytesPerSec>, second: Option<BytesPerSec>) -> SchedulerConfig {
    let mut config = SchedulerConfig {
        policy: "mine".to_owned(),
        cores: 4,
        bus: Bus { peak, ..Bus::default() },
        ..SchedulerConfig::default()
    };
    config.medium_peaks[0] = second;
    config
}

proptest! {
    #[test]
    fn a_view_is_the_same_on_the_other_side(
        (running, queue) in (prop::collection::vec(candidate(0), 0..2), candidate(1)),
        (peak, second) in (proptest::option::of(rate()), proptest::option::of(rate())),
        (committed, highest, ideal) in (rate(), rate(), proptest::option::of(rate())),
    ) {
        let speeds = SpeedModel::new(&config(peak, second));
        let view = QuantumView {
            quantum: 7,
            cores: 3,
            committed,
            running: &running,
            queue: &[queue],
            bus: Bus { peak, saturation: second, ..Bus::default() },
            highest_observed: highest,
            batch: &ideal,
            speeds: &speeds,
        };
        let question = PolicyQuestion::new(&view);
        let line = question.line();
        prop_assert_eq!(line.matches('\n').count(), 1);
        let read = PolicyQuestion::parse(&line).expect("our own line");
        prop_assert_eq!(&read, &question);
        let (here, there) = (speeds.load(&queue), read.view().speeds.load(&queue));
        prop_assert_eq!(here, there);
        prop_assert_eq!(read.view().batch.ideal_average(), ideal);
    }
}

#[test]
fn the_setup_says_its_version() {
    let setup = PolicySetup::new(config(Some(BytesPerSec::from_gb(10.0)), None));
    let line = setup.line();
    assert!(
        line.starts_with(r#"{"format":"memweir-policy","version":1,"config":{"policy":"mine""#)
    );
    assert_eq!(PolicySetup::parse(&line), Ok(setup));
    let newer = line.replace("\"version\":1", "\"version\":2");
    let expected = "version 2 of `memweir-policy`, and not 1 of `memweir-policy`";
    assert_eq!(PolicySetup::parse(&newer).unwrap_err(), expected);
    assert!(PolicySetup::parse("{}").unwrap_err().starts_with("not the setup of a policy: "));
}

#[test]
fn a_model_has_the_peaks_of_one_medium_at_least() {
    for peaks in ["", &"null,".repeat(MAX_MEDIA + 1)] {
        let text = format!(
            r#"{{"peaks":[{}],"cores":2.0,"observed":false}}"#,
            peaks.trim_end_matches(',')
        );
        assert!(serde_json::from_str::<SpeedModel>(&text).is_err(), "{text}");
    }
}

#[test]
fn answers_are_read_and_nonsense_is_shown() {
    let choice = |jobs: &[u32], target: Option<f64>| PolicyAnswer::Choice {
        jobs: jobs.iter().copied().map(JobId).collect(),
        target: target.map(BytesPerSec),
    };
    assert_eq!(PolicyAnswer::parse("{\"jobs\": []}\n"), Ok(choice(&[], None)));
    let aimed = choice(&[3, 1], Some(2e9));
    assert_eq!(PolicyAnswer::parse(&aimed.line()), Ok(aimed));
    let gives_up = PolicyAnswer::Failure { error: "no idea".to_owned() };
    assert_eq!(PolicyAnswer::parse(r#"{"error":"no idea"}"#), Ok(gives_up));
    for wrong in ["", "[1]", "{\"job\": 1}", "{\"jobs\": [-1]}", "{\"jobs\": [1], \"tarket\": 2}"] {
        let said = PolicyAnswer::parse(wrong).unwrap_err();
        assert!(said.starts_with(&format!("answered `{wrong}`; write")), "{said}");
    }
    let negative = PolicyAnswer::parse("{\"jobs\": [1], \"target\": -2e9}").unwrap_err();
    assert_eq!(negative, "answered with the target -2000000000; it is zero or more");
    assert!(PolicyAnswer::parse(&"x".repeat(5000)).unwrap_err().len() < 200);
}

#[test]
fn impossible_choices_are_refused_with_the_reason() {
    let waiting = |job, cores| Candidate { cores, ..Candidate::new(JobId(job), BytesPerSec::ZERO) };
    let places = |queue: &[Candidate], chosen: &[u32]| {
        let speeds = SpeedModel::new(&config(None, None));
        let view = QuantumView {
            quantum: 0,
            cores: 2,
            committed: BytesPerSec::ZERO,
            running: &[],
            queue,
            bus: Bus::default(),
            highest_observed: BytesPerSec::ZERO,
            batch: &None::<BytesPerSec>,
            speeds: &speeds,
        };
        let chosen: Vec<JobId> = chosen.iter().copied().map(JobId).collect();
        view.places(&chosen).map_err(|error: ImpossibleChoice| error.to_string())
    };
    let queue = [waiting(5, 1), waiting(2, 1), waiting(7, 2)];
    assert_eq!(places(&queue, &[2, 5]), Ok(vec![1, 0]));
    assert_eq!(places(&queue, &[]), Ok(vec![]));
    for (chosen, said) in [
        (&[3][..], "chose job 3, which is not waiting; waiting: 5, 2, 7"),
        (&[2, 2], "chose job 2 twice"),
        (&[2, 7], "chose jobs for 3 cores; 2 are free"),
    ] {
        assert_eq!(places(&queue, chosen), Err(said.to_owned()));
    }
    assert!(places(&[], &[0]).unwrap_err().ends_with("waiting: none"));
}
