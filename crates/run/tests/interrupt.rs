//! A signal to memweir ends the profiled program too. This program starts itself again to be the
//! memweir that is interrupted: signals go to a whole process, and a test harness has threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memweir_linux::MeterKind;
use memweir_linux::qemu::{Qemu, QemuPaths};
use memweir_run::profile::{Isolation, ProfileOptions, profile};
use memweir_run::store::Invocation;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const DIRECTORY: &str = "MEMWEIR_TEST_DIRECTORY";

fn main() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return profile_a_program_that_never_ends(Path::new(&directory));
    }
    if let Err(error) = Qemu::find(&QemuPaths::default()) {
        return memweir_test_support::skip!(Program, "{error}");
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        a_signal_kills_the_program_too(signal);
        println!("{signal} ended the profile and the program");
    }
}

fn profile_a_program_that_never_ends(directory: &Path) {
    let argv = ["sh", "-c", "echo $$ > pid; exec sleep 1000"];
    let endless = Invocation {
        program: PathBuf::from("/bin/sh"),
        argv: argv.map(Into::into).to_vec(),
        directory: directory.to_owned(),
        stdin: None,
    };
    let options = ProfileOptions {
        meter: Some(MeterKind::Software),
        // The test reads what the program writes.
        isolation: Some(Isolation::None),
        ..ProfileOptions::default()
    };
    let error = profile(&endless, &options, &mut |_| ()).unwrap_err();
    fs::write(directory.join("error"), error.to_string()).unwrap();
}

fn a_signal_kills_the_program_too(signal: Signal) {
    let dir = tempfile::tempdir().unwrap();
    let mut memweir =
        Command::new(std::env::current_exe().unwrap()).env(DIRECTORY, dir.path()).spawn().unwrap();
    let file = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    while !file("pid").ends_with('\n') {
        assert!(memweir.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(memweir.id().cast_signed()), signal).unwrap();
    assert!(memweir.wait().unwrap().success());
    assert_eq!(file("error"), format!("ended by {signal}"));
    let pid: i32 = file("pid").trim().parse().unwrap();
    assert_eq!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH), "the program is gone");
}
