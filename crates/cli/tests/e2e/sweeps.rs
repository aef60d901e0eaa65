//! Sweeps in shards: killed, interrupted and repeated processes, full disks, and refusals.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    SmallDisk, World, both_of, json, refusal, send, stderr_of, stdout_of, wait_until,
};

/// Two tasks that share two cores: a point takes milliseconds.
const SHORT: &str = r#"
machine = "iabw"
policies = ["os", "round-robin"]
optimum = "none"

[[tasks]]
name = "heavy"
bandwidth = 2e9
work_s = 1
instances = 2
"#;

/// The same for long enough that a shard is in the middle of its points when it is killed.
const LONG: &str = r#"
machine = "iabw"
policies = ["os", "round-robin", "ideal-average"]
repetitions = 60
optimum = "none"

[[tasks]]
name = "heavy"
bandwidth = 2e9
work_s = 8
instances = 8
"#;

/// A world with a scenario.
fn world(text: &str) -> World {
    let world = World::new();
    world.file("s.toml", text);
    world
}

fn stdout(command: &mut assert_cmd::Command) -> String {
    stdout_of(command, 0)
}

fn sim(world: &World, more: &[&str]) -> assert_cmd::Command {
    let mut command = world.memweir();
    command.args(["sim", "s.toml"]).args(more);
    command
}

/// The points of the list with their state.
fn points(world: &World, sweep: &[&str], out: &str) -> Vec<Value> {
    let listed = json(sim(world, sweep).args(["--list-points", "--json", "-", "--out", out]), 0);
    assert_eq!(listed["memweir"]["version"], env!("CARGO_PKG_VERSION"));
    listed["points"].as_array().expect("points").clone()
}

fn done(points: &[Value]) -> usize {
    points.iter().filter(|point| point["done"] == true).count()
}

/// The only partition below a directory.
fn partition(out: &Path) -> PathBuf {
    let mut entries =
        std::fs::read_dir(out).expect("a directory").map(|entry| entry.expect("entry"));
    let first = entries.next().expect("a partition").path();
    assert_eq!(entries.count(), 0, "one partition");
    first
}

fn files(out: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(partition(out)).expect("a directory");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("entry").path()).collect();
    files.sort();
    files
}

/// Number of files with results in the partitions below a directory, which may not exist yet.
fn tables(out: &Path) -> usize {
    let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries(out).flat_map(|partition| entries(&partition.path()).collect::<Vec<_>>());
    files.filter(|file| file.path().extension().is_some_and(|e| e == "parquet")).count()
}

const SWEEP: [&str; 4] = ["--sweep", "cores=1..4", "--sweep", "quantum_ms=50,100"];

#[test]
fn shards_are_merged_to_the_table_of_one_process() {
    let world = world(SHORT);
    for shard in ["2/3", "3/3", "1/3"] {
        let text = stdout(sim(&world, &SWEEP).args(["--shard", shard, "--out", "points"]));
        assert!(text.starts_with(&format!("shard {shard}: ")), "{text}");
    }
    let points = world.path().join("points");
    assert_eq!(files(&points).len(), 4, "three shards and the manifest");
    let one = stdout(sim(&world, &SWEEP).args(["--out", "one.csv"]));
    assert!(one.contains("turnaround"), "{one}");
    let text = stdout(world.memweir().args(["sweep", "merge", "points", "--out", "all.csv"]));
    assert!(text.contains("8 of 8 points from 3 files"), "{text}");
    assert_eq!(world.read("all.csv"), world.read("one.csv"));

    let manifest = world.read(&format!("{}/manifest.json", partition(&points).display()));
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&manifest["points"], &manifest["text"]), (&8.into(), &SHORT.into()));

    stdout(world.memweir().args(["sweep", "merge", "points", "--json", "all.json"]));
    stdout(sim(&world, &SWEEP).args(["--json", "one.json"]));
    let [all, one] = ["all.json", "one.json"].map(|name| world.json(name));
    assert_eq!((&all["points"], &all["missing"]), (&one["points"], &serde_json::json!([])));

    stdout(world.memweir().args(["sweep", "merge", "points"]));
    assert_eq!(files(&points).len(), 2, "one file and the manifest");
    stdout(world.memweir().args(["sweep", "merge", "points", "--out", "again.csv"]));
    assert_eq!(world.read("again.csv"), world.read("one.csv"));
}

#[test]
fn points_are_listed_by_shard() {
    let world = world(SHORT);
    let text = stdout(sim(&world, &SWEEP).arg("--list-points"));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 8);
    assert_eq!((lines[4][0], &lines[4][2..]), ("5", &["cores=3", "quantum_ms=50"][..]));
    let half = stdout(sim(&world, &SWEEP).args(["--list-points", "--shard", "2/2"]));
    let expected: Vec<&str> = text.lines().skip(1).step_by(2).collect();
    assert_eq!(half.lines().collect::<Vec<_>>(), expected);
    let beside = stdout(sim(&world, &SWEEP).args(["--list-points", "--json", "points.json"]));
    assert_eq!(beside, text);
    assert_eq!(world.json("points.json")["points"].as_array().map(Vec::len), Some(8));
}

#[test]
fn a_killed_shard_keeps_whole_points_and_runs_no_point_twice() {
    let world = world(LONG);
    let sweep = ["--sweep", "seed=1..140"];
    let arguments = ["sim", "s.toml", "--out", "points", "--resume", "--sweep", "seed=1..140"];
    let mut child = world.start(&arguments);
    let points_directory = world.path().join("points");
    wait_until("the first points are saved", || tables(&points_directory) == 1);
    send(&child, Signal::SIGKILL);
    child.wait().expect("the command");
    let kept = done(&points(&world, &sweep, "points"));
    assert!((1..140).contains(&kept), "{kept} points are there");

    // The next one is interrupted, and says so.
    let mut child = world.start(&arguments);
    wait_until("a second file", || tables(&points_directory) == 2);
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait().expect("the command").code(), Some(130), "{}", world.read("stderr"));
    assert!(world.read("stderr").contains("points to go"), "{}", world.read("stderr"));
    let more = done(&points(&world, &sweep, "points"));
    assert!((kept + 1..=140).contains(&more), "{more} points are there");
    let left = 140 - more;
    // On a busy machine the rest takes longer than other commands may.
    let mut rest = sim(&world, &["--set", "repetitions=60"]);
    let text = stdout(rest.args(&arguments[2..]).timeout(Duration::from_secs(600)));
    assert!(text.contains(&format!("{left} points simulated, {more} were there")), "{text}");
    let (text, told) = both_of(world.memweir().args(["sweep", "merge", "points"]), 0);
    assert!(told.is_empty(), "no point ran twice: {told}");
    assert!(text.contains("140 of 140 points from 3 files"), "{text}");
}

#[test]
fn missing_points_are_told() {
    let world = world(SHORT);
    stdout(sim(&world, &SWEEP).args(["--shard", "1/2", "--out", "points"]));
    let merge = ["sweep", "merge", "points", "--out", "h.parquet"];
    let told = stderr_of(world.memweir().args(merge), 1);
    assert!(
        told.contains("4 points are missing") && told.contains("cores=1 quantum_ms=100"),
        "{told}"
    );
    assert!(world.has("h.parquet"));
    let lost = ["sweep", "merge", "points", "--json", "/dev/full"];
    let told = refusal(world.memweir().args(lost), 4);
    assert!(told.contains("4 points are missing"), "{told}");
}

#[test]
fn a_full_disk_costs_no_point_that_was_saved() {
    let world = world(SHORT);
    let Some(disk) = SmallDisk::mount(&world, "disk", "size=64k") else { return };
    stdout(sim(&world, &SWEEP).args(["--shard", "1/2", "--out", "disk/points"]));
    // The rest of the disk, to the last page.
    let _ = std::fs::write(disk.0.join("filling"), vec![0; 1 << 20]);
    let told = stderr_of(sim(&world, &SWEEP).args(["--shard", "2/2", "--out", "disk/points"]), 4);
    assert!(told.contains("No space left"), "{told}");
    assert_eq!(done(&points(&world, &SWEEP, "disk/points")), 4);
    assert_eq!(files(&disk.0.join("points")).len(), 2, "no part of a file stays");
    let (tmpfs, larger) = (Some("tmpfs"), Some("size=8m"));
    mount(tmpfs, &disk.0, tmpfs, MsFlags::MS_REMOUNT, larger).expect("a larger disk");
    let text = stdout(sim(&world, &SWEEP).args(["--resume", "--out", "disk/points"]));
    assert!(text.contains("4 points simulated, 4 were there"), "{text}");
    stdout(world.memweir().args(["sweep", "merge", "disk/points"]));
}

#[test]
fn another_scenario_has_a_partition_of_its_own() {
    let world = world(SHORT);
    stdout(sim(&world, &SWEEP).args(["--resume", "--out", "points"]));
    stdout(sim(&world, &SWEEP).args(["--resume", "--out", "points", "--set", "seed=9"]));
    let text = refusal(world.memweir().args(["sweep", "merge", "points", "--out", "a.csv"]), 2);
    assert!(text.contains("has 2 sweeps"), "{text}");
    let text = stdout(world.memweir().args(["sweep", "merge", "points"]));
    assert_eq!(text.matches("8 of 8 points").count(), 2, "{text}");
    // One value more: the points of the first are taken.
    let more = ["--sweep", "cores=1..4", "--sweep", "quantum_ms=50,100,150"];
    let text = stdout(sim(&world, &more).args(["--resume", "--out", "points"]));
    assert!(text.contains("4 points simulated, 8 taken from another sweep"), "{text}");
}

#[test]
fn a_bank_level_scenario_runs_in_shards() {
    let world = World::new();
    world.file(
        "s.toml",
        "fidelity = \"bank\"\nmachine = \"i7-860\"\ninstructions = 20000\n\
         partitions = [\"none\", \"uniform\"]\n\
         [[programs]]\nprogram = \"429.mcf\"\n[[programs]]\nprogram = \"462.libquantum\"\n",
    );
    let sweep = ["--sweep", "seed=1..2"];
    for shard in ["1/2", "2/2"] {
        stdout(sim(&world, &sweep).args(["--shard", shard, "--out", "points"]));
    }
    let again = stdout(sim(&world, &sweep).args(["--resume", "--out", "points"]));
    assert!(again.contains("0 points simulated"), "{again}");
    stdout(world.memweir().args(["sweep", "merge", "points", "--out", "all.csv"]));
    let table = world.read("all.csv");
    assert!(table.starts_with("at.seed,partition,program,"), "{table}");
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 2, "{table}");
}

#[test]
fn page_sim_runs_in_shards() {
    let world = World::new();
    world.file("s.toml", "swaps = \"nvm\"\ngroup = \"browser\"\ndram_mib = 182\nswap_mib = 512\n");
    let sweep = ["page", "sim", "s.toml", "--sweep", "dram_mib=128,256,512"];
    for shard in ["1/2", "2/2"] {
        stdout(world.memweir().args(sweep).args(["--shard", shard, "--out", "points"]));
    }
    stdout(world.memweir().args(sweep).args(["--out", "one.csv"]));
    stdout(world.memweir().args(["sweep", "merge", "points", "--out", "all.csv"]));
    assert_eq!(world.read("all.csv"), world.read("one.csv"));
}

#[test]
fn options_of_a_replay_are_swept() {
    let world = World::new();
    let trace: String =
        (0..2_000).map(|line| format!("LD {:#x}\n", line * 4096 + line * 64)).collect();
    world.file("t.txt", &trace);
    let replay = ["dram", "replay", "t.txt", "--memory", "ddr4-2400"];
    let sweep = ["--sweep", "page=open,closed", "--sweep", "mode=sat,mlp:4", "--out", "points"];
    for shard in ["1/2", "2/2"] {
        stdout(world.memweir().args(replay).args(sweep).args(["--shard", shard]));
    }
    let text = stdout(world.memweir().args(["sweep", "merge", "points", "--out", "all.csv"]));
    assert!(text.contains("4 of 4 points from 2 files"), "{text}");
    let table = world.read("all.csv");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((&rows[0][..4], rows.len()), (&["page", "mode", "memory", "requests"][..], 5));
    for row in &rows[1..] {
        let options = ["--json", "-", "--page", row[0], "--mode", row[1]];
        let alone = json(world.memweir().args(replay).args(options), 0);
        assert_eq!((row[3], row[6]), ("2000", &*alone["cycles"].to_string()), "{row:?}");
    }
    // The content of the trace is part of the keys.
    world.file("t.txt", trace[..trace.len() / 2].rsplit_once('\n').expect("lines").0);
    let text = stdout(world.memweir().args(replay).args(sweep).arg("--resume"));
    assert!(text.contains("4 points simulated;"), "{text}");
    for (sweep, said) in [
        ("pages=open", "did you mean `page`"),
        ("page=opened", "--sweep page=opened"),
        ("threads=1,2", "is no option that a replay can sweep"),
    ] {
        let mut command = world.memweir();
        let command = command.args(replay).args(["--sweep", sweep, "--out", "others"]);
        let text = refusal(command, 2);
        assert!(text.contains(said), "{text}");
    }
    assert!(!world.has("others"));
}

#[test]
fn a_sweep_over_a_truncated_trace_says_so() {
    let world = World::new();
    let trace: String = (0..40_000).map(|line| format!("LD {:#x}\n", line * 4096)).collect();
    world.file("t.txt", &trace);
    stdout(world.memweir().args(["dram", "convert", "t.txt", "t.mwt"]));
    let whole = std::fs::read(world.path().join("t.mwt")).expect("a trace");
    // Half of the accesses, and all of them without a whole end block.
    for (kept, code, out) in [(whole.len() / 2, 1, "half"), (whole.len() - 13, 0, "all")] {
        std::fs::write(world.path().join("t.mwt"), &whole[..kept]).expect("a file");
        let replay = ["dram", "replay", "t.mwt", "--memory", "ddr4-2400", "--out", out];
        let sweep = ["--sweep", "page=open,closed"];
        let said = stderr_of(world.memweir().args(replay).args(sweep), code);
        assert_eq!(said.matches("t.mwt: the file was cut").count(), 1, "{said}");
        let table = format!("{out}.csv");
        let said = stderr_of(world.memweir().args(["sweep", "merge", out, "--out", &table]), code);
        assert_eq!(said.contains("2 points are of a truncated trace"), code == 1, "{said}");
        let (table, last) = (world.read(&table), if code == 1 { ",true" } else { ",false" });
        assert!(table.lines().next().is_some_and(|head| head.ends_with(",truncated")), "{table}");
        assert!(table.lines().skip(1).all(|row| row.ends_with(last)), "{table}");
    }
}

#[test]
fn figures_are_reproduced_in_shards() {
    let world = World::new();
    let figures = ["reproduce", "bpm", "--figure", "streamcluster", "--quick", "--out", "points"];
    let text = stdout(world.memweir().args(figures).args(["--list-points"]));
    assert!(text.ends_with("missing\tfigure=streamcluster\n"), "{text}");
    stdout(world.memweir().args(figures).args(["--shard", "1/1"]));
    let text = stdout(world.memweir().args(figures).args(["--resume"]));
    assert!(text.contains("0 points simulated, 1 was there"), "{text}");
    stdout(world.memweir().args(["sweep", "merge", "points", "--out", "all.csv"]));
    assert!(world.read("all.csv").starts_with("figure,item,quantity,paper,ours,"));
    let unknown = ["reproduce", "bpm", "--figure", "stream", "--resume", "--out", "points"];
    let text = refusal(world.memweir().args(unknown), 2);
    assert!(text.contains("unknown figure `stream`"), "{text}");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let world = world(SHORT);
    std::fs::create_dir(world.path().join("there")).expect("a directory");
    for (arguments, said) in [
        (&["--shard", "0/8", "--out", "points"][..], "shards count from 1"),
        (&["--shard", "9/8", "--out", "points"], "there is no shard 9 of 8"),
        (&["--shard", "1/2"], "has no directory"),
        (&["--resume"], "has no directory"),
        (&["--shard", "1/2", "--out", "points.csv"], "name the directory"),
        (&["--shard", "1/2", "--out", "s.toml"], "name the directory"),
        (&["--out", "there"], "`--resume` sweeps into a directory"),
        (&["--shard", "1/2", "--out", "points", "--json", "-"], "sweep merge"),
        (&["--shard", "1/2", "--out", "points", "--svg", "a.svg"], "needs all points at once"),
    ] {
        let text = refusal(sim(&world, &SWEEP).args(arguments), 2);
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    assert!(!world.has("points"));
    stdout(sim(&world, &SWEEP).args(["--shard", "1/2", "--out", "points"]));
    let text = refusal(sim(&world, &SWEEP).args(["--shard", "1/2", "--out", "points"]), 2);
    assert!(
        text.contains("has 4 of the 4 points already") && text.contains("`--resume`"),
        "{text}"
    );
    let text = refusal(world.memweir().args(["sweep", "merge", "there"]), 2);
    assert!(text.contains("there is no sweep"), "{text}");
}
