//! The quantum loop: the same order of events as live.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MediumId, Nanos, Picos};
use memweir_flow::{
    Admission, Experiment, Knowledge, KnowledgeError, Machine, Memory, Migration, Migrator,
    Outcome, PageCopy, Placement, Program, QuantumOutcome, Recorder, Simulation, Task, TaskOutcome,
    TaskQuantum, simulate,
};
use memweir_policy::{Policy, PredictorKind, QuantumView};

use crate::common::{experiment, machine, ms, program, task};

fn outcome(experiment: &Experiment) -> Outcome {
    simulate(experiment).expect("a possible experiment")
}

/// Runs tasks of these lengths in milliseconds on one core under round-robin; returns their
/// finishes and their quanta.
fn in_turns(work: &[u64]) -> (Vec<Nanos>, Vec<u64>) {
    let idle = program(&[0.0]);
    let tasks = work.iter().map(|work| task(&idle, 0, *work)).collect();
    let outcome = outcome(&experiment(machine(1, 10.0), tasks, "round-robin"));
    outcome.tasks.iter().map(|task| (task.finish, task.quanta)).unzip()
}

/// The same order as live (`two_jobs_on_one_core_take_turns_quantum_by_quantum` of memweir-run):
/// 0-100 A, -200 B, -300 A, -400 B, -450 A ends, backfill B until 500.
#[test]
fn two_tasks_on_one_core_take_turns_quantum_by_quantum() {
    assert_eq!(in_turns(&[250, 250]), (vec![ms(450), ms(500)], vec![3, 3]));
}

#[test]
fn a_core_that_falls_free_is_filled_at_once() {
    assert_eq!(in_turns(&[30, 30, 30]).0, [ms(30), ms(60), ms(90)]);
}

#[test]
fn between_quanta_everything_stands_still() {
    let idle = program(&[0.0]);
    let mut experiment =
        experiment(machine(2, 10.0), vec![task(&idle, 0, 250), task(&idle, 0, 250)], "random");
    experiment.overheads.quantum_switch = ms(2);
    let held_up = outcome(&experiment);
    // Two quanta end before 250 ms of work are done; each but the first begins 2 ms late.
    assert_eq!(held_up.turnaround, ms(254));
    let spans: Vec<(Nanos, Nanos)> =
        held_up.quanta.iter().map(|quantum| (quantum.start, quantum.elapsed)).collect();
    assert_eq!(spans, [(ms(0), ms(100)), (ms(102), ms(98)), (ms(202), ms(52))]);
    experiment.scheduler.policy = "os".to_owned();
    assert_eq!(outcome(&experiment).turnaround, ms(250), "nobody is ever held up");
}

#[test]
fn tasks_that_come_later_run_where_there_is_room() {
    let idle = program(&[0.0]);
    let at = |arrival, work| Task { arrival: ms(arrival), ..task(&idle, 0, work) };
    // The second finds an idle core; the third waits for the end of the first; the fourth arrives
    // when all others are complete.
    let tasks = vec![at(10, 60), at(30, 90), at(40, 10), at(1_000, 20)];
    for policy in ["round-robin", "os"] {
        let outcome = outcome(&experiment(machine(2, 10.0), tasks.clone(), policy));
        let finishes: Vec<Nanos> = outcome.tasks.iter().map(|task| task.finish).collect();
        if policy == "round-robin" {
            assert_eq!(finishes, [ms(70), ms(120), ms(80), ms(1_020)]);
            let turnarounds = outcome.tasks.iter().map(|task| task.turnaround());
            assert_eq!(turnarounds.collect::<Vec<_>>(), [60, 90, 40, 20].map(ms));
        }
        assert_eq!(finishes[3], ms(1_020));
        assert_eq!(outcome.turnaround, ms(1_010), "from the first arrival");
        assert_eq!(outcome.quanta[0].start, ms(0));
    }
}

#[test]
fn a_task_that_comes_while_everything_stands_still_waits_for_the_end_of_that() {
    let idle = program(&[0.0]);
    let late = Task { arrival: ms(101), ..task(&idle, 0, 10) };
    let mut experiment =
        experiment(machine(2, 10.0), vec![task(&idle, 0, 150), late], "round-robin");
    experiment.overheads.quantum_switch = ms(2);
    let outcome = outcome(&experiment);
    assert_eq!((outcome.tasks[1].finish, outcome.tasks[0].finish), (ms(112), ms(152)));
}

/// All records of a run.
#[derive(Default)]
struct Diary(Vec<(QuantumOutcome, Vec<TaskQuantum>)>);

impl Recorder for Diary {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        self.0.push((quantum.clone(), tasks.to_vec()));
    }
}

/// Creates a task of 100 ms at 2 GB/s and 100 ms at 6 GB/s in turn.
fn waves() -> Task {
    let rates = [vec![2.0; 100], vec![6.0; 100]].concat();
    task(&program(&rates), 0, 1_000)
}

fn recorded(experiment: &Experiment) -> Diary {
    let mut diary = Diary::default();
    Simulation::new(experiment).recorder(&mut diary).run().expect("a possible experiment");
    diary
}

#[test]
fn a_followed_profile_predicts_the_next_quantum() {
    let mut experiment = experiment(machine(1, 10.0), vec![waves()], "ideal-average");
    experiment.scheduler.predictor = PredictorKind::Profile;
    let diary = recorded(&experiment);
    assert_eq!(diary.0.len(), 10);
    for (number, (quantum, tasks)) in diary.0.iter().enumerate().skip(1) {
        let rate = if number % 2 == 0 { 2e9 } else { 6e9 };
        assert!((quantum.bandwidth.0 - rate).abs() < 1e-3 * rate, "{quantum:?}");
        let predicted = tasks[0].predicted.map_or(0.0, |rate| rate.0);
        assert!((predicted - rate).abs() < 1e-3 * rate, "{number}: {predicted}");
    }
}

#[test]
fn the_profiles_of_the_tasks_of_a_job_are_followed_together() {
    let mut experiment = experiment(machine(2, 20.0), vec![waves(); 2], "ideal-average");
    (experiment.jobs, experiment.scheduler.predictor) = ([0, 0].into(), PredictorKind::Profile);
    for (number, (_, tasks)) in recorded(&experiment).0.iter().enumerate().skip(1) {
        let rate = if number % 2 == 0 { 2e9 } else { 6e9 };
        for task in tasks {
            let predicted = task.predicted.map_or(0.0, |rate| rate.0);
            assert!((predicted - rate).abs() < 1e-3 * rate, "{number}: {predicted}");
        }
    }
}

#[test]
fn phases_are_recognized_by_what_the_program_does() {
    let mut experiment = experiment(machine(1, 10.0), vec![waves()], "ideal-average");
    experiment.scheduler.predictor = PredictorKind::Phase { threshold: 0.4 };
    let diary = recorded(&experiment);
    // After one round the predictor has seen each phase follow the other.
    for (number, (quantum, tasks)) in diary.0.iter().enumerate().skip(4) {
        let predicted = tasks[0].predicted.map_or(0.0, |rate| rate.0);
        assert!((predicted - quantum.bandwidth.0).abs() < 1e7, "{number}: {predicted}");
    }
    experiment.scheduler.predictor = PredictorKind::Last;
    let (quantum, tasks) = &recorded(&experiment).0[5];
    let predicted = tasks[0].predicted.map_or(0.0, |rate| rate.0);
    assert!((predicted - quantum.bandwidth.0).abs() > 3e9, "the last value is always wrong");
}

#[test]
fn what_is_known_at_submission_is_the_run_alone() {
    // 8 GB/s for 100 ms and no traffic for 300: 2 GB/s; two such tasks on one core.
    let rates = [vec![8.0; 100], vec![0.0; 300]].concat();
    let tasks = vec![task(&program(&rates), 0, 400); 2];
    let mut experiment = experiment(machine(1, 10.0), tasks, "ideal-average");
    let known = outcome(&experiment).ideal_average.map_or(0.0, BytesPerSec::as_gb);
    assert!((known - 2.0).abs() < 1e-6, "{known}");
    experiment.knowledge = Knowledge::Nothing;
    assert_eq!(outcome(&experiment).ideal_average, None);
}

/// Chooses nobody but the head, and keeps what is expected of each job, in milliseconds.
#[derive(Default)]
struct Listens(Arc<Mutex<BTreeMap<JobId, Option<u64>>>>);

impl Policy for Listens {
    fn select(&mut self, view: &QuantumView<'_>, _: &mut Vec<usize>) {
        let milliseconds = |time: Nanos| (time.as_secs_f64() * 1e3).round() as u64;
        let jobs = view.running.iter().chain(view.queue);
        let seen = jobs.map(|job| (job.job, job.expected_time.map(milliseconds)));
        self.0.lock().expect("no panic").extend(seen);
    }
}

#[test]
fn the_first_run_of_a_program_tells_what_later_ones_take() {
    let named = |name: &str| {
        let program = Program { name: name.to_owned(), ..(*program(&[0.5; 400])).clone() };
        Arc::new(program)
    };
    let at = |arrival, name, work| Task { arrival: ms(arrival), ..task(&named(name), 0, work) };
    // The second arrives while the first runs and is under way when that ends, the others when both
    // have ended.
    let later = [at(1_000, "a", 400), at(1_000, "b", 400), at(1_000, "a", 300)];
    let tasks = [&[at(0, "a", 400), at(100, "a", 400)], &later[..]].concat();
    let mut experiment = experiment(machine(1, 10.0), tasks, "os");
    let mut expected = |knowledge| {
        experiment.knowledge = knowledge;
        let listens = Listens::default();
        let heard = listens.0.clone();
        Simulation::new(&experiment).policy(Box::new(listens)).run().expect("it can be simulated");
        std::mem::take(&mut *heard.lock().expect("no panic")).into_values().collect::<Vec<_>>()
    };
    let [all, most] = [Some(400), Some(300)];
    assert_eq!(expected(Knowledge::Alone), [all, all, all, all, most]);
    assert_eq!(expected(Knowledge::FirstRun), [None, all, all, None, None]);
    assert_eq!(expected(Knowledge::Nothing), [None; 5]);
}

#[test]
fn known_times_are_wrong_by_their_factors_and_the_error() {
    let steady = program(&[0.5; 400]);
    let tasks = vec![task(&steady, 0, 400); 3];
    let mut experiment = experiment(machine(1, 10.0), tasks, "os");
    let expected = |experiment: &Experiment| {
        let listens = Listens::default();
        let heard = listens.0.clone();
        Simulation::new(experiment).policy(Box::new(listens)).run().expect("it can be simulated");
        std::mem::take(&mut *heard.lock().expect("no panic")).into_values().collect::<Vec<_>>()
    };
    experiment.time_factors = vec![2.0, 0.5];
    assert_eq!(expected(&experiment), [800, 200, 400].map(Some));
    (experiment.knowledge_error, experiment.seed) = (KnowledgeError(0.5), 7);
    let factor = |job| experiment.knowledge_error.factors(7, job).0;
    let wrong = |(job, time): (usize, f64)| (time * factor(job)).round() as u64;
    let wrong = [(0, 800.0), (1, 200.0), (2, 400.0)].map(wrong);
    assert_eq!(expected(&experiment), wrong.map(Some));
}

/// Never fills a second core.
struct OneAtATime;

impl Policy for OneAtATime {
    fn select(&mut self, _: &QuantumView<'_>, _: &mut Vec<usize>) {}
}

#[test]
fn a_policy_may_leave_cores_idle() {
    let tasks = vec![waves(), waves()];
    let experiment = experiment(machine(2, 10.0), tasks, "os");
    let alone = Simulation::new(&experiment).policy(Box::new(OneAtATime)).run();
    let alone = alone.expect("a possible experiment");
    assert_eq!(alone.turnaround, ms(2_000));
    assert_eq!(alone.weighted_speedup(), 2.0);
    assert!(alone.quanta.iter().all(|quantum| quantum.chosen == 1));
    let both = outcome(&experiment);
    assert!(both.turnaround < ms(1_200) && both.weighted_speedup() < 1.95);
}

/// Jobs of 3, 1, 2 and 1 tasks on three cores in turn: A, BC, DB, A, CD, A, C.
#[test]
fn the_tasks_of_a_job_are_selected_together() {
    let work = [300, 300, 300, 200, 300, 300, 200];
    let tasks = work.map(|work| task(&program(&[0.0]), 0, work)).to_vec();
    let jobs = [0, 0, 0, 1, 2, 2, 3];
    let of = |policy: &str| Experiment {
        jobs: jobs.into(),
        ..experiment(machine(3, 10.0), tasks.clone(), policy)
    };
    let by_hand = outcome(&of("round-robin"));
    let finish: Vec<Nanos> = by_hand.tasks.iter().map(|task| task.finish).collect();
    assert_eq!(finish, [600, 600, 600, 300, 700, 700, 500].map(ms));
    for policy in ["round-robin", "random", "ideal-average", "max-weight"] {
        for (quantum, tasks) in recorded(&of(policy)).0 {
            for job in tasks.chunk_by(|a, b| jobs[a.task.index()] == jobs[b.task.index()]) {
                assert!(job.iter().all(|task| task.chosen == job[0].chosen), "{policy}: {job:?}");
            }
            assert!((1..=3).contains(&quantum.chosen), "{policy}: {quantum:?}");
        }
    }
}

#[test]
fn a_job_has_its_cores_until_the_last_of_its_tasks_ends() {
    let tasks = [100, 300, 100].map(|time| task(&program(&[0.0]), 0, time)).to_vec();
    let experiment =
        Experiment { jobs: [0, 0, 1].into(), ..experiment(machine(2, 10.0), tasks, "round-robin") };
    let outcome = outcome(&experiment);
    let finish: Vec<Nanos> = outcome.tasks.iter().map(|task| task.finish).collect();
    assert_eq!(finish, [100, 400, 200].map(ms));
    assert_eq!(outcome.tasks.iter().map(|task| task.quanta).collect::<Vec<_>>(), [1, 3, 1]);
}

/// One task, a job of two, one task and a job of three, with room for two tasks: each job waits for
/// the one before it, also where it would find room, and the last until it is alone.
#[test]
fn jobs_are_admitted_in_their_order_when_there_is_room() {
    let idle = program(&[0.0]);
    let tasks = [90, 50, 50, 30, 20, 20, 20].map(|work| task(&idle, 0, work)).to_vec();
    let experiment = Experiment {
        jobs: [0, 1, 1, 2, 3, 3, 3].into(),
        admission: Admission::Limited(2),
        ..experiment(machine(3, 10.0), tasks, "os")
    };
    let outcome = outcome(&experiment);
    let times = |of: fn(&TaskOutcome) -> Nanos| outcome.tasks.iter().map(of).collect::<Vec<_>>();
    assert_eq!(times(|task| task.started), [0, 90, 90, 140, 170, 170, 170].map(ms));
    assert_eq!(times(|task| task.finish), [90, 140, 140, 170, 190, 190, 190].map(ms));
}

#[test]
fn a_very_short_quantum_has_no_bandwidth_beside_others() {
    let run = |work| {
        outcome(&experiment(machine(1, 10.0), vec![Task { work: ms(work), ..waves() }], "os"))
    };
    let bandwidths = |work| run(work).bandwidths(ms(100)).len();
    assert_eq!([20, 1_000, 1_049, 1_050].map(bandwidths), [1, 10, 10, 11]);
    // Five quanta at 2 GB/s and five at 6, each 2 from the mean: 10 * 4 over 9.
    let deviation = run(1_000).bandwidth_deviation(ms(100)).map_or(0.0, BytesPerSec::as_gb);
    assert!((deviation - (40.0f64 / 9.0).sqrt()).abs() < 1e-6, "{deviation}");
    assert_eq!(run(20).bandwidth_deviation(ms(100)), None);
}

/// Moves the pages of task 0 to DRAM after the first quantum.
struct Promotion(Vec<Counts>);

impl Migrator for Promotion {
    fn migrate(&mut self, _: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration> {
        self.0.push(tasks[0].counts);
        if self.0.len() > 1 {
            return Vec::new();
        }
        let copies = vec![PageCopy { from: 1, to: 0, bytes: Bytes(10_000_000) }];
        vec![Migration { task: JobId(0), placement: Placement::default(), copies }]
    }
}

fn hybrid() -> Machine {
    let mut machine = machine(1, 10.0);
    machine.memories.push(Memory {
        name: "pram".to_owned(),
        kind: memweir_core::medium::MediumKind::Nvm,
        read_latency: Picos::from_nanos(75),
        write_latency: Picos::from_nanos(200),
        ..machine.memories[0].clone()
    });
    machine
}

/// By hand: reads of 4 GB/s at a stall of 0.4 take 0.6 + 0.4 * 3 = 1.8 times as long from NVM at
/// three times the latency. In the first 100 ms 55.6 ms of the work are done. Copying 10 MB at 10
/// GB/s, half of which are reads and half writes, takes 2 ms if all is DRAM; with the reads from
/// NVM it takes (3 + 1) / 2 times that, 4 ms. Then 44.4 ms are left.
#[test]
fn pages_move_between_quanta_at_the_cost_of_the_copy() {
    for policy in ["round-robin", "os"] {
        let slow = Task { placement: Placement::all_in(1), ..task(&program(&[4.0]), 0, 100) };
        let experiment = experiment(hybrid(), vec![slow], policy);
        let stays = outcome(&experiment);
        assert_eq!(stays.turnaround, ms(180));
        let mut promotion = Promotion(Vec::new());
        let moved = Simulation::new(&experiment).migrator(&mut promotion).run();
        let moved = moved.expect("a possible experiment");
        let expected = 100.0 + 4.0 + 100.0 - 100.0 / 1.8;
        let took = moved.turnaround.as_millis_f64();
        assert!((took - expected).abs() < 1e-4, "{policy}: {took}");
        assert_eq!(moved.copied, Bytes(10_000_000));
        // The task's traffic goes to the memory that has its pages, and does not include the copy.
        let [dram, pram] =
            [0, 1].map(|m| moved.tasks[0].counts.traffic(MediumId::ALL[m]).lines().0);
        let lines = 4e8 / 64.0;
        assert!((pram as f64 - lines / 1.8).abs() < 2.0, "{pram}");
        assert!((dram as f64 - lines * (1.0 - 1.0 / 1.8)).abs() < 2.0, "{dram}");
    }
}

/// By hand: copying 10 MB at 10 GB/s takes 2 ms, while half of the traffic is in each memory.
/// Beside it a task reads 10 GB/s from the DRAM, which carries 10. With a stretch of 1 + d the copy
/// runs at 1 / (1 + d / 2) and the reader at 1 / (1 + d): 5 / (1 + d / 2) + 10 / (1 + d) = 10 gives
/// d^2 + d = 1. So d = 0.618, the copy takes 2.618 ms, and the reader does 1.618 ms of its work.
#[test]
fn a_copy_contends_with_the_others() {
    let mut machine = machine(2, 10.0);
    let nvm = Memory {
        name: "nvm".to_owned(),
        kind: memweir_core::medium::MediumKind::Nvm,
        ..machine.memories[0].clone()
    };
    machine.memories.push(nvm);
    let tasks = vec![task(&program(&[0.0]), 0, 200), task(&program(&[10.0]), 0, 150)];
    let experiment = experiment(machine, tasks, "os");
    let mut promotion = Promotion(Vec::new());
    let outcome = Simulation::new(&experiment).migrator(&mut promotion).run();
    let outcome = outcome.expect("a possible experiment");
    let finish = [0, 1].map(|task| outcome.tasks[task].finish.as_millis_f64());
    let golden = (1.0 + 5.0f64.sqrt()) / 2.0;
    assert!((finish[0] - 201.0 - golden).abs() < 1e-4, "{finish:?}");
    assert!((finish[1] - 151.0).abs() < 1e-4, "{finish:?}");
}

/// Moves the pages of task 0 to the second memory after the first quantum, at no cost.
struct Demotion(bool);

impl Migrator for Demotion {
    fn migrate(&mut self, _: Nanos, _: &[TaskQuantum]) -> Vec<Migration> {
        let moved = std::mem::replace(&mut self.0, true);
        let migration =
            Migration { task: JobId(0), placement: Placement::all_in(1), copies: Vec::new() };
        if moved { Vec::new() } else { vec![migration] }
    }
}

#[test]
fn a_forecast_follows_pages_that_have_moved() {
    // A task alone is as slow as its new memory says, so what is forecast comes true.
    let mut experiment = experiment(hybrid(), vec![waves()], "ideal-average");
    experiment.scheduler.predictor = PredictorKind::Profile;
    let mut diary = Diary::default();
    let mut demotion = Demotion(false);
    let simulation = Simulation::new(&experiment).recorder(&mut diary).migrator(&mut demotion);
    let outcome = simulation.run().expect("a possible experiment");
    // 100 ms in DRAM; 400 ms of 2 GB/s take 0.8 + 0.2 * 3 times as long, 500 of 6 GB/s 0.4 + 1.8.
    assert_eq!(outcome.turnaround, ms(100 + 560 + 1_100));
    for (quantum, tasks) in &diary.0[2..] {
        let predicted = tasks[0].predicted.map_or(0.0, |rate| rate.0);
        assert!((predicted - quantum.bandwidth.0).abs() < 1e-3 * predicted, "{quantum:?}");
    }
}
