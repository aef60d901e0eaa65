//! Throughput and idle cores, computed by hand.

use memweir_core::{Counts, Nanos};

use super::*;
use crate::scheduler::Bus;
use crate::scheduler::slowdown_model::Measurement;

const CORES: u32 = 4;

fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

fn member(demand: f64, sensitivity: f64) -> Member {
    Member { demand: gb(demand), cores: 1, sensitivity }
}

/// Returns the state for a bus of 10 GB/s.
fn occupancy() -> Occupancy {
    Occupancy::new(&SchedulerConfig {
        cores: CORES,
        core_use: CoreUse::Auto,
        bus: Bus { peak: Some(gb(10.0)), ..Bus::default() },
        ..SchedulerConfig::default()
    })
}

/// Returns the number of these jobs that are admitted beside the first.
fn let_in(occupancy: &mut Occupancy, jobs: &[Member]) -> usize {
    occupancy.begin_quantum(|| false);
    occupancy.begin_choice(jobs[..1].iter().copied());
    let rest = jobs[1..].iter();
    let count = rest.filter(|job| occupancy.lets_in(**job)).count();
    occupancy.settle();
    count
}

#[test]
fn what_jobs_get_done_is_their_worth_times_their_speed() {
    let done = |jobs: &[Member]| gets_done(jobs, gb(10.0), CORES);
    // A quarter of the cores; half of the bus.
    assert_eq!(done(&[member(1.0, 0.0)]), 0.25);
    assert_eq!(done(&[member(1.0, 1.0), member(5.0, 1.0)]), 0.75);
    // 15 GB/s on 10: half too much. 0.5 / 1.5 three times, 0.25 / 1.5 and 0.25.
    let stream = member(5.0, 1.0);
    assert!((done(&[stream, stream, stream]) - 1.0).abs() < 1e-12);
    let latency_bound = [stream, stream, stream, member(0.0, 1.0)];
    assert!((done(&latency_bound) - 1.75 / 1.5).abs() < 1e-12);
    let cpu_bound = [stream, stream, stream, member(0.0, 0.0)];
    assert!((done(&cpu_bound) - 1.25).abs() < 1e-12);
}

#[test]
fn a_bus_that_is_shared_in_proportion_is_filled() {
    let streams = [member(9.0, 1.0); 4];
    assert_eq!(let_in(&mut occupancy(), &streams), 3);
    let mixed = [member(0.0, 0.0), member(6.0, 1.0), member(6.0, 1.0), member(8.0, 1.0)];
    assert_eq!(let_in(&mut occupancy(), &mixed), 3);
}

#[test]
fn a_core_stays_idle_where_filling_it_costs_more_than_it_gains() {
    // 0.9 alone; 2 x 0.9 / (1 + 1.5 x 0.8) = 0.82 together.
    assert_eq!(let_in(&mut occupancy(), &[member(9.0, 1.5); 4]), 0);
    // 1.25 with two streams; a third slows the latency-bound job down: 1.75 / 1.5.
    let (stream, latency_bound) = (member(5.0, 1.0), member(0.0, 1.0));
    assert_eq!(let_in(&mut occupancy(), &[latency_bound, stream, stream, stream]), 2);
}

#[test]
fn what_costs_less_than_the_margin_is_no_reason() {
    // 1.8 / (1 + 1.25 x 0.8) = 0.9, as without it.
    assert_eq!(let_in(&mut occupancy(), &[member(9.0, 1.25); 2]), 1);
    // A third: 2.7 / (1 + 1.25 x 1.7) = 0.864, four percent less; the fourth takes it too far.
    assert_eq!(let_in(&mut occupancy(), &[member(9.0, 1.25); 4]), 2);
}

#[test]
fn small_losses_do_not_add_up_over_the_choices_of_a_quantum() {
    let mut occupancy = occupancy();
    let jobs = [member(9.0, 1.25); 4];
    assert_eq!(let_in(&mut occupancy, &jobs), 2);
    // With the fourth 0.847: two percent less than the 0.864 of three, but six less than 0.9.
    occupancy.begin_choice(jobs[..3].iter().copied());
    assert!(!occupancy.lets_in(jobs[3]));
    assert!(occupancy.sample(gb(10.0), true).is_some(), "the set is as it was");
    // Once another has left, 0.847 counts against the 0.864 of those that are left.
    occupancy.lose_job();
    occupancy.begin_choice(jobs[..3].iter().copied());
    assert!(occupancy.lets_in(jobs[3]));
}

#[test]
fn now_and_then_every_core_is_filled_to_learn() {
    let mut occupancy = occupancy();
    let jobs = [member(9.0, 2.0); 2];
    let filled: Vec<usize> = (0..40).map(|_| let_in(&mut occupancy, &jobs)).collect();
    let probes: Vec<usize> = (0..40).filter(|quantum| filled[*quantum] == 1).collect();
    assert_eq!(probes, [16, 33]);
}

#[test]
fn only_quanta_with_idle_cores_count_towards_a_probe() {
    let mut occupancy = occupancy();
    let mut filled = |demand, quanta: usize| -> Vec<usize> {
        let jobs = [member(demand, 2.0); 2];
        (0..quanta).map(|_| let_in(&mut occupancy, &jobs)).collect()
    };
    assert_eq!(filled(9.0, 1), [0]);
    assert_eq!(filled(1.0, 20), [1; 20]);
    assert_eq!(filled(9.0, 15), [0; 15]);
    assert_eq!(filled(9.0, 2), [1, 0]);
}

#[test]
fn a_probe_goes_on_when_a_job_ends() {
    let mut occupancy = occupancy();
    let jobs = [member(9.0, 2.0); 2];
    assert_eq!((0..16).map(|_| let_in(&mut occupancy, &jobs)).sum::<usize>(), 0);
    occupancy.begin_quantum(|| false);
    occupancy.disturb();
    occupancy.begin_choice(jobs[..1].iter().copied());
    assert!(occupancy.lets_in(jobs[1]));
}

#[test]
fn without_a_peak_or_if_told_so_every_core_is_filled() {
    let jobs = [member(9.0, 4.0); 4];
    let auto = SchedulerConfig { core_use: CoreUse::Auto, ..SchedulerConfig::default() };
    assert_eq!(let_in(&mut Occupancy::new(&auto), &jobs), 3);
    let bus = Bus { peak: Some(gb(10.0)), ..Bus::default() };
    let all = SchedulerConfig { bus, ..SchedulerConfig::default() };
    assert_eq!(let_in(&mut Occupancy::new(&all), &jobs), 3);
}

#[test]
fn a_job_that_is_to_be_seen_gets_no_company() {
    let mut occupancy = occupancy();
    let mut surveys = Vec::new();
    for quantum in 0..130 {
        let mut asked = false;
        occupancy.begin_quantum(|| {
            asked = true;
            true
        });
        if asked {
            surveys.push(quantum);
        }
        occupancy.begin_choice([member(9.0, 0.0)].into_iter());
        assert_eq!(occupancy.lets_in(member(0.0, 0.0)), !asked);
        occupancy.settle();
        let sample = occupancy.sample(gb(9.0), true).expect("the same jobs all the time");
        assert_eq!(sample.alone, asked);
        occupancy.surveyed(&SlowdownModel::default());
    }
    assert_eq!(surveys, [0, 64, 128]);
}

#[test]
fn a_job_that_ends_while_it_is_seen_leaves_its_company_the_rest_of_the_quantum() {
    let mut occupancy = occupancy();
    occupancy.begin_quantum(|| true);
    occupancy.begin_choice([member(1.0, 0.0)].into_iter());
    assert!(!occupancy.lets_in(member(1.0, 0.0)));
    occupancy.settle();
    occupancy.disturb();
    assert!(occupancy.sample(gb(1.0), false).is_none() && !occupancy.head_is_alone());
    occupancy.begin_choice([member(1.0, 0.0)].into_iter());
    assert!(occupancy.lets_in(member(1.0, 0.0)));
}

#[test]
fn after_one_was_found_slowed_the_next_runs_alone_soon() {
    let mut occupancy = occupancy();
    let mut job = SlowdownModel::default();
    let second = Nanos::from_millis(1_000);
    let see = |job: &mut SlowdownModel, alone: bool, instructions: u64| {
        let lines = memweir_core::Lines(instructions / 10);
        let counts = Counts::new(instructions, lines, memweir_core::Lines::ZERO);
        let sample = SlowdownSample {
            overload: 0.9,
            peak: gb(10.0),
            bandwidth: gb(8.0),
            saturated: false,
            alone,
        };
        job.learn(&sample, None, &Measurement::new(&counts, second, second));
    };
    see(&mut job, false, 500);
    see(&mut job, true, 1_000);
    occupancy.begin_quantum(|| true);
    occupancy.surveyed(&job);
    let next = (1..).find(|_| {
        let mut asked = false;
        occupancy.begin_quantum(|| {
            asked = true;
            false
        });
        asked
    });
    assert_eq!(next, Some(8));
}
