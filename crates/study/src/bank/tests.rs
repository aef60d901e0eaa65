//! Scenarios on real memory: programs alone, effects of partitions, refused input.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use memweir_bank::experiment::{Conditions, Source};
use memweir_bank::misses::MissTrace;
use memweir_bank::outcome::ProgramRun;
use memweir_bank::synthetic::Structure;
use memweir_core::{Direction, Stop};
use memweir_dram::check::Checker;
use memweir_trace::{Access, Format, Header, ThreadId, Writer};

use super::report::{BankPoint, BatchRun, Fit, PartitionRun};
use super::study::BankStudy;
use super::*;
use crate::sweep::Grid;

fn text(text: &str) -> ScenarioText {
    ScenarioText::new("s.toml", text, Path::new("."))
}

fn run(scenario: &str, sweeps: &[&str]) -> Vec<BankPoint> {
    let sweeps = sweeps.iter().map(|sweep| sweep.parse().expect("a sweep")).collect();
    let grid = Grid::new(sweeps).expect("a grid");
    let study = BankStudy::read(&text(scenario), &[], grid).unwrap_or_else(|e| panic!("{e}"));
    let threads = NonZeroUsize::new(2).expect("threads");
    study.run(&Stop::default(), threads, |_| ()).unwrap_or_else(|e| panic!("{e}")).points
}

fn refused(scenario: &str) -> String {
    BankScenario::read(&text(scenario), &[]).expect_err(scenario).to_string()
}

const FOUR: &str = r#"
fidelity = "bank"
machine = "simple-o3"
partitions = ["none", "uniform"]
instructions = 300_000
programs = ["462.libquantum", "471.omnetpp", "450.soplex", "456.hmmer"]
"#;

#[test]
fn the_example_is_a_scenario() {
    let scenario = BankScenario::read(&text(EXAMPLE), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((scenario.programs.len(), scenario.partitions.len()), (4, 2));
    assert_eq!(text(EXAMPLE).fidelity(&[]), Ok(crate::Fidelity::Bank));
    for (name, _) in MACHINES {
        let scenario = EXAMPLE.split("[machine]").next().expect("a head");
        let programs = "programs = [\"444.namd\"]\n";
        let scenario = format!("machine = \"{name}\"\n{programs}{scenario}");
        BankScenario::read(&text(&scenario), &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn points_are_over_one_group_after_another() {
    let scenario = "fidelity = \"bank\"\nmachine = \"simple-o3\"\ninstructions = 1000\n\
                    programs = [\"444.namd\"]\n";
    let grid = Grid::new(vec!["seed=1..20".parse().expect("a sweep")]).expect("a grid");
    let study = BankStudy::read(&text(scenario), &[], grid).unwrap_or_else(|e| panic!("{e}"));
    let mut over = Vec::new();
    let mut first = None;
    let report = study.run(&Stop::default(), NonZeroUsize::MIN, |piece| {
        over.push((piece.point, piece.results.is_some()));
        if let (0, Some(results)) = (piece.point, piece.results) {
            first = Some(results.clone());
        }
    });
    let report = report.unwrap_or_else(|e| panic!("{e}"));
    // Sixteen programs alone, the same together, and the rest as well.
    let group = |points: std::ops::Range<usize>| {
        [false, true].map(|whole| points.clone().map(move |point| (point, whole)))
    };
    let wanted: Vec<_> = [group(0..16), group(16..20)].into_iter().flatten().flatten().collect();
    assert_eq!(over, wanted);
    assert_eq!((report.points.len(), first.as_ref()), (20, report.points.first()));
}

#[test]
fn programs_do_alone_what_was_asked() {
    // Corners of the possible requests: few and many misses, rows used once or for long, one bank
    // or several.
    let asked =
        [(40.0, 0.98, 1.1), (60.0, 0.1, 4.0), (5.0, 0.7, 2.0), (0.5, 0.9, 1.3), (25.0, 0.5, 3.0)];
    let machine = BankScenario::read(&text(FOUR), &[]).expect("a scenario").machine;
    for (mpki, rbl, blp) in asked {
        let asked = Characteristics {
            mpki,
            rbl,
            blp,
            write_share: 0.0,
            footprint: memweir_core::Bytes(128 << 20),
        };
        let program = |source, instructions| ProgramSpec::new("p", source, instructions);
        let fitted =
            study::fit(&machine, &asked, &Structure::default(), &program, &Conditions::default())
                .expect("a fit");
        assert!(fitted.reached, "{asked:?} became {:?}", fitted.measured);
        // The structure holds for another seed and a longer run than those of the fit.
        let source = Source::Synthetic(Box::new(fitted.structure));
        let longer = program(source, (2e7 / mpki) as u64);
        let conditions = Conditions { seed: 7, ..Conditions::default() };
        let execution = machine.execute(&[longer], conditions).expect("an execution");
        let run = ProgramRun::of(&execution, machine.clock).swap_remove(0);
        // A fit sees some hundred runs of lines if they are long, and it moves the misses by some
        // percent which of these lie in the cache.
        assert!((run.mpki / mpki - 1.0).abs() < 0.06, "{run:?}");
        assert!((run.row_hit_rate.unwrap() - rbl).abs() < 0.03, "{run:?}");
        assert!((run.bank_parallelism.unwrap() / blp - 1.0).abs() < 0.08, "{run:?}");
    }
}

#[test]
fn a_program_is_fitted_at_the_level_at_which_it_enters() {
    let fits = |programs: &str| -> Vec<Option<Fit>> {
        let head = "machine = \"simple-o3\"\ninstructions = 1000\n";
        let scenario = text(&format!("{head}programs = [{programs}]\n"));
        let study = BankStudy::read(&scenario, &[], Grid::default()).expect("a scenario");
        // On one thread, the second program comes when the first has been fitted.
        let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("it runs");
        report.points[0].alone.iter().map(|alone| alone.fit).collect()
    };
    let in_memory = "{ program = \"429.mcf\", enters = \"memory\" }";
    let both = fits(&format!("\"429.mcf\", {in_memory}"));
    assert_ne!(both[0], both[1]);
    assert_eq!(both[1], fits(in_memory)[0]);
}

#[test]
fn a_machine_run_breaks_no_rule_of_the_devices() {
    let scenario = BankScenario::read(&text(FOUR), &[]).expect("a scenario");
    let structure = |streams, run, stores| {
        let intensity = 40.0;
        Structure { streams, run, stores, intensity, burst_intensity: 40.0, ..Structure::default() }
    };
    let structures =
        [structure(6.0, 2.0, 0.5), structure(1.0, 100.0, 0.3), structure(3.0, 9.0, 0.1)];
    let programs: Vec<ProgramSpec> = structures
        .into_iter()
        .map(|structure| ProgramSpec::new("p", Source::Synthetic(Box::new(structure)), 100_000))
        .collect();
    let checker = Checker::new(&scenario.machine.memories[0].config).expect("a checker");
    let (execution, mut checkers) = scenario
        .machine
        .execute_observed(&programs, Conditions::default(), vec![checker])
        .expect("an execution");
    let checker = &mut checkers[0];
    checker.finish(execution.memories[0].0);
    assert!(checker.commands() > 20_000, "{}", checker.commands());
    assert_eq!(checker.count(), 0, "{:?}", checker.violations());
}

#[test]
fn a_program_has_a_thread_for_each_of_its_traces() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["one", "two"] {
        std::fs::write(directory.path().join(name), "10 4096\n").expect("space");
    }
    let read = |traces: &str| {
        let scenario = format!("machine = \"simple-o3\"\nprograms = [{{ trace = {traces} }}]\n");
        let text = ScenarioText::new("s.toml", &scenario, directory.path());
        BankScenario::read(&text, &[]).map(|mut scenario| scenario.programs.remove(0).spec)
    };
    for (traces, count) in [("\"one\"", 1), ("[\"one\", \"two\"]", 2)] {
        let spec = read(traces).expect("a program");
        assert_eq!((spec.name.as_str(), spec.threads), ("one", count));
        let Source::Instructions(found) = spec.source else { panic!("it has traces") };
        assert_eq!(found.len(), usize::from(count));
    }
    let error = read("[]").expect_err("no trace").to_string();
    assert!(error.starts_with("s.toml:2: programs[0].trace: there is no trace"), "{error}");
}

#[test]
fn a_recording_is_read_as_far_as_its_time_may_need() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut writer =
        Writer::start(Vec::new(), Format::Memweir, &Header::default()).expect("memory");
    for line in 0..5 {
        let (thread, direction) = (ThreadId::default(), Direction::Read);
        writer.push(&Access { address: 64 * line, gap: 8, thread, direction }).expect("memory");
    }
    let path = directory.path().join("five.mwt");
    std::fs::write(&path, writer.finish().expect("memory").0).expect("space");
    let read = |length: &str| {
        let head = "machine = \"simple-o3\"\ninstructions = 10\n";
        let scenario = format!("{head}programs = [{{ misses = \"five.mwt\"{length} }}]\n");
        let text = ScenarioText::new("s.toml", &scenario, directory.path());
        BankScenario::read(&text, &[]).expect("a scenario").programs.remove(0).spec.source
    };
    let of = |most| Source::Misses(Arc::new(MissTrace::read(&path, most).expect("a trace")));
    assert_ne!(of(10), of(40));
    assert_eq!(read(""), of(10));
    assert_eq!(read(", time_us = 1"), of(40));
}

#[test]
fn equal_programs_have_names_of_their_own() {
    let programs = "programs = [\"444.namd\", { program = \"444.namd\", instances = 2 }, \
                    { program = \"444.namd\", name = \"444.namd#2\" }]\n";
    let head = FOUR.split("programs").next().expect("a head");
    let scenario = format!("{head}{programs}").replace("300_000", "2_000");
    let names = ["444.namd", "444.namd#2", "444.namd#3", "444.namd#2#2"];
    let point = run(&scenario, &[]).remove(0);
    assert_eq!(point.alone.iter().map(|alone| &*alone.run.program).collect::<Vec<_>>(), names);
    let together = point.partitions[1].outcome.programs.iter();
    assert_eq!(together.map(|program| &*program.together.program).collect::<Vec<_>>(), names);
}

#[test]
fn partitions_keep_programs_out_of_each_others_rows() {
    let point = run(FOUR, &[]).remove(0);
    let [plain, uniform] = &point.partitions[..] else { panic!("two partitions") };
    assert_eq!(uniform.colors[3].as_deref(), Some("12-15"));
    for partition in [plain, uniform] {
        let outcome = &partition.outcome;
        let slowdowns = outcome.programs.iter().map(|program| program.slowdown);
        assert_eq!(outcome.maximum_slowdown, slowdowns.clone().fold(0.0, f64::max));
        let speedup: f64 = slowdowns.map(|slowdown| 1.0 / slowdown).sum();
        assert!((outcome.weighted_speedup - speedup).abs() < 1e-12, "{speedup}");
        for (program, (row, alone)) in
            outcome.programs.iter().zip(outcome.conflicts.iter().zip(&point.alone))
        {
            let own = &program.together;
            assert_eq!(row.iter().sum::<u64>(), own.row_conflicts);
            assert_eq!(own.row_hits + own.row_misses + own.row_conflicts, own.reads + own.writes);
            // A part of the cache and of the banks may happen to suit a program slightly better.
            assert!(
                own.ipc < alone.run.ipc * 1.01,
                "{} {} {}",
                own.program,
                own.ipc,
                alone.run.ipc
            );
        }
    }
    let foreign = |run: &PartitionRun| -> u64 {
        let rows = run.outcome.conflicts.iter().enumerate();
        rows.map(|(victim, row)| row.iter().sum::<u64>() - row[victim]).sum()
    };
    assert!(foreign(plain) > 1_000);
    assert_eq!(foreign(uniform), 0);
    assert!(plain.improvement.is_none() && uniform.improvement.is_some());
    assert!((1.0..4.0).contains(&plain.outcome.weighted_speedup));
    // Results do not depend on the number of threads.
    assert_eq!(run(FOUR, &[]).remove(0), point);
}

#[test]
fn programs_that_are_called_alike_are_not_of_one_kind() {
    // A light program that ends first, and three heavy ones; none has a name.
    const UNNAMED: &str = r#"
fidelity = "bank"
instructions = 30_000
machine = { cores = 2, memory = { device = "ddr3-1333" } }
policies = "max-weight"
knowledge = "first-run"
compression = 10_000
[[programs]]
synthetic = { mpki = 1, rbl = 0.6, blp = 2, footprint_mib = 16 }
[[programs]]
synthetic = { mpki = 40, rbl = 0.2, blp = 1, footprint_mib = 16 }
instances = 3
"#;
    let ends = |scenario: &str| -> Vec<f64> {
        let jobs = &run(scenario, &[])[0].policies[0].jobs;
        jobs.iter().map(|job| job.finish_s).collect()
    };
    assert_eq!(ends(UNNAMED), ends(&format!("{UNNAMED}name = \"heavy\"\n")));
}

const BATCH: &str = r#"
fidelity = "bank"
machine = { cores = 2, memory = { device = "ddr4-2400" } }
policies = ["os", "round-robin", "long-job-first"]
compression = 10_000
[[programs]]
name = "long"
time_us = 60
synthetic = { mpki = 2, rbl = 0.8, blp = 1.2, footprint_mib = 16 }
[[programs]]
name = "short"
instances = 3
time_us = 30
synthetic = { mpki = 2, rbl = 0.8, blp = 1.2, footprint_mib = 16 }
"#;

#[test]
fn a_policy_decides_which_jobs_run() {
    let point = run(BATCH, &[]).remove(0);
    assert!(point.partitions.is_empty());
    let [os, round_robin, long_first] = &point.policies[..] else { panic!("three policies") };
    for run in [os, round_robin, long_first] {
        let work: f64 = run.jobs.iter().map(|job| job.running_s).sum();
        assert!(work <= 2.0 * run.turnaround_s, "{run:?}");
        for job in &run.jobs {
            // Its random numbers are not those of its run alone.
            assert!(job.running_s > 0.95 * job.alone_s, "{job:?}");
            assert!(job.running_s <= job.finish_s && job.finish_s <= run.turnaround_s, "{job:?}");
        }
    }
    // 150 us of work on two cores. Who starts the job of 60 us first needs 75 at least; who gives
    // all four the same share has it alone at the end, for 30 us more or less.
    let micros = |run: &BatchRun| 1e6 * run.turnaround_s;
    assert!((75.0..93.0).contains(&micros(long_first)), "{}", micros(long_first));
    assert!((85.0..110.0).contains(&micros(os)), "{}", micros(os));
    assert_eq!(long_first.jobs[0].program, "long");
    assert!(long_first.jobs[0].finish_s < os.jobs[0].finish_s);
    let gain = os.turnaround_s / long_first.turnaround_s - 1.0;
    assert_eq!((os.gain, long_first.gain), (None, Some(gain)));
    // Results do not depend on the number of threads.
    assert_eq!(run(BATCH, &[]).remove(0), point);
}

#[test]
fn jobs_that_take_turns_on_a_core_take_as_long_as_one_after_the_other() {
    // Each read needs the data of the one before it, so there is nothing that could overlap.
    let scenario = r#"
fidelity = "bank"
instructions = 50_000
machine = { cores = 1, memory = { device = "ddr4-2400" } }
policies = "os"
compression = 5_000
programs = [{ instances = 2, synthetic = { mpki = 50, rbl = 0.05, blp = 1, footprint_mib = 16 } }]
"#;
    let point = run(scenario, &[]).remove(0);
    let ratio = point.policies[0].turnaround_s / (2.0 * point.alone[0].run.time_s);
    assert!((0.98..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn a_job_of_two_threads_runs_on_two_cores_at_once() {
    let scenario = r#"
fidelity = "bank"
instructions = 100_000
machine = { cores = 2, memory = { device = "ddr4-2400" } }
policies = ["round-robin", "ideal-average"]
compression = 10_000
[[programs]]
name = "wide"
threads = 2
synthetic = { mpki = 2, rbl = 0.8, blp = 1.2, footprint_mib = 16 }
[[programs]]
name = "narrow"
synthetic = { mpki = 2, rbl = 0.8, blp = 1.2, footprint_mib = 16 }
"#;
    for run in run(scenario, &[]).remove(0).policies {
        let [wide, narrow] = &run.jobs[..] else { panic!("two jobs: {run:?}") };
        let ratio = wide.running_s / narrow.running_s;
        assert!((1.8..2.6).contains(&ratio), "{run:?}");
        // Both threads at once, and the other job before, after or in between.
        assert!(run.turnaround_s < 1.1 * (wide.running_s / 2.0 + narrow.running_s), "{run:?}");
        assert!(run.turnaround_s > 0.9 * (wide.running_s / 2.0 + narrow.running_s), "{run:?}");
    }
}

#[test]
fn hardware_threads_serve_programs_that_run_together_and_no_batch() {
    let scenario = "machine = { cores = 1, threads_per_core = 2, memory = { device = \"ddr4-2400\" } }\n\
                    programs = [{ threads = 2, synthetic = {} }]\n";
    assert!(BankScenario::read(&text(scenario), &[]).is_ok());
    let error = refused(&format!("{scenario}policies = \"os\"\n"));
    let said = "s.toml:2: programs: too many threads\n  help: `synthetic` has more than the machine has cores";
    assert!(error.starts_with(said), "{error}");
}

#[test]
fn in_hindsight_no_batch_is_longer_than_under_max_weight() {
    let scenario = r#"
fidelity = "bank"
compression = 8_000
machine = { cores = 2, memory = { device = "ddr4-2400" } }
programs = { draw = 5, time_us = [100, 400] }
policies = ["max-weight", "hindsight"]
"#;
    let points = run(scenario, &["programs.seed=1..3"]);
    let turnarounds: Vec<[f64; 2]> = points
        .iter()
        .map(|point| [0, 1].map(|policy| point.policies[policy].turnaround_s))
        .collect();
    assert!(turnarounds.iter().all(|[policy, schedule]| schedule <= policy), "{turnarounds:?}");
    assert!(turnarounds.iter().any(|[policy, schedule]| schedule < policy), "{turnarounds:?}");
}

#[test]
fn compressed_time_shows_the_bandwidth_of_the_machine() {
    // Two readers on two cores have the same bandwidth whatever time seems to be.
    let scenario = r#"
fidelity = "bank"
instructions = 200_000
machine = { cores = 2, memory = { device = "ddr4-2400" } }
programs = [{ instances = 2, synthetic = { mpki = 40, rbl = 0.9, blp = 2, footprint_mib = 16 } }]
policies = ["os", "max-weight"]
"#;
    let points = run(scenario, &["compression=1_000,8_000"]);
    let bandwidths: Vec<f64> =
        points.iter().flat_map(|point| &point.policies).map(|run| run.bandwidth).collect();
    let alone = points[0].alone[0].run.bandwidth;
    assert!(bandwidths.iter().all(|rate| (1.2 * alone..=2.0 * alone).contains(rate)));
    let least = bandwidths.iter().copied().fold(f64::MAX, f64::min);
    let most = bandwidths.iter().copied().fold(0.0, f64::max);
    assert!(most / least < 1.03, "{bandwidths:?}");
}

/// The programs that are drawn, with the times that they take alone.
fn drawn(programs: &str) -> Vec<(String, Option<Nanos>)> {
    let scenario = format!("machine = \"i7-860\"\npolicies = \"os\"\nprograms = {programs}\n");
    let scenario = BankScenario::read(&text(&scenario), &[]).unwrap_or_else(|e| panic!("{e}"));
    let program = |wanted: &Wanted| (wanted.spec.name.clone(), wanted.time);
    scenario.programs.iter().map(program).collect()
}

#[test]
fn drawn_programs_follow_from_the_seed() {
    let of = |seed| drawn(&format!("{{ draw = [6, 10], time_us = [100, 800], seed = {seed} }}"));
    let [first, again, other] = [1, 1, 2].map(of);
    assert_eq!(first, again);
    assert_ne!(first, other);
    for (_, time) in first.iter().chain(&other) {
        let time = time.expect("a time");
        assert!((Nanos(100_000)..=Nanos(800_000)).contains(&time), "{time:?}");
    }
    assert!((6..=10).contains(&first.len()) && (6..=10).contains(&other.len()));
}

/// The draws of recorded runs (`evidence/max-weight/unknown-banks.csv`) can be made again.
#[test]
fn a_seed_has_the_programs_that_it_had() {
    let names: Vec<String> = drawn("{ draw = [8, 16], time_us = [500, 4000], seed = 13 }")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let recorded = "403.gcc 483.xalancbmk 470.lbm 481.wrf 464.h264ref 458.sjeng 470.lbm 444.namd \
                    400.perlbench 456.hmmer 470.lbm";
    assert_eq!(names.join(" "), recorded);
}

#[test]
fn a_value_that_a_shipped_machine_cannot_have_is_that_of_its_option() {
    let scenario = "machine = \"i7-860\"\npolicies = \"os\"\nprograms = []\n";
    let set = Replacement::read("machine.window=2", "--set w=2").unwrap();
    let refused = BankScenario::read(&text(scenario), &[set]).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("--set w=2: a window of 2 is too small for 4"), "{refused}");
}

#[test]
fn any_key_is_swept() {
    // The locality of a shorter run depends on a few dozen jumps.
    let points = run(
        "machine = \"simple-o3\"\ninstructions = 1_000_000\nprograms = [{ synthetic = { mpki = 20, \
         rbl = 0.8 } }]\n",
        &["programs[0].synthetic.rbl=0.2,0.9", "seed=1,2"],
    );
    assert_eq!(points.len(), 4);
    let rbl = |point: &BankPoint| point.alone[0].run.row_hit_rate.expect("reads");
    assert!(rbl(&points[0]) < 0.3 && rbl(&points[2]) > 0.8);
    assert_ne!(points[0].alone, points[1].alone);
    // Sweeps keys of a machine that is given by name.
    let one_program = "machine = \"simple-o3\"\ninstructions = 100_000\nprograms = [\"429.mcf\"]\n";
    let points = run(one_program, &["machine.mshrs=1,16"]);
    assert!(points[0].alone[0].run.ipc < 0.7 * points[1].alone[0].run.ipc);
    assert!(!points[0].alone[0].fit.expect("a fit").reached, "one register, one bank");
}

#[test]
fn threads_share_data_and_wait_for_each_other() {
    let scenario = r#"
fidelity = "bank"
machine = "simple-o3"
instructions = 200_000
partitions = ["none", "given"]
[[programs]]
name = "streamcluster-like"
threads = 4
phase = 20_000
thread_colors = ["0-3", "4-7", "8-11", "12-15"]
synthetic = { mpki = 20, rbl = 0.8, blp = 1.5, footprint_mib = 64 }
structure = { shared_mib = 64, shared_share = 0.2 }
"#;
    let point = run(scenario, &[]).remove(0);
    assert_eq!(point.alone[0].run.instructions, 800_000);
    for run in &point.partitions {
        assert_eq!(run.outcome.spilled, 0, "{}", run.partition);
        let program = &run.outcome.programs[0];
        assert_eq!(program.together.instructions, 800_000);
        assert!(program.slowdown > 0.5 && program.slowdown < 2.0, "{}", program.slowdown);
    }
}

#[test]
fn what_is_wrong_is_refused_with_line_key_and_help() {
    let of = |line: &str| format!("machine = \"simple-o3\"\n{line}\n");
    let program = |line: &str| of(&format!("programs = [{{ program = \"429.mcf\", {line} }}]"));
    let synthetic = |line: &str| of(&format!("programs = [{{ synthetic = {{ {line} }} }}]"));
    let batch = |line: &str| of(&format!("programs = [\"429.mcf\"]\n{line}"));
    for (scenario, said) in [
        ("seed = 1".to_owned(), "s.toml:1: `machine` is missing"),
        ("machine = \"i7-86\"".to_owned(), "s.toml:1: machine: unknown machine `i7-86`\n  help: did you mean `i7-860`"),
        ("machine = \"iabw\"".to_owned(), "s.toml:1: machine: unknown machine `iabw`\n  help: scenarios with `fidelity = \"flow\"` can name `iabw`"),
        (of("mix = \"os\""), "s.toml:2: mix: unknown key\n  help: scenarios with `fidelity = \"flow\"` have `mix`"),
        (of("programs = []"), "s.toml:2: programs: there is no program"),
        (of("programs = [\"429.mfc\"]"), "s.toml:2: programs[0]: unknown program `429.mfc`\n  help: did you mean `429.mcf`"),
        (of("programs = [{}]"), "s.toml:2: programs[0]: it is not clear what is executed"),
        (program("colors = \"0-99\""), "s.toml:2: programs[0].colors: color 16 is outside the map"),
        (program("threads = 5"), "s.toml:2: programs: too many threads"),
        (program("threads = 2, thread_colors = [\"0-3\"]"), "s.toml:2: programs[0].thread_colors: must have a set for each of `threads = 2`"),
        (program("enters = \"l3\""), "s.toml:2: programs[0].enters: unknown level `l3`"),
        (program("memory = \"nvm\""), "s.toml:2: programs[0].memory: unknown memory `nvm`"),
        (program("time_us = 0"), "s.toml:2: programs[0].time_us: 0 is no time in microseconds"),
        (program("instructions = 9, time_us = 9"), "s.toml:2: programs[0].time_us: the length is given twice"),
        ("machine = { cores = 1, clock_ghz = 3, clock_ratio = \"8:3\", memory = { device = \"ddr4-2400\" } }\nprograms = [\"429.mcf\"]".to_owned(), "s.toml:1: machine.clock_ratio: the clock is given twice"),
        (of("programs = { draw = [3, 2], time_us = 9 }"), "s.toml:2: programs.draw: the range ends before it starts"),
        (of("programs = { draw = [1, 2, 3], time_us = 9 }"), "s.toml:2: programs.draw: is no range"),
        (of("programs = { draw = 9, time_us = 9 }"), "s.toml:2: programs: too many threads"),
        (batch("policies = []"), "s.toml:3: policies: there is no policy"),
        (batch("policies = \"max-wait\""), "s.toml:3: policies: unknown policy `max-wait`\n  help: did you mean `max-weight`"),
        (batch("quantum_ms = 20"), "s.toml:3: quantum_ms: is for a batch, which these programs are not"),
        (batch("policies = \"os\"\ncompression = 0"), "s.toml:4: compression: 0 is out of range"),
        (format!("{}\npartitions = \"none\"", batch("policies = \"os\"")), "s.toml:5: partitions: a batch is not compared by partitions"),
        (format!("{}\ncache_use = \"keep\"", batch("policies = \"os\"")), "s.toml:5: cache_use: is for partitions"),
        (program("structure = { shared_share = 0.5 }"), "s.toml:2: programs[0].structure.shared_share: there is no such data without `shared_mib`"),
        (program("structure = { resident_apki = 5 }"), "s.toml:2: programs[0].structure.resident_apki: there is no such data without `resident_kib`"),
        (of("programs = [{ synthetic = {}, mpki = 9 }]"), "s.toml:2: programs[0].mpki: belongs in the table `synthetic`\n  help: such as `synthetic = { mpki = 20 }`"),
        (of("programs = [{ misses = \"m\", rbl = 0.5 }]"), "s.toml:2: programs[0].rbl: does not apply to a recorded program\n  help: leave it out, or describe the program by `program` or `synthetic`"),
        (of("programs = [{ trace = \"t\", structure = {} }]"), "s.toml:2: programs[0].structure: does not apply to a recorded program"),
        (synthetic("rbl = 1.5"), "s.toml:2: programs[0].synthetic.rbl: 1.5 is no rbl"),
        (synthetic("blq = 2"), "s.toml:2: programs[0].synthetic.blq: unknown key\n  help: did you mean `blp`"),
        (of("programs = [\"429.mcf\"]\npartitions = \"unifrom\""), "s.toml:3: partitions: unknown partition `unifrom`\n  help: did you mean `uniform`"),
        ("programs = [\"429.mcf\"]\nmachine = { memory = { device = \"ddr4-2401\" } }".to_owned(), "s.toml:2: machine.memory.device: "),
        ("programs = [\"429.mcf\"]\nmachine = { memory = { device = \"ddr4-2400\" }, os = { held = 0.5 } }".to_owned(), "s.toml:2: machine.os.held: applies only with `start = \"aged\"`\n  help: add `start = \"aged\"`, or leave this key out"),
        ("programs = [\"429.mcf\"]\nmachine = { window = 4, memory = { device = \"ddr4-2400\" } }".to_owned(), "s.toml:2: machine: a window of 4 is too small"),
    ] {
        let error = refused(&scenario);
        assert!(error.starts_with(said), "{error}\nand not {said}");
    }
}
