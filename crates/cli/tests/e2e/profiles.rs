//! Profiles of real programs: the files that they leave alone, and the storing and later use of
//! profiles.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    EMULATOR, World, exists, json, refusal, root, send, stderr_of, stdout_of, wait_until,
};

/// Text in no order that compresses by about a half.
fn letters(count: usize) -> String {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 28 == 0 { '\n' } else { char::from(b'a' + (state >> 24) as u8 % 16) }
    };
    (0..count).map(next).collect()
}

/// A directory with the input files of the README's first example.
fn readme_world() -> World {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.file(name, &letters(300_000));
    }
    world
}

/// The entry of the store whose command ends with these words.
fn entry(world: &World, command: &[&str]) -> Value {
    let list = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    let ends = |entry: &&Value| {
        let words: Vec<&str> =
            entry["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        words.ends_with(command)
    };
    list["profiles"].as_array().expect("a list").iter().find(ends).unwrap_or(&Value::Null).clone()
}

/// 64-byte lines that a stored program moved.
fn lines(entry: &Value) -> f64 {
    let figure = |name: &str| entry[name].as_f64().expect("a figure");
    figure("bandwidth") * figure("cpu_time_s") / 64.0
}

fn exit_codes(report: &Value) -> Vec<Option<i64>> {
    let jobs = report["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| job["exit_code"].as_i64()).collect()
}

#[test]
fn the_first_example_of_the_readme_does_its_work_and_stores_what_it_says() {
    if !exists(EMULATOR) || !exists("gzip") || !exists("xz") {
        return;
    }
    const JOBS: [&str; 14] =
        ["--", "gzip", "-9", "-k", "a", ":::", "xz", "-k", "b", ":::", "sort", "-o", "d", "c"];
    let world = readme_world();
    world.memweir().args(["run", "--profile-first"]).args(JOBS).assert().code(0);
    for made in ["a.gz", "b.xz", "d"] {
        assert!(world.has(made), "{made}");
    }

    // The same with every instruction simulated, held against programs that write no file.
    let world = readme_world();
    let run = ["run", "--profile-first", "--sample", "all", "--json", "r.json"];
    world.memweir().args(run).args(JOBS).assert().code(0);
    let report = world.json("r.json");
    assert_eq!(exit_codes(&report), [Some(0); 3]);
    let twins: [(&[&str], &[&str]); 3] = [
        (&["gzip", "-9", "-k", "a"], &["gzip", "-9", "-c", "a"]),
        (&["xz", "-k", "b"], &["xz", "-c", "b"]),
        (&["sort", "-o", "d", "c"], &["sort", "c"]),
    ];
    for (index, (stored, twin)) in twins.into_iter().enumerate() {
        let profile = ["profile", "--meter", "software", "--no-store", "--json", "-", "--"];
        let output = world.without_input().args(profile).args(twin).output().expect("it runs");
        let alone: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let count = |name: &str| alone[name].as_f64().expect("a count");
        let expected = count("memory_reads") + count("memory_writes");
        let entry = entry(&world, stored);
        assert_eq!(entry["exit_code"], 0, "{entry}");
        let ratio = lines(&entry) / expected;
        assert!(
            (0.8..1.25).contains(&ratio),
            "{stored:?} moved {ratio} times the lines of {twin:?}"
        );
        // The batch reports that it has used it.
        let source = &report["jobs"][index]["profile"];
        assert_eq!((&source["source"], &source["key"]), (&"store".into(), &entry["key"]));
        assert!(source["age_s"].as_f64().expect("an age") < 3_600.0, "{source}");
    }
}

#[test]
fn runs_that_end_differently_or_are_killed_are_told_and_not_stored() {
    let Some(world) = World::with(&[EMULATOR]) else { return };
    let profile = |isolation: &str, script: &str| {
        let meter = ["profile", "--meter", "software", "--isolation", isolation];
        let output = world.without_input().args(meter).args(["--", "sh", "-c", script]).output();
        let output = output.expect("memweir runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = profile("none", "kill -9 $$");
    assert!(text.contains("not stored: SIGKILL ended the program"), "{text}");
    let text = profile("none", "mkdir once");
    let reason = "not stored: natively the program ended with 0, under the emulator with 1";
    assert!(text.contains(reason), "{text}");
    fs::remove_dir(world.path().join("once")).expect("the native run made it");
    if root("another user") && exists("setpriv") {
        // The emulator of another user cannot open the counters.
        let as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups sort /dev/null";
        let text = profile("none", as_nobody);
        assert!(text.contains("not stored: a program that it started was not counted"), "{text}");
    }
    // A batch that is refused in any case is not profiled before.
    let limited = ["run", "--profile-first", "--limit", "true=1GB/s", "--", "true"];
    assert!(refusal(world.memweir().args(limited), 2).contains("bandwidth_limit"));
    let list = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    assert_eq!(list["profiles"], Value::Array(Vec::new()));
    assert_eq!(list["memweir"]["arguments"][0], "store");

    // A batch goes on without the profile of such a job.
    let run = ["run", "--policy", "os", "--profile-first", "--"];
    let text = stdout_of(world.memweir().args(run).args(["sh", "-c", "kill -9 $$"]), 1);
    assert!(text.contains("no profile of sh is stored: SIGKILL ended the program"), "{text}");
    let run = ["run", "--policy", "os", "--profile-first", "--json", "-", "--"];
    let said = stderr_of(world.memweir().args(run).args(["sh", "-c", "kill -9 $$"]), 1);
    assert!(said.contains("no profile of sh is stored: SIGKILL ended the program"), "{said}");
}

#[test]
fn the_programs_of_a_batch_are_emulated_at_once() {
    if !exists(EMULATOR) {
        return;
    }
    let processors = std::thread::available_parallelism().expect("a number of processors").get();
    if processors < 2 {
        return memweir_test_support::skip!(Processor, "one processor emulates one program");
    }
    let world = World::new();
    // No profile has a copy of its own of this directory.
    let meeting = tempfile::tempdir_in("/dev/shm").expect("a directory");
    // Ends natively, and under the emulator when the other one has come, too.
    let meet = "mkdir $2/native-$0 2>/dev/null && exit; touch $2/$0; \
                for i in $(seq 600); do [ -e $2/$1 ] && exit; sleep 0.1; done; exit 1";
    let directory = meeting.path().to_str().expect("a name in ASCII");
    let run = ["run", "--policy", "os", "--profile-first", "--"];
    let [one, other] = [["one", "other"], ["other", "one"]]
        .map(|[own, its]| ["sh", "-c", meet, own, its, directory]);
    world.memweir().args(run).args(one).arg(":::").args(other).assert().code(0);
    let list = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    assert_eq!(list["profiles"].as_array().map(Vec::len), Some(2), "{list}");
}

#[test]
fn new_data_under_an_old_name_is_profiled_anew() {
    let Some(world) = World::with(&[EMULATOR]) else { return };
    world.file("input", &letters(20_000));
    let run = |options: &[&str]| {
        let args = [&["run", "--policy", "os", "--json", "-"][..], options].concat();
        json(world.memweir().args(args).args(["--", "sort", "-o", "output", "input"]), 0)
    };
    run(&["--profile-first"]);
    let before = entry(&world, &["input"]);
    // The job has written its output, which is no input.
    let report = run(&[]);
    assert_eq!(report["jobs"][0]["profile"]["key"], before["key"], "{report}");

    world.file("input", &letters(60_000));
    let report = run(&[]);
    assert!(report["jobs"][0].get("profile").is_none(), "{report}");
    let told = |notice: &Value| notice.as_str().is_some_and(|text| text.contains("input changed"));
    assert!(report["notices"].as_array().expect("notices").iter().any(told), "{report}");
    assert_eq!(entry(&world, &["input"])["inputs_changed"], true);
    run(&["--profile-first"]);
    let after = entry(&world, &["input"]);
    assert_eq!((&after["key"], &after["inputs_changed"]), (&before["key"], &false.into()));
    assert!(lines(&after) > lines(&before), "{after} after {before}");
}

/// Waits for a profiled program that writes `started`, sends memweir a signal, and returns
/// memweir's exit code and messages.
fn interrupted(world: &World, signal: Signal, script: &str) -> (Option<i32>, String) {
    let profile = ["profile", "--meter", "software", "--isolation", "none", "--"];
    let arguments = [&profile[..], &["sh", "-c", script]].concat();
    let mut memweir = world.start(&arguments);
    wait_until("the program runs", || world.has("started"));
    send(&memweir, signal);
    let status = memweir.wait().expect("it ends");
    wait_until("the program is gone", || world.processes().is_empty());
    (status.code(), world.read("stderr"))
}

#[test]
fn ctrl_c_ends_the_native_and_the_emulated_run_with_130() {
    let Some(world) = World::with(&[EMULATOR]) else { return };
    let native = interrupted(&world, Signal::SIGINT, "touch started; sleep 1000");
    assert_eq!(native.0, Some(130), "{native:?}");
    assert!(native.1.contains("ended by SIGINT"), "{native:?}");
    fs::remove_file(world.path().join("started")).expect("it was made");
    // The first run makes `first`, the second finds it and stays.
    let script = "test -e first && touch started && sleep 1000; touch first";
    let emulated = interrupted(&world, Signal::SIGTERM, script);
    assert_eq!(emulated.0, Some(130), "{emulated:?}");
}

#[test]
fn outputs_of_a_profile_that_cannot_be_written_cost_no_other() {
    let Some(world) = World::with(&[EMULATOR]) else { return };
    let full = |option: &str| {
        let profile = ["profile", "--meter", "software", option, "/dev/full", "--", "true"];
        let output = world.without_input().args(profile).output().expect("memweir runs");
        assert_eq!(output.status.code(), Some(4), "{option}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/full"), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for option in ["--json", "--recording", "--addresses"] {
        assert!(full(option).contains("bandwidth, mean"), "the profile is printed all the same");
    }
    assert!(Path::new("/dev/full").metadata().is_ok_and(|there| !there.is_file()));
    let list = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    assert_eq!(list["profiles"].as_array().map(Vec::len), Some(1), "and stored");
    // A store that cannot be made is found out before the program runs.
    let unwritable = ["profile", "--store", "/proc/x", "--isolation", "none", "--", "touch", "ran"];
    let output = world.without_input().args(unwritable).output().expect("memweir runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("cannot write the profile") && !world.has("ran"), "{said}");
    let wrong = ["profile", "--isolation", "box", "--", "true"];
    assert!(refusal(world.memweir().args(wrong), 2).contains("valid: overlay, copy, none"));
}

#[test]
fn a_program_in_an_overlay_ends_with_its_memweir() {
    if !exists(EMULATOR) || !root("an overlay is mounted") {
        return;
    }
    let world = World::new();
    let profile = ["profile", "--meter", "software", "--isolation", "overlay", "--no-store"];
    let mut memweir = world.start(&[&profile[..], &["--", "sleep", "1000"]].concat());
    let sleeps = || {
        let name = |process: &i32| fs::read_to_string(format!("/proc/{process}/comm"));
        let processes = world.processes();
        processes.iter().filter(|it| name(it).is_ok_and(|name| name == "sleep\n")).count()
    };
    wait_until("the program runs", || sleeps() == 1);
    memweir.kill().and_then(|()| memweir.wait()).expect("it dies");
    wait_until("the program ends", || sleeps() == 0);
}

#[test]
fn what_a_program_writes_through_a_link_is_discarded() {
    if !exists(EMULATOR) || !root("overlays") {
        return;
    }
    let (world, elsewhere) = (World::new(), World::new());
    world.file("made", "before");
    let links =
        [("link", elsewhere.file("there", "before")), ("new", elsewhere.path().join("new"))];
    for (name, target) in links {
        std::os::unix::fs::symlink(target, world.path().join(name)).expect("a link");
    }
    let profile = ["profile", "--meter", "software", "--isolation", "overlay", "--no-store"];
    let script = "echo after > made; echo after > link; echo after > new; cat link";
    let output = world.without_input().args(profile).args(["--", "sh", "-c", script]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((world.read("made"), elsewhere.read("there")), ("before".into(), "before".into()));
    assert!(!elsewhere.has("new"), "{output:?}");
}

#[test]
fn jobs_are_profiled_with_their_variables_and_known_by_them() {
    // In a copy of its directory, a program that fails may miss files, and is not stored.
    if !exists(EMULATOR) || !root("overlays") {
        return;
    }
    let world = World::new();
    let job =
        |code: u8| format!("[[jobs]]\ncommand = \"exit $CODE\"\nenv = {{ CODE = \"{code}\" }}\n");
    world.file("jobs.toml", &[job(0), job(7), job(7)].concat());
    let run = ["run", "--profile-first", "--policy", "os", "--json", "-", "jobs.toml"];
    let report = json(world.memweir().args(run), 1);
    assert_eq!(exit_codes(&report), [Some(0), Some(7), Some(7)]);
    let list = json(world.memweir().args(["store", "list", "--json", "-"]), 0);
    let profiles = list["profiles"].as_array().expect("a list");
    let mut codes: Vec<_> = profiles.iter().map(|entry| entry["exit_code"].as_i64()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(7)], "{list}");
}
