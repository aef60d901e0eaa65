//! The turnaround of a batch beside programs outside of it.

use std::path::Path;
use std::process::{Child, Command};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::pairs;

/// Pairs for each number of programs, where `MEMWEIR_PAIRS` does not say how many.
const PAIRS: u32 = 30;
/// CPUs on which jobs and programs run.
const CPUS: usize = 2;

/// A third of a second of CPU work in a shell, on a current core.
const WORK: &str = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";

pub(crate) fn measure(place: &Path) {
    let before = sched_getaffinity(Pid::this()).expect("the CPUs of this process");
    let mut two = CpuSet::new();
    let allowed = (0..CpuSet::count()).filter(|cpu| before.is_set(*cpu).unwrap_or(false));
    allowed.take(CPUS).for_each(|cpu| two.set(cpu).expect("a CPU of this machine"));
    // Children inherit it.
    sched_setaffinity(Pid::this(), &two).expect("CPUs of this process");
    for count in [1, 2] {
        let programs: Vec<Endless> = (0..count).map(|_| Endless::start()).collect();
        let batch = ["--each", "8", "--", "sh", "-c", WORK];
        let differences = pairs::measure(place, "round-robin", &batch, PAIRS);
        drop(programs);
        pairs::print(
            &format!("8 jobs beside {count} endless, round-robin to os"),
            differences.iter().map(|difference| difference.turnaround),
        );
    }
    sched_setaffinity(Pid::this(), &before).expect("the CPUs of before");
}

/// A program that uses the CPU without end, in a session of its own as one of another user is.
struct Endless(Child);

impl Endless {
    fn start() -> Self {
        let mut command = Command::new("setsid");
        Self(command.args(["sh", "-c", "while :; do :; done"]).spawn().expect("setsid runs"))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.kill().expect("a process of ours");
        self.0.wait().expect("a process of ours");
    }
}
