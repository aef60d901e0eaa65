//! Scenarios on real memory: programs alone, effects of partitions, refused input.

use std::num::NonZeroUsize;
use std::path::Path;

use memweir_bank::experiment::{Conditions, Source};
use memweir_bank::outcome::ProgramRun;
use memweir_bank::synthetic::Structure;
use memweir_dram::check::Checker;

use super::report::{BankPoint, PartitionRun};
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
    study.run(threads, || ()).unwrap_or_else(|e| panic!("{e}")).points
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
            study::fit(&machine, &asked, &Structure::default(), &program, 1).expect("a fit");
        assert!(fitted.reached, "{asked:?} became {:?}", fitted.measured);
        // The structure holds for another seed and a longer run than those of the fit.
        let source = Source::Synthetic(Box::new(fitted.structure));
        let longer = program(source, (2e7 / mpki) as u64);
        let conditions = Conditions { seed: 7, warm: true };
        let execution = machine.execute(&[longer], conditions).expect("an execution");
        let run = ProgramRun::of(&execution, machine.clock).swap_remove(0);
        assert!((run.mpki / mpki - 1.0).abs() < 0.04, "{run:?}");
        assert!((run.row_hit_rate.unwrap() - rbl).abs() < 0.03, "{run:?}");
        assert!((run.bank_parallelism.unwrap() / blp - 1.0).abs() < 0.08, "{run:?}");
    }
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
        .execute_observed(&programs, Conditions::default(), vec![Watched(checker)])
        .expect("an execution");
    let checker = &mut checkers[0].0;
    checker.finish(execution.memories[0].0);
    assert!(checker.commands() > 20_000, "{}", checker.commands());
    assert_eq!(checker.count(), 0, "{:?}", checker.violations());
}

struct Watched(Checker);

impl memweir_dram::Observer for Watched {
    fn command(&mut self, command: &memweir_dram::command::Command) {
        self.0.check(command);
    }
}

#[test]
fn partitions_keep_programs_out_of_each_others_rows() {
    let point = run(FOUR, &[]).remove(0);
    let [plain, uniform] = &point.partitions[..] else { panic!("two partitions") };
    assert_eq!(uniform.colors[3].as_deref(), Some("12-15"));
    for partition in [plain, uniform] {
        let outcome = &partition.outcome;
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
fn any_key_is_swept() {
    let points = run(
        "machine = \"simple-o3\"\ninstructions = 100_000\nprograms = [{ synthetic = { mpki = 20, \
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
    for (scenario, said) in [
        ("seed = 1".to_owned(), "s.toml:1: `machine` is missing"),
        ("machine = \"i7-86\"".to_owned(), "s.toml:1: machine: unknown machine `i7-86`\n  help: did you mean `i7-860`"),
        ("machine = \"iabw\"".to_owned(), "s.toml:1: machine: unknown machine `iabw`\n  help: scenarios with `fidelity = \"flow\"` can name `iabw`"),
        (of("policies = \"os\""), "s.toml:2: policies: unknown key\n  help: scenarios with `fidelity = \"flow\"` have `policies`"),
        (of("programs = []"), "s.toml:2: programs: there is no program"),
        (of("programs = [\"429.mfc\"]"), "s.toml:2: programs[0]: unknown program `429.mfc`\n  help: did you mean `429.mcf`"),
        (of("programs = [{}]"), "s.toml:2: programs[0]: it is not clear what is executed"),
        (program("colors = \"0-99\""), "s.toml:2: programs[0].colors: color 16 is outside the map"),
        (program("threads = 5"), "s.toml:2: programs: too many threads"),
        (program("enters = \"l3\""), "s.toml:2: programs[0].enters: unknown level `l3`"),
        (program("memory = \"nvm\""), "s.toml:2: programs[0].memory: unknown memory `nvm`"),
        (synthetic("rbl = 1.5"), "s.toml:2: programs[0].synthetic.rbl: 1.5 is no rbl"),
        (synthetic("blq = 2"), "s.toml:2: programs[0].synthetic.blq: unknown key\n  help: did you mean `blp`"),
        (of("programs = [\"429.mcf\"]\npartitions = \"unifrom\""), "s.toml:3: partitions: unknown partition `unifrom`\n  help: did you mean `uniform`"),
        ("programs = [\"429.mcf\"]\nmachine = { memory = { device = \"ddr4-2401\" } }".to_owned(), "s.toml:2: machine.memory.device: "),
        ("programs = [\"429.mcf\"]\nmachine = { window = 4, memory = { device = \"ddr4-2400\" } }".to_owned(), "s.toml:2: machine: a window of 4 is too small"),
    ] {
        let error = refused(&scenario);
        assert!(error.starts_with(said), "{error}\nand not {said}");
    }
}
