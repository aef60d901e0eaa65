use memweir_core::{BytesPerSec, JobId, Lines};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::scheduler::{Bus, JobSpec, SchedulerConfig};

/// A program of the tests: nanoseconds per instruction alone, lines per instruction, sensitivity
/// and pressure.
#[derive(Clone, Copy)]
struct Program {
    time: f64,
    intensity: f64,
    sensitivity: f64,
    pressure: f64,
}

const QUANTUM: Nanos = Nanos::from_millis(100);

/// A streaming program that loses its open rows beside the second, which jumps in memory; one that
/// minds nothing and harms nobody, and one that is between them.
const PROGRAMS: [Program; 4] = [
    Program { time: 1.0, intensity: 0.02, sensitivity: 3.0, pressure: 0.03 },
    Program { time: 2.0, intensity: 0.08, sensitivity: 0.2, pressure: 0.5 },
    Program { time: 0.4, intensity: 0.00001, sensitivity: 0.0, pressure: 0.0 },
    Program { time: 0.8, intensity: 0.02, sensitivity: 0.6, pressure: 0.2 },
];

/// Two cores on a bus that carries twenty times what a program draws.
fn scheduler(expected: bool) -> QuantumScheduler {
    let config = SchedulerConfig {
        policy: "random".to_owned(),
        cores: 2,
        quantum: QUANTUM,
        bus: Bus { peak: Some(BytesPerSec::from_gb(8.0)), saturation: None },
        ..SchedulerConfig::default()
    };
    let mut scheduler = QuantumScheduler::new(config).expect("a policy of the table");
    scheduler.learns_disturbance = true;
    for (program, job) in PROGRAMS.iter().zip(0..) {
        let alone = BytesPerSec(program.intensity * LINE_BYTES as f64 / program.time * 1e9);
        let expected_bandwidth = expected.then_some(alone);
        scheduler.admit(JobSpec { expected_bandwidth, ..JobSpec::new(JobId(job)) });
    }
    scheduler
}

/// Returns what a quantum shows of a program that takes so many times as long as alone.
fn observation(job: u32, program: Program, slowdown: f64) -> Observation {
    let instructions = QUANTUM.as_f64() / (program.time * slowdown);
    let lines = Lines((program.intensity * instructions) as u64);
    Observation {
        job: JobId(job),
        cpu_time: QUANTUM,
        counts: Some(Counts::new(instructions as u64, lines, Lines::ZERO)),
        instruction_pointers: Vec::new(),
        forecast: None,
    }
}

/// Runs the programs in random pairs for so many quanta. `time` may change a slowdown.
fn run(scheduler: &mut QuantumScheduler, quanta: u32, mut time: impl FnMut(f64) -> f64) {
    for _ in 0..quanta {
        let chosen = scheduler.select().chosen;
        let of = |job: &JobId| PROGRAMS[job.index()];
        let pressure: f64 = chosen.iter().map(|job| of(job).pressure).sum();
        let observations: Vec<Observation> = chosen
            .iter()
            .map(|job| {
                let program = of(job);
                let slowdown = 1.0 + program.sensitivity * (pressure - program.pressure);
                observation(job.0, program, time(slowdown))
            })
            .collect();
        scheduler.observe(QUANTUM, &observations);
    }
}

fn learned(scheduler: &QuantumScheduler, job: u32) -> Disturbance {
    let slot = scheduler.jobs.slot_of(JobId(job)).expect("it has not ended");
    scheduler.jobs[slot].disturbance.disturbance()
}

#[test]
fn company_shows_who_disturbs_whom() {
    for expected in [true, false] {
        let mut scheduler = scheduler(expected);
        run(&mut scheduler, 240, |slowdown| slowdown);
        let found = [0, 1, 2, 3].map(|job| learned(&scheduler, job));
        let pressure = |job: usize| found[job].pressure.expect("it has run");
        // Scales of sensitivities and pressures are free: their product is the slowdown.
        let slows = |job: usize, other: usize| found[job].sensitivity * pressure(other);
        assert!((1.0..1.5).contains(&slows(0, 1)), "1.5 in truth: {found:?}");
        assert!((0.4..0.6).contains(&slows(0, 3)), "0.6 in truth: {found:?}");
        assert!(slows(0, 2) < 0.02 && found[2].sensitivity == 0.0, "{found:?}");
        assert!(found[3].sensitivity < 0.2 && found[1].sensitivity == 0.0, "{found:?}");
    }
}

#[test]
fn times_that_vary_by_themselves_show_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut scheduler = scheduler(false);
    run(&mut scheduler, 240, |_| random.random_range(0.5..2.0));
    for job in 0..4 {
        let found = learned(&scheduler, job).sensitivity;
        assert!(found < 0.3, "{found} of job {job}");
    }
}

#[test]
fn a_bus_near_its_peak_and_a_set_that_changes_show_nothing() {
    let mut scheduler = scheduler(false);
    for _ in 0..50 {
        let chosen = scheduler.select().chosen;
        // 12.8 GB/s from two jobs on a bus of 8.
        let dense = Program { time: 1.0, intensity: 0.1, ..PROGRAMS[0] };
        let seen: Vec<_> = chosen.iter().map(|job| observation(job.0, dense, 1.0)).collect();
        scheduler.observe(QUANTUM, &seen);
    }
    for _ in 0..50 {
        let chosen = scheduler.select().chosen;
        scheduler.backfill();
        scheduler.occupancy.unsettle();
        let seen: Vec<_> =
            chosen.iter().map(|job| observation(job.0, PROGRAMS[job.index()], 2.0)).collect();
        scheduler.observe(QUANTUM, &seen);
    }
    assert!((0..4).all(|job| learned(&scheduler, job).is_unknown()));
}

#[test]
fn a_job_that_ends_makes_another_set() {
    let mut scheduler = scheduler(false);
    scheduler.select();
    assert!(scheduler.occupancy.is_settled());
    scheduler.retire(JobId(0));
    assert!(!scheduler.occupancy.is_settled());
    scheduler.backfill();
    assert!(!scheduler.occupancy.is_settled());
    scheduler.select();
    assert!(scheduler.occupancy.is_settled());
}

#[test]
fn a_phase_of_other_traffic_counts_for_less() {
    let seen = |time: f64, intensity: f64| Seen {
        time,
        alone: None,
        intensity,
        waiting: 0.0,
        utilization: 0.2,
    };
    let after = |intensity: f64| {
        let first = seen(1.0, 0.0);
        let known = Estimate::first(&first);
        let mut jobs =
            [seen(2.0, intensity), seen(1.0, 0.0)].map(|seen| Member { slot: 0, known, seen });
        learn(&mut jobs);
        jobs[0].known.added
    };
    assert!(after(0.0) > 0.1, "{}", after(0.0));
    assert!(after(2.0) < after(0.0) / 10.0, "{}", after(2.0));
}

#[test]
fn an_option_of_max_weight_lets_the_scheduler_learn() {
    let learns = |policy: &str| {
        let config = SchedulerConfig { policy: policy.to_owned(), ..SchedulerConfig::default() };
        QuantumScheduler::new(config).expect("a policy of the table").learns_disturbance
    };
    assert!(learns("max-weight:disturbance") && !learns("max-weight"));
}
