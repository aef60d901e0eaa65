//! The simulated operating system compared with the real one: how evenly spinning tasks share the
//! cores.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::{Demand, Experiment, Machine, Program, Span, Task, simulate};
use memweir_test_support::skip;

/// CPU time of each task in seconds; real tasks get roughly this much.
const SECONDS: u64 = 10;

/// Starts the number of spinning processes in its first argument and prints their ids. The weight
/// of the session's scheduling group shields them from other processes.
const SPINNERS: &str = "echo -20 >/proc/self/autogroup 2>/dev/null || exit 1
i=0; while [ $i -lt $1 ]; do (while :; do :; done) & echo $!; i=$((i + 1)); done; wait";

/// A session of spinning processes, which ends when this value is dropped.
struct Spinners {
    shell: Child,
    pids: Vec<u32>,
}

impl Spinners {
    /// Starts `count` processes; returns `None` if this user may not raise the weight of a session.
    fn start(count: usize) -> Option<Self> {
        let mut shell = Command::new("setsid")
            .args(["sh", "-c", SPINNERS, "sh", &count.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux has setsid");
        let lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
        let pids: Vec<u32> =
            lines.take(count).map_while(Result::ok).filter_map(|line| line.parse().ok()).collect();
        let spinners = Self { shell, pids };
        (spinners.pids.len() == count).then_some(spinners)
    }

    /// Returns the CPU time of each process in nanoseconds.
    fn cpu_times(&self) -> Vec<f64> {
        let time = |pid: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
            text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
        };
        self.pids.iter().map(time).collect()
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Returns the excess of the largest share of CPU time of real tasks over an equal share.
fn measured(tasks: usize, cores: usize) -> Option<f64> {
    let spinners = Spinners::start(tasks)?;
    sleep(Duration::from_millis(500));
    let before = spinners.cpu_times();
    sleep(Duration::from_secs(SECONDS * tasks as u64 / cores as u64));
    let after = spinners.cpu_times();
    let gained: Vec<f64> =
        after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let mean = gained.iter().sum::<f64>() / tasks as f64;
    Some(gained.into_iter().fold(0.0, f64::max) / mean - 1.0)
}

/// Returns the same excess for simulated tasks, when the first of them has computed for
/// [`SECONDS`].
fn simulated(tasks: usize, cores: usize, seed: u64) -> f64 {
    let work = Nanos::from_millis(1_000 * SECONDS);
    let span = Span { length: work, demand: Demand::default() };
    let program = Arc::new(Program { name: "spinner".to_owned(), spans: vec![span] });
    let machine = Machine::uniform("this", cores as u32, BytesPerSec::from_gb(10.0));
    let tasks = (0..tasks).map(|task| Task::once(format!("{task}"), program.clone())).collect();
    let mut experiment = Experiment::new(machine, tasks, "os");
    experiment.seed = seed;
    let outcome = simulate(&experiment).expect("a possible experiment");
    let first = outcome.tasks.iter().map(|task| task.finish).min().expect("there are tasks");
    let equal = first.as_f64() * cores as f64 / experiment.tasks.len() as f64;
    work.as_f64() / equal - 1.0
}

#[test]
fn spinning_tasks_share_the_cores_as_evenly_as_on_linux() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !(2..=8).contains(&cores) {
        return skip!(Processor, "{cores} cores; the comparison needs from 2 to 8");
    }
    let tasks = cores + 1;
    let Some(real) = measured(tasks, cores) else {
        return skip!(Privilege, "raising the weight of a session needs root and autogroups");
    };
    let seeds = 20;
    let all: Vec<f64> = (0..seeds).map(|seed| simulated(tasks, cores, seed)).collect();
    let mean = all.iter().sum::<f64>() / seeds as f64;
    let most = all.iter().copied().fold(0.0, f64::max);
    eprintln!(
        "largest share of {tasks} tasks on {cores} cores above an equal one: {:.1} % on this \
         machine, {:.1} % simulated (at most {:.1} %)",
        100.0 * real,
        100.0 * mean,
        100.0 * most
    );
    // Tasks that stayed on their cores would have 50 % more on two cores.
    assert!(real < 0.25, "{real}");
    assert!(mean < 2.0 * real.max(0.02), "{mean} simulated, {real} on this machine");
    assert!(most < 0.1, "{all:?}");
}
