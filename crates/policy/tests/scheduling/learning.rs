//! The scheduler's knowledge of jobs: demands, saturation, the ideal average bandwidth.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_policy::{
    Bus, JobSpec, Kind, Observation, Policy, PredictorKind, QuantumScheduler, QuantumView,
    SchedulerConfig,
};

use crate::machine::{QUANTUM, busy, busy_for, config, gb, ids, scheduler, spec, with_jobs};

fn expecting(job: u32, seconds: u64, bandwidth: f64) -> JobSpec {
    JobSpec {
        expected_time: Some(Nanos(seconds * 1_000_000_000)),
        expected_bandwidth: Some(gb(bandwidth)),
        ..spec(job)
    }
}

/// Two cores, a bus of 40 GB/s that is saturated from 35 on.
fn narrow_bus() -> SchedulerConfig {
    let bus = Bus { peak: Some(gb(40.0)), saturation: Some(gb(35.0)), ..Bus::default() };
    SchedulerConfig { bus, ..config("round-robin", 2) }
}

#[track_caller]
fn assert_rate(rate: Option<BytesPerSec>, expected: f64) {
    let rate = rate.expect("something is known").as_gb();
    assert!((rate - expected).abs() < 1e-6, "{rate} GB/s instead of {expected}");
}

#[test]
fn the_summary_adds_the_jobs_up_and_says_whether_the_bus_was_saturated() {
    let mut scheduler = scheduler(narrow_bus());
    let summary = scheduler.observe(QUANTUM, &[busy(0, 20.0), busy(1, 14.0)]);
    assert_rate(Some(summary.bandwidth), 34.0);
    assert!(!summary.saturated);
    let summary = scheduler.observe(QUANTUM, &[busy(0, 20.0), busy(1, 15.5)]);
    assert!(summary.saturated);
    let summary = scheduler.observe(Nanos::ZERO, &[busy(0, 20.0)]);
    assert_eq!((summary.bandwidth, summary.saturated), (BytesPerSec::ZERO, false));
}

#[test]
fn without_a_threshold_the_papers_share_of_the_peak_is_one() {
    let only_peak = Bus { peak: Some(gb(40.0)), ..Bus::default() };
    assert_eq!(only_peak.saturation_threshold(), Some(gb(35.0)));
    assert_eq!(Bus::default().saturation_threshold(), None);
}

#[test]
fn saturated_quanta_are_not_used() {
    let mut scheduler = with_jobs(narrow_bus(), 2);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy(0, 12.0), busy(1, 3.0)]);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy(0, 9.0), busy(1, 29.0)]);
    assert_rate(scheduler.demand(JobId(0)), 12.0);
    assert_rate(scheduler.demand(JobId(1)), 3.0);
}

#[test]
fn a_saturated_quantum_is_a_lower_bound_until_there_is_better() {
    let mut scheduler = scheduler(narrow_bus());
    scheduler.admit(spec(0));
    scheduler.admit(JobSpec { expected_bandwidth: Some(gb(25.0)), ..spec(1) });
    let mut see = |first, second| {
        scheduler.select();
        scheduler.observe(QUANTUM, &[busy(0, first), busy(1, second)]);
        (scheduler.demand(JobId(0)), scheduler.demand(JobId(1)))
    };
    let (first, second) = see(20.0, 20.0);
    assert_rate(first, 20.0);
    assert_rate(second, 25.0);
    // It reached 18 now, but 20 before. The other has shown more than was expected.
    let (first, second) = see(18.0, 27.0);
    assert_rate(first, 20.0);
    assert_rate(second, 27.0);
    let (first, second) = see(15.0, 10.0);
    assert_rate(first, 15.0);
    assert_rate(second, 10.0);
}

#[test]
fn a_short_span_shows_no_demand() {
    let mut scheduler = with_jobs(narrow_bus(), 1);
    scheduler.select();
    let mut demand_after = |span| {
        scheduler.observe(span, &[busy_for(0, 12.0, span)]);
        scheduler.demand(JobId(0))
    };
    assert_eq!(demand_after(Nanos(QUANTUM.0 / 20 - 1)), None);
    assert_rate(demand_after(Nanos(QUANTUM.0 / 20)), 12.0);
}

#[test]
fn half_a_quantum_shows_what_the_bus_carries() {
    let mut scheduler = scheduler(config("peak-bandwidth", 1));
    scheduler.admit(expecting(0, 1, 1.0));
    scheduler.admit(expecting(1, 1, 1.0));
    // A job that is over counts towards the bandwidth of the system alone.
    let mut target_after = |span, rate| {
        scheduler.observe(span, &[busy_for(9, rate, span)]);
        scheduler.select().target
    };
    assert_rate(target_after(Nanos(QUANTUM.0 / 2 - 1), 20.0), 1.0);
    assert_rate(target_after(Nanos(QUANTUM.0 / 2), 15.0), 15.0);
}

#[test]
fn jobs_with_cores_have_speeds_and_reasons() {
    let mut beside = scheduler(narrow_bus());
    for job in 0..3 {
        beside.admit(expecting(job, 1, 36.0));
    }
    beside.select();
    // The bus carries 40 of the 72 GB/s that both require, and less in bursts.
    assert!(beside.speed(JobId(0)).is_some_and(|speed| (0.45..40.0 / 72.0).contains(&speed)));
    assert_eq!(beside.reason(JobId(0)), Some("head of the run queue"));
    assert_eq!((beside.speed(JobId(2)), beside.reason(JobId(2))), (None, None));
    beside.select();
    assert_eq!((beside.speed(JobId(1)), beside.reason(JobId(1))), (None, None));

    // A peak that is not known is the highest bandwidth seen.
    let mut observed = with_jobs(config("round-robin", 2), 2);
    observed.select();
    assert_eq!(observed.speed(JobId(0)), Some(1.0));
    observed.observe(QUANTUM, &[busy(0, 20.0), busy(1, 20.0)]);
    observed.select();
    assert!(observed.speed(JobId(0)).is_some_and(|speed| (0.5..0.95).contains(&speed)));
}

#[test]
fn a_job_seen_on_a_saturated_bus_counts_with_what_it_drew() {
    let mut scheduler = with_jobs(narrow_bus(), 2);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy(0, 20.0), busy(1, 16.0)]);
    // Equal lengths on two cores.
    assert_rate(scheduler.ideal_average_bandwidth(), 36.0);
}

#[test]
fn a_forecast_is_used_even_in_a_saturated_quantum() {
    let profile = SchedulerConfig { predictor: PredictorKind::Profile, ..narrow_bus() };
    let mut scheduler = with_jobs(profile, 1);
    scheduler.select();
    let forecast = |rate| Observation { forecast: Some(BytesPerSec(rate)), ..busy(0, 39.0) };
    scheduler.observe(QUANTUM, &[forecast(7e9)]);
    assert_rate(scheduler.demand(JobId(0)), 7.0);
    // An invalid rate is not a forecast.
    for nonsense in [f64::NAN, -1.0, f64::INFINITY, 1e300] {
        scheduler.observe(QUANTUM, &[forecast(nonsense)]);
        assert_rate(scheduler.demand(JobId(0)), 39.0);
    }
}

#[test]
fn a_job_never_observed_is_expected_to_be_like_the_others() {
    let mut scheduler = with_jobs(config("round-robin", 3), 4);
    scheduler.admit(JobSpec { expected_bandwidth: Some(gb(9.0)), ..spec(4) });
    // Only job 4 is known to require anything: 9 for each of the three chosen ones.
    assert_rate(Some(scheduler.select().predicted), 27.0);
    scheduler.observe(QUANTUM, &[busy(0, 2.0), busy(1, 4.0), busy(2, 6.0)]);
    assert_eq!(scheduler.demand(JobId(3)), None);
    // Next 3, 4 and 0: the mean of 2, 4, 6 and 9, then 9 and 2.
    let decision = scheduler.select();
    assert_eq!(decision.chosen, ids(&[3, 4, 0]));
    assert_rate(Some(decision.predicted), 21.0 / 4.0 + 9.0 + 2.0);
}

#[test]
fn nothing_known_predicts_nothing() {
    let mut scheduler = with_jobs(config("ideal-average", 1), 1);
    assert_eq!(scheduler.ideal_average_bandwidth(), None);
    let decision = scheduler.select();
    assert_eq!((decision.predicted, decision.target), (BytesPerSec::ZERO, None));
}

#[test]
fn a_job_that_ran_for_part_of_the_quantum_is_measured_over_that_part() {
    let mut scheduler = with_jobs(config("round-robin", 1), 2);
    scheduler.select();
    scheduler.retire(JobId(0));
    scheduler.backfill();
    scheduler.observe(QUANTUM, &[busy_for(1, 8.0, Nanos(QUANTUM.0 / 4))]);
    assert_rate(scheduler.demand(JobId(1)), 8.0);
    // With the core to itself for the whole quantum, the time that it did not run is its own.
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy_for(1, 8.0, Nanos(QUANTUM.0 / 4))]);
    assert_rate(scheduler.demand(JobId(1)), 2.0);
}

#[test]
fn a_span_too_short_to_measure_teaches_nothing() {
    let mut scheduler = with_jobs(config("round-robin", 1), 1);
    scheduler.select();
    let moment = Nanos(QUANTUM.0 / 100);
    scheduler.observe(moment, &[busy_for(0, 100.0, moment)]);
    assert_eq!(scheduler.demand(JobId(0)), None);
}

#[test]
fn a_job_without_a_meter_keeps_the_demand_that_it_had() {
    let mut scheduler = scheduler(config("round-robin", 2));
    scheduler.admit(expecting(0, 10, 7.0));
    scheduler.admit(spec(1));
    scheduler.select();
    let unmetered = |job| Observation { counts: None, ..busy(job, 1.0) };
    scheduler.observe(QUANTUM, &[unmetered(0), busy(1, 3.0)]);
    scheduler.observe(QUANTUM, &[busy(0, 0.0), unmetered(1)]);
    assert_rate(scheduler.demand(JobId(1)), 3.0);
    // This one had a meter, which counted no memory traffic.
    assert_rate(scheduler.demand(JobId(0)), 0.0);
}

#[test]
fn the_highest_bandwidth_is_that_of_a_whole_quantum() {
    let mut scheduler = with_jobs(config("peak-bandwidth", 1), 1);
    scheduler.select();
    let moment = Nanos(QUANTUM.0 / 100);
    scheduler.observe(moment, &[busy_for(0, 100.0, moment)]);
    scheduler.observe(QUANTUM, &[busy(0, 6.0)]);
    assert_rate(scheduler.select().target, 6.0);
}

#[test]
fn the_ideal_average_of_submitted_jobs_is_eq_10() {
    let mut scheduler = scheduler(config("ideal-average", 2));
    scheduler.admit(expecting(0, 30, 0.0));
    scheduler.admit(expecting(1, 10, 2.0));
    scheduler.admit(expecting(2, 20, 3.0));
    // (10 x 2 + 20 x 3) / (10 / 2 + 30).
    assert_rate(scheduler.ideal_average_bandwidth(), 80.0 / 35.0);
    scheduler.retire(JobId(0));
    // 80 / 20.
    assert_rate(scheduler.ideal_average_bandwidth(), 4.0);
}

#[test]
fn what_has_run_no_longer_counts() {
    let mut scheduler = scheduler(config("ideal-average", 1));
    scheduler.admit(expecting(0, 1, 8.0));
    scheduler.admit(expecting(1, 1, 0.0));
    assert_rate(scheduler.ideal_average_bandwidth(), 4.0);
    assert_eq!(scheduler.select().chosen, ids(&[0]));
    scheduler.observe(Nanos::from_millis(500), &[busy_for(0, 8.0, Nanos::from_millis(500))]);
    // 0.5 s x 8 GB/s over 0.5 s + 1 s.
    assert_rate(scheduler.ideal_average_bandwidth(), 4.0 / 1.5);
    // Overdue: a tenth of its expected time is taken to be left.
    let mut overdue = scheduler;
    overdue.select();
    overdue.select();
    overdue.observe(Nanos::from_millis(900), &[busy_for(0, 8.0, Nanos::from_millis(900))]);
    assert_rate(overdue.ideal_average_bandwidth(), 0.8 / 1.1);
}

#[test]
fn a_job_wider_than_the_machine_draws_on_the_cores_that_there_are() {
    let mut scheduler = scheduler(config("round-robin", 2));
    scheduler.admit(spec(0));
    scheduler.admit(JobSpec { cores: 8, ..spec(1) });
    scheduler.select();
    scheduler.retire(JobId(0));
    assert_eq!(scheduler.backfill().expect("it waits").chosen, ids(&[1]));
    // On both cores for half of the quantum.
    let seen = busy_for(1, 10.0, Nanos(QUANTUM.0 / 2));
    scheduler.observe(QUANTUM, &[Observation { cpu_time: Some(QUANTUM), ..seen }]);
    assert_rate(scheduler.demand(JobId(1)), 10.0);
}

#[test]
fn a_sleeping_job_counts_with_what_is_left_of_it() {
    let mut scheduler = scheduler(config("ideal-average", 1));
    scheduler.admit(expecting(0, 1, 8.0));
    scheduler.admit(expecting(1, 1, 0.0));
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy_for(0, 0.0, Nanos::ZERO)]);
    assert!(!scheduler.select().chosen.contains(&JobId(0)), "asleep");
    // Alone it would have slept as long: 0.9 s x 8 GB/s over 0.9 s + 1 s. And the next quantum.
    assert_rate(scheduler.ideal_average_bandwidth(), 7.2 / 1.9);
    scheduler.observe(QUANTUM, &[busy_for(0, 0.0, Nanos::ZERO)]);
    assert_rate(scheduler.ideal_average_bandwidth(), 6.4 / 1.8);
}

#[test]
fn unknown_figures_are_estimated_from_what_is_known() {
    let mut scheduler = scheduler(config("ideal-average", 1));
    scheduler.admit(expecting(0, 4, 6.0));
    scheduler.admit(spec(1));
    // Job 1 like job 0: 4 s and 6 GB/s.
    assert_rate(scheduler.ideal_average_bandwidth(), 6.0);
    scheduler.select();
    scheduler.select();
    // It has moved 1 GB/s and 3 GB/s: 2 on the mean, though the last value is 3.
    scheduler.observe(QUANTUM, &[busy(1, 1.0)]);
    scheduler.observe(QUANTUM, &[busy(1, 3.0)]);
    assert_rate(scheduler.demand(JobId(1)), 3.0);
    assert_rate(scheduler.ideal_average_bandwidth(), 4.0);
}

#[test]
fn expected_figures_that_are_no_rates_are_ignored() {
    let mut scheduler = scheduler(config("ideal-average", 1));
    for (job, rate) in [f64::NAN, f64::INFINITY, -3.0].into_iter().enumerate() {
        scheduler
            .admit(JobSpec { expected_bandwidth: Some(BytesPerSec(rate)), ..spec(job as u32) });
    }
    assert_eq!(scheduler.ideal_average_bandwidth(), None);
}

#[test]
fn under_the_operating_system_the_prediction_is_the_jobs_fair_share() {
    let mut scheduler = scheduler(config("os", 2));
    for job in 0..4 {
        scheduler.admit(expecting(job, 10, 8.0));
    }
    // Four jobs of 8 GB/s each on two cores.
    assert_rate(Some(scheduler.select().predicted), 16.0);
    // Half a quantum each at 6 GB/s is a requirement of 6.
    let half = Nanos(QUANTUM.0 / 2);
    let seen: Vec<_> = (0..4).map(|job| busy_for(job, 6.0, half)).collect();
    scheduler.observe(QUANTUM, &seen);
    assert_rate(scheduler.demand(JobId(0)), 6.0);
    assert_rate(Some(scheduler.select().predicted), 12.0);
}

/// Chooses nobody but the head, and keeps what is expected of each job, in milliseconds.
#[derive(Default)]
struct Listens(Arc<Mutex<BTreeMap<u32, Option<u64>>>>);

impl Policy for Listens {
    fn select(&mut self, view: &QuantumView<'_>, _: &mut Vec<usize>) {
        let milliseconds = |time: Nanos| time.0 / 1_000_000;
        let seen = view.running.iter().chain(view.queue);
        let seen = seen.map(|job| (job.job.0, job.expected_time.map(milliseconds)));
        self.0.lock().expect("no panic").extend(seen);
    }
}

#[test]
fn the_first_job_of_a_kind_to_do_its_work_shows_what_the_others_need() {
    let (listens, quarter) = (Listens::default(), Nanos(QUANTUM.0 / 4));
    let heard = listens.0.clone();
    let mut scheduler = QuantumScheduler::with_policy(config("", 1), Box::new(listens));
    let of_kind = |job, kind| JobSpec { kind: Some(Kind(kind)), ..spec(job) };
    for (job, kind) in [(0, 5), (1, 5), (2, 6)] {
        scheduler.admit(of_kind(job, kind));
    }
    scheduler.admit(JobSpec { kind: Some(Kind(5)), ..expecting(3, 9, 1.0) });
    scheduler.select();
    // 0.8 GB in 100 ms, and 0.2 GB in 25.
    scheduler.observe(QUANTUM, &[busy(0, 8.0)]);
    scheduler.learn(quarter, &busy_for(0, 8.0, quarter));
    scheduler.retire(JobId(0));
    // A second one of the kind changes nothing, nor does one that is not there.
    scheduler.learn(QUANTUM, &busy(1, 1.0));
    scheduler.learn(QUANTUM, &busy(9, 1.0));
    scheduler.admit(of_kind(4, 5));
    scheduler.admit(of_kind(5, 6));
    scheduler.select();
    let expected = std::mem::take(&mut *heard.lock().expect("no panic"));
    let learned = Some(125);
    let all = [(1, learned), (2, None), (3, Some(9_000)), (4, learned), (5, None)];
    assert_eq!(expected, [(0, None)].into_iter().chain(all).collect());
    for job in [1, 4] {
        assert_rate(scheduler.demand(JobId(job)), 8.0);
    }
    assert_rate(scheduler.demand(JobId(3)), 1.0);
    assert_eq!(scheduler.demand(JobId(5)), None);
}

#[test]
fn a_job_that_was_never_counted_shows_its_time_alone() {
    let mut scheduler = scheduler(config("round-robin", 1));
    let of_kind = |job| JobSpec { kind: Some(Kind(0)), ..spec(job) };
    scheduler.admit(of_kind(0));
    scheduler.admit(of_kind(1));
    scheduler.select();
    scheduler.learn(QUANTUM, &Observation { counts: None, ..busy(0, 0.0) });
    scheduler.retire(JobId(0));
    scheduler.select();
    assert_eq!(scheduler.demand(JobId(1)), None);
}

#[test]
fn a_full_bus_raises_a_demand_under_max_weight_and_is_discarded_under_the_policies_of_the_papers() {
    let demand_after = |policy: &str, then: f64| {
        let bus = Bus { peak: Some(BytesPerSec::from_gb(8.0)), ..Bus::default() };
        let predictor = PredictorKind::Last;
        let config = SchedulerConfig { predictor, bus, ..config(policy, 2) };
        let mut scheduler = with_jobs(config, 2);
        // It starts at rest, and the bus is full whenever it runs from then on.
        scheduler.select();
        scheduler.observe(QUANTUM, &[busy(0, 2.0), busy(1, 1.0)]);
        scheduler.select();
        assert!(scheduler.observe(QUANTUM, &[busy(0, then), busy(1, 8.0 - then)]).saturated);
        scheduler.demand(JobId(0)).map(|demand| demand.as_gb())
    };
    assert_eq!(demand_after("max-weight", 5.0), Some(5.0));
    assert_eq!(demand_after("max-weight", 1.0), Some(2.0), "it demands at least 1 GB/s: no news");
    for policy in ["ideal-average", "peak-bandwidth", "hmmsched"] {
        assert_eq!(demand_after(policy, 5.0), Some(2.0), "{policy}");
    }
}
