use memweir_core::names::Named;
use memweir_policy::iabw::ideal_average_bandwidth;
use proptest::prelude::*;

use super::iabw::{Set, TABLE_1, TOLERANCE, Workload, pool, to_paper};
use super::*;
use crate::program::{Demand, Span};
use crate::workload::catalog::Catalog;
use crate::workload::synthetic::Synthetic;

fn steady_pool(rates: &[f64]) -> Vec<Ingredient> {
    let part = |(number, rate): (usize, &f64)| {
        let program =
            Synthetic::steady(format!("p{number}"), BytesPerSec(*rate), BytesPerSec(1e10));
        Ingredient {
            program: Arc::new(program.program().unwrap()),
            run_time: Nanos::from_millis(1000 * (1 + number as u64)),
        }
    };
    rates.iter().enumerate().map(part).collect()
}

fn names(mix: &Mix) -> Vec<&str> {
    mix.tasks.iter().map(|task| task.name.as_str()).collect()
}

#[test]
fn all_thirty_five_workloads_of_table_1_have_counterparts() {
    let hardware = Hardware::shipped("iabw").unwrap();
    let catalog = Catalog::shipped();
    for &set in Set::ALL {
        let pool = pool(set, &catalog, &hardware, 1);
        for workload in TABLE_1.iter().filter(|workload| workload.set == set) {
            let mix = workload.counterpart(&pool, 4, 1).unwrap();
            let error = (to_paper(mix.iabw) / workload.iabw - 1.0).abs();
            assert!(error <= TOLERANCE, "{}: {}", mix.name, to_paper(mix.iabw));
            assert!((8..=16).contains(&mix.tasks.len()));
            // The figure is the policy crate's, over the tasks themselves.
            let requirements: Vec<_> = mix.tasks.iter().map(requirement::of).collect();
            assert_eq!(mix.iabw, ideal_average_bandwidth(&requirements, 4));
            assert!(mix.tasks.iter().all(|task| task.work == Nanos::from_millis(120_000)));
        }
    }
}

#[test]
fn table_1_is_the_papers() {
    let range = |set| {
        let of_set = TABLE_1.iter().filter(|workload| workload.set == set);
        let rates: Vec<f64> = of_set.map(|workload| workload.iabw).collect();
        let (least, most) = rates
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        (rates.len(), least, most)
    };
    assert_eq!(range(Set::SpecTraining), (15, 23.2, 62.9));
    assert_eq!(range(Set::Spec), (10, 28.5, 53.0));
    assert_eq!(range(Set::Npb), (10, 20.4, 44.8));
    // 40 of the paper's transactions per microsecond are 5.12 GB/s.
    let forty = Workload { iabw: 40.0, ..TABLE_1[0] };
    assert_eq!(forty.bandwidth(), BytesPerSec(5.12e9));
}

#[test]
fn a_seed_gives_the_same_mix_again() {
    let pool = steady_pool(&[1e9, 2e9, 3e9, 4e9]);
    let recipe = Recipe { jobs: 2..=8, ..Recipe::iabw(2) };
    let mix = |seed| draw("m", &pool, &recipe, seed).unwrap();
    assert_eq!(names(&mix(5)), names(&mix(5)));
    assert_eq!(mix(5).tasks[0].offset, mix(5).tasks[0].offset);
    assert!((0..20).any(|seed| names(&mix(seed)) != names(&mix(5))));
}

#[test]
fn a_wanted_bandwidth_beyond_every_mix_is_refused_with_the_range() {
    let pool = steady_pool(&[1e9, 2e9, 4e9]);
    let wanted = |gb: f64| Some(Wanted { iabw: BytesPerSec(gb * 1e9), tolerance: 0.01 });
    let recipe = Recipe { jobs: 3..=4, ..Recipe::iabw(2) };
    for gb in [2.5, 6.8] {
        let refusal = draw("m", &pool, &Recipe { wanted: wanted(gb), ..recipe.clone() }, 1);
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.reason, format!("the pool has no mix of {gb} GB/s"));
        // Two cores times the means of 1, 1 and 2, and of 4, 4 and 2.
        assert_eq!(refusal.help.unwrap(), "with 3 to 4 tasks, from 2.7 GB/s to 6.7 GB/s");
    }
    for gb in [8.0 / 3.0, 20.0 / 3.0] {
        assert!(draw("m", &pool, &Recipe { wanted: wanted(gb), ..recipe.clone() }, 1).is_ok());
    }
}

#[test]
fn two_instances_of_a_program_that_runs_once_are_within_reach() {
    let pool = steady_pool(&[1e9, 4e9]);
    let recipe = Recipe { jobs: 2..=2, weight: Weight::Normal, ..Recipe::iabw(4) };
    // The second program twice, or once beside the first.
    let most = |instances| Reach::of(&pool, &recipe, instances).most.as_gb();
    assert!((most(2) - 8.0).abs() < 1e-6, "{}", most(2));
    assert!((most(1) - 5.0).abs() < 1e-6, "{}", most(1));
}

#[test]
fn the_reach_of_a_program_that_runs_once_is_that_of_its_own_length() {
    let span = |gb: f64| {
        let mut demand = Demand { stall: 0.5, ..Demand::default() };
        demand.flows[0].reads = BytesPerSec::from_gb(gb);
        Span { length: Nanos::from_millis(1000), demand }
    };
    let program = Program { name: "p".to_owned(), spans: vec![span(4.0), span(1.0)] };
    // One and a half cycles: 4 + 1 + 4 GB in 3 s, where a cycle has a mean of 2.5 GB/s.
    let run_time = Nanos::from_millis(3000);
    let pool = [Ingredient { program: Arc::new(program), run_time }];
    let recipe = Recipe { jobs: 1..=1, weight: Weight::Normal, ..Recipe::iabw(4) };
    let wanted = Wanted { iabw: BytesPerSec::from_gb(3.0), tolerance: 0.01 };
    assert!(Reach::of(&pool, &recipe, 1).holds(wanted));
}

#[test]
fn a_wanted_bandwidth_between_the_mixes_is_refused_with_the_nearest() {
    let pool = steady_pool(&[1e9, 9e9]);
    let wanted = Some(Wanted { iabw: BytesPerSec(8e9), tolerance: 0.01 });
    let recipe = Recipe { jobs: 2..=2, wanted, ..Recipe::iabw(2) };
    let refusal = draw("m", &pool, &recipe, 1).unwrap_err();
    assert_eq!(refusal.reason, "the pool has no mix of 8.0 GB/s");
    // The possible mixes have each program once, or one of them twice.
    assert_eq!(refusal.help.unwrap(), "the nearest that was found has 10.0 GB/s");
}

#[test]
fn recipes_that_the_pool_cannot_fill_are_refused() {
    let pool = steady_pool(&[1e9, 2e9]);
    let error = draw("m", &pool, &Recipe::iabw(4), 1).unwrap_err();
    assert_eq!(error.reason, "16 tasks cannot be drawn from 2 programs");
    assert!(draw("m", &[], &Recipe::iabw(1), 1).is_err());
}

#[test]
fn a_normal_workload_has_each_program_once_with_its_own_length() {
    let pool = steady_pool(&[1e9, 2e9, 3e9]);
    let mix = draw("m", &pool, &Recipe { jobs: 6..=6, ..Recipe::iabw(2) }, 1).unwrap();
    let normal = mix.normal(&pool, 2);
    let mut works: Vec<_> = normal.tasks.iter().map(|task| task.work.as_secs_f64()).collect();
    works.sort_by(f64::total_cmp);
    assert_eq!(works, [1.0, 2.0, 3.0]);
    // 1 x 1 + 2 x 2 + 3 x 3 GB over 1 / 2 + 3 s.
    assert!((normal.iabw.0 - 14e9 / 3.5).abs() < 10.0, "{}", normal.iabw);
}

#[test]
fn the_mixes_of_hmmsched_are_four_and_four_and_six_and_two() {
    use super::hmmsched::{HmmschedRecipe, MIX_1, MIX_2, NVM, mix};
    let hardware = Hardware::shipped("hmmsched").unwrap();
    let catalog = Catalog::shipped();
    for (applications, is_intensive) in
        [(MIX_1, [true, true, false, false]), (MIX_2, [true, true, true, false])]
    {
        let mix =
            mix("m", &applications, &catalog, &hardware, &HmmschedRecipe::default(), 1).unwrap();
        assert_eq!(mix.tasks.len(), 8);
        // bpm section 4.2 calls programs with more than one miss in 1,000 instructions
        // memory-intensive.
        let mpki = applications.map(|name| catalog.find(name).unwrap().mpki.value);
        assert_eq!(mpki.map(|mpki| mpki > 1.0), is_intensive);
        for task in &mix.tasks {
            // A quarter of the pages, the hottest ones, get more than a quarter of the traffic.
            assert!((0.25..0.95).contains(&task.placement.reads[0]), "{:?}", task.placement);
            assert!(task.placement.writes[NVM] > 0.0);
        }
    }
    let iabw = Hardware::shipped("iabw").unwrap();
    assert!(mix("m", &MIX_1, &catalog, &iabw, &HmmschedRecipe::default(), 1).is_err());
}

/// Bursts of random length and bandwidth, for a part of their cycle or for several.
fn bursts() -> impl Strategy<Value = Vec<Ingredient>> {
    let span = (1..900u64, 0.0..4e9f64).prop_map(|(millis, rate)| {
        let mut demand = Demand { stall: 0.5, ..Demand::default() };
        demand.flows[0].reads = BytesPerSec(rate);
        Span { length: Nanos::from_millis(millis), demand }
    });
    let part = (prop::collection::vec(span, 1..6), 0.3..3.0f64).prop_map(|(spans, rounds)| {
        let program = Program { name: "bursts".to_owned(), spans };
        let run_time = Nanos((program.length().as_f64() * rounds) as u64);
        Ingredient { run_time, program: Arc::new(program) }
    });
    prop::collection::vec(part, 4..7)
}

proptest! {
    #[test]
    fn a_mix_keeps_to_its_recipe(
        rates in prop::collection::vec(1e8..5e9_f64, 2..8), instances in 1u32..4, jobs in 1u32..12,
        cores in 1u32..5, seed: u64,
    ) {
        let pool = steady_pool(&rates);
        let most = rates.len() as u32 * instances;
        let recipe =
            Recipe { jobs: 1..=jobs.min(most), instances, ..Recipe::iabw(cores) };
        let mix = draw("m", &pool, &recipe, seed).unwrap();
        prop_assert!(mix.tasks.len() as u32 <= jobs);
        for part in &pool {
            let count =
                mix.tasks.iter().filter(|task| Arc::ptr_eq(&task.program, &part.program)).count();
            prop_assert!(count as u32 <= instances);
        }
        let mut names = names(&mix);
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), mix.tasks.len());
    }

    #[test]
    fn every_mix_is_within_reach(
        pool in bursts(), normal: bool, cores in 1u32..4, jobs in 1u32..5, work in 1u64..3_000,
        instances in 1u32..4, seed in 0u64..1_000,
    ) {
        let weight =
            if normal { Weight::Normal } else { Weight::Equal(Nanos::from_millis(work)) };
        let recipe = Recipe { jobs: jobs..=jobs, weight, instances, ..Recipe::iabw(cores) };
        let mix = draw("m", &pool, &recipe, seed).unwrap();
        let reach = Reach::of(&pool, &recipe, instances);
        let wanted = Wanted { iabw: mix.iabw, tolerance: 0.0 };
        prop_assert!(reach.holds(wanted), "{} is not in {reach:?}", mix.iabw);
    }
}
