//! Measures one decision with 1,000 candidates for 64 cores.
//!
//! A decision includes the observation of the 64 jobs that ran, and the selection.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use memweir_core::medium::{Distance, Medium, MediumKind};
use memweir_core::{
    BytesPerSec, Counts, JobId, Lines, MAX_MEDIA, Media, MediumId, Nanos, Picos, Traffic,
};
use memweir_policy::{
    Bus, Decision, JobSpec, Observation, PredictorKind, QuantumScheduler, SchedulerConfig, policies,
};

const CANDIDATES: u32 = 1000;
const CORES: u32 = 64;
const QUANTUM: Nanos = Nanos::from_millis(100);

/// Returns a number below `bound` that differs between jobs and between quanta.
fn scrambled(job: JobId, quantum: u64, bound: u64) -> u64 {
    let mixed = (u64::from(job.0) << 32 | quantum).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) % bound
}

fn config(policy: &str, predictor: PredictorKind) -> SchedulerConfig {
    SchedulerConfig {
        policy: policy.to_owned(),
        predictor,
        cores: CORES,
        quantum: QUANTUM,
        bus: Bus { peak: Some(BytesPerSec::from_gb(200.0)), ..Bus::default() },
        seed: 1,
        ..SchedulerConfig::default()
    }
}

/// The same on two nodes with DRAM and PRAM each.
fn hybrid(policy: &str) -> SchedulerConfig {
    let medium = |name: &str, kind, distance, latencies: [u64; 2]| {
        Medium::new(name, kind, distance, latencies.map(Picos))
    };
    let media = Media::new(vec![
        medium("dram", MediumKind::Dram, Distance::Local, [25_000, 25_000]),
        medium("pram", MediumKind::Nvm, Distance::Local, [67_500, 215_000]),
        medium("dram-1", MediumKind::Dram, Distance::Remote, [85_000, 85_000]),
        medium("pram-1", MediumKind::Nvm, Distance::Remote, [127_500, 275_000]),
    ]);
    SchedulerConfig {
        media: media.expect("a machine"),
        medium_peaks: [Some(BytesPerSec::from_gb(100.0)); MAX_MEDIA],
        ..config(policy, PredictorKind::Last)
    }
}

fn batch(config: SchedulerConfig) -> QuantumScheduler {
    let mut scheduler = QuantumScheduler::new(config).expect("the policy is in the table");
    for job in (0..CANDIDATES).map(JobId) {
        scheduler.admit(JobSpec {
            expected_time: Some(Nanos::from_millis(1000 + scrambled(job, 0, 100_000))),
            expected_bandwidth: Some(BytesPerSec(scrambled(job, 0, 10_000_000_000) as f64)),
            ..JobSpec::new(job)
        });
    }
    scheduler
}

/// Makes up the jobs' behavior: up to 5 GB/s each, in one of four loops of 32 code regions.
fn observe(decision: &Decision, quantum: u64) -> Vec<Observation> {
    let one = |job: &JobId| {
        let mut instruction_pointers = vec![0; 32];
        let region = 8 * (scrambled(*job, quantum / 10, 4) as usize);
        instruction_pointers[region..region + 8].fill(12);
        Observation {
            job: *job,
            cpu_time: Some(QUANTUM),
            counts: Some(Counts::by_medium(
                100_000_000,
                // Each job favors one of the four media.
                MediumId::ALL.map(|medium| {
                    let stranger = 1 + 9 * u64::from(job.index() % MAX_MEDIA != medium.index());
                    let lines = scrambled(*job, quantum, 8_000_000 / stranger);
                    Traffic { reads: Lines(lines / 2), writes: Lines(lines / 2) }
                }),
            )),
            instruction_pointers,
            forecast: Some(BytesPerSec(scrambled(*job, quantum, 5_000_000_000) as f64)),
        }
    };
    decision.chosen.iter().map(one).collect()
}

/// Times decisions in which every job has run a few times already.
fn decide(criterion: &mut Criterion, name: &str, config: SchedulerConfig) {
    let mut scheduler = batch(config);
    let mut decision = scheduler.select();
    let mut quantum = 0;
    let mut next_quantum = || {
        let seen = observe(&decision, quantum);
        let start = Instant::now();
        scheduler.observe(QUANTUM, black_box(&seen));
        decision = black_box(scheduler.select());
        quantum += 1;
        start.elapsed()
    };
    for _ in 0..100 {
        next_quantum();
    }
    // Making up the jobs' behavior is not part of a decision.
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|quanta| (0..quanta).map(|_| next_quantum()).sum());
    });
}

fn policies_by_name(criterion: &mut Criterion) {
    for policy in policies::names() {
        let config = config(policy, PredictorKind::Last);
        decide(criterion, &format!("decision/policy/{policy}"), config);
    }
}

fn hybrid_memory(criterion: &mut Criterion) {
    for policy in ["available-bandwidth", "hmmsched", "hmmsched:no-classes", "max-weight"] {
        decide(criterion, &format!("decision/hybrid/{policy}"), hybrid(policy));
    }
}

fn idle_cores(criterion: &mut Criterion) {
    for policy in ["ideal-average:auto-cores", "hmmsched:auto-cores", "max-weight:auto-cores"] {
        let config = config(policy, PredictorKind::Last);
        decide(criterion, &format!("decision/idle/{policy}"), config);
    }
}

fn predictors(criterion: &mut Criterion) {
    let kinds = [
        PredictorKind::Last,
        PredictorKind::Window { quanta: 10 },
        PredictorKind::Phase { threshold: 0.4 },
        PredictorKind::Profile,
    ];
    for kind in kinds {
        decide(criterion, &format!("decision/predictor/{kind}"), config("ideal-average", kind));
    }
}

criterion_group!(benches, policies_by_name, hybrid_memory, idle_cores, predictors);
criterion_main!(benches);
