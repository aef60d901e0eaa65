use memweir_core::BytesPerSec;
use proptest::prelude::*;

use super::*;
use crate::machine::Machine;
use crate::optimal::lower_bound;
use crate::program::{Demand, Flow, Program, Span};
use crate::simulate;
use crate::task::Task;

/// Creates a task that draws this bandwidth for this time.
fn task(seconds: f64, gb: f64) -> Task {
    let mut demand = Demand { stall: 0.8, ..Demand::default() };
    demand.flows[0] = Flow { reads: BytesPerSec::from_gb(gb), ..Flow::default() };
    let span = Span { length: Nanos::from_secs_f64(seconds), demand };
    let name = format!("{gb} GB/s");
    Task::once(name.clone(), Arc::new(Program { name, spans: vec![span] }))
}

fn experiment(cores: u32, tasks: Vec<Task>, policy: &str) -> Experiment {
    let machine = Machine::uniform("m", cores, BytesPerSec::from_gb(10.0));
    Experiment::new(machine, tasks, policy)
}

#[test]
fn prices_and_times_by_hand() {
    // Heavy tasks draw 0.6 of the memory: one beside three light ones loses nothing, two fill it
    // and make progress at 5/6. Of 15 s of heavy and 25 s of light progress,
    //   t + 5/3 u = 15,  3 t + 2 u = 25:  u = 20/3, t = 35/9 seconds.
    let sets =
        [vec![(0, 1.0)], vec![(1, 1.0)], vec![(0, 1.0), (1, 3.0)], vec![(0, 5.0 / 3.0), (1, 2.0)]];
    let best = |prices: &[f64]| simplex::worthiest(&sets, prices);
    let mix = simplex::mix(&[1.0, 1.0], &[15.0, 25.0], best);
    let total: f64 = mix.sets.iter().map(|(_, time)| time).sum();
    assert!((total - (20.0 / 3.0 + 35.0 / 9.0)).abs() < 1e-9, "{mix:?}");
    // y + 3 z = 1 and 5/3 y + 2 z = 1.
    let expected = [1.0 / 3.0, 2.0 / 9.0];
    assert!(mix.prices.iter().zip(expected).all(|(price, y)| (price - y).abs() < 1e-9));
}

#[test]
fn the_plan_is_nearly_reached() {
    // The same work in eight tasks of 5 s: the plan takes 10.56 s and half a percent of overheads
    // and of quanta; `long-job-first` has nothing to go by.
    let tasks: Vec<Task> = [6.0, 6.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0].map(|gb| task(5.0, gb)).into();
    let bound = lower_bound(&Machine::uniform("m", 4, BytesPerSec::from_gb(10.0)), &tasks, 4);
    let planned =
        run(&experiment(4, tasks.clone(), "os"), None, &Stop::default()).unwrap().turnaround;
    assert!(planned >= bound);
    assert!(planned.as_f64() < 1.02 * bound.as_f64(), "{planned:?} {bound:?}");
    let other = simulate(&experiment(4, tasks, "long-job-first")).unwrap().turnaround;
    assert!(planned < other, "{planned:?} {other:?}");
}

#[test]
fn larger_machines_are_searched_at_fewer_points() {
    // 64, 28, 16 and 4 of 64 points, in at most three searches.
    for (cores, searches) in [(4, 1), (6, 2), (8, 3), (32, 3)] {
        let rater = Rater::new(&experiment(cores, vec![task(1.0, 1.0)], "os"));
        assert_eq!(rater.searches(), searches, "{cores} cores");
    }
}

#[test]
fn tasks_that_arrive_later_are_planned_when_they_come() {
    let late = Task { arrival: Nanos::from_secs_f64(1.0), ..task(2.0, 8.0) };
    let outcome = run(
        &experiment(2, vec![task(2.0, 8.0), task(3.0, 0.0), late], "os"),
        None,
        &Stop::default(),
    );
    let turnaround = outcome.unwrap().turnaround.as_secs_f64();
    // 4 s of traffic at 8 of 10 GB/s; both heavy ones together would take 3.2 s after the first.
    assert!((3.4..4.3).contains(&turnaround), "{turnaround}");
}

#[test]
fn a_recorder_sees_the_quanta_of_the_plan() {
    struct Count(usize);
    impl Recorder for Count {
        fn quantum(&mut self, _: &QuantumOutcome, tasks: &[TaskQuantum]) {
            self.0 += 1;
            assert!(tasks.iter().all(|task| task.progress <= Nanos::from_secs_f64(1.0)));
        }
    }
    let mut count = Count(0);
    let tasks = vec![task(1.0, 1.0), task(1.0, 2.0), task(1.0, 3.0)];
    let outcome = run(&experiment(2, tasks, "os"), Some(&mut count), &Stop::default()).unwrap();
    assert_eq!(count.0, outcome.quanta.len());
}

proptest! {
    #[test]
    fn a_mix_does_the_work_and_no_set_is_worth_more_than_its_time(
        work in prop::collection::vec(0.1..100.0f64, 1..30),
        sets in
            prop::collection::vec(prop::collection::vec((0usize..30, 0.05..1.0f64), 1..6), 0..60),
    ) {
        let count = work.len();
        let rates = |set: &Vec<(usize, f64)>| {
            let mut rates: Rates = set.iter().map(|(row, rate)| (row % count, *rate)).collect();
            rates.sort_by_key(|(row, _)| *row);
            rates.dedup_by_key(|(row, _)| *row);
            rates
        };
        let sets: Vec<Rates> = sets.iter().map(rates).collect();
        let best = |prices: &[f64]| simplex::worthiest(&sets, prices);
        let mix = simplex::mix(&vec![1.0; count], &work, best);
        let mut done = vec![0.0; count];
        for (rates, time) in &mix.sets {
            prop_assert!(*time > -1e-9 && (worth(rates, &mix.prices) - 1.0).abs() < 1e-6);
            rates.iter().for_each(|(row, rate)| done[*row] += rate * time);
        }
        let close = |(done, work): (&f64, &f64)| (done / work - 1.0).abs() < 1e-6;
        prop_assert!(done.iter().zip(&work).all(close), "{:?} of {:?}", done, work);
        prop_assert!(sets.iter().all(|set| worth(set, &mix.prices) < 1.0 + 1e-6));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_ends_and_beats_no_bound(
        given in prop::collection::vec((0.1..4.0f64, 0.0..12.0f64), 1..12),
        cores in 1..14u32,
    ) {
        let tasks: Vec<Task> = given.iter().map(|(seconds, gb)| task(*seconds, *gb)).collect();
        let experiment = experiment(cores, tasks, "os");
        let bound = lower_bound(&experiment.machine, &experiment.tasks, cores);
        let planned = run(&experiment, None, &Stop::default()).unwrap();
        prop_assert!(planned.turnaround >= bound);
        let again = run(&experiment, None, &Stop::default()).unwrap();
        prop_assert_eq!(planned.turnaround, again.turnaround);
    }
}
