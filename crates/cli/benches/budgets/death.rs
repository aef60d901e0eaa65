//! Time for which jobs stay blocked after memweir is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memweir_linux::leftovers::groups;
use memweir_test_support::rows::record;

use crate::{MEMWEIR, median, row};

/// Times that memweir is killed.
const KILLS: u32 = 50;

/// Four jobs on one core, so that three of them are blocked.
const BATCH: &str = "run --policy round-robin --quantum 10ms --cores 1 --each 4";

pub(crate) fn measure(place: &Path) {
    let Some(thaws) =
        (0..KILLS).map(|kill| thaw_after_kill(place, kill)).collect::<Option<Vec<_>>>()
    else {
        return memweir_test_support::skip!(Kernel, "SIGKILL: no groups of cgroup v2");
    };
    record("SIGKILL to the last job thawed", "ms", thaws.iter().map(|thaw| thaw * 1e3));
    let longest = thaws.iter().copied().fold(0.0, f64::max);
    row("SIGKILL to the last job thawed, median", &format!("{:.1} ms", median(thaws) * 1e3));
    row("the same, longest", &format!("{:.1} ms", longest * 1e3));
}

/// Kills memweir while three of its four jobs are blocked. Returns the seconds until none of them
/// is, or `None` where it has no groups of cgroup v2.
fn thaw_after_kill(place: &Path, kill: u32) -> Option<f64> {
    let before = groups();
    let mut memweir = Command::new(MEMWEIR)
        .current_dir(place)
        .args(BATCH.split(' '))
        .args(["--", "sh", "-c", "while :; do :; done"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("memweir runs");
    std::thread::sleep(Duration::from_millis(150 + u64::from(kill) * 7 % 50));
    // Not the guardian's.
    let has_jobs = |group: &PathBuf| group.join("job-0/cgroup.kill").exists();
    let is_ours = |group: &PathBuf| !before.contains(group) && has_jobs(group);
    let ours: Vec<PathBuf> = groups().into_iter().filter(is_ours).collect();
    let killed = Instant::now();
    memweir.kill().expect("a process of ours");
    while ours.iter().any(|group| is_blocked(group)) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let thawed = killed.elapsed();
    memweir.wait().expect("a process of ours");
    for group in &ours {
        std::fs::write(group.join("cgroup.kill"), "1").expect("the jobs can be killed");
    }
    (!ours.is_empty()).then_some(thawed.as_secs_f64())
}

/// Returns true if a group or a leaf of it is frozen.
fn is_blocked(group: &Path) -> bool {
    let frozen = |path: &Path| {
        std::fs::read_to_string(path.join("cgroup.events"))
            .is_ok_and(|events| events.contains("frozen 1"))
    };
    let leaves = std::fs::read_dir(group).into_iter().flatten().flatten();
    frozen(group) || leaves.map(|leaf| leaf.path()).any(|leaf| frozen(&leaf))
}
