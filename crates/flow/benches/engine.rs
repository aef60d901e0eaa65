//! Speed of the engine, in simulated core-seconds per second of wall-clock time (criterion prints
//! them as elements per second): 16 tasks on 4 cores at 1 ms, lightly and heavily loaded; and the
//! cost per event as the machine grows, with ten tasks per core, up to 10,240 on 1,024; and the
//! cost of a time slice where the tasks are long and steady, as those of job logs.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::{Demand, Experiment, Flow, Machine, Program, Span, Task, simulate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Capacity of the memory per core, in GB/s: iabw's 40 transactions of 128 bytes per microsecond
/// for 4 cores are 1.28.
const CAPACITY: f64 = 1.28;

/// Peak bandwidth of one core, in GB/s.
const CORE_PEAK: f64 = 4.0;

/// Creates ten seconds of spans of 1 ms with bandwidths from zero to twice the mean, limited to the
/// peak of one core.
fn program(random: &mut ChaCha8Rng, mean: f64) -> Arc<Program> {
    let spans = (0..10_000)
        .map(|_| {
            let rate = random.random_range(0.0..2.0 * mean).min(CORE_PEAK);
            let mut demand = Demand { stall: rate / CORE_PEAK, ..Demand::default() };
            let (reads, writes) = (0.7 * rate, 0.3 * rate);
            demand.flows[0] =
                Flow { reads: BytesPerSec::from_gb(reads), writes: BytesPerSec::from_gb(writes) };
            Span { length: Nanos::MILLI, demand }
        })
        .collect();
    Arc::new(Program { name: format!("{mean:.2} GB/s"), spans })
}

/// Creates an experiment of `tasks` tasks of `seconds` seconds on `cores` cores, whose mean demand
/// is about `load` of the memory's capacity.
fn experiment(cores: u32, tasks: usize, seconds: u64, load: f64, policy: &str) -> Experiment {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    // From half of the mean to one and a half, because mixes consist of light and heavy programs.
    let mean = |place: usize| CAPACITY * load * (0.5 + place as f64 / 15.0);
    let programs: Vec<_> = (0..16).map(|place| program(&mut random, mean(place))).collect();
    let task = |place: usize| Task {
        work: Nanos::from_millis(1_000 * seconds),
        offset: Nanos::from_millis(random.random_range(0..10_000)),
        ..Task::once(format!("task-{place}"), programs[place % programs.len()].clone())
    };
    let tasks = (0..tasks).map(task).collect();
    let capacity = BytesPerSec::from_gb(CAPACITY * f64::from(cores));
    let mut machine = Machine::uniform("bench", cores, capacity);
    machine.core_peak = BytesPerSec::from_gb(CORE_PEAK);
    Experiment::new(machine, tasks, policy)
}

/// Returns the core-seconds of all tasks without contention.
fn core_seconds(experiment: &Experiment) -> u64 {
    experiment.tasks.iter().map(|task| task.work).sum::<Nanos>().as_secs_f64() as u64
}

/// iabw's machine: ideal average bandwidths of 0.5 to 1.6 of the peak (Table 1).
fn four_cores(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine/16 tasks on 4 cores, core-seconds");
    group.sample_size(10);
    for policy in ["ideal-average", "os"] {
        for load in [0.3, 0.8, 1.3] {
            let experiment = experiment(4, 16, 120, load, policy);
            group.throughput(Throughput::Elements(core_seconds(&experiment)));
            let id = BenchmarkId::new(policy, format!("{load} of the peak"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| simulate(black_box(&experiment)).expect("possible"));
            });
        }
    }
    group.finish();
}

/// The cost of an event is the inverse of the throughput: each element is the end of a span.
fn many_cores(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine/10 tasks per core, ends of spans");
    group.sample_size(10);
    for cores in [16, 64, 256, 1_024] {
        let experiment = experiment(cores, 10 * cores as usize, 1, 0.8, "os");
        group.throughput(Throughput::Elements(1_000 * core_seconds(&experiment)));
        group.bench_function(BenchmarkId::from_parameter(format!("{cores} cores")), |bencher| {
            bencher.iter(|| simulate(black_box(&experiment)).expect("possible"));
        });
    }
    group.finish();
}

/// Two tasks per core, each of a single demand.
fn steady_tasks(criterion: &mut Criterion) {
    let (cores, seconds, slice) = (64, 5, Nanos::from_millis(4));
    let steady = |place: usize| {
        let rate = BytesPerSec::from_gb(0.1 + 0.3 * place as f64 / 15.0);
        let mut demand = Demand { stall: 0.5, ..Demand::default() };
        demand.flows[0] = Flow { reads: rate, ..Flow::default() };
        let span = Span { length: Nanos::from_millis(3_600_000), demand };
        Arc::new(Program { name: format!("steady-{place}"), spans: vec![span] })
    };
    let programs: Vec<_> = (0..16).map(steady).collect();
    let task = |place: usize| Task {
        work: Nanos::from_millis(1_000 * seconds),
        ..Task::once(format!("task-{place}"), programs[place % programs.len()].clone())
    };
    let tasks = (0..2 * cores as usize).map(task).collect();
    let machine = Machine::uniform("bench", cores, BytesPerSec::from_gb(64.0));
    let mut experiment = Experiment::new(machine, tasks, "os");
    experiment.kernel.slice = slice;
    let mut group = criterion.benchmark_group("engine/steady tasks on 64 cores, time slices");
    group.sample_size(10);
    group.throughput(Throughput::Elements(core_seconds(&experiment) * 1_000_000_000 / slice.0));
    group.bench_function("os", |bencher| {
        bencher.iter(|| simulate(black_box(&experiment)).expect("possible"));
    });
    group.finish();
}

criterion_group!(benches, four_cores, many_cores, steady_tasks);
criterion_main!(benches);
