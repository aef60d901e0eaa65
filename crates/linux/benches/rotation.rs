//! CPU time that rotation costs a job: alternate seconds of one batch of eight busy jobs, blocked
//! and resumed each quantum as under `round-robin` in one second, left to the operating system in
//! the next.
//!
//! Whole runs of a batch differ by several percent because of host activity that comes and goes
//! over seconds, which hides a difference of half a percent. Here the members of a pair are
//! neighboring seconds of the same processes, there are hundreds of pairs, and each member counts
//! the CPU time of the jobs and of this process, user and system, per unit of work done.
//!
//! `cargo bench -p memweir-linux --bench rotation`; `MEMWEIR_PAIRS` is the number of pairs.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use memmap2::MmapRaw;
use memweir_core::JobId;
use memweir_core::metrics::hodges_lehmann;
use memweir_linux::blocker::{self, Blocker};
use memweir_linux::clock::process_cpu_time;
use memweir_linux::launch::{Launch, Process, launch};
use memweir_linux::{guardian, leftovers};
use memweir_test_support::rows::record;

const JOBS: usize = 8;
const CORES: usize = 2;
const QUANTUM: Duration = Duration::from_millis(100);
/// Quanta of one member of a pair: each job is switched in and out two or three times.
const QUANTA: usize = 10;
const PAIRS: usize = 300;
const LEVEL: f64 = 0.95;
/// Words of the array that a job works on: as many as fit a first-level cache, so that refilling
/// the cache after a switch is part of the cost.
const WORDS: usize = 4096;
/// A cache line, so that the counters of two jobs share none.
const COUNTER_BYTES: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "guardian"] => {
            return guardian::main().expect("the pipe of the bench");
        }
        [_, "work", file, job] => work(file, job.parse().expect("a job's number")),
        _ => {}
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("run `cargo bench -p memweir-linux --bench rotation` to measure");
        return;
    }
    for line in leftovers::clean() {
        eprintln!("{line}");
    }
    let pairs = std::env::var("MEMWEIR_PAIRS")
        .map_or(PAIRS, |number| number.parse().expect("MEMWEIR_PAIRS is a number"));
    match measure(pairs) {
        Ok(differences) => {
            let percent = differences.iter().map(|difference| difference * 100.0);
            record("CPU time per unit of work", "%", percent);
            print(&differences);
        }
        Err(error) => memweir_test_support::skip!(Privilege, "{error}"),
    }
}

/// Runs a job: does units of work forever and counts each in the job's counter in the shared file.
fn work(file: &str, job: usize) -> ! {
    let file = File::options().read(true).write(true).open(file).expect("the file of counters");
    let map = MmapRaw::map_raw(&file).expect("mapping the counters");
    let counter = counter(&map, job);
    let mut array = vec![1u64; WORDS];
    loop {
        for round in 0..8 {
            for word in &mut array {
                *word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(round);
            }
        }
        black_box(&mut array);
        counter.fetch_add(1, Relaxed);
    }
}

fn counter(map: &MmapRaw, job: usize) -> &AtomicU64 {
    assert!((job + 1) * COUNTER_BYTES <= map.len());
    // SAFETY: in bounds by the assertion, aligned to a line because the map is to a page, and as
    // many bytes as an atomic that every process accesses as one. The map outlives the reference.
    unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(job * COUNTER_BYTES).cast()) }
}

/// The batch and its counters.
struct Batch {
    blocker: Box<dyn Blocker>,
    processes: Vec<Process>,
    counters: MmapRaw,
    /// First job of the next round-robin choice.
    next: usize,
}

/// CPU time and work so far.
#[derive(Clone, Copy)]
struct Reading {
    cpu_seconds: f64,
    work: u64,
}

/// Returns the extra CPU time per unit of work of each pair under rotation, as the logarithm of the
/// ratio.
fn measure(pairs: usize) -> Result<Vec<f64>, String> {
    let mut batch = Batch::start()?;
    let measured = (0..=pairs).map(|number| batch.pair(number)).collect::<Result<Vec<f64>, _>>();
    batch.end();
    // The first second warms up.
    measured.map(|differences| differences[1..].to_vec())
}

impl Batch {
    fn start() -> Result<Self, String> {
        let command = guardian::Command::this_program(["guardian"]);
        let opened = blocker::open(None, "bench", &command).map_err(|e| e.to_string())?;
        let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
        file.as_file().set_len((JOBS * COUNTER_BYTES) as u64).map_err(|e| e.to_string())?;
        let counters = MmapRaw::map_raw(file.as_file()).map_err(|e| e.to_string())?;
        let path = file.path().to_string_lossy().into_owned();
        let mut batch = Self { blocker: opened.blocker, processes: Vec::new(), counters, next: 0 };
        if let Err(error) = (0..JOBS).try_for_each(|job| batch.launch(job, &path)) {
            batch.end();
            return Err(error);
        }
        // A job that has done work has opened the file.
        while (0..JOBS).any(|job| counter(&batch.counters, job).load(Relaxed) == 0) {
            std::thread::sleep(QUANTUM);
        }
        Ok(batch)
    }

    fn launch(&mut self, job: usize, file: &str) -> Result<(), String> {
        let (id, arguments) = (JobId(job as u32), ["rotation", "work", file, &job.to_string()]);
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let description = Launch::silent(program, arguments.map(Into::into).to_vec())
            .map_err(|e| e.to_string())?;
        let place = self.blocker.prepare(id).map_err(|e| e.to_string())?;
        let newborn = launch(&description, &place).map_err(|e| e.to_string())?;
        self.blocker.spawned(id, newborn.pid()).map_err(|e| e.to_string())?;
        self.processes.push(newborn.exec().map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Measures one pair; its members take turns at being first.
    fn pair(&mut self, number: usize) -> Result<f64, String> {
        let (rotated, free) = if number.is_multiple_of(2) {
            let rotated = self.rotated()?;
            (rotated, self.free()?)
        } else {
            let free = self.free()?;
            (self.rotated()?, free)
        };
        Ok((rotated / free).ln())
    }

    /// Returns the CPU seconds per unit of work, of the jobs and of this process, under rotation.
    fn rotated(&mut self) -> Result<f64, String> {
        let (before, own) = (self.reading()?, process_cpu_time().as_secs_f64());
        let mut until = Instant::now();
        for _ in 0..QUANTA {
            self.blocker.block_all().map_err(|e| e.to_string())?;
            // As a batch does between the two steps, read the counters of all jobs.
            self.reading()?;
            let chosen =
                std::array::from_fn::<_, CORES, _>(|n| JobId(((self.next + n) % JOBS) as u32));
            self.next = (self.next + CORES) % JOBS;
            self.blocker.run_only(&chosen).map_err(|e| e.to_string())?;
            until += QUANTUM;
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let (after, own) = (self.reading()?, process_cpu_time().as_secs_f64() - own);
        Ok((after.cpu_seconds - before.cpu_seconds + own) / (after.work - before.work) as f64)
    }

    /// Returns the same while the operating system schedules.
    fn free(&mut self) -> Result<f64, String> {
        self.blocker.run_all().map_err(|e| e.to_string())?;
        let before = self.reading()?;
        std::thread::sleep(QUANTUM * QUANTA as u32);
        let after = self.reading()?;
        Ok((after.cpu_seconds - before.cpu_seconds) / (after.work - before.work) as f64)
    }

    fn reading(&mut self) -> Result<Reading, String> {
        let mut reading = Reading { cpu_seconds: 0.0, work: 0 };
        for job in 0..JOBS {
            let time = self.blocker.cpu_time(JobId(job as u32)).map_err(|e| e.to_string())?;
            reading.cpu_seconds += time.as_secs_f64();
            reading.work += counter(&self.counters, job).load(Relaxed);
        }
        Ok(reading)
    }

    fn end(&mut self) {
        for process in &mut self.processes {
            let _ = process.signal(libc::SIGKILL);
        }
        let _ = self.blocker.run_all();
        for process in &mut self.processes {
            let _ = process.wait();
        }
    }
}

/// Prints the figure.
fn print(differences: &[f64]) {
    let Some((usual, interval)) = hodges_lehmann(differences, LEVEL) else {
        return memweir_test_support::skip!(Privilege, "no pair was measured");
    };
    println!(
        "CPU time per unit of work of {JOBS} busy jobs on {CORES} cores, rotated every {QUANTUM:?} against left alone"
    );
    print!("{:+.2} %", usual * 100.0);
    if let Some(interval) = &interval {
        print!(" (95 %: {:+.2} to {:+.2} %)", interval.low * 100.0, interval.high * 100.0);
    }
    println!(", {} pairs", differences.len());
}
