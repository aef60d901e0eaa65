//! `hog`, `hogsim`, `calibrate` and `map detect`: their refusals, and their ends when they are
//! interrupted.

use std::process::{Child, Command};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{MEMWEIR, SmallGroup, World, json, refusal, send, stderr_of, wait_until};

/// A calibration in which one core reaches 10 GB/s.
const PLATFORM: &str = r#"
[target]
status = "not-measurable"
reason = "a test"
[[idle_table]]
idle = 0
bandwidth = 1e10
[[idle_table]]
idle = 100
bandwidth = 1e9
"#;

/// Waits until the threads of a memweir have used the CPU, or have ended, and interrupts it;
/// returns its exit code.
fn interrupt_at_work(mut memweir: Child) -> Option<i32> {
    let stat = format!("/proc/{}/stat", memweir.id());
    wait_until("it measures", || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let fields: Vec<&str> = fields.collect();
        // The 14th field of the line, the 12th behind the name: ticks of 10 ms.
        let ticks = fields.get(11).and_then(|ticks| ticks.parse::<u64>().ok());
        ticks > Some(30) || fields.first() == Some(&"Z")
    });
    send(&memweir, Signal::SIGINT);
    memweir.wait().expect("memweir ends").code()
}

#[test]
fn an_interrupted_hog_tells_what_it_moved() {
    let world = World::new();
    let options = ["--for", "1000s", "--array", "4M", "--json", "hog.json"];
    let memweir = world.start(&[&["hog"], &options[..]].concat());
    assert_eq!(interrupt_at_work(memweir), Some(130));
    let said = world.read("stdout");
    assert!(said.contains("a signal ended it early"), "{said}");
    let report = world.json("hog.json");
    assert_eq!(report["interrupted"], true);
    assert!(report["bytes"].as_u64() > Some(0), "{report}");
}

#[test]
fn an_interrupted_detection_says_so_and_writes_no_map() {
    let world = World::new();
    // A simulated machine is measured in milliseconds, this one in many seconds.
    let options = ["-o", "found.toml", "--json", "detect.json"];
    let memweir = world.start(&[&["map", "detect"], &options[..]].concat());
    let code = interrupt_at_work(memweir);
    if code != Some(130) {
        let stderr = world.read("stderr");
        memweir_test_support::skip!(Processor, "this machine cannot be measured: {stderr}");
        return;
    }
    let said = world.read("stdout");
    assert!(said.contains("a signal ended the measurements"), "{said}");
    assert!(!world.has("found.toml"));
    let report = world.json("detect.json");
    assert_eq!(report["verdict"], "refused");
}

#[test]
fn an_interrupted_calibration_keeps_its_points_beside_the_file() {
    let world = World::new();
    let memweir = world.start(&["calibrate", "--full", "--platform", "platform.toml"]);
    let code = interrupt_at_work(memweir);
    // On a machine with much other work, it is refused before the signal comes.
    if code == Some(3) {
        memweir_test_support::skip!(Busy, "this machine is too busy to be calibrated");
        return;
    }
    assert_eq!(code, Some(130), "{}", world.read("stderr"));
    assert!(!world.has("platform.toml"));
    assert!(world.read("stdout").contains("interrupted"), "{}", world.read("stdout"));
}

#[test]
fn a_hog_fits_into_its_control_group() {
    let Some(group) = SmallGroup::of_memory(64 << 20) else { return };
    let enter = format!("echo $$ > {}; exec \"$@\"", group.entrance().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &enter, "sh", MEMWEIR, "hog", "--json", "--for", "100ms"]);
    let report = json(&mut shell.into(), 0);
    let array = report["array_bytes"].as_u64().expect("a size");
    assert!(array <= 16 << 20, "two arrays in half of the group's memory: {report}");
}

#[test]
fn a_busy_machine_is_not_calibrated() {
    let world = World::new();
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::this()).expect("an affinity");
    let cpu = (0..1024).find(|cpu| allowed.is_set(*cpu).unwrap_or(false)).expect("a CPU");
    let cpu = cpu.to_string();
    let spin =
        || Command::new("taskset").args(["-c", &cpu, "sh", "-c", "while :; do :; done"]).spawn();
    let mut others = [spin(), spin()].map(|spun| spun.expect("taskset"));
    let arguments = ["calibrate", "--cpus", &cpu, "--platform", "platform.toml"];
    let message = refusal(world.memweir().args(arguments), 3);
    for other in &mut others {
        other.kill().expect("it runs");
        other.wait().expect("it ends");
    }
    assert!(message.contains("too busy to be calibrated"), "{message}");
    let cores = std::thread::available_parallelism().expect("a processor").get();
    let told = message.contains(&format!("1 of {cores} cores measure"));
    assert_eq!(told, cores > 1, "{message}");
    assert!(message.contains("% of the time") && message.contains("CPU quota"), "{message}");
    assert!(!world.has("platform.toml"));
}

#[test]
fn a_calibration_is_compared_with_the_machine() {
    let world = World::new();
    let check = ["calibrate", "--check", "--platform", "platform.toml"];
    let message = refusal(world.memweir().args(check), 2);
    assert!(message.contains("`memweir calibrate` writes a calibration"), "{message}");
    world.calibrated(PLATFORM);
    let message = refusal(world.memweir().args(check), 2);
    assert!(message.contains("is from another machine (A Processor there"), "{message}");
    assert!(message.contains("it has no peak"), "{message}");
    // No machine is as slow as that.
    let peak = "peak = { bandwidth = 1e6, saturation = 9e5, kernel = 'read', instances = 1 }";
    let stream = "[[streams]]\nkernel = 'read'\ninstances = 1\nbandwidth = 1e6\n";
    let before = world.read("platform.toml").replace("[machine]", &format!("{peak}\n[machine]"));
    let platform = format!("{before}{stream}");
    world.file("platform.toml", &platform);
    let output = world.memweir().args(check).args(["--json", "-"]).output().expect("it starts");
    if output.status.code() == Some(3) {
        memweir_test_support::skip!(Busy, "this machine is too busy to be measured");
        return;
    }
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["holds"], false);
    assert_eq!(report["figures"][0]["cores"], 1);
    assert!(report["figures"][0]["change"].as_f64() > Some(1.0), "{report}");
    assert_eq!(world.read("platform.toml"), platform, "nothing is written");
}

#[test]
fn wrong_options_are_refused_before_anything_is_measured() {
    let world = World::new();
    world.calibrated(PLATFORM);
    let message = refusal(world.memweir().args(["hog", "--array", "1"]), 2);
    assert!(message.contains("holds no line") && message.contains("64"), "{message}");
    let platform = ["--platform", "platform.toml"];
    let message =
        refusal(world.memweir().args(["hogsim", "--synthetic", "900GB/s"]).args(platform), 2);
    assert!(message.contains("one core reaches 10.0 GB/s"), "{message}");
    world.file("segment", "memweir-segment 1\ninterval_ns 1000000\n1e9\n2e9\n");
    for (wrong, reason) in [
        ("--degree=nan", "`nan` is no factor"),
        ("--degree=-2", "`-2` is no factor"),
        ("--degree=1e300", "a rate is a finite number"),
        ("--period=0", "a period of no length"),
        ("--period=1e9", "an interval lasts from a nanosecond to a minute"),
    ] {
        let mut replay = world.memweir();
        let message = refusal(replay.args(["hogsim", "segment", wrong]).args(platform), 2);
        assert!(message.contains(reason), "{wrong}: {message}");
    }
    world.file("plan", "memweir-hogsim 1\nkernel read\n10 0\n");
    let options = ["hogsim", "plan", "--write-segment", "written"];
    let message = refusal(world.memweir().args(options), 2);
    assert!(message.contains("a plan has no segment") && !world.has("written"), "{message}");
    let message = refusal(world.memweir().args(["hogsim", "plan", "--kernel", "copy"]), 2);
    assert!(message.contains("the plan is of the kernel read, not copy"), "{message}");
    let target = world.path().join("absent/platform.toml");
    let message = refusal(world.memweir().args(["calibrate", "--platform"]).arg(&target), 4);
    assert!(message.contains("absent/platform.toml"), "{message}");
    assert!(!world.has("absent"), "a directory was made");
    let cpu = memweir_linux::topology::allowed_cpus().expect("the CPUs")[0];
    let twice = ["calibrate", "--cpus", &format!("{cpu},{cpu}")];
    let message = refusal(world.memweir().args(twice).args(platform), 2);
    assert!(message.contains(&format!("--cpus: CPU {cpu} is named twice")), "{message}");
    let message = refusal(world.memweir().args(["store", "show", "zzz"]), 2);
    assert!(message.contains("no entry has a key that begins with `zzz`"), "{message}");
}

#[test]
fn hogsim_says_what_a_segment_asks_for_in_vain() {
    let world = World::new();
    world.calibrated(PLATFORM);
    let rates: String = (0..100).map(|i| if i < 7 { "5e10\n" } else { "1e9\n" }).collect();
    world.file("segment", &format!("memweir-segment 1\ninterval_ns 1000000\n{rates}"));
    let options =
        ["--platform", "platform.toml", "--traffic", "1M", "--array", "4M", "--json", "-"];
    let mut command = world.memweir();
    command.args(["hogsim", "segment"]).args(options);
    let report = json(&mut command, 0);
    assert_eq!(report["interrupted"], false);
    let said = stderr_of(&mut command, 0);
    assert!(said.contains("7 of 100 intervals ask for more than the 10.0 GB/s"), "{said}");
}

#[test]
fn hogsim_replays_a_segment_by_the_kernel_of_the_idle_table() {
    let world = World::new();
    world.calibrated(PLATFORM);
    let of_reads = world.read("platform.toml").replace("kernel = \"copy\"", "kernel = \"read\"");
    world.file("platform.toml", &of_reads);
    world.file("segment", "memweir-segment 1\ninterval_ns 1000000\n1e9\n");
    let options = ["--platform", "platform.toml", "--traffic", "1M", "--array", "4M"];
    let replay = |arguments: &[&str]| {
        let mut replay = world.memweir();
        replay.args(["hogsim", "segment", "--write-plan", "plan"]).args(options).args(arguments);
        replay
    };
    assert_eq!(json(&mut replay(&["--json", "-"]), 0)["kernel"], "read");
    // 15,625 lines of 64 bytes take 1 ms at 1 GB/s.
    assert_eq!(world.read("plan"), "memweir-hogsim 1\nkernel read\n15625 100\n");
    let message = refusal(&mut replay(&["--kernel", "copy"]), 2);
    assert!(message.contains("the idle table is of the kernel read, not copy"), "{message}");
    assert!(message.contains("memweir calibrate --kernel copy"), "{message}");
}

#[test]
fn an_untrusted_calibration_or_store_of_the_default_place_is_not_waited_for() {
    let world = World::new();
    let data = world.path().join("data/memweir");
    std::fs::create_dir_all(&data).expect("a directory");
    for name in ["platform.toml", "profiles.sqlite"] {
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&data.join(name), mode).expect("a FIFO");
    }
    let message = refusal(world.memweir().args(["hogsim", "--synthetic", "1GB/s"]), 2);
    assert!(message.contains("not a regular file"), "{message}");
    let message = refusal(world.memweir().args(["store", "list"]), 3);
    assert!(message.contains("not a regular file"), "{message}");
}
