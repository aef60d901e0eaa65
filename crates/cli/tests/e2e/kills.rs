//! memweir is killed at random moments: every job runs on to its end, and the next start cleans
//! up what the dead runs left.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memweir_linux::leftovers::groups;
use nix::sys::signal::Signal;

use crate::support::{World, root, send, wait_until};

const KILLS: u32 = 200;
const WORKERS: u32 = 4;

/// Says that it runs, works for a while, says that it is done.
const JOB: &str =
    "echo $$ > started.$0; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo > done.$0";

/// Moments from 0 to 300 ms, the same in every run of the test.
fn moment(kill: u32) -> Duration {
    let mut x = u64::from(kill).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    Duration::from_micros((x >> 32) % 300_000)
}

fn kill_once(number: u32) {
    let world = World::new();
    let run = ["run", "--policy", "round-robin", "--quantum", "10ms", "--cores", "1", "--"];
    let [one, two, three] = ["1", "2", "3"].map(|name| ["sh", "-c", JOB, name]);
    let mut memweir = world.start(&[&run[..], &one, &[":::"], &two, &[":::"], &three].concat());
    std::thread::sleep(moment(number));
    send(&memweir, Signal::SIGKILL);
    memweir.wait().expect("memweir is over");
    wait_until("every job of the killed run ends", || world.processes().is_empty());
    for job in 1..=3 {
        let started = world.has(&format!("started.{job}"));
        let done = world.has(&format!("done.{job}"));
        assert!(done || !started, "kill {number}: job {job} was started and did not finish");
    }
}

#[test]
fn no_job_stays_frozen_and_no_group_stays_behind() {
    if !root("freezing in cgroups") {
        return;
    }
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= KILLS {
                        break;
                    }
                    kill_once(number);
                }
            });
        }
    });
    let before: Vec<PathBuf> = groups().into_iter().filter(|path| is_dead(path)).collect();
    let run = ["run", "--policy", "round-robin", "--", "true"];
    World::new().memweir().args(run).assert().success();
    let left: Vec<PathBuf> = groups().into_iter().filter(|path| before.contains(path)).collect();
    assert!(left.is_empty(), "the next start left {left:?}");
}

/// Returns true if no process is in the group: other tests run at the same time.
fn is_dead(group: &Path) -> bool {
    std::fs::read_to_string(group.join("cgroup.events"))
        .is_ok_and(|events| events.contains("populated 0"))
}
