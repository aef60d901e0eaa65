use memweir_core::Lines;
use memweir_linux::meter::Capabilities;
use memweir_linux::meter::fake::{Failure, FakeMeter};

use super::*;

fn shell(script: &str) -> Launch {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    Launch { env: std::env::vars_os().collect(), ..Launch::silent("/bin/sh".into(), argv).unwrap() }
}

fn run(
    command: Launch,
    meter: Option<&mut dyn Meter>,
    interval: Nanos,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<NativeRun, ProfileError> {
    super::run(command, meter, interval, &Signals::caught().unwrap(), progress).map(|(run, _)| run)
}

fn meter(steps: &[u64]) -> FakeMeter {
    let counts = |reads: &u64| Counts::new(9, Lines(*reads), Lines(0));
    FakeMeter::new(steps.iter().map(counts).collect())
}

#[test]
fn time_and_exit_code_are_the_programs() {
    let mut told = 0;
    let run = run(shell("sleep 0.15; exit 7"), None, Nanos::MILLI, &mut |_| told += 1).unwrap();
    assert_eq!(run.exit.code(), 7);
    assert!(run.wall >= Nanos::from_millis(150), "{:?}", run.wall);
    assert!(run.exit.cpu_time < run.wall, "sleeping takes no CPU time");
    assert!(run.slices.is_empty() && told >= 1);
}

#[test]
fn children_count_to_the_cpu_time() {
    let burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let run =
        run(shell(&format!("({burn}) & ({burn}); wait")), None, Nanos::MILLI, &mut |_| ()).unwrap();
    assert!(run.exit.cpu_time > Nanos::from_millis(1), "{:?}", run.exit);
}

/// Runs a program that sleeps until the meter has been read.
fn run_until_read(meter: &mut FakeMeter) -> NativeRun {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let script = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let mut end = |_| std::fs::write(&go, "").unwrap();
    run(shell(&script), Some(meter), Nanos::from_millis(5), &mut end).unwrap()
}

#[test]
fn every_count_of_the_meter_is_in_a_slice_and_sleep_weighs_nothing() {
    let mut meter = meter(&[10, 20]);
    let run = run_until_read(&mut meter);
    let total = run.slices.iter().fold(Counts::default(), |sum, slice| sum + slice.counts);
    assert_eq!(total.reads, Lines(30));
    assert_eq!(run.slices.iter().filter(|slice| slice.weight > 0.0).count(), 2);
    assert!(!meter.is_attached() && !run.cut_short, "the meter was given back");
}

#[test]
fn a_meter_that_fails_on_the_way_keeps_what_it_counted_and_says_so() {
    let caveats = vec!["counts reads alone".to_owned()];
    let mut meter = meter(&[10, 20, 30])
        .failing(Failure::ReadsFrom(1))
        .capable_of(Capabilities { caveats, ..Capabilities::default() });
    let run = run_until_read(&mut meter);
    assert_eq!(run.slices.len(), 1);
    assert_eq!(run.slices[0].counts.reads, Lines(10));
    assert_eq!(run.notices[0], "counts reads alone");
    assert!(run.notices[1].contains("the meter failed"), "{:?}", run.notices);
    assert!(run.cut_short);
}

#[test]
fn a_meter_that_cannot_attach_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("ran");
    let mut meter = meter(&[]).failing(Failure::Attach);
    let script = format!("touch {}", trace.display());
    assert!(run(shell(&script), Some(&mut meter), Nanos::MILLI, &mut |_| ()).is_err());
    assert!(!trace.exists());
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_by_name() {
    let mut command = shell("");
    command.program = "/nonexistent/program".into();
    let Err(error) = run(command, None, Nanos::MILLI, &mut |_| ()) else {
        panic!("a program that does not exist ran")
    };
    assert!(error.to_string().contains("/nonexistent/program"), "{error}");
}
