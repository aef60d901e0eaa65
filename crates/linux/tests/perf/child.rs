//! The programs that the tests count: this test binary again, with its task in an environment
//! variable.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use memweir_core::{JobId, Media, Nanos};
use memweir_linux::Meter;
use memweir_linux::meter::perf::{PerfMeter, SampleIps};
use nix::time::ClockId;

/// Variable that names the child's task.
const TASK: &str = "MEMWEIR_TEST_CHILD";

/// Runs the task that the environment names; does nothing in an ordinary test run.
pub(crate) fn main() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<_> = task.split(':').collect();
    let number = |index: usize| words[index].parse::<usize>().unwrap();
    match words[0] {
        "touch" => touch_pages(number(1)),
        "threads" => std::thread::scope(|scope| {
            for _ in 0..number(1) {
                scope.spawn(|| touch_pages(number(2)));
            }
        }),
        "sleep" => (0..number(1)).for_each(|_| std::thread::sleep(Duration::from_millis(1))),
        "spin" => spin(Duration::from_millis(number(1) as u64)),
        "spin-in-library" => spin_in_library(Duration::from_millis(number(1) as u64)),
        "spin-threads" => std::thread::scope(|scope| {
            for _ in 0..number(1) {
                scope.spawn(|| spin_thread(Duration::from_millis(number(2) as u64)));
            }
        }),
        "phases" => {
            let span = Duration::from_millis(number(1) as u64);
            spin(span);
            println!("\nready");
            std::io::stdin().read_exact(&mut [0]).unwrap();
            spin_in_library(span);
        }
        "touch-and-wait" => {
            touch_pages(number(1));
            println!("\nready");
            std::io::stdin().read_exact(&mut [0]).unwrap();
            touch_pages(number(2));
        }
        "open-all-files" => open_all_files(),
        other => panic!("unknown task {other}"),
    }
    std::process::exit(0);
}

/// Attaches jobs until the limit of open files is reached, frees one and attaches it again.
fn open_all_files() {
    let mut meter =
        PerfMeter::open(Some(&software_events()), &Media::dram_only(), SampleIps::No).unwrap();
    let me = i32::try_from(std::process::id()).unwrap();
    let refused = (0..1000).find_map(|job| meter.attach(JobId(job), me).err().map(|e| (job, e)));
    let (job, error) = refused.expect("no limit was reached");
    assert!(job > 0 && error.to_string().contains("ulimit -n"), "{error}");
    meter.detach(JobId(0));
    meter.attach(JobId(job), me).expect("what was opened for the refused job is closed again");
    meter.read(JobId(1), Nanos::ZERO, Nanos::ZERO).expect("the others are counted on");
}

/// Causes exactly one fault for each of `pages` pages of 4 KiB.
fn touch_pages(pages: usize) {
    let mut memory = memmap2::MmapMut::map_anon(pages * 4096).unwrap();
    memory.advise(memmap2::Advice::NoHugePage).unwrap();
    for page in 0..pages {
        memory[page * 4096] = 1;
    }
}

fn clock(clock: ClockId) -> Duration {
    nix::time::clock_gettime(clock).unwrap().into()
}

/// Uses the CPU for `span` of its own time, in code of this binary.
fn spin(span: Duration) {
    let end = clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) + span;
    while clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) < end {
        spin_a_little();
    }
}

/// The same by the time of the calling thread.
fn spin_thread(span: Duration) {
    let end = clock(ClockId::CLOCK_THREAD_CPUTIME_ID) + span;
    while clock(ClockId::CLOCK_THREAD_CPUTIME_ID) < end {
        spin_a_little();
    }
}

fn spin_a_little() {
    std::hint::black_box((0..10_000u64).fold(0u64, |a, b| a.wrapping_mul(31) ^ b));
}

/// Uses the CPU for `span` of its own time, in code of the C library.
fn spin_in_library(span: Duration) {
    let end = clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) + span;
    let text = vec![b'x'; 1 << 20];
    while clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) < end {
        // SAFETY: the pointer and the length are those of a vector that lives on.
        let found = unsafe { libc::memchr(text.as_ptr().cast(), i32::from(b'y'), text.len()) };
        assert!(found.is_null());
    }
}

/// The event file that needs no PMU.
pub(crate) fn software_events() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/software-events.toml")
}

/// A process that waits for [`Held::release`] before it calls exec.
pub(crate) struct Held {
    pub(crate) child: Child,
    stdin: ChildStdin,
}

impl Held {
    /// A shell that runs `script` once released. Its `$0` is this test binary.
    pub(crate) fn shell(script: &str) -> Self {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("read line; {script}")])
            .arg(std::env::current_exe().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin }
    }

    /// A process that becomes this binary with `task`.
    pub(crate) fn task(task: &str) -> Self {
        Self::shell(&format!("exec {}", run(task)))
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Lets it go on to exec, or through a wait of its own.
    pub(crate) fn release(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    /// Waits until the program has printed `ready`.
    pub(crate) fn wait_for_ready(&mut self) {
        let output = BufReader::new(self.child.stdout.as_mut().unwrap());
        assert!(output.lines().any(|line| line.unwrap() == "ready"));
    }

    /// Waits for the end of the process and of everything that holds its output open.
    pub(crate) fn finish(&mut self) {
        let mut rest = Vec::new();
        self.child.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The shell words that run `task` in a process of its own; they hold no single quote.
pub(crate) fn run(task: &str) -> String {
    format!("env {TASK}={task} \"$0\" --exact child_program --nocapture --test-threads=1")
}
