//! Tests of whole scenario files: accepted input, refused input with its place, and results.

use std::num::NonZeroUsize;
use std::path::Path;

use memweir_core::input::{InputError, Replacement};
use memweir_core::{BytesPerSec, Counts, Lines, Nanos, Stop};
use memweir_flow::Placement;
use memweir_policy::PredictorKind;
use proptest::prelude::*;

use super::study::Study;
use super::*;
use crate::sweep::{Grid, Sweep};
use crate::{Fidelity, ScenarioText};

const SCENARIO: &str = r#"machine = "hmmsched"
policies = ["os", "hmmsched:no-classes"]
[[tasks]]
name = "a"
spans = [{ length_s = 1, read_bandwidth = 2e9, write_bandwidth = 1e9 }]
"#;

fn text(text: &str) -> ScenarioText {
    ScenarioText::new("s.toml", text, Path::new("/no/such/directory"))
}

/// Two recordings: `good.parquet`, and one that ends too early.
struct TwoRecordings;

impl Recordings for TwoRecordings {
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal> {
        let counts = Counts::new(1_000, Lines(10_000), Lines(0));
        let cpu_time = match path.file_stem().and_then(|name| name.to_str()) {
            Some("good") => Nanos::from_millis(3),
            Some("truncated") => Nanos::from_millis(9),
            _ => {
                return Err(Refusal::new(format!("{}: no such file", path.display()), "record it"));
            }
        };
        let intervals = vec![counts; 3];
        Ok(Arc::new(Profile { interval: Nanos::MILLI, intervals, cpu_time, wall_time: cpu_time }))
    }
}

fn study(scenario: &str, values: &[(&str, &str)], grid: Grid) -> Result<Study, InputError> {
    Study::read(&text(scenario), &set(values), grid, &TwoRecordings)
}

fn set(values: &[(&str, &str)]) -> Vec<Replacement> {
    let replacement = |(key, value): &(&str, &str)| {
        Replacement::new(key.parse().expect("a path"), value, format!("--set {key}={value}"))
    };
    values.iter().map(replacement).collect()
}

fn read(values: &[(&str, &str)]) -> Result<Scenario, InputError> {
    text(SCENARIO).scenario(&set(values), &TwoRecordings)
}

fn refusal(scenario: &str) -> String {
    text(scenario).scenario(&[], &TwoRecordings).expect_err(scenario).to_string()
}

#[test]
fn what_is_not_said_has_its_default() {
    let scenario = read(&[]).expect("correct");
    assert_eq!(scenario.policies, ["os", "hmmsched:no-classes"]);
    assert_eq!((scenario.cores, scenario.repetitions, scenario.seed), (4, 1, 1));
    assert_eq!(scenario.quantum, Nanos::from_millis(100));
    assert_eq!(scenario.predictor, PredictorKind::Last);
    assert_eq!((scenario.target, scenario.confidence), (None, 0.95));
    assert_eq!(scenario.overheads, Overheads::default());
    let task = &scenario.workload.tasks[0];
    assert_eq!((task.instances, task.arrival, task.offset), (1, Nanos::ZERO, Offset::At(Nanos(0))));
}

#[test]
fn a_span_waits_for_the_share_of_the_cores_peak_that_it_draws() {
    let scenario = read(&[]).expect("correct");
    let prepared = scenario.prepare(0).expect("no mix");
    let peak = scenario.hardware.machine.core_peak;
    let demand = prepared.tasks[0].program.spans[0].demand;
    assert!((demand.stall - 3e9 / peak.0).abs() < 1e-12);
    let given =
        read(&[("tasks[0].spans[0].stall", "0.9")]).expect("correct").prepare(0).expect("no mix");
    assert_eq!(given.tasks[0].program.spans[0].demand.stall, 0.9);
}

#[test]
fn cores_may_stay_idle_under_every_policy_that_blocks() {
    let of = |cores: &str| read(&[("cores", cores), ("policies", "[os,random,hmmsched:counts]")]);
    let auto = of("auto").expect("correct");
    assert_eq!(auto.cores, 4);
    assert_eq!(auto.policies, ["os", "random:auto-cores", "hmmsched:counts:auto-cores"]);
    assert_eq!(of("auto:3").expect("correct").cores, 3);
    assert_eq!(of("3").expect("correct").policies, ["os", "random", "hmmsched:counts"]);
    let same = read(&[("cores", "auto"), ("policies", "[random,random:auto-cores]")]);
    let said = same.expect_err("the same policy twice").to_string();
    assert!(said.contains("`random:auto-cores` is named twice"), "{said}");
}

#[test]
fn every_value_can_come_from_the_command_line() {
    let scenario = read(&[
        ("cores", "2"),
        ("policies", "[random,os]"),
        ("quantum_ms", "20"),
        ("predictor", "window:3"),
        ("target", "4e9"),
        ("knowledge", "nothing"),
        ("overheads.quantum_switch_us", "0"),
        ("kernel.slice_ms", "3"),
        ("placement.nvm", "0.5"),
        ("tasks[0].instances", "3"),
        ("machine.memories[1].capacity", "7e9"),
    ])
    .expect("correct");
    assert_eq!((scenario.cores, scenario.quantum), (2, Nanos::from_millis(20)));
    assert_eq!(scenario.policies, ["random", "os"]);
    assert_eq!(scenario.predictor, PredictorKind::Window { quanta: 3 });
    let target = scenario.target.as_ref().expect("fixed").apply(BytesPerSec(1e9), None);
    assert_eq!(target, BytesPerSec(4e9));
    assert_eq!(scenario.knowledge, Knowledge::Nothing);
    assert_eq!(scenario.overheads.quantum_switch, Nanos::ZERO);
    assert_eq!(scenario.kernel.slice, Nanos::from_millis(3));
    assert_eq!(scenario.hardware.machine.memories[1].service.capacity, BytesPerSec(7e9));
    let tasks = scenario.prepare(0).expect("no mix").tasks;
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a", "a#2", "a#3"]);
    assert_eq!(tasks[2].placement, memweir_flow::Placement::even([0.0, 0.5, 0.0, 0.0]));
}

#[test]
fn placements_can_part_reads_and_writes() {
    let placement = |value: &str| {
        let scenario = read(&[("tasks[0].placement", value)]).map_err(|error| error.to_string())?;
        Ok::<_, String>(scenario.workload.tasks[0].placement)
    };
    let both = [("tasks[0].placement", "{nvm = 0.5}"), ("tasks[0].pages", "{elsewhere = \"nvm\"}")];
    let refused = read(&both).expect_err("memory in two ways").to_string();
    assert!(refused.contains("`placement` and `pages` both"), "{refused}");
    let parted = placement("{reads = {nvm = 0.2}, writes = {nvm = 0.8}}").expect("correct");
    assert_eq!((parted.reads[1], parted.writes[1]), (0.2, 0.8));
    for (value, said) in [
        ("{nvme = 0.5}", "`hmmsched` has no memory `nvme`\n  help: did you mean `nvm`?"),
        ("{dram = 0.5}", "`dram` has what the other memories leave"),
        ("{nvm = 1.5}", "1.5 is no share"),
        ("0.5", "must be a table"),
    ] {
        let refused = placement(value).expect_err(value);
        assert!(refused.contains(said), "{refused}\nand not\n{said}");
    }
}

#[test]
fn a_machine_may_stand_in_the_scenario() {
    let inline = r#"policies = "os"
[machine]
name = "mine"
source = "a test"
core_peak = 10e9
nodes = [{ cores = 2 }]
memories = [{ medium = "dram", capacity = 20e9 }]
[[tasks]]
spans = [{ length_s = 1 }]
"#;
    let scenario = text(inline)
        .scenario(&set(&[("machine.nodes[0].cores", "6")]), &TwoRecordings)
        .expect("correct");
    assert_eq!((scenario.hardware.machine.name.as_str(), scenario.cores), ("mine", 6));
    let broken = inline.replace("cores = 2", "cores = 0");
    assert!(refusal(&broken).starts_with("s.toml:6: machine.nodes[0].cores: 0 is out of range"));
}

#[test]
fn what_is_wrong_is_refused_where_it_stands() {
    for (from, to, said) in [
        (
            "hmmsched\"\n",
            "hmsched\"\n",
            "s.toml:1: machine: unknown machine `hmsched`\n  help: did you mean `hmmsched`",
        ),
        (
            "hmmsched\"\n",
            "no.toml\"\n",
            "s.toml:1: machine: /no/such/directory/no.toml: cannot be read",
        ),
        (
            "\"os\"",
            "\"oss\"",
            "s.toml:2: policies[0]: unknown policy `oss`\n  help: did you mean `os`",
        ),
        ("no-classes", "no-class", "s.toml:2: policies[1]: bad option `no-class`"),
        (
            "\"os\"",
            "\"hmmsched:no-classes\"",
            "s.toml:2: policies[1]: `hmmsched:no-classes` is named twice",
        ),
        (
            "hmmsched\"\n",
            "i7-860\"\n",
            "s.toml:1: machine: unknown machine `i7-860`\n  help: scenarios with `fidelity = \"bank\"`",
        ),
        (
            "[[tasks]]",
            "warm = true\n[[tasks]]",
            "s.toml:3: warm: unknown key\n  help: scenarios with `fidelity = \"bank\"` have `warm`",
        ),
        (
            "length_s = 1",
            "length_s = 1e300",
            "s.toml:5: tasks[0].spans[0].length_s: 1e300 is no time",
        ),
        ("policies", "polices", "s.toml:2: polices: unknown key\n  help: did you mean `policies`?"),
        ("[[tasks]]", "[[task]]", "s.toml:3: task: unknown key\n  help: did you mean `tasks`?"),
        (
            "spans = ",
            "span = ",
            "s.toml:5: tasks[0].span: unknown key\n  help: did you mean `spans`?",
        ),
        ("length_s = 1", "length_s = 0", "s.toml:5: tasks[0].spans[0].length_s: 0 is no time"),
        ("length_s = 1, ", "", "s.toml:5: tasks[0].spans[0]: `length_s` is missing"),
        ("2e9", "-2e9", "s.toml:5: tasks[0].spans[0].read_bandwidth: -2000000000 is no bandwidth"),
        ("name = \"a\"", "name = \"\"", "s.toml:4: tasks[0].name: \"\" is no name"),
        ("name = \"a\"", "instances = 0", "s.toml:4: tasks[0].instances: 0 is out of range"),
        ("name = \"a\"", "offset_s = \"rand\"", "s.toml:4: tasks[0].offset_s: unknown offset"),
        ("name = \"a\"", "priority = 99", "s.toml:4: tasks[0].priority: 99 is no priority"),
        ("name = \"a\"", "arrival_s = nan", "s.toml:4: tasks[0].arrival_s: NaN is no time"),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let refused = refusal(&SCENARIO.replacen(from, to, 1));
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
    for (line, said) in [
        ("cores = 5", "cores: `hmmsched` has 4 cores\n  help: from 1 to 4"),
        ("cores = 0", "cores: `hmmsched` has 4 cores"),
        ("cores = \"auto:5\"", "cores: `hmmsched` has 4 cores"),
        (
            "cores = \"auto:\"",
            "cores: `auto:` is not a number of cores\n  help: from 1 to 4, or `auto`",
        ),
        ("cores = \"atuo\"", "cores: `atuo` is not a number of cores"),
        ("quantum_ms = 0", "quantum_ms: 0 is no quantum"),
        ("predictor = \"lst\"", "predictor: unknown predictor `lst`\n  help: did you mean `last`"),
        ("target = \"papr\"", "target: unknown target `papr`\n  help: did you mean `paper`"),
        ("target = -1", "target: -1 is no target"),
        ("target = { coefficients = [1, 2] }", "target.coefficients: must be an array of three"),
        ("target = { coefficients = [1, 2, 3], from = 2, to = 1 }", "target.to: the range ends"),
        ("knowledge = \"all\"", "knowledge: unknown knowledge `all`"),
        ("seed = -1", "seed: -1 is out of range"),
        ("repetitions = 0", "repetitions: 0 is out of range"),
        ("confidence = 1", "confidence: 1 is no level"),
        ("kernel = { slice_ms = 0 }", "kernel.slice_ms: 0 is no time"),
        ("policies = []", "policies: there is no policy"),
        (
            "policies = \"hindsigt\"",
            "policies: unknown policy `hindsigt`\n  help: did you mean `hindsight`",
        ),
        ("policies = \"planned:x\"", "policies: unknown policy `planned:x`"),
        (
            "overheads = { quantum_switch_us = 1e5 }",
            "overheads.quantum_switch_us: a switch of 100 ms",
        ),
    ] {
        let scenario = if line.starts_with("policies") {
            SCENARIO.lines().filter(|l| !l.starts_with("policies")).collect::<Vec<_>>().join("\n")
        } else {
            SCENARIO.to_owned()
        };
        let refused = refusal(&format!("{line}\n{scenario}"));
        assert!(refused.starts_with(&format!("s.toml:1: {said}")), "{refused}\nand not\n{said}");
    }
    let twice = format!("{SCENARIO}[[tasks]]\nname = \"a\"\nspans = [{{ length_s = 1 }}]\n");
    assert!(refusal(&twice).starts_with("s.toml:6: tasks[1]: a task before is called `a`"));
    assert!(refusal("").starts_with("s.toml:1: "), "{}", refusal(""));
}

/// Two tasks of 8 GB/s on two cores that share 10 GB/s: under any policy they run together, each at
/// 10/16 of its speed, because all of their time is waiting.
#[test]
fn a_scenario_comes_to_what_is_computed_by_hand() {
    let scenario = r#"
policies = ["os", "ideal-average"]
[machine]
name = "mine"
source = "a test"
core_peak = 8e9
nodes = [{ cores = 2 }]
memories = [{ medium = "dram", capacity = 10e9 }]
[[tasks]]
instances = 2
spans = [{ length_s = 1, read_bandwidth = 8e9 }]
[overheads]
quantum_switch_us = 0
[kernel]
jitter_us = 0
"#;
    let study = study(scenario, &[], Grid::default()).expect("correct");
    let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| {}).expect("possible");
    for run in &report.points[0].runs {
        assert!((run.turnaround_s - 1.6).abs() < 1e-6, "{}: {}", run.policy, run.turnaround_s);
        assert!((run.weighted_speedup - 1.25).abs() < 1e-6, "{}", run.weighted_speedup);
        assert!((run.bandwidth_mean - 10e9).abs() < 1e5, "{}", run.bandwidth_mean);
        assert!((run.tasks[0].alone_s - 1.0).abs() < 1e-9);
    }
    assert_eq!(report.points[0].policies[1].gain, 0.0);
}

/// Jobs of equal length that do not contend: the one whose priority is raised always has the core
/// that the head of the run queue leaves.
#[test]
fn a_higher_priority_ends_sooner() {
    let scenario = r#"
policies = ["max-weight:completion"]
cores = 2
machine = "hmmsched"
[[tasks]]
instances = 3
spans = [{ length_s = 3 }]
"#;
    let raised = r#"
[[tasks]]
name = "raised"
priority = 2
spans = [{ length_s = 3 }]
"#;
    let raised_ends = |priority: &str| {
        let scenario = format!("{scenario}{}", raised.replace("priority = 2", priority));
        let study = study(&scenario, &[], Grid::default()).expect("correct");
        let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| {}).expect("possible");
        report.points[0].runs[0].tasks[3].turnaround_s
    };
    assert!(raised_ends("priority = 2") < 3.1);
    assert!(raised_ends("priority = 0") > 5.0);
}

#[test]
fn threads_do_not_change_the_report_and_every_run_is_told_once() {
    let sweeps: Vec<Sweep> = ["cores=1..3", "tasks[0].instances=2,5"]
        .map(|sweep| sweep.parse().expect("a sweep"))
        .into();
    let grid = Grid::new(sweeps).expect("a grid");
    let values = [("repetitions", "3"), ("tasks[0].offset_s", "random")];
    let study = study(SCENARIO, &values, grid).expect("correct");
    assert_eq!((study.points().len(), study.runs()), (6, 36));
    let run = |threads: usize| {
        let mut told = 0;
        let threads = NonZeroUsize::new(threads).expect("threads");
        let report = study.run(&Stop::default(), threads, |_| told += 1).expect("possible");
        assert_eq!(told, 36);
        report
    };
    let report = run(1);
    assert_eq!(report, run(3));
    let places: Vec<(u32, u64, &str)> = report.points[0]
        .runs
        .iter()
        .map(|run| (run.repetition, run.seed, run.policy.as_str()))
        .collect();
    assert_eq!(places[..3], [(0, 1, "os"), (0, 1, "hmmsched:no-classes"), (1, 2, "os")]);
    assert_eq!(report.points[1].at[1], ("tasks[0].instances".to_owned(), "5".to_owned()));
}

#[test]
fn tasks_execute_what_their_file_says() {
    let scenario = r#"
machine = "hmmsched"
policies = "os"
seed = 3
[[tasks]]
program = "milc"
instances = 2
pages = { elsewhere = "nvm", dram_share = 0.25 }
[[tasks]]
recording = "good.parquet"
[[tasks]]
name = "bursty"
bandwidth = 1e9
degree = 0.5
work_s = 5
[[tasks]]
name = "fixed"
bandwidth = 1e9
degree = 0.5
seed = 9
offset_s = 0
[mix]
programs = ["444.namd", "429.mcf"]
jobs = 3
work_s = 2
"#;
    let scenario = text(scenario).scenario(&[], &TwoRecordings).expect("correct");
    let tasks = scenario.prepare(0).expect("a mix").tasks;
    let names: Vec<&str> = tasks.iter().take(5).map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["433.milc", "433.milc#2", "good", "bursty", "fixed"]);
    assert_eq!(tasks.len(), 8);
    assert!(tasks[0].offset != tasks[1].offset, "instances in lockstep would be an artifact");
    // Hot pages: a quarter of the memory gets more than a quarter of the accesses.
    assert!(tasks[0].placement.reads[0] > 0.3, "{:?}", tasks[0].placement);
    assert_eq!((tasks[2].work, tasks[2].offset), (Nanos::from_millis(3), Nanos::ZERO));
    assert_eq!(tasks[3].work, Nanos::from_millis(5000));
    assert!(tasks[5..].iter().all(|task| task.work == Nanos::from_millis(2000)));
    // Another repetition draws everything without a seed of its own anew; the same repetition draws
    // the same.
    let again = scenario.prepare(0).expect("a mix").tasks;
    let other = scenario.prepare(1).expect("a mix").tasks;
    assert_eq!(tasks[3].program, again[3].program);
    assert_ne!(tasks[3].program, other[3].program);
    assert_eq!(tasks[4].program, other[4].program);
}

#[test]
fn the_placement_of_a_scenario_is_that_of_a_mix_too() {
    let placed = |mix: &str| {
        let scenario = format!("machine = \"hmmsched\"\npolicies = \"os\"\n{mix}");
        let scenario = text(&scenario).scenario(&[], &TwoRecordings).expect("correct");
        scenario.prepare(0).expect("a mix").tasks.into_iter().map(|task| task.placement)
    };
    let half = Placement::even([0.0, 0.5, 0.0, 0.0]);
    let drawn = placed("placement = { nvm = 0.5 }\n[mix]\njobs = 4").collect::<Vec<_>>();
    assert_eq!(drawn, [half; 4]);
    assert!(placed("[mix]\njobs = 4").all(|placement| placement == Placement::default()));
    // This mix has hot pages in DRAM.
    let own: Vec<_> = placed("[mix]\npaper = \"hmmsched-1\"").collect();
    assert!(own.iter().all(|placement| placement.reads[1] > 0.0), "{own:?}");
    let head = "machine = \"hmmsched\"\npolicies = \"os\"\nplacement = { nvm = 0.5 }\n[mix]\n";
    for (rest, said) in [
        ("paper = \"hmmsched-1\"", "s.toml:3: placement: the mix says itself where pages are"),
        (
            "[migration]\nelsewhere = \"nvm\"\ndram_share = 0.5",
            "s.toml:5: migration: it says where pages are, and so does `placement`",
        ),
    ] {
        let refused = refusal(&format!("{head}{rest}"));
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
    for by in ["share", "address"] {
        let refused = refusal(&format!(
            "machine = \"hmmsched\"\npolicies = \"os\"\n[[tasks]]\nprogram = \"milc\"\n\
             pages = {{ elsewhere = \"nvm\", dram_share = 0.5, by = \"{by}\", samples = 9 }}"
        ));
        let said = "s.toml:5: tasks[0].pages.samples: only the hot pages are found by samples";
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
}

#[test]
fn what_cannot_be_executed_is_refused() {
    let with = |task: &str| refusal(&format!("machine = \"iabw\"\npolicies = \"os\"\n{task}\n"));
    for (task, said) in [
        ("", "s.toml:1: there is nothing to execute"),
        ("tasks = []", "s.toml:1: there is nothing to execute"),
        ("[[tasks]]\nname = \"a\"", "s.toml:3: tasks[0]: nothing says what is executed"),
        (
            "[[tasks]]\nprogram = \"433.milk\"",
            "s.toml:4: tasks[0].program: unknown program `433.milk`\n  help: did you mean `433.milc`",
        ),
        (
            "[[tasks]]\nprogram = \"milc\"\nspans = []",
            "s.toml:3: tasks[0]: `program` and `spans` both say",
        ),
        (
            "[[tasks]]\nspans = [{ length_s = 1, read_bandwidth = 4e9, write_bandwidth = 1e9 }]",
            "s.toml:4: tasks[0].spans[0]: 5.0 GB/s is more than a core of `iabw` can move, 4.4 GB/s",
        ),
        ("[[tasks]]\nprogram = \"milc\"\ndegree = 1", "s.toml:5: tasks[0].degree: unknown key"),
        ("[[tasks]]\nbandwidth = 1e9", "s.toml:3: tasks[0]: `name` is missing"),
        ("[[tasks]]\nname = \"a\"\nbandwidth = 1e12", "s.toml:3: tasks[0]: a mean of"),
        (
            "[[tasks]]\nname = \"a\"\nbandwidth = 1e9\nmemories = [0.5, 0.5]",
            "s.toml:3: tasks[0]: `iabw` has no memory 1",
        ),
        (
            "[[tasks]]\nrecording = \"truncated.parquet\"",
            "s.toml:4: tasks[0].recording: `/no/such/directory/truncated.parquet`: the recording is truncated",
        ),
        (
            "[[tasks]]\nrecording = \"absent.parquet\"",
            "s.toml:4: tasks[0].recording: /no/such/directory/absent.parquet: no such file",
        ),
        (
            "[[tasks]]\nprogram = \"milc\"\npages = { elsewhere = \"nvm\", dram_share = 1 }",
            "s.toml:5: tasks[0].pages.elsewhere: `iabw` has no memory `nvm`",
        ),
        ("catalog = \"no.toml\"\n[mix]", "/no/such/directory/no.toml: cannot be read"),
        ("[mix]\nprograms = \"spec\"", "s.toml:4: mix.programs: unknown suite `spec`"),
        ("[mix]\nprograms = [\"x\"]", "s.toml:4: mix.programs[0]: unknown program `x`"),
        ("[mix]\njobs = [9, 8]", "s.toml:4: mix.jobs: the range ends before it starts"),
        ("[mix]\njobs = 0", "s.toml:4: mix.jobs: 0 is out of range"),
        ("[mix]\nonce = true\nwork_s = 3", "s.toml:3: mix: `once` and `work_s` exclude each other"),
        (
            "[mix]\ntolerance = 0.1",
            "s.toml:4: mix.tolerance: there is no `iabw` that it belongs to",
        ),
        ("[mix]\npaper = \"spec-1\"", "s.toml:4: mix.paper: unknown mix `spec-1`"),
        (
            "[mix]\npaper = \"spec-01\"\nwork_s = 3",
            "s.toml:5: mix.work_s: `spec-01` has no such choice",
        ),
        (
            "[mix]\npaper = \"spec-01\"\nsamples = 3",
            "s.toml:5: mix.samples: `spec-01` has no such choice",
        ),
        ("[mix]\npaper = \"hmmsched-1\"", "s.toml:4: mix.paper: `iabw` has no second memory"),
        ("[mix]\npaper = \"spec-01\"\njobs = 8", "s.toml:5: mix.jobs: unknown key"),
        (
            "placement = { nvm = 0.5, reads = { nvm = 0.1 } }\n[mix]",
            "s.toml:3: placement: some shares are of all traffic",
        ),
    ] {
        let refused = with(task);
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
    // Only the attempt to draw it shows that the mix does not exist; it is made before any run.
    let mix = "machine = \"iabw\"\npolicies = \"os\"\n[mix]\nprograms = [\"milc\", \"namd\"]\nwork_s = 1\n";
    let grid = Grid::new(vec!["mix.jobs=4,5".parse().expect("a sweep")]).expect("a grid");
    let refused = study(mix, &[], grid).expect_err("no such mix").to_string();
    let said = "s.toml: --sweep mix.jobs=5: 5 tasks cannot be drawn from 2 programs";
    assert!(refused.starts_with(said), "{refused}");
}

#[test]
fn no_schedule_is_planned_for_more_cores_than_it_can_be_found_for() {
    let scenario = SCENARIO.replace("hmmsched:no-classes", "planned");
    let on = |cores: &str| {
        text(&scenario).scenario(&set(&[("machine.nodes[0].cores", cores)]), &TwoRecordings)
    };
    assert!(on("32").is_ok());
    let refused = on("33").expect_err("too many").to_string();
    let said = "s.toml:2: policies: `planned` plans for up to 32 cores, not for 33\n  help: `hind";
    assert!(refused.starts_with(said), "{refused}");
}

#[test]
fn in_hindsight_no_schedule_is_longer_than_that_of_max_weight() {
    let mix = r#"
machine = "iabw"
knowledge = "nothing"
policies = ["max-weight", "hindsight"]
[mix]
programs = "all"
once = true
jobs = 9
"#;
    let turnarounds = |set: &[(&str, &str)]| -> Vec<f64> {
        let report = study(mix, set, Grid::default()).expect("a scenario");
        let report = report.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("it runs");
        report.points[0].runs.iter().map(|run| run.turnaround_s).collect()
    };
    let (unknown, known) = (turnarounds(&[]), turnarounds(&[("knowledge", "\"alone\"")]));
    assert_eq!(unknown[1], known[1], "it knows all lengths");
    assert!(known[1] <= known[0], "{known:?}");
    assert!(known[0] < unknown[0], "{known:?} {unknown:?}");
}

#[test]
fn in_hindsight_the_time_before_the_first_arrival_does_not_count() {
    let turnarounds = |arrival: u32| -> Vec<f64> {
        let tasks = [(4, 1), (5, 1), (2, 3), (11, 6), (9, 2), (7, 2)];
        let task = |(length, gb): (u32, u32)| {
            format!(
                "[[tasks]]\narrival_s = {arrival}\n\
                 spans = [{{ length_s = {length}, read_bandwidth = {gb}e9 }}]\n"
            )
        };
        let scenario = format!(
            "policies = [\"max-weight\", \"hindsight\"]\ncores = 3\nkernel.jitter_us = 0\n\
             overheads.quantum_switch_us = 0\noptimum = \"none\"\nmachine = \"hmmsched\"\n\
             {}",
            tasks.map(task).concat()
        );
        let capacity = ("machine.memories[0].capacity", "10e9");
        let report = study(&scenario, &[capacity], Grid::default()).expect("a scenario");
        let report = report.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("it runs");
        report.points[0].runs.iter().map(|run| run.turnaround_s).collect()
    };
    let at_once = turnarounds(0);
    assert!(at_once[1] < at_once[0], "{at_once:?}");
    assert_eq!(turnarounds(2_000), at_once);
}

#[test]
fn every_mix_of_the_papers_can_be_named() {
    for name in mix::paper_names() {
        let scenario =
            format!("machine = \"hmmsched\"\npolicies = \"os\"\nmix.paper = \"{name}\"\n");
        text(&scenario).scenario(&[], &TwoRecordings).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = "machine = \"iabw\"\npolicies = \"os\"\nmix.paper = \"spec-training-06\"\n";
    let scenario = text(scenario).scenario(&[], &TwoRecordings).expect("correct");
    let tasks = scenario.prepare(0).expect("a mix").tasks;
    let iabw = memweir_flow::workload::requirement::ideal_average(&tasks, 4);
    // 33.3 transactions of 128 bytes per microsecond, within two percent.
    assert!((iabw.0 / (33.3 * 128e6) - 1.0).abs() <= 0.02, "{iabw}");
}

/// Reads the manual's page like a user: every key is in a table, and its machine is valid.
#[test]
fn the_manual_has_every_key_and_a_machine_that_is_accepted() {
    const PAGE: &str = include_str!("../../../../docs/sim.md");
    let documented = |key: &str| PAGE.contains(&format!("`{key}`"));
    let keys =
        Fidelity::Flow.keys().iter().chain(&tasks::KEYS).chain(&migration::KEYS).chain(&log::KEYS);
    for key in keys {
        let table = [format!("`[{key}]`"), format!("`[[{key}]]`")];
        let has = documented(key) || table.iter().any(|heading| PAGE.contains(heading));
        assert!(has, "`{key}` is missing in docs/sim.md");
    }
    let (_, machines) = PAGE.split_once("## Machine files\n").expect("the section");
    let (_, machine) = machines.split_once("```toml\n").expect("a machine file");
    let (machine, _) = machine.split_once("```").expect("its end");
    let machine =
        Hardware::parse("docs/sim.md", machine, Path::new(".")).expect("accepted").machine;
    assert_eq!((machine.cores(), machine.memories.len()), (8, 2));
}

#[test]
fn the_example_is_a_scenario_that_says_what_it_can() {
    let study = study(EXAMPLE, &[], Grid::default()).expect("correct");
    assert!(study.runs() > 1);
}

proptest! {
    /// No text makes the reader panic, and every refusal names the file.
    #[test]
    fn no_text_is_too_odd(odd in "\\PC{0,200}") {
        if let Err(error) = text(&odd).scenario(&[], &TwoRecordings) {
            prop_assert_eq!(error.source_name, "s.toml");
        }
    }

    /// The same holds for texts that look like scenarios.
    #[test]
    fn no_scenario_is_too_odd(
        lines in prop::collection::vec(
            (
                "machine|policies|cores|tasks|target|placement|seed|kernel|confidence|quantum_ms|x",
                "true|-1|1e400|0|9|\"a\"|\"os\"|\\[\\]|\\[1\\]|\\[\"os\"\\]|\\{\\}|\\{a=1\\}|nan|1979-05-27",
            ),
            0..6,
        ),
        task in prop::collection::vec(
            (
                "name|spans|instances|work_s|arrival_s|offset_s|placement|program|recording|synthetic",
                "1|-1|\"a\"|\"random\"|\\[\\]|\\{\\}|\\[\\{\\}\\]|\\[\\{length_s=1\\}\\]|nan|inf|\\{nvm=1\\}",
            ),
            0..5,
        ),
        cut in 0..SCENARIO.len(),
    ) {
        let mut odd = String::new();
        for (key, value) in &lines {
            odd.push_str(&format!("{key} = {value}\n"));
        }
        odd.push_str(&SCENARIO[..cut]);
        odd.push_str("\n[[tasks]]\n");
        for (key, value) in &task {
            odd.push_str(&format!("{key} = {value}\n"));
        }
        for odd in [odd, SCENARIO[..cut].to_owned()] {
            match text(&odd).scenario(&[], &TwoRecordings) {
                Ok(scenario) => prop_assert!(!scenario.policies.is_empty() && scenario.cores > 0),
                Err(error) => prop_assert!(!error.reason.is_empty()),
            }
        }
    }

    /// Values of the command line at any key are refused or accepted, without a panic.
    #[test]
    fn no_value_is_too_odd(
        key in "(machine|cores|tasks|policies|target|x)(\\.(nodes|spans|memories|name))?(\\[[0-2]\\])?",
        value in "\\PC{0,12}|-?[0-9]{1,3}|\\[os\\]|hmmsched|iabw",
    ) {
        let _ = read(&[(&key, &value)]);
    }
}
