//! Time to switch 8 of 16 single-threaded busy jobs, at normal priority.
//!
//! `cargo bench -p memweir-linux --bench switch` prints a table and, on the last line, the same as
//! JSON. A switch is `block_all` plus `run_only` of the 8 jobs that were blocked before; its time
//! is that for which the scheduler's own thread is busy. `leaf by leaf` flips each job's own group
//! in order, with the parent thawed, so that jobs which already run compete with the rest of the
//! switch.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use memweir_core::JobId;
use memweir_linux::blocker::{Blocker, Mechanism};
use memweir_linux::launch::{Launch, Process, launch};
use memweir_linux::{blocker, guardian, leftovers};
use memweir_test_support::rows::record;
use serde::Serialize;

const JOBS: u32 = 16;
const CHOSEN: u32 = 8;
/// Switches that are measured, and those before them that are not.
const SWITCHES: usize = 400;
const WARM_UP: usize = 40;
/// Jobs run between two switches, as in a short quantum.
const QUANTUM: Duration = Duration::from_millis(10);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("guardian") => {
            return guardian::main().expect("the pipe of the bench");
        }
        Some("spin") => spin(),
        _ => {}
    }
    // `cargo bench` passes this flag; `cargo test --benches` does not, and is no time for 16 busy
    // jobs.
    if !std::env::args().any(|arg| arg == "--bench") {
        println!("run `cargo bench -p memweir-linux --bench switch` to measure");
        return;
    }
    for line in leftovers::clean() {
        eprintln!("{line}");
    }
    let mut rows = Vec::new();
    for (name, mechanism, how) in [
        ("v2 two-level", Mechanism::CgroupV2, How::Blocker),
        ("v2 leaf by leaf", Mechanism::CgroupV2, How::LeafByLeaf),
        ("SIGSTOP", Mechanism::Sigstop, How::Blocker),
        ("v1 two-level", Mechanism::CgroupV1, How::Blocker),
        ("BPF scheduler", Mechanism::SchedExt, How::Blocker),
    ] {
        match measure(mechanism, how) {
            Ok(samples) => {
                let micros = samples.iter().map(|sample| sample.as_secs_f64() * 1e6);
                record(name, "us", micros);
                rows.push(Row::new(name, samples));
            }
            Err(error) => memweir_test_support::skip!(Privilege, "{name}: {error}"),
        }
    }
    print(&rows);
}

/// Keeps a CPU busy, without the `pause` instruction: an emulator stops executing at each.
fn spin() -> ! {
    loop {
        std::hint::black_box(());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// As memweir switches.
    Blocker,
    /// Each leaf's own switch, with the parent thawed.
    LeafByLeaf,
}

#[derive(Serialize)]
struct Row {
    mechanism: &'static str,
    median_us: f64,
    p90_us: f64,
    p99_us: f64,
}

impl Row {
    fn new(mechanism: &'static str, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |share: f64| {
            let index = (share * (samples.len() - 1) as f64).round() as usize;
            samples[index].as_nanos() as f64 / 1000.0
        };
        Self { mechanism, median_us: at(0.5), p90_us: at(0.9), p99_us: at(0.99) }
    }
}

fn print(rows: &[Row]) {
    println!(
        "switching {CHOSEN} of {JOBS} single-threaded busy jobs, normal priority, microseconds"
    );
    println!("{:<18}{:>12}{:>12}{:>12}", "mechanism", "median", "p90", "p99");
    for row in rows {
        let Row { mechanism, median_us, p90_us, p99_us } = row;
        println!("{mechanism:<18}{median_us:>12.1}{p90_us:>12.1}{p99_us:>12.1}");
    }
    let line = serde_json::json!({
        "jobs": JOBS,
        "chosen": CHOSEN,
        "switch": rows,
    });
    println!("{line}");
}

fn measure(mechanism: Mechanism, how: How) -> Result<Vec<Duration>, String> {
    let command = guardian::Command::this_program(["guardian"]);
    let opened = blocker::open(Some(mechanism), "bench", &command).map_err(|e| e.to_string())?;
    let mut blocker = opened.blocker;
    let mut processes = Vec::new();
    let measured = start(&mut *blocker, &mut processes).and_then(|()| match how {
        How::Blocker => switch(|chosen| {
            blocker.block_all()?;
            blocker.run_only(chosen)
        }),
        How::LeafByLeaf => {
            blocker.run_all().map_err(|error| error.to_string())?;
            let mut leaves =
                Leaves::open().map_err(|error| format!("opening the leaves: {error}"))?;
            let samples = switch(|chosen| leaves.set(chosen))?;
            leaves.set(&JOB_IDS).map_err(|error| error.to_string())?;
            Ok(samples)
        }
    });
    // Nothing may be left behind, whatever happened. Under the v1 freezer a job dies when it runs.
    for mut process in processes {
        let _ = process.signal(libc::SIGKILL);
        let _ = blocker.run_all();
        let _ = process.wait();
    }
    measured
}

const JOB_IDS: [JobId; JOBS as usize] = {
    let mut ids = [JobId(0); JOBS as usize];
    let mut n = 0;
    while n < JOBS {
        ids[n as usize] = JobId(n);
        n += 1;
    }
    ids
};

/// Times `once`, which is to let the given half of the jobs run and no other.
fn switch<E: std::fmt::Display>(
    mut once: impl FnMut(&[JobId]) -> Result<(), E>,
) -> Result<Vec<Duration>, String> {
    let mut samples = Vec::with_capacity(SWITCHES);
    for round in 0..SWITCHES + WARM_UP {
        // The other half each time: every job changes.
        let first = if round % 2 == 0 { 0 } else { CHOSEN as usize };
        let chosen = &JOB_IDS[first..first + CHOSEN as usize];
        let start = Instant::now();
        once(chosen).map_err(|error| error.to_string())?;
        if round >= WARM_UP {
            samples.push(start.elapsed());
        }
        std::thread::sleep(QUANTUM);
    }
    Ok(samples)
}

fn start(blocker: &mut dyn Blocker, processes: &mut Vec<Process>) -> Result<(), String> {
    let spin = || -> io::Result<Launch> {
        Launch::silent(std::env::current_exe()?, ["switch", "spin"].map(Into::into).to_vec())
    };
    for job in JOB_IDS {
        let place = blocker.prepare(job).map_err(|error| error.to_string())?;
        let description = spin().map_err(|error| error.to_string())?;
        let newborn = launch(&description, &place).map_err(|error| error.to_string())?;
        blocker.spawned(job, newborn.pid()).map_err(|error| error.to_string())?;
        processes.push(newborn.exec().map_err(|error| error.to_string())?);
        // The next job must not compete with all earlier ones while it starts.
        blocker.run_only(&[]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The switches of this process's v2 leaves.
struct Leaves {
    switches: Vec<File>,
    running: [bool; JOBS as usize],
}

impl Leaves {
    fn open() -> io::Result<Self> {
        let own = format!("memweir-{}-", std::process::id());
        // The guardian's has no jobs.
        let is_own = |path: &PathBuf| {
            let is_named = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&own));
            is_named && path.join("job-0").is_dir()
        };
        let parent = leftovers::groups().into_iter().find(is_own);
        let parent = parent.ok_or_else(|| io::Error::other(format!("no group {own}*")))?;
        let open = |job: JobId| {
            let path = parent.join(format!("job-{job}/cgroup.freeze"));
            File::options().write(true).open(path)
        };
        let switches = JOB_IDS.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Self { switches, running: [true; JOBS as usize] })
    }

    fn set(&mut self, chosen: &[JobId]) -> io::Result<()> {
        for ((job, switch), running) in JOB_IDS.iter().zip(&self.switches).zip(&mut self.running) {
            let run = chosen.contains(job);
            if run != *running {
                switch.write_all_at(if run { b"0" } else { b"1" }, 0)?;
                *running = run;
            }
        }
        Ok(())
    }
}
