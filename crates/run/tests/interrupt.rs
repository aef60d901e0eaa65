//! A signal to memweir ends the profiled programs too. This program starts itself again to be the
//! memweir that is interrupted: signals go to a whole process, and a test harness has threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memweir_linux::MeterKind;
use memweir_linux::launch::Signals;
use memweir_linux::qemu::{Qemu, QemuPaths};
use memweir_run::profile::{Isolation, ProfileError, ProfileOptions, Timed, profile};
use memweir_run::store::Invocation;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const DIRECTORY: &str = "MEMWEIR_TEST_DIRECTORY";

fn main() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return profile_programs_that_never_end(Path::new(&directory));
    }
    memweir_test_support::heed_signals();
    if let Err(error) = Qemu::find(&QemuPaths::default()) {
        return memweir_test_support::skip!(Program, "{error}");
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        a_signal_kills_the_programs_too(signal, &[0]);
    }
    a_signal_kills_the_programs_too(Signal::SIGINT, &[1, 2]);
}

/// Program 0 never ends natively; the others never end under the emulator.
fn endless(directory: &Path, number: usize) -> Invocation {
    let first = if number == 0 { String::new() } else { format!("mkdir first-{number} && exit; ") };
    let script = format!("{first}echo $$ > pid-{number}; exec sleep 1000");
    Invocation {
        program: PathBuf::from("/bin/sh"),
        argv: ["sh", "-c", &script].map(Into::into).to_vec(),
        directory: directory.to_owned(),
        env: std::collections::BTreeMap::new(),
        stdin: None,
    }
}

fn profile_programs_that_never_end(directory: &Path) {
    let options = ProfileOptions {
        meter: Some(MeterKind::Software),
        // The test reads what the program writes.
        isolation: Some(Isolation::None),
        ..ProfileOptions::default()
    };
    let keep = |number: usize, error: ProfileError| {
        fs::write(directory.join(format!("error-{number}")), error.to_string()).unwrap();
    };
    let signals = Signals::caught().unwrap();
    if !directory.join("at-once").exists() {
        let program = endless(directory, 0);
        return keep(0, profile(&program, &options, &signals, &mut |_| ()).unwrap_err());
    }
    let programs = [1, 2].map(|number| (number, endless(directory, number)));
    std::thread::scope(|scope| {
        for (number, program) in &programs {
            let timed = Timed::run(program, &options, &signals, &mut |_| ()).unwrap();
            let signals = &signals;
            scope.spawn(move || keep(*number, timed.count(signals, &mut |_| ()).unwrap_err()));
        }
    });
}

fn a_signal_kills_the_programs_too(signal: Signal, programs: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    if programs.len() > 1 {
        fs::write(dir.path().join("at-once"), "").unwrap();
    }
    let mut memweir =
        Command::new(std::env::current_exe().unwrap()).env(DIRECTORY, dir.path()).spawn().unwrap();
    let file = |name: &str, number: usize| {
        fs::read_to_string(dir.path().join(format!("{name}-{number}"))).unwrap_or_default()
    };
    while !programs.iter().all(|number| file("pid", *number).ends_with('\n')) {
        assert!(memweir.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(memweir.id().cast_signed()), signal).unwrap();
    assert!(memweir.wait().unwrap().success());
    for number in programs.iter().copied() {
        assert_eq!(file("error", number), format!("ended by {signal}"));
        let pid: i32 = file("pid", number).trim().parse().unwrap();
        assert_eq!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH), "the program is gone");
    }
    println!("{signal} ended programs {programs:?} and their profiles");
}
