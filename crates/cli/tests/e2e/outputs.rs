//! Results that cannot be written, figures that nothing measured, and comparisons of failed jobs.

use std::process::Command;

use memweir_test_support::foreign_link;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    MEMWEIR, SPIN, SmallDisk, World, both_of, json, refusal, send, stderr_of, stdout_of, wait_until,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A full disk at `full` in the world while the result lives.
fn full_disk(world: &World) -> Option<SmallDisk> {
    let disk = SmallDisk::mount(world, "full", "size=4k")?;
    std::fs::write(disk.0.join("filler"), [0; 4096]).expect("one page");
    Some(disk)
}

#[test]
fn a_full_disk_for_results_ends_with_4_and_loses_nothing_else() {
    let world = World::new();
    let Some(disk) = full_disk(&world) else { return };
    let run = |option: &str, file: &str| {
        let path = disk.0.join(file).display().to_string();
        let run = ["run", "--policy", "os", option, &path, "--", "sh", "-c", SPIN];
        let (shown, said) = both_of(world.memweir().args(run), 4);
        assert!(said.contains(file), "{said}");
        shown
    };
    for (option, file) in
        [("--timeline", "t.csv"), ("--timeline", "t.parquet"), ("--json", "r.json")]
    {
        let printed = run(option, file);
        assert!(printed.contains("turnaround"), "{option} {file}: {printed}");
    }
    run("--record", "decisions.jsonl");
    let left: Vec<_> = std::fs::read_dir(&disk.0)
        .expect("the disk")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "filler")
        .collect();
    assert!(left.is_empty(), "no empty files: {left:?}");
}

#[test]
fn files_that_cannot_be_made_end_with_4_before_anything_runs() {
    let world = World::new();
    for (option, file) in
        [("--timeline", "absent/x.csv"), ("--record", "absent/x"), ("--json", "absent/x")]
    {
        let run = ["run", "--policy", "os", option, file, "--", "touch", "ran"];
        world.memweir().args(run).assert().code(4);
        assert!(!world.has("ran"), "{option}");
    }
}

#[test]
fn logs_of_a_comparison_follow_no_link_of_another_user() {
    let Some(world) = World::of_root("links of another user") else { return };
    let victim = world.path().join("victim");
    let refused = |link: &str| {
        let run = ["run", "--compare", "os,round-robin", "--repeat", "1", "--", "true"];
        let said = stderr_of(world.memweir().args(run), 4);
        let reason = format!("cannot write {link}: it is a symbolic link that belongs to user");
        assert!(said.contains(&reason), "{said}");
        assert!(!victim.exists(), "the link was followed");
    };
    let logs = world.path().join("memweir-logs");
    foreign_link(&victim, &logs);
    refused("memweir-logs");
    std::fs::remove_file(&logs).expect("the link");
    std::fs::create_dir(&logs).expect("a directory");
    foreign_link(&victim, &logs.join("round-1"));
    refused("memweir-logs/round-1");
}

#[test]
fn a_store_is_neither_behind_a_link_of_another_user_nor_made_by_a_reader() {
    let Some(world) = World::of_root("links of another user") else { return };
    let share = world.path().join("home/.local/share");
    std::fs::create_dir_all(&share).expect("directories");
    let run = || {
        let mut memweir = world.memweir();
        memweir.env_remove("XDG_DATA_HOME").env("HOME", world.path().join("home"));
        memweir.args(["run", "--policy", "os", "--", "true"]).output().expect("memweir runs")
    };
    assert_eq!(run().status.code(), Some(0));
    assert!(!share.join("memweir").exists(), "a run without a store makes none");
    let victim = world.path().join("victim");
    std::fs::create_dir(&victim).expect("a directory");
    foreign_link(&victim, &share.join("memweir"));
    let output = run();
    let said = text(&[output.stdout, output.stderr].concat());
    assert!(said.contains("a symbolic link that belongs to user 65534"), "{said}");
    assert_eq!(std::fs::read_dir(&victim).expect("a directory").count(), 0);
}

#[test]
fn every_file_that_a_full_disk_loses_is_named_and_leaves_nothing() {
    let world = World::new();
    let Some(disk) = full_disk(&world) else { return };
    let run = |options: &[&str], files: &[&str]| {
        let mut arguments = vec!["run".to_owned()];
        for (option, file) in options.iter().zip(files) {
            arguments.extend([(*option).to_owned(), format!("full/{file}")]);
        }
        let mut memweir = world.memweir();
        memweir.args(arguments).args(["--quantum", "20ms"]);
        memweir
    };
    let spin = ["--", "sh", "-c", SPIN];
    let check = |command: &mut assert_cmd::Command, files: &[&str]| {
        let said = stderr_of(command, 4);
        for file in files {
            assert_eq!(said.matches(&format!("cannot write full/{file}: ")).count(), 1, "{said}");
        }
        let left = std::fs::read_dir(&disk.0).expect("the disk").flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["filler"]);
    };
    let files = ["t.csv", "p.svg", "r.json"];
    let mut single = run(&["--timeline", "--plot", "--json"], &files);
    check(single.args(["--policy", "os"]).args(spin), &files);
    let files = ["results", "p.svg"];
    let mut comparison = run(&["--results", "--plot"], &files);
    comparison.args(["--compare", "os,round-robin", "--repeat", "1"]).args(spin);
    check(&mut comparison, &files);
}

/// Two programs of 300 accesses, simulated request by request.
const REQUESTS: &str = "fidelity = 'bank'\nmachine = { cores = 2, memory = { device = \
    'ddr4-2400' } }\npartitions = ['none', 'uniform']\ninstructions = 2_000\n\
    [[programs]]\ntrace = 'core.txt'\ninstances = 2\n";

/// Two programs on the shipped machine `iabw`, under two policies.
const FLOWS: &str = "machine = 'iabw'\npolicies = ['os', 'round-robin']\nrepetitions = 20\n\
    [[tasks]]\nprogram = '433.milc'\ninstances = 2\nwork_s = 3\n";

/// An application that has less DRAM than it wants.
const PAGES: &str = "swaps = ['nvm', 'flash']\ndram_mib = 1\nswap_mib = 4\n[[apps]]\n\
    name = 'a'\nsize_mb = 1\nfootprint_mib = 2\nring_mib = 1\nallocated_mib = 1\n\
    references = 2_000\n";

/// Every result of a simulation in turn is on a full disk, with room for some of the rows of
/// `--out`. The others are there, and the lost one is named once.
#[test]
fn a_simulation_that_loses_one_result_keeps_the_others() {
    let world = World::new();
    let Some(disk) = SmallDisk::mount(&world, "full", "size=4k") else { return };
    world.file("flows.toml", FLOWS);
    world.file("requests.toml", REQUESTS);
    world.file("pages.toml", PAGES);
    let accesses = |of: fn(u64) -> String| (0..300).map(of).collect::<String>();
    world.file("core.txt", &accesses(|at| format!("9 {}\n", at * 8192)));
    world.file("trace.txt", &accesses(|at| format!("LD {}\n", at * 8192)));
    let lines = ["dram", "curve", "--memory", "ddr4-2400", "--requests", "1000"];
    let replay = ["dram", "replay", "trace.txt", "--memory", "ddr4-2400", "--interval", "100ns"];
    type Results<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];
    let (rows, drawn) = (("--out", "r.csv", &["r.csv"][..]), ("--svg", "s.svg", &["s.svg"][..]));
    let all = ("--json", "j.json", &["j.json"][..]);
    let quanta = ("--timeline", "t.csv", &["t.os.csv", "t.round-robin.csv"][..]);
    let requests = ("--timeline", "t.csv", &["t.none.csv", "t.uniform.csv"][..]);
    let simulations: [(&[&str], Results<'_>); 5] = [
        (&["sim", "flows.toml"], &[rows, quanta, all, drawn]),
        (&["sim", "requests.toml"], &[rows, requests, all, drawn]),
        (&["page", "sim", "pages.toml", "--sweep", "seed=1..20"], &[rows, all, drawn]),
        (&lines, &[("--out", "c.toml", &["c.toml"]), drawn, all]),
        (
            &replay,
            &[("--commands", "c.txt", &["c.txt"]), ("--timeline", "t.csv", &["t.csv"]), all, drawn],
        ),
    ];
    for (command, results) in simulations {
        for (lost, _, missing) in results {
            if *lost != "--out" {
                std::fs::write(disk.0.join("filler"), [0; 4096]).expect("one page");
            }
            let mut memweir = world.memweir();
            memweir.args(command);
            for (option, file, _) in results {
                let place = if option == lost { "full/" } else { "" };
                memweir.args([option, &*format!("{place}{file}")]);
            }
            let (shown, said) = both_of(&mut memweir, 4);
            assert!(shown.lines().count() > 4, "no table: {shown}");
            for file in *missing {
                let named = format!("cannot write full/{file}: ");
                assert_eq!(said.matches(&named).count(), 1, "{lost}: {said}");
            }
            for (option, _, files) in results.iter().filter(|(option, ..)| option != lost) {
                for file in *files {
                    let kept = world.path().join(file);
                    let read = std::fs::read(&kept).unwrap_or_default();
                    assert!(!read.is_empty(), "{command:?} without {lost} lost {option} {file}");
                    std::fs::remove_file(kept).expect("a result");
                }
            }
            for left in std::fs::read_dir(&disk.0).expect("the disk").flatten() {
                std::fs::remove_file(left.path()).expect("a file");
            }
        }
    }
}

#[test]
fn a_merge_that_loses_its_table_keeps_its_points() {
    let world = World::new();
    let Some(_disk) = full_disk(&world) else { return };
    world.file("flows.toml", FLOWS);
    let sweep = ["--sweep", "seed=1,2", "--shard", "1/1", "--out", "points"];
    world.memweir().args(["sim", "flows.toml"]).args(sweep).assert().success();
    let both = ["--out", "full/r.csv", "--json", "j.json"];
    world.memweir().args(["sweep", "merge", "points"]).args(both).assert().code(4);
    let kept = world.json("j.json");
    assert_eq!(kept["points"].as_array().map(Vec::len), Some(2));
}

#[test]
fn profiles_for_a_batch_are_not_made_for_files_that_cannot_be_written() {
    let world = World::new();
    let Some(_disk) = full_disk(&world) else { return };
    for lost in [["--timeline", "absent/x.csv"], ["--store", "full/store"]] {
        let run = [&["run", "--profile-first"], &lost[..], &["--", "true"]].concat();
        let said = stderr_of(world.memweir().args(run), 4);
        assert!(said.contains("cannot write"), "{said}");
        assert!(!world.has("data/memweir"), "no profile was stored");
    }
}

#[test]
fn what_was_not_measured_is_null() {
    let world = World::new();
    let run = ["run", "--policy", "os", "--json", "-", "--", "sh", "-c", SPIN];
    let report = json(world.memweir().args(run), 0);
    if report["meter"] != "none" {
        let meter = &report["meter"];
        return memweir_test_support::skip!(Present, "this machine has the meter {meter}");
    }
    for figure in ["bandwidth_mean", "bandwidth_std"] {
        assert_eq!(report[figure], Value::Null, "{figure}");
    }
    for figure in ["bandwidth_mean", "bandwidth_peak", "memory_reads"] {
        assert_eq!(report["jobs"][0][figure], Value::Null, "{figure}");
    }
}

#[test]
fn an_interrupted_comparison_shows_no_figures() {
    let world = World::new();
    let script = "touch started; sleep 1000";
    let run = ["run", "--compare", "os,round-robin", "--json", "c.json"];
    let mut memweir = world.start(&[&run[..], &["--", "sh", "-c", script]].concat());
    wait_until("the first run is on", || world.has("started"));
    send(&memweir, Signal::SIGINT);
    assert_eq!(memweir.wait().expect("it ends").code(), Some(130));
    let printed = world.read("stdout");
    assert!(printed.contains("No round was completed"), "{printed}");
    assert!(!printed.contains("0.000 s") && !printed.contains("one round"), "{printed}");
    let report = world.json("c.json");
    assert_eq!(report["rounds"], 0);
    assert_eq!(report["variants"][0]["mean_s"], Value::Null, "{report}");
}

#[test]
fn a_job_that_fails_under_one_policy_makes_the_comparison_void() {
    let world = World::new();
    // Succeeds once.
    let script = "test ! -e made && touch made";
    let run = ["run", "--compare", "os,round-robin", "--repeat", "2", "--json", "c.json", "--"];
    let printed = stdout_of(world.memweir().args(run).args(["sh", "-c", script]), 1);
    assert!(printed.contains("void"), "{printed}");
    let reason = "sh ended with 0 under os in round 1 and with 1 under round-robin in round 1";
    assert!(printed.contains(reason), "{printed}");
    assert!(!printed.contains("faster than") && !printed.contains("slower than"), "{printed}");
    let report = world.json("c.json");
    assert_eq!(
        (&report["void"], &report["variants"][1]["verdict"]),
        (&reason.into(), &"void".into())
    );
}

#[test]
fn jobs_that_always_fail_alike_are_compared_and_take_one_line() {
    let world = World::new();
    let run = ["run", "--compare", "os,round-robin", "--repeat", "2", "--each", "6"];
    let job = ["--", "sh", "-c", "exit 26"];
    let output = world.memweir().args(run).args(job).output().expect("memweir runs");
    let printed = text(&output.stdout) + &text(&output.stderr);
    let of_failures = printed.lines().filter(|line| line.contains("exit code 26")).count();
    assert_eq!(of_failures, 1, "{printed}");
    assert!(printed.contains("and 3 more ended with exit code 26 in every run"), "{printed}");
    assert!(!printed.contains("void"), "{printed}");
}

#[test]
fn the_directory_of_a_result_is_not_made() {
    let world = World::new();
    let profile = ["profile", "--no-store", "--recording", "absent/x.parquet", "--", "true"];
    let cases: [&[&str]; 8] = [
        &["dram", "list", "--json", "absent/x.json"],
        &["map", "show", "map.toml", "--svg", "absent/x.svg"],
        &["map", "import", "map.toml", "-o", "absent/x.toml"],
        &["store", "list", "--json", "absent/x.json"],
        &["store", "show", "a", "--svg", "absent/x.svg"],
        &["hogsim", "plan", "--write-plan", "absent/x"],
        &["watch", "--metrics-textfile", "absent/x.prom"],
        &profile,
    ];
    for arguments in cases {
        let message = refusal(world.memweir().args(arguments), 4);
        assert!(message.contains("cannot write absent/x"), "{arguments:?}: {message}");
        assert!(!world.has("absent"), "{arguments:?}");
    }
}

#[test]
fn no_result_takes_the_place_of_another_file() {
    let world = World::new();
    world.file("jobs.toml", "[[jobs]]\ncommand = [\"true\"]\n");
    std::os::unix::fs::symlink("jobs.toml", world.path().join("link")).expect("a link");
    let os = ["run", "--policy", "os"];
    for (options, said) in [
        (&["--record", "link", "jobs.toml"][..], "`link` is an input"),
        (&["--json", "r", "--timeline", "./r", "jobs.toml"], "`./r` is another result"),
    ] {
        let refused = refusal(world.memweir().args(os).args(options), 2);
        assert!(refused.contains(said), "{refused}");
    }
    assert!(world.read("jobs.toml").starts_with("[[jobs]]") && !world.has("r"));
    // A device takes any number of results.
    let both = ["--json", "/dev/null", "--record", "/dev/null", "jobs.toml"];
    world.memweir().args(os).args(both).assert().success();
}

#[test]
fn a_directory_that_is_no_text_does_not_cost_the_report() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let directory = world.path().join(OsStr::from_bytes(b"w\xff"));
    std::fs::create_dir(&directory).expect("a directory");
    let run = ["run", "--policy", "os", "--json", "-", "--", "true"];
    let report = json(world.memweir().current_dir(&directory).args(run), 0);
    let stdout = report["jobs"][0]["stdout"].as_str().expect("a path");
    assert!(stdout.ends_with("w\u{fffd}/memweir-logs/true.out"), "{stdout}");
}

#[test]
fn a_batch_that_ends_early_says_so() {
    let world = World::new();
    // A quantum in which the first job ends, however late it runs.
    let run = ["run", "--policy", "round-robin", "--cores", "1", "--quantum", "10s", "--fail-fast"];
    let jobs = ["--json", "r.json", "--", "false", ":::", "sleep", "100", ":::", "sleep", "101"];
    let shown = stdout_of(world.memweir().args(run).args(jobs), 1);
    assert!(shown.contains("a job failed, which ended the batch"), "{shown}");
    assert!(shown.contains("not started"), "{shown}");
    let report = world.json("r.json");
    assert_eq!(report["jobs"][2]["never_started"], true);
    assert!(report["jobs"][0].get("never_started").is_none());
}

#[test]
fn a_directory_of_logs_belongs_to_one_run_at_a_time() {
    let world = World::new();
    let mut first =
        world.start(&["run", "--policy", "os", "--", "sh", "-c", "touch on; sleep 100"]);
    wait_until("it runs", || world.has("on"));
    let second = ["run", "--policy", "os", "--", "true"];
    let refused = refusal(world.memweir().args(second), 4);
    assert!(refused.contains("name another directory with --logs"), "{refused}");
    let elsewhere = [&second[..3], &["--logs", "other"], &second[3..]].concat();
    world.memweir().args(elsewhere).assert().success();
    send(&first, Signal::SIGTERM);
    assert_eq!(first.wait().expect("it ends").code(), Some(130));
}

/// The map of a simulated machine, found in a second.
const MAP: &str = "name = \"a\"\nbits = 33\nfunction = [{ bits = [13] }, { bits = [14] }]\n";

#[test]
fn a_result_that_cannot_be_written_costs_no_other() {
    let world = World::new();
    world.file("m.toml", MAP);
    world.file("bits.txt", "13\n14\n");
    world.file("t.txt", "LD 0x40\nST 0x80\n");
    world.file(
        "flow.toml",
        "machine = \"iabw\"\npolicies = [\"os\"]\n[[tasks]]\nprogram = \"433.milc\"\nwork_s = 1\n",
    );
    world.file(
        "bank.toml",
        "fidelity = \"bank\"\nmachine = \"i7-860\"\n[[programs]]\nprogram = \"444.namd\"\n",
    );
    world.file(
        "page.toml",
        "swaps = [\"nvm\"]\ndram_mib = 96\nswap_mib = 128\ngroup = \"news\"\n\
         [assumed]\nreferences = 2000\n",
    );
    let replay = ["dram", "replay", "t.txt", "--memory", "ddr4-2400", "--json"];
    let bank = ["sim", "bank.toml", "--set", "instructions=1000", "--json"];
    let curve = ["dram", "curve", "--memory", "ddr4-2400", "--requests", "2000", "--svg"];
    let cases: [(&[&str], &[&str], &str); 10] = [
        (&["map", "detect", "--oracle", "map:m.toml", "-o"], &["--json", "d.json"], "d.json"),
        (&["map", "show", "m.toml", "--svg"], &["--json", "s.json"], "s.json"),
        (&["map", "import", "bits.txt", "--json"], &["-o", "i.toml"], "i.toml"),
        (&["map", "decode", "m.toml", "0x2000", "--json"], &[], "stdout"),
        (&["fit", "--measure", "--cores", "1", "--json"], &["--", "true"], "stdout"),
        (&replay, &["--timeline", "r.csv"], "r.csv"),
        (&curve, &["--json", "c.json", "--read-shares", "100"], "c.json"),
        (&["sim", "flow.toml", "--json"], &["--svg", "f.svg"], "f.svg"),
        (&bank, &["--svg", "b.svg"], "b.svg"),
        (&["page", "sim", "page.toml", "--json"], &["--svg", "p.svg"], "p.svg"),
    ];
    for (before, after, kept) in cases {
        let (shown, said) = both_of(world.memweir().args(before).arg("/dev/full").args(after), 4);
        assert!(said.contains("cannot write /dev/full"), "{before:?}: {said}");
        let is_kept = if kept == "stdout" { !shown.is_empty() } else { world.has(kept) };
        assert!(is_kept, "{before:?} lost {kept}");
    }
}

#[test]
fn a_limit_of_file_sizes_ends_with_4_and_loses_nothing_else() {
    let world = World::new();
    world.file("m.toml", "name = \"m\"\nbits = 33\nfunction = [{ bits = [13] }]\n");
    let show = "ulimit -f 0; exec \"$0\" map show m.toml --svg m.svg";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", show, MEMWEIR]).current_dir(world.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text(&output.stderr).contains("cannot write m.svg"), "{output:?}");
    assert!(!output.stdout.is_empty());
}

#[test]
fn no_result_takes_the_place_of_an_input() {
    let world = World::new();
    for name in ["m", "jobs", "c", "t.mwt"] {
        world.file(name, "kept");
    }
    let cases: [&[&str]; 9] = [
        &["map", "decode", "m", "0", "--json", "m"],
        &["map", "kernel", "m", "--json", "m"],
        &["map", "detect", "--oracle", "map:m", "--output", "m"],
        &["color", "plan", "--map", "m", "jobs", "--json", "jobs"],
        &["color", "run", "--map", "m", "--colors", "0", "--json", "m", "--", "true"],
        &["dram", "check", "c", "--memory", "ddr4-2400", "--json", "c"],
        &["fit", "jobs", "--json", "jobs"],
        &["page", "refs", "t.mwt", "t.mwt"],
        &["page", "refs", "t.mwt", "new", "--json", "./new"],
    ];
    for arguments in cases {
        let refused = refusal(world.memweir().args(arguments), 2);
        assert!(refused.contains("which would be lost"), "{arguments:?}: {refused}");
    }
    for name in ["m", "jobs", "c", "t.mwt"] {
        assert_eq!(world.read(name), "kept");
    }
    world.file(
        "s.toml",
        "machine = \"iabw\"\npolicies = [\"os\"]\n[[tasks]]\nprogram = \"433.milc\"\nwork_s = 1\n",
    );
    let both = ["--timeline", "x.csv", "--out", "x.csv"];
    let refused = refusal(world.memweir().args(["sim", "s.toml"]).args(both), 2);
    assert!(refused.contains("`x.csv` is another result"), "{refused}");
    let calibrate = ["calibrate", "--platform", "p", "--json", "p"];
    let refused = refusal(world.memweir().args(calibrate), 2);
    assert!(refused.contains("`p` is another result"), "{refused}");
}

#[test]
fn a_result_reaches_the_reader_of_a_named_pipe() {
    let world = World::new();
    let fifo = world.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).expect("a result"));
    world.memweir().args(["dram", "list", "--json", "fifo"]).assert().success();
    let result: Value = serde_json::from_str(&reader.join().expect("it reads")).expect("JSON");
    assert!(result["memories"].is_array(), "{result}");
}

#[test]
fn output_of_a_job_that_cannot_be_kept_is_a_lost_result() {
    let world = World::new();
    std::fs::create_dir_all(world.path().join("memweir-logs/touch.out")).expect("directories");
    let run = ["run", "--policy", "os", "--json", "r.json", "--", "touch", "ran"];
    let said = stderr_of(world.memweir().args(run), 4);
    assert!(said.contains("memweir-logs/touch.out: the output is not kept"), "{said}");
    assert!(world.has("ran"), "the job runs all the same");
    assert_eq!(world.json("r.json")["lost"].as_array().map(Vec::len), Some(1));
    let run = ["run", "--policy", "os", "--logs", "/proc/sys", "--", "touch", "never"];
    let said = stderr_of(world.memweir().args(run), 4);
    assert!(said.contains("cannot write /proc/sys: "), "{said}");
    assert!(!world.has("never"));
}
