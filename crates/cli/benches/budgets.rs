//! Measures what memweir costs, each figure beside its budget: the CPU time of a batch under
//! `round-robin` against `os`, how long jobs stay blocked when memweir is killed, and the slowdown
//! of the software meter. Paired, in one run.
//!
//! Run with `cargo bench -p memweir --bench budgets`, on a machine that does nothing else, after
//! `cargo build --release -p memweir-qemu-pmu`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

const MEMWEIR: &str = env!("CARGO_BIN_EXE_memweir");

/// Rounds of each pair; the median is reported.
const ROUNDS: usize = 5;

/// Seconds of CPU work in a shell, about one on a current core.
const WORK: &str = "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done";

/// Times that memweir is killed.
const KILLS: u32 = 50;

/// The first argument with which this program is the pointer chase that it measures.
const CHASE: &str = "chase";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(CHASE) {
        return chase();
    }
    // `cargo test --benches` runs this too, and must not measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path();
    println!("{:<48} {:>10} {:>10}", "what", "measured", "budget");
    let extra = median((0..ROUNDS).map(|_| extra_cpu_time(place)).collect());
    row("8 CPU-bound jobs, round-robin against os", &format!("{:+.2} %", extra * 100.0), "+0.50 %");
    let thaws = (0..KILLS).map(|kill| thaw_after_kill(place, kill)).collect::<Option<Vec<_>>>();
    match thaws.map(|thaws| (median(thaws.clone()), thaws.into_iter().fold(0.0, f64::max))) {
        Some((usual, longest)) => {
            row("SIGKILL to the last job thawed, median", &format!("{:.1} ms", usual * 1e3), "");
            row("the same, longest", &format!("{:.1} ms", longest * 1e3), "1000 ms");
        }
        None => row("SIGKILL to the last job thawed", "no cgroups", "1000 ms"),
    }
    let text = place.join("text");
    let words: String =
        (0..1_500_000_u32).map(|i| format!("{:x} ", i.wrapping_mul(0x9E37_79B9))).collect();
    std::fs::write(&text, words).expect("a file");
    let gzip = slowdown(place, &["gzip", "-6", "-c", "text"]);
    row("software meter, gzip", &format!("{gzip:.1} x"), "8.0 x");
    let this = std::env::current_exe().expect("a path");
    let chase = slowdown(place, &[this.to_str().expect("a path in UTF-8"), CHASE]);
    row("software meter, pointer chase", &format!("{chase:.1} x"), "12.0 x");
}

/// A walk through 64 MiB in random order: every step waits for memory.
fn chase() {
    let mut next: Vec<u32> = (0..1 << 24).collect();
    // Sattolo's shuffle makes one cycle of all.
    let mut state = 1_u64;
    for last in (1..next.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        next.swap(last, (state >> 33) as usize % last);
    }
    let place = (0..20_000_000).fold(0, |place, _| next[place as usize]);
    println!("{place}");
}

fn row(what: &str, measured: &str, budget: &str) {
    println!("{what:<48} {measured:>10} {budget:>10}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of all children that were waited for, theirs included.
fn children_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage");
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// CPU time of memweir and its jobs under `round-robin` over that under `os`, less one.
fn extra_cpu_time(place: &Path) -> f64 {
    let cpu_time = |policy: &str| {
        let before = children_cpu();
        let status = Command::new(MEMWEIR)
            .current_dir(place)
            .args(["run", "--policy", policy, "--each", "8", "--", "sh", "-c", WORK])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("memweir runs");
        assert!(status.success(), "{policy}: {status}");
        children_cpu() - before
    };
    let os = cpu_time("os");
    cpu_time("round-robin") / os - 1.0
}

/// Kills memweir while three of its four jobs are blocked. Seconds until none of them is, or `None`
/// where there are no cgroups.
fn thaw_after_kill(place: &Path, kill: u32) -> Option<f64> {
    let before = groups()?;
    let mut memweir = Command::new(MEMWEIR)
        .current_dir(place)
        .args([
            "run",
            "--policy",
            "round-robin",
            "--quantum",
            "10ms",
            "--cores",
            "1",
            "--each",
            "4",
        ])
        .args(["--", "sh", "-c", "while :; do :; done"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("memweir runs");
    std::thread::sleep(Duration::from_millis(150 + u64::from(kill) * 7 % 50));
    let ours: Vec<PathBuf> =
        groups().unwrap_or_default().into_iter().filter(|g| !before.contains(g)).collect();
    let killed = Instant::now();
    memweir.kill().expect("a process of ours");
    let blocked = |group: &Path| {
        let frozen = |path: &Path| {
            std::fs::read_to_string(path.join("cgroup.events"))
                .is_ok_and(|events| events.contains("frozen 1"))
        };
        let leaves = std::fs::read_dir(group).into_iter().flatten().flatten();
        frozen(group) || leaves.map(|leaf| leaf.path()).any(|leaf| frozen(&leaf))
    };
    while ours.iter().any(|group| blocked(group)) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let thawed = killed.elapsed();
    memweir.wait().expect("a process of ours");
    for group in &ours {
        std::fs::write(group.join("cgroup.kill"), "1").expect("the jobs can be killed");
    }
    assert!(!ours.is_empty(), "memweir made no group within 150 ms");
    Some(thawed.as_secs_f64())
}

/// The groups that memweir owns now.
fn groups() -> Option<Vec<PathBuf>> {
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .map(Path::new)
        .into_iter()
        .find(|root| root.join("cgroup.procs").exists())?;
    let entries = std::fs::read_dir(root).ok()?.flatten();
    let ours =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.as_bytes().starts_with(b"memweir"));
    Some(entries.map(|entry| entry.path()).filter(ours).collect())
}

/// CPU time of a program under the software meter over its native one.
fn slowdown(place: &Path, command: &[&str]) -> f64 {
    let ratio = || {
        let before = children_cpu();
        let native = Command::new(command[0])
            .args(&command[1..])
            .current_dir(place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("the program runs");
        assert!(native.success(), "{native}");
        let native = children_cpu() - before;
        let output = Command::new(MEMWEIR)
            .args(["run", "--policy", "os", "--meter", "software", "--json", "-", "--"])
            .args(command)
            .current_dir(place)
            .env("XDG_DATA_HOME", place)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("memweir runs");
        assert!(output.status.success(), "{}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["jobs"][0]["running_s"].as_f64().expect("a time") / native
    };
    median((0..3).map(|_| ratio()).collect())
}
