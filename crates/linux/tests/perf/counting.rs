//! Counts against known traffic.

use memweir_core::medium::data::MediumData;
use memweir_core::{Counts, JobId, Media, MediumId, Nanos};
use memweir_linux::meter::perf::{PerfMeter, PerfOpenError, SampleIps};
use memweir_linux::{Meter, MeterKind};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::child::{Held, run, software_events};

const JOB: JobId = JobId(7);
const PAGES: u64 = 20_000;

/// Lines that the test's event file reports for one page fault.
const LINES_PER_FAULT: u64 = 64;

/// Faults that a program of the test's kind causes besides those it is asked for: its start, its
/// libraries, its heap; a shell, `env` and the dynamic linker for each process.
const OTHER_FAULTS: u64 = 4_000;

fn meter() -> Option<PerfMeter> {
    match PerfMeter::open(Some(&software_events()), &Media::dram_only(), SampleIps::No) {
        Ok(meter) => Some(meter),
        Err(PerfOpenError::Unavailable(probe)) => {
            memweir_test_support::skip!(Kernel, "no perf events here: {}", probe.reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn read(meter: &mut PerfMeter) -> Counts {
    meter.read(JOB, Nanos::ZERO, Nanos::ZERO).unwrap().counts
}

fn assert_faults(counts: Counts, at_least: u64) {
    let faults = counts.reads.0 / LINES_PER_FAULT;
    assert_eq!(counts.reads.0 % LINES_PER_FAULT, 0);
    assert!(faults >= at_least, "{faults} faults, {at_least} were caused");
    assert!(faults < at_least + OTHER_FAULTS, "{faults} faults, {at_least} were caused");
}

/// Counts a process from before its exec to after its end.
fn count(mut held: Held) -> Option<Counts> {
    let mut meter = meter()?;
    meter.attach(JOB, held.pid()).unwrap();
    assert_eq!(read(&mut meter), Counts::default(), "nothing counts before exec");
    held.release();
    held.finish();
    Some(read(&mut meter))
}

#[test]
fn every_page_fault_of_a_program_is_counted() {
    let Some(counts) = count(Held::task(&format!("touch:{PAGES}"))) else { return };
    assert_faults(counts, PAGES);
    assert!(counts.instructions > 0, "the task clock ran");
}

#[test]
fn threads_count() {
    let Some(counts) = count(Held::task(&format!("threads:4:{}", PAGES / 4))) else { return };
    assert_faults(counts, PAGES);
}

#[test]
fn children_count_with_their_parent() {
    let task = run(&format!("touch:{}", PAGES / 4));
    // Counting starts when the waiting shell becomes another one.
    let script = format!("exec sh -c '{task} & {task} & {task}; {task}; wait' \"$0\"");
    let Some(counts) = count(Held::shell(&script)) else { return };
    assert_faults(counts, PAGES);
}

#[test]
fn children_that_outlive_the_first_process_in_a_session_of_their_own_count() {
    let Some(mut meter) = meter() else { return };
    let task = run(&format!("touch:{PAGES}"));
    let mut held = Held::shell(&format!("exec sh -c 'setsid {task} & exit 0' \"$0\""));
    meter.attach(JOB, held.pid()).unwrap();
    held.release();
    held.finish();
    assert_faults(read(&mut meter), PAGES);
}

#[test]
fn sleeps_are_context_switches() {
    let kernel_counts = |meter: PerfMeter| {
        meter.capabilities().caveats.iter().all(|caveat| !caveat.contains("perf_event_paranoid"))
    };
    if !meter().is_some_and(kernel_counts) {
        return memweir_test_support::skip!(
            Kernel,
            "the kernel's events are not counted for this user"
        );
    }
    let Some(counts) = count(Held::task("sleep:50")) else { return };
    assert!(counts.writes.0 >= 50, "{} switches in 50 sleeps", counts.writes.0);
}

/// A meter of the events that tell media apart: page faults are lines of DRAM, context switches
/// lines of other memory.
fn media_meter(media: &Media) -> PerfMeter {
    let folder = software_events().parent().unwrap().to_owned();
    PerfMeter::open(Some(&folder.join("software-media.toml")), media, SampleIps::No).unwrap()
}

#[test]
fn media_are_told_apart_where_there_are_several() {
    if meter().is_none() {
        return;
    }
    let cxl = Media::with_dram(&[MediumData::shipped("cxl").unwrap()]).unwrap();
    let mut meter = media_meter(&cxl);
    assert!(meter.capabilities().media);
    let caveats = meter.capabilities().caveats.join(" ");
    assert!(caveats.contains("Writes are divided among the media"), "{caveats}");
    let mut held = Held::task("sleep:50");
    meter.attach(JOB, held.pid()).unwrap();
    held.release();
    held.finish();
    let counts = read(&mut meter);
    let [dram, nvm] = [0, 1].map(|n| counts.traffic(MediumId::new(n).unwrap()));
    assert_eq!(dram.reads.0 % LINES_PER_FAULT, 0);
    assert!(dram.reads.0 > 0 && counts.reads == dram.reads + nvm.reads, "{counts:?}");
    // Where the kernel's events are not counted there are no context switches.
    if !caveats.contains("perf_event_paranoid") {
        assert!(nvm.reads.0 >= 50, "{} switches in 50 sleeps", nvm.reads.0);
        assert!(nvm.writes.0 > 0, "{counts:?}");
    }
}

#[test]
fn the_events_of_media_that_the_machine_has_not_are_left_alone() {
    if meter().is_none() {
        return;
    }
    let meter = media_meter(&Media::dram_only());
    assert!(!meter.capabilities().media);
    assert!(meter.describe().contains("reads by minor-faults,"), "{}", meter.describe());
}

#[test]
fn the_task_clock_follows_the_cpu_time() {
    let Some(counts) = count(Held::task("spin:100")) else { return };
    assert!(counts.instructions >= 100_000_000, "{} ns", counts.instructions);
    assert!(counts.instructions < 1_000_000_000, "{} ns", counts.instructions);
}

#[test]
fn counts_grow_while_it_runs_and_rest_while_it_is_blocked() {
    let Some(mut meter) = meter() else { return };
    let mut held = Held::task(&format!("touch-and-wait:{PAGES}:{PAGES}"));
    meter.attach(JOB, held.pid()).unwrap();
    held.release();
    held.wait_for_ready();
    let pid = Pid::from_raw(held.pid());
    kill(pid, Signal::SIGSTOP).unwrap();
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    let first = read(&mut meter);
    assert_faults(first, PAGES);
    assert_eq!(read(&mut meter).reads, first.reads, "a blocked job reads nothing");
    kill(pid, Signal::SIGCONT).unwrap();
    held.release();
    held.finish();
    let last = read(&mut meter);
    assert_faults(last, 2 * PAGES);
    assert_eq!(read(&mut meter), last, "ended jobs can be read until they are detached");
    meter.detach(JOB);
    assert!(meter.read(JOB, Nanos::ZERO, Nanos::ZERO).is_err());
}

#[test]
fn jobs_are_counted_apart() {
    let Some(mut meter) = meter() else { return };
    let (mut small, mut large) = (Held::task("touch:100"), Held::task("touch:30000"));
    meter.attach(JobId(0), small.pid()).unwrap();
    meter.attach(JobId(1), large.pid()).unwrap();
    for held in [&mut small, &mut large] {
        held.release();
        held.finish();
    }
    let mut of = |job| meter.read(JobId(job), Nanos::ZERO, Nanos::ZERO).unwrap().counts;
    assert_faults(of(0), 100);
    assert_faults(of(1), 30_000);
}

#[test]
fn it_says_what_it_sees() {
    let Some(mut meter) = meter() else { return };
    assert_eq!(meter.kind(), MeterKind::Perf);
    let capabilities = meter.capabilities();
    assert!(capabilities.instructions && capabilities.writes);
    let caveats = capabilities.caveats.join(" ");
    assert!(caveats.contains("no memory traffic") && caveats.contains("page faults"), "{caveats}");
    assert_eq!(meter.take_notices(), Vec::<String>::new());
}

#[test]
fn the_limit_of_open_files_refuses_one_job_and_says_what_helps() {
    if meter().is_none() {
        return;
    }
    let mut held = Held::shell(&format!("ulimit -n 40; exec {}", run("open-all-files")));
    held.release();
    held.finish();
}

#[test]
fn a_process_that_is_gone_is_refused() {
    let Some(mut meter) = meter() else { return };
    let mut held = Held::task("touch:1");
    let pid = held.pid();
    held.release();
    held.finish();
    let error = meter.attach(JOB, pid).unwrap_err().to_string();
    assert!(error.contains("gone"), "{error}");
}

#[test]
fn a_bad_event_file_is_bad_input_and_not_a_missing_meter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "format = 1\ncpus = []\n").unwrap();
    let Err(PerfOpenError::Input(error)) =
        PerfMeter::open(Some(&file), &Media::dram_only(), SampleIps::No)
    else {
        panic!()
    };
    assert_eq!(error.line, Some(2));
    assert!(error.help.unwrap().contains("did you mean `cpu`?"));
}
