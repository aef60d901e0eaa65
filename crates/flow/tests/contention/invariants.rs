//! Invariants of every machine and every batch.

use std::sync::Arc;

use memweir_core::medium::MediumKind;
use memweir_core::{LINE_BYTES, MAX_MEDIA, Nanos, Picos};
use memweir_flow::machine::{Interconnect, Node};
use memweir_flow::service::GrowthPoint;
use memweir_flow::{
    Demand, Experiment, Flow, Machine, Memory, Outcome, Placement, Program, QuantumOutcome,
    Recorder, ServiceCurve, Simulation, Span, Task, TaskQuantum, simulate,
};
use memweir_policy::{PredictorKind, policies};
use proptest::prelude::*;

use crate::common::{experiment, gb, machine, ms};

/// Creates two nodes, the first with `cores` cores and the second with two, with DRAM and NVM each.
fn two_nodes(cores: u32) -> Machine {
    let mut machine = machine(cores, 10.0);
    machine.nodes.push(Node { cores: 2 });
    let memory = |name: &str, kind, node, read, write, capacity| Memory {
        name: name.to_owned(),
        kind,
        node,
        read_latency: Picos::from_nanos(read),
        write_latency: Picos::from_nanos(write),
        service: ServiceCurve { write_cost: 2.5, ..ServiceCurve::flat(gb(capacity)) },
    };
    machine.memories.push(memory("pram-0", MediumKind::Nvm, 0, 68, 215, 4.0));
    machine.memories.push(memory("dram-1", MediumKind::Dram, 1, 25, 25, 10.0));
    machine.memories.push(memory("pram-1", MediumKind::Nvm, 1, 68, 215, 4.0));
    machine.memories[1].service.growth =
        vec![GrowthPoint { utilization: 0.8, stretch: 1.5 }].into();
    machine.interconnect = Some(Interconnect { latency: Picos::from_nanos(15), capacity: gb(8.0) });
    machine
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (50_000u64..3_000_000, 0.0..8.0f64, 0.0..4.0f64, 0.0..=1.0f64);
    let build = |(length, reads, writes, stall)| {
        let mut demand = Demand { instructions: 2e9, stall, ..Demand::default() };
        demand.flows[0] = Flow { reads: gb(reads), writes: gb(writes) };
        Span { length: Nanos(length), demand }
    };
    prop::collection::vec(span.prop_map(build), 1..30)
}

/// Generates tasks over a few programs, with pages in the first `memories` memories.
fn tasks(most: usize, memories: usize) -> impl Strategy<Value = Vec<Task>> {
    let shares = prop::collection::vec(0.0..0.33f64, MAX_MEDIA);
    let arrival = prop_oneof![Just(0), 0u64..400_000_000];
    let task = (any::<prop::sample::Index>(), 0u64..90_000_000, 1u64..90_000_000, shares, arrival);
    let programs = prop::collection::vec(spans(), 1..4);
    (programs, prop::collection::vec(task, 1..=most)).prop_map(move |(programs, tasks)| {
        let program = |spans| Arc::new(Program { name: "random".to_owned(), spans });
        let programs: Vec<Arc<Program>> = programs.into_iter().map(program).collect();
        let build =
            |(which, offset, work, shares, arrival): (prop::sample::Index, _, _, Vec<f64>, _)| {
                let limit =
                    |place| if (1..memories).contains(&place) { shares[place] } else { 0.0 };
                Task {
                    arrival: Nanos(arrival),
                    offset: Nanos(offset),
                    work: Nanos(work),
                    placement: Placement::even(std::array::from_fn(limit)),
                    ..Task::once("random", which.get(&programs).clone())
                }
            };
        tasks.into_iter().map(build).collect()
    })
}

/// Returns the lines that a task's completed work demands, by memory, summed span by span.
fn demanded(task: &Task) -> [[f64; 2]; MAX_MEDIA] {
    let mut lines = [[0.0; 2]; MAX_MEDIA];
    let (mut position, mut left) = (task.offset.0 % task.program.length().0, task.work.0);
    let mut place = 0;
    while left > 0 {
        let span = &task.program.spans[place];
        let skipped = position.min(span.length.0);
        position -= skipped;
        let done = (span.length.0 - skipped).min(left);
        left -= done;
        for (sum, flow) in lines.iter_mut().zip(task.placement.apply(&span.demand.flows)) {
            sum[0] += flow.reads.0 * done as f64 / 1e9 / LINE_BYTES as f64;
            sum[1] += flow.writes.0 * done as f64 / 1e9 / LINE_BYTES as f64;
        }
        place = (place + 1) % task.program.spans.len();
    }
    lines
}

fn run(machine: &Machine, tasks: &[Task], policy: &str, seed: u64) -> Outcome {
    let experiment = Experiment { seed, ..experiment(machine.clone(), tasks.to_vec(), policy) };
    simulate(&experiment).expect("a possible experiment")
}

/// Runs all of the tasks at once, each with a core of its own.
fn at_once(capacity: f64, growth: &[GrowthPoint], tasks: &[Task]) -> Outcome {
    let mut machine = machine(tasks.len() as u32, capacity);
    machine.memories[0].service.growth = growth.to_vec().into();
    run(&machine, tasks, "os", 0)
}

fn a_policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(policies::names().collect::<Vec<_>>())
}

/// Checks every quantum's traffic against the memory's capacity.
struct Auditor {
    capacity: f64,
    sum: Vec<memweir_core::Counts>,
}

impl Recorder for Auditor {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        for seen in tasks {
            self.sum[seen.task.index()] += seen.counts;
            assert!(seen.cpu_time <= seen.running + Nanos(1), "{seen:?}");
        }
        // Reads and writes both cost 1; a line at either end may be rounded.
        let slack = 2.0 * tasks.len() as f64 * LINE_BYTES as f64;
        let served = quantum.memories[0].0 * quantum.elapsed.as_secs_f64();
        let most = self.capacity * (quantum.elapsed.as_secs_f64() + 2e-9) * (1.0 + 1e-9);
        assert!(served <= most + slack, "{served} of {most}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The memories serve exactly the demand of the completed work, to a line per task and memory,
    /// for any policy, number of cores and nodes.
    #[test]
    fn work_is_conserved(tasks in tasks(10, 4), policy in a_policy(), cores in 1u32..5) {
        let outcome = run(&two_nodes(cores), &tasks, policy, 1);
        let mut sums = [[0.0; 2]; MAX_MEDIA];
        for (task, done) in tasks.iter().zip(&outcome.tasks) {
            let demanded = demanded(task);
            let lines: f64 = demanded.iter().flatten().sum();
            prop_assert!((done.counts.lines().as_f64() - lines).abs() <= 8.0);
            prop_assert_eq!(done.counts.instructions, 2 * task.work.0);
            for (sum, lines) in sums.iter_mut().zip(demanded) {
                *sum = [sum[0] + lines[0], sum[1] + lines[1]];
            }
        }
        for (served, sum) in outcome.served.iter().zip(sums) {
            prop_assert!((served.reads.as_f64() - sum[0]).abs() <= tasks.len() as f64);
            prop_assert!((served.writes.as_f64() - sum[1]).abs() <= tasks.len() as f64);
        }
    }

    /// The quanta add up to the tasks, and no quantum serves more than the memory can carry.
    #[test]
    fn quanta_add_up_and_capacity_holds(
        tasks in tasks(10, 1), policy in a_policy(), cores in 1u32..5,
    ) {
        let experiment = experiment(machine(cores, 10.0), tasks.clone(), policy);
        let mut auditor = Auditor { capacity: 10e9, sum: vec![Default::default(); tasks.len()] };
        let outcome = Simulation::new(&experiment).recorder(&mut auditor).run();
        let outcome = outcome.expect("a possible experiment");
        for (place, done) in outcome.tasks.iter().enumerate() {
            prop_assert_eq!(done.counts, auditor.sum[place]);
            prop_assert!(done.quanta > 0);
            prop_assert!(done.finish > done.arrival);
        }
    }

    /// No task spends less time on cores than it takes alone.
    #[test]
    fn nothing_runs_faster_than_alone(tasks in tasks(10, 1), policy in a_policy()) {
        for task in run(&machine(3, 10.0), &tasks, policy, 2).tasks {
            prop_assert!(task.running + Nanos(2) >= task.alone, "{task:?}");
        }
    }

    #[test]
    fn alone_is_alone(tasks in tasks(3, 4)) {
        for task in tasks {
            let outcome = run(&two_nodes(2), &[task], "os", 0);
            let done = &outcome.tasks[0];
            let difference = done.running.0.abs_diff(done.alone.0);
            prop_assert!(difference <= 2 + done.alone.0 / 1_000_000_000, "{done:?}");
        }
    }

    /// One memory, steady tasks, and a core for each: another task shortens no task's time. It
    /// takes speed from all others, so they end later and still take speed from the rest.
    #[test]
    fn another_steady_task_shortens_nobody(
        rates in prop::collection::vec((0.0..10.0f64, 0.0..=1.0f64, 1u64..90), 2..8),
        steep in 1.0..4.0f64,
    ) {
        let steady = |(rate, stall, work): &(f64, f64, u64)| {
            let mut demand = Demand { stall: *stall, ..Demand::default() };
            demand.flows[0] = Flow { reads: gb(*rate), ..Flow::default() };
            let spans = vec![Span { length: ms(*work), demand }];
            Task::once("steady", Arc::new(Program { name: "steady".to_owned(), spans }))
        };
        let tasks: Vec<Task> = rates.iter().map(steady).collect();
        let point = |utilization, stretch| GrowthPoint { utilization, stretch };
        let growth = [point(0.3, 1.0), point(0.9, steep)];
        let all = at_once(10.0, &growth, &tasks);
        let fewer = at_once(10.0, &growth, &tasks[1..]);
        for (with, without) in all.tasks[1..].iter().zip(&fewer.tasks) {
            prop_assert!(with.finish + Nanos(2) >= without.finish, "{with:?} {without:?}");
        }
    }

    /// If every task has its own core, the order of the list makes no difference.
    #[test]
    fn order_does_not_matter(tasks in tasks(6, 1)) {
        let mut turned = tasks.clone();
        turned.reverse();
        let (forward, mut backward) = (at_once(10.0, &[], &tasks), at_once(10.0, &[], &turned));
        backward.tasks.reverse();
        for (left, right) in forward.tasks.iter().zip(&backward.tasks) {
            prop_assert!(left.finish.0.abs_diff(right.finish.0) <= 2, "{left:?} {right:?}");
        }
    }

    /// Equal experiments have equal outcomes.
    #[test]
    fn equal_seeds_give_equal_outcomes(
        tasks in tasks(12, 4), policy in a_policy(), seed in any::<u64>(),
    ) {
        let mut experiment = Experiment::new(two_nodes(2), tasks, policy);
        experiment.seed = seed;
        experiment.scheduler.predictor = PredictorKind::Phase { threshold: 0.4 };
        let outcome = simulate(&experiment).expect("a possible experiment");
        prop_assert_eq!(&outcome, &simulate(&experiment).expect("a possible experiment"));
    }

    /// Many cores are simulated by classes of cores, few core by core: except for the rounding of
    /// the response, the results are the same.
    #[test]
    fn classes_agree_with_single_cores(tasks in tasks(12, 1)) {
        let few = run(&machine(12, 20.0), &tasks, "os", 0);
        let many = run(&machine(64, 20.0), &tasks, "os", 0);
        for (left, right) in few.tasks.iter().zip(&many.tasks) {
            prop_assert_eq!(left.counts, right.counts);
            let difference = left.finish.0.abs_diff(right.finish.0) as f64;
            prop_assert!(difference <= 0.06 * left.finish.as_f64(), "{left:?} {right:?}");
        }
        prop_assert!(few.served == many.served);
    }
}

/// Eight tasks that only wait share the slow memory with one that waits for it for 1/320 of its
/// time: 0.4 for 4 GB/s, of which 1/128 go there. At 33 times the latency the eight run at 1/33 and
/// the other at 1 / (1 + 32/320), and draw 80/33 + 1/32/1.1 GB/s.
#[test]
fn a_small_share_of_waiting_stays_small_on_many_cores() {
    for (cores, memories) in [(12, 2), (12, 3), (32, 2), (32, 3)] {
        let mut machine = machine(cores, 1_000.0);
        for number in 1..memories {
            machine.memories.push(Memory {
                name: format!("slow-{number}"),
                kind: MediumKind::Nvm,
                service: ServiceCurve::flat(gb(80.0 / 33.0 + 1.0 / 32.0 / 1.1)),
                ..machine.memories[0].clone()
            });
        }
        let task = |rate: f64, slow: f64| {
            let task = crate::common::task(&crate::common::program(&[rate]), 0, 100);
            Task { placement: Placement::even([0.0, slow, 0.0, 0.0]), ..task }
        };
        let mut tasks = vec![task(10.0, 1.0); 8];
        tasks.push(task(4.0, 1.0 / 128.0));
        let took = run(&machine, &tasks, "os", 0).tasks[8].running.as_millis_f64();
        assert!((took - 110.0).abs() < 1.0, "{cores} cores, {memories} memories: {took}");
    }
}

/// With several memories another task can rightly shorten a task's time: it slows down a third one,
/// which then leaves more of the first task's memory to that task.
#[test]
fn with_several_memories_an_enemy_of_an_enemy_helps() {
    let mut hybrid = machine(3, 10.0);
    let slow = ServiceCurve::flat(gb(4.0));
    hybrid.memories.push(Memory {
        name: "nvm".to_owned(),
        kind: MediumKind::Nvm,
        service: slow,
        ..hybrid.memories[0].clone()
    });
    let task = |rate: f64, elsewhere: f64| {
        let task = crate::common::task(&crate::common::program(&[rate]), 0, 100);
        Task { placement: Placement::even([0.0, elsewhere, 0.0, 0.0]), ..task }
    };
    // The first uses DRAM, the second both, the third NVM.
    let (first, both, third) = (task(8.0, 0.0), task(6.0, 0.5), task(4.0, 1.0));
    let without = run(&hybrid, &[first.clone(), both.clone()], "os", 0);
    let with = run(&hybrid, &[first, both, third], "os", 0);
    assert!(with.tasks[0].running < without.tasks[0].running);
    assert!(with.tasks[1].running > without.tasks[1].running);
}

/// With one memory another task can help as well, but only indirectly: it slows down a task early,
/// whose bursts then no longer collide with those of a third. No task is ever faster at that
/// moment.
#[test]
fn a_task_that_shifts_anothers_bursts_can_help_a_third() {
    let phases = |first: f64, second: f64| {
        let rates = [vec![first; 10], vec![second; 10]].concat();
        crate::common::task(&crate::common::program(&rates), 0, 20)
    };
    let (patient, rival) = (phases(0.0, 9.0), phases(6.0, 9.0));
    let early = crate::common::task(&crate::common::program(&[9.0]), 0, 5);
    let without = run(&machine(3, 10.0), &[patient.clone(), rival.clone()], "os", 0);
    let with = run(&machine(3, 10.0), &[patient, rival, early], "os", 0);
    assert!(with.tasks[0].finish < without.tasks[0].finish);
    assert!(with.tasks[1].finish > without.tasks[1].finish);
}

#[test]
fn different_seeds_differ_as_repeated_runs_do() {
    let bursts: Vec<f64> = (0..500).map(|i| if i % 7 < 3 { 7.0 } else { 0.5 }).collect();
    let program = crate::common::program(&bursts);
    let tasks: Vec<Task> =
        (0..9).map(|i| crate::common::task(&program, 13 * i, 900 + 50 * i)).collect();
    for policy in ["os", "ideal-average"] {
        let run = |seed| {
            let mut experiment = Experiment::new(machine(4, 10.0), tasks.clone(), policy);
            experiment.seed = seed;
            simulate(&experiment).expect("a possible experiment").turnaround
        };
        let times = [1, 2, 3].map(run);
        assert!(times[0] != times[1] && times[1] != times[2], "{policy}: {times:?}");
        let spread = times.map(|time| time.as_f64());
        let spread = memweir_core::metrics::relative_std_deviation_percent(&spread);
        assert!(spread.is_some_and(|percent| percent < 10.0), "{policy}: {times:?}");
    }
}
