//! The meter of a batch.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use memweir_core::{Counts, JobId, Nanos};
use memweir_linux::meter::software::SoftwareMeter;
use memweir_linux::qemu::QemuPaths;
use memweir_linux::{Launch, Meter};

use crate::common::*;

fn meter() -> SoftwareMeter {
    SoftwareMeter::new(caches(), &QemuPaths::default()).unwrap()
}

pub(crate) fn start(meter: &mut SoftwareMeter, job: JobId, mut launch: Launch) -> Child {
    meter.prepare(job, &mut launch).unwrap();
    let child = Command::new(&launch.program)
        .arg0(&launch.argv[0])
        .args(&launch.argv[1..])
        .env_clear()
        .envs(&launch.env)
        .stdin(launch.stdin)
        .stdout(launch.stdout)
        .stderr(launch.stderr)
        .spawn()
        .unwrap();
    meter.attach(job, child.id() as i32).unwrap();
    child
}

fn read(meter: &mut SoftwareMeter, job: JobId) -> (Counts, Vec<u32>) {
    let reading = meter.read(job, Nanos(0), Nanos(0)).unwrap();
    (reading.counts, reading.instruction_pointers)
}

/// Runs one job under the meter. Its counts, and its instruction-pointer vector.
pub(crate) fn run_to_the_end(job: Job) -> (Counts, Vec<u32>) {
    let mut meter = meter();
    let mut child = start(&mut meter, JobId(0), job.launch);
    assert!(child.wait().unwrap().success());
    read(&mut meter, JobId(0))
}

#[test]
fn counts_grow_while_the_job_runs_and_stay_when_it_is_killed() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let mut meter = meter();
    let launch = Job::new(&stream.path, &["16", "1000000"]).launch;
    let mut child = start(&mut meter, JobId(3), launch);
    let mut seen = Counts::default();
    for _ in 0..3 {
        let enough = seen.reads.0 + 100_000;
        while seen.reads.0 < enough {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(5));
            let (now, pointers) = read(&mut meter, JobId(3));
            let since: u64 = pointers.iter().map(|n| u64::from(*n)).sum();
            let instructions = now.instructions - seen.instructions;
            assert!(since * 1024 >= instructions && since <= instructions / 1024 + 64);
            seen = now;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (last, _) = read(&mut meter, JobId(3));
    assert!(last.reads >= seen.reads && last.instructions >= seen.instructions);
    meter.detach(JobId(3));
    assert!(meter.read(JobId(3), Nanos(0), Nanos(0)).is_err());
}

#[test]
fn two_jobs_that_fit_alone_evict_each_other() {
    // Five quarters of a megabyte each, in a last level of two.
    let source = r"
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long n = 5 << 15, sum = 0;
    volatile long *a = malloc(n * 8);
    long times = atol(argv[1]);
    for (long t = 0; t < times; t++) for (long i = 0; i < n; i += 8) sum += a[i];
    return sum != 0;
}
";
    let Some(program) = compile(source, &[]) else { return };
    let alone = {
        let mut meter = meter();
        let mut child = start(&mut meter, JobId(0), Job::new(&program.path, &["2000"]).launch);
        assert!(child.wait().unwrap().success());
        read(&mut meter, JobId(0)).0.reads.0
    };
    assert!(alone < 60_000, "alone it reads its array once, not {alone}");
    let mut meter = meter();
    let mut one = start(&mut meter, JobId(0), Job::new(&program.path, &["2000"]).launch);
    let mut two = start(&mut meter, JobId(1), Job::new(&program.path, &["2000"]).launch);
    assert!(one.wait().unwrap().success() && two.wait().unwrap().success());
    let together = read(&mut meter, JobId(0)).0.reads.0 + read(&mut meter, JobId(1)).0.reads.0;
    // The number of refills depends on how the two are scheduled; there is at least one per change
    // of turns.
    assert!(together > 4 * alone, "{together} together, {alone} alone");
}

#[test]
fn a_program_that_does_not_fit_the_emulator_is_refused_before_it_starts() {
    if emulator_is_missing() {
        return;
    }
    let mut launch = Job::new("/etc/passwd", &[]).launch;
    let error = meter().prepare(JobId(0), &mut launch).unwrap_err().to_string();
    assert!(error.contains("/etc/passwd") && error.contains("neither"), "{error}");
}

#[test]
fn a_job_runs_on_when_nobody_counts_it_any_more() {
    if emulator_is_missing() {
        return;
    }
    let job = Job::shell("read wait; ls / > /dev/null && seq 3 | tr '\\n' ' '");
    let (reader, writer) = std::io::pipe().unwrap();
    let (mut launch, stdout) = job.into_parts();
    launch.stdin = std::os::fd::OwnedFd::from(reader).into();
    let mut meter = meter();
    let mut child = start(&mut meter, JobId(0), launch);
    while read(&mut meter, JobId(0)).0.instructions == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(meter);
    drop(writer);
    assert!(child.wait().unwrap().success());
    assert_eq!(text(stdout), "1 2 3 ");
}
