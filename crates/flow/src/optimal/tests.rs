use std::sync::Arc;

use memweir_core::BytesPerSec;
use proptest::prelude::*;

use super::plan::Place;
use super::*;
use crate::experiment::Overheads;
use crate::machine::{Interconnect, Memory, Node};
use crate::program::{Demand, Flow, Program, Span};
use crate::service::{Growth, GrowthLine, GrowthPoint};
use crate::stretch::speeds;
use crate::task::Placement;
use crate::{Contender, simulate};

const QUANTUM: Nanos = Nanos::from_millis(100);

fn demand(gb: f64, stall: f64) -> Demand {
    let mut demand = Demand { stall, ..Demand::default() };
    demand.flows[0] = Flow { reads: BytesPerSec::from_gb(gb), ..Flow::default() };
    demand
}

/// Creates a task of these spans, in milliseconds and GB/s.
fn task(name: &str, spans: &[(u64, f64)]) -> Task {
    let span =
        |(ms, gb): &(u64, f64)| Span { length: Nanos::from_millis(*ms), demand: demand(*gb, 0.8) };
    let spans = spans.iter().map(span).collect();
    Task::once(name, Arc::new(Program { name: name.to_owned(), spans }))
}

fn experiment(cores: u32, tasks: Vec<Task>, policy: &str) -> Experiment {
    let machine = Machine::uniform("m", cores, BytesPerSec::from_gb(10.0));
    let free = Overheads { quantum_switch: Nanos::ZERO, context_switch: Nanos::ZERO };
    let mut experiment = Experiment { overheads: free, ..Experiment::new(machine, tasks, policy) };
    experiment.kernel.jitter = Nanos::ZERO;
    experiment.scheduler.quantum = QUANTUM;
    experiment
}

fn best(cores: u32, tasks: Vec<Task>) -> Optimum {
    let optimum = optimal(&experiment(cores, tasks, "os"), Effort::default()).unwrap();
    assert_eq!(optimum.certainty, Certainty::Best);
    optimum
}

#[test]
fn heavy_tasks_run_beside_light_ones() {
    let heavy = [(200, 8.0)];
    let light = [(200, 0.0)];
    let tasks = vec![task("h", &heavy), task("i", &heavy), task("l", &light), task("m", &light)];
    let optimum = best(2, tasks);
    assert_eq!(optimum.turnaround, Nanos::from_millis(400));
    for quantum in &optimum.schedule {
        assert_eq!(quantum.iter().filter(|job| job.0 < 2).count(), 1, "{quantum:?}");
    }
}

#[test]
fn an_impossible_batch_has_no_optimum() {
    let mut batch = experiment(2, vec![task("t", &[(100, 1.0)])], "os");
    batch.machine.memories[0].service.capacity = BytesPerSec(0.0);
    assert!(optimal(&batch, Effort::default()).is_err());
}

#[test]
fn the_three_bounds_by_hand() {
    let machine = Machine::uniform("m", 2, BytesPerSec::from_gb(10.0));
    let bound = |tasks: &[Task]| lower_bound(&machine, tasks, 2).as_millis_f64().round();
    // (1): the longest. (2): 300 + 200 + 200 over two cores. (3): 900 ms of 10 GB/s.
    assert_eq!(bound(&[task("a", &[(300, 0.0)]), task("b", &[(100, 0.0)])]), 300.0);
    let three = [task("a", &[(300, 1.0)]), task("b", &[(200, 1.0)]), task("c", &[(200, 0.0)])];
    assert_eq!(bound(&three), 350.0);
    assert_eq!(bound(&[task("a", &[(500, 9.0)]), task("b", &[(500, 9.0)])]), 900.0);
    // A late task: submitted 250 ms after the first, it takes 300.
    let late = Task { arrival: Nanos::from_millis(260), ..task("l", &[(300, 0.0)]) };
    let first = Task { arrival: Nanos::from_millis(10), ..task("f", &[(100, 0.0)]) };
    assert_eq!(bound(&[late, first]), 550.0);
}

#[test]
fn sets_are_whole() {
    // Heavy tasks draw 0.6 of the memory. One beside three light ones loses nothing; two fill it
    // and make progress at 1 / 1.2 each. To make 1.5 s of heavy and 2.5 s of light progress,
    //   t + 5/3 u = 1.5,  3 t + 2 u = 2.5:  u = 2/3, t = 7/18,
    // whereas four cores alone would allow 1 s, and the memory alone 0.9 s.
    let machine = Machine::uniform("m", 4, BytesPerSec::from_gb(10.0));
    let heavy = [(500, 6.0)];
    let light = [(500, 0.0)];
    let mut tasks: Vec<Task> = (0..3).map(|_| task("h", &heavy)).collect();
    tasks.extend((0..5).map(|_| task("l", &light)));
    let bound = lower_bound(&machine, &tasks, 4).as_secs_f64();
    assert!((bound - (2.0 / 3.0 + 7.0 / 18.0)).abs() < 1e-6, "{bound}");
    let outcome = simulate(&experiment(4, tasks, "ideal-average")).unwrap();
    assert!(outcome.turnaround.as_secs_f64() >= bound);
}

#[test]
fn the_bound_holds_where_others_make_a_task_faster() {
    // Latency grows for reads alone, and does not where half of the lines are written.
    let line = |read_share, utilization, stretch| GrowthLine {
        read_share,
        points: vec![GrowthPoint { utilization, stretch }],
    };
    let lines = vec![line(0.5, 0.9, 1.0), line(1.0, 0.8, 3.0)];
    let mut machine = Machine::uniform("m", 2, BytesPerSec::from_gb(10.0));
    machine.memories[0].service.growth = Growth { lines };
    let mut writes = demand(0.0, 0.3);
    writes.flows[0].writes = BytesPerSec::from_gb(3.0);
    let spans = vec![Span { length: Nanos::from_millis(3000), demand: writes }];
    let writer = Task::once("w", Arc::new(Program { name: "w".to_owned(), spans }));
    let tasks = vec![task("r", &[(3000, 6.0)]), writer];
    let batch = Experiment { machine, ..experiment(2, tasks, "round-robin") };
    let outcome = simulate(&batch).unwrap();
    assert!(outcome.tasks[0].slowdown() < 0.9, "{}", outcome.tasks[0].slowdown());
    let bound = lower_bound(&batch.machine, &batch.tasks, 2);
    assert!(bound <= outcome.turnaround, "{bound:?} {:?}", outcome.turnaround);
    let found = optimal(&batch, Effort::default()).unwrap();
    assert!(found.turnaround <= outcome.turnaround + Nanos(1000), "{found:?}");
}

/// On many cores a stall of 0.36115 is rounded to 64^(-1/4) = 0.35355: at five times the latency, a
/// second takes 1 + 4 * 0.35355 = 2.41421 s and not 2.4446 s.
#[test]
fn the_bound_holds_where_shares_of_waiting_are_rounded() {
    let mut machine = Machine::uniform("m", 32, BytesPerSec::from_gb(1000.0));
    let grown = GrowthPoint { utilization: 0.001, stretch: 5.0 };
    machine.memories[0].service.growth = vec![grown].into();
    let spans = vec![Span { length: Nanos::from_millis(1000), demand: demand(4.0, 0.36115) }];
    let program = Arc::new(Program { name: "w".to_owned(), spans });
    let tasks = vec![Task::once("w", program); 32];
    let batch = Experiment { machine, ..experiment(32, tasks, "os") };
    let turnaround = simulate(&batch).unwrap().turnaround.as_secs_f64();
    assert!((turnaround - 2.41421).abs() < 1e-5, "{turnaround}");
    let bound = lower_bound(&batch.machine, &batch.tasks, 32).as_secs_f64();
    assert!(bound <= turnaround && bound > turnaround - 1e-6, "{bound} {turnaround}");
}

#[test]
fn work_from_an_offset_goes_round_the_program() {
    let machine = Machine::uniform("m", 1, BytesPerSec::from_gb(10.0));
    // 50 ms without traffic, 100 ms at twice the memory's capacity, 50 ms without traffic.
    let round = task("r", &[(100, 0.0), (100, 20.0)]);
    let task = Task { offset: Nanos::from_millis(50), work: Nanos::from_millis(200), ..round };
    let bound = lower_bound(&machine, std::slice::from_ref(&task), 1).as_millis_f64();
    assert_eq!(bound.round(), 50.0 + 200.0 + 50.0);
    assert_eq!(best(1, vec![task]).turnaround, Nanos::from_millis(300));
}

#[test]
fn a_bound_is_of_the_node_where_a_task_is_fastest() {
    let mut machine = Machine::uniform("m", 1, BytesPerSec::from_gb(10.0));
    let far = Memory { name: "far".to_owned(), node: 1, ..machine.memories[0].clone() };
    machine.memories.push(far);
    machine.nodes.push(Node { cores: 1 });
    let latency = machine.memories[0].read_latency;
    machine.interconnect = Some(Interconnect { latency, capacity: BytesPerSec::from_gb(10.0) });
    // On the other node than its pages it takes 0.2 + 0.8 * 2 = 1.8 times as long.
    for placement in [Placement::default(), Placement::all_in(1)] {
        let task = Task { placement, ..task("t", &[(100, 1.0)]) };
        assert_eq!(lower_bound(&machine, &[task], 2).as_millis_f64().round(), 100.0);
    }
}

#[test]
fn tasks_that_begin_elsewhere_in_a_program_are_not_the_same() {
    // One bursts while the other rests, and both fit together at any time.
    let bursts = task("b", &[(100, 10.0), (100, 0.0)]);
    let other = Task { offset: Nanos::from_millis(100), ..bursts.clone() };
    assert_eq!(best(2, vec![bursts, other]).turnaround, Nanos::from_millis(200));
}

#[test]
fn a_batch_without_choice_takes_what_the_engine_says() {
    let tasks = vec![
        task("a", &[(70, 9.0), (33, 1.0), (61, 8.0)]),
        task("b", &[(41, 2.0), (97, 9.5), (15, 0.0)]),
    ];
    let engine = simulate(&experiment(2, tasks.clone(), "round-robin")).unwrap().turnaround;
    let optimum = best(2, tasks).turnaround;
    assert!(optimum.as_f64() <= engine.as_f64() + 1e3);
    assert!(optimum.as_f64() >= engine.as_f64() * (1.0 - 1e-5), "{} {}", optimum.0, engine.0);
}

#[test]
fn holding_a_task_back_may_align_its_bursts() {
    // Both burst in the first quantum and rest in the second; one quantum later they alternate.
    let bursts = [(100, 10.0), (100, 0.0), (100, 10.0), (100, 0.0), (100, 10.0), (100, 0.0)];
    let tasks = vec![task("a", &bursts), task("b", &bursts)];
    let together = simulate(&experiment(2, tasks.clone(), "round-robin")).unwrap().turnaround;
    let optimum = best(2, tasks);
    assert_eq!(optimum.turnaround, Nanos::from_millis(700));
    assert_eq!(optimum.schedule[0].len(), 1);
    assert!(together > Nanos::from_millis(800), "{together:?}");
}

#[test]
fn what_is_too_large_gets_a_bound() {
    let many: Vec<Task> = (0..20).map(|i| task(&format!("t{i}"), &[(500, i as f64)])).collect();
    let optimum = optimal(&experiment(4, many, "os"), Effort::default()).unwrap();
    assert_eq!(optimum.certainty, Certainty::Bound);
    assert_eq!(optimum.turnaround.as_millis_f64().round(), 0.5 * 190.0 / 10.0 * 1e3);
    let few = vec![task("a", &[(500, 9.0)]), task("b", &[(400, 8.0)]), task("c", &[(300, 7.0)])];
    let hurried = Effort { quanta: 2, ..Effort::default() };
    let optimum = optimal(&experiment(2, few, "os"), hurried).unwrap();
    assert_eq!(optimum.certainty, Certainty::Bound);
}

/// Tries every sequence of sets and every filler, for tasks of one span: slow and simple.
fn brute_force(machine: &Machine, cores: usize, left: &[(f64, Demand)]) -> f64 {
    fn quantum(
        machine: &Machine,
        cores: usize,
        left: &mut [(f64, Demand)],
        running: &[usize],
        time: f64,
    ) -> f64 {
        let contender = |task: &usize| Contender {
            demand: left[*task].1,
            placement: Placement::default(),
            node: 0,
        };
        let contenders: Vec<Contender> = running.iter().map(contender).collect();
        let speeds = speeds(machine, &contenders);
        let ends = running.iter().zip(&speeds).map(|(task, speed)| left[*task].0 / speed);
        let step = ends.fold(time, f64::min);
        for (task, speed) in running.iter().zip(&speeds) {
            left[*task].0 -= step * speed;
            if left[*task].0 < 1e-3 {
                left[*task].0 = 0.0;
            }
        }
        let still: Vec<usize> = running.iter().copied().filter(|t| left[*t].0 > 0.0).collect();
        if left.iter().all(|(left, _)| *left == 0.0) {
            return step;
        }
        let rest = time - step;
        if still.len() == running.len() || rest < 1.0 {
            return step + brute_force(machine, cores, left);
        }
        let waiting: Vec<usize> =
            (0..left.len()).filter(|t| left[*t].0 > 0.0 && !still.contains(t)).collect();
        let mut best = f64::MAX;
        for set in 0_u32..1 << waiting.len() {
            if set.count_ones() as usize > running.len() - still.len() {
                continue;
            }
            let filled = (0..waiting.len()).filter(|bit| set >> bit & 1 == 1);
            let with: Vec<usize> =
                still.iter().copied().chain(filled.map(|bit| waiting[bit])).collect();
            let total = if with.is_empty() {
                rest + brute_force(machine, cores, left)
            } else {
                quantum(machine, cores, &mut left.to_vec(), &with, rest)
            };
            best = best.min(total);
        }
        step + best
    }
    let ready: Vec<usize> = (0..left.len()).filter(|task| left[*task].0 > 0.0).collect();
    let sets = (1_u32..1 << ready.len()).filter(|set| set.count_ones() as usize <= cores);
    sets.map(|set| {
        let chosen: Vec<usize> =
            (0..ready.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| ready[bit]).collect();
        quantum(machine, cores, &mut left.to_vec(), &chosen, QUANTUM.as_f64())
    })
    .fold(f64::MAX, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_search_finds_what_trying_everything_finds(
        tasks in prop::collection::vec((50u64..190, 0.0..12.0_f64), 1..4), cores in 1u32..3,
    ) {
        let batch: Vec<Task> = tasks.iter().map(|(ms, gb)| task("t", &[(*ms, *gb)])).collect();
        let machine = Machine::uniform("m", cores, BytesPerSec::from_gb(10.0));
        let left: Vec<(f64, Demand)> =
            tasks.iter().map(|(ms, gb)| (*ms as f64 * 1e6, demand(*gb, 0.8))).collect();
        let expected = brute_force(&machine, cores as usize, &left);
        let found = best(cores, batch.clone()).turnaround.as_f64();
        prop_assert!((found - expected).abs() < 1e4, "{found} against {expected}");
        prop_assert!(lower_bound(&machine, &batch, cores).as_f64() <= found);
    }

    #[test]
    fn no_policy_is_below_the_bound_and_none_of_quanta_below_the_best(
        tasks in prop::collection::vec(
            prop::collection::vec((10u64..150, 0.0..12.0_f64), 1..4), 1..5),
        cores in 1u32..3, offset in (0u64..300).prop_map(Nanos::from_millis), sixths in 1u32..8,
    ) {
        let whole = tasks.iter().map(|spans| task("t", spans));
        let batch: Vec<Task> = whole
            .map(|task| Task { offset, work: Nanos(task.work.0 * u64::from(sixths) / 6), ..task })
            .collect();
        let optimum = optimal(&experiment(cores, batch.clone(), "os"), Effort::default()).unwrap();
        let machine = Machine::uniform("m", cores, BytesPerSec::from_gb(10.0));
        let bound = lower_bound(&machine, &batch, cores);
        prop_assert!(bound <= optimum.turnaround);
        let mut costing = Costing::new(&machine);
        for task in &batch {
            let total = costing.total(task).0;
            let laid_out = costing.plan(task).left(Place::default()).0;
            prop_assert!((total - laid_out).abs() < 1e-6 * laid_out, "{total} {laid_out}");
        }
        for policy in ["os", "round-robin", "ideal-average", "peak-bandwidth"] {
            let experiment = experiment(cores, batch.clone(), policy);
            let turnaround = simulate(&experiment).unwrap().turnaround;
            prop_assert!(bound <= turnaround + Nanos(1000), "{policy}");
            if policy != "os" {
                prop_assert!(optimum.turnaround <= turnaround + Nanos(1000), "{policy}");
            }
        }
    }
}
