//! Signals to `memweir color run`, and its leftovers when it is killed.

use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{inside, placing};
use crate::support::{send, wait_until};

/// The file of counters of process `pid`.
fn counters_of(pid: i32) -> PathBuf {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("it runs");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let order = environment.split('\0').find(|entry| entry.starts_with("MEMWEIR_COLOR="));
    let path = order.and_then(|order| order.split_once("counters=")).expect("an order").1;
    PathBuf::from(path)
}

/// Returns true if process `memweir` has a claim on the setting of compaction.
fn claimed(memweir: u32) -> bool {
    let ledger = "/run/memweir/proc-sys-vm-compact_unevictable_allowed";
    let claims = std::fs::read_to_string(ledger).unwrap_or_default();
    claims.contains(&format!("memweir-{memweir}-"))
}

#[test]
fn a_killed_memweir_leaves_a_program_in_its_colors_and_nothing_for_good() {
    let Some(world) = placing(&["python3"]) else { return };
    let wait = "import os, signal; open('p', 'w').write(str(os.getpid())); os.rename('p', 'pid')\n\
                x = bytearray(8 << 20); signal.pause()";
    let arguments =
        ["color", "run", "--map", "map.toml", "--colors", "4-7", "--", "python3", "-c", wait];
    let mut run = world.start(&arguments);
    wait_until("the program runs", || world.has("pid"));
    let pid: i32 = world.read("pid").parse().expect("a process id");
    let counters = counters_of(pid);
    assert!(claimed(run.id()), "compaction leaves locked pages alone");
    send(&run, Signal::SIGKILL);
    run.wait().expect("memweir was killed");
    wait_until("the guardian gives up the claim on the setting", || !claimed(run.id()));

    // Another start does not take the file from the program that still runs.
    let start = || {
        let arguments = ["color", "run", "--map", "map.toml", "--colors", "0", "--", "true"];
        world.memweir().args(arguments).assert().success();
    };
    start();
    assert!(counters.exists());
    let mut audit = Value::Null;
    wait_until("it has its memory", || {
        audit = inside(&world, &pid.to_string());
        audit["own"]["pages"].as_u64() > Some(1000)
    });
    assert_eq!(audit["asked"], "4-7");

    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the program runs");
    wait_until("the next start removes the file", || {
        start();
        !counters.exists()
    });
}

#[test]
fn a_signal_goes_on_to_the_program() {
    let Some(world) = placing(&["python3"]) else { return };
    // A shell would inherit the blocked signals; python prints them.
    let wait = "import os, signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), flush=True)\n\
                open('p', 'w').close(); os.rename('p', 'ready'); signal.pause()";
    let mut run = world.start(&[
        "color", "run", "--map", "map.toml", "--colors", "0-3", "--json", "run.json", "--",
        "python3", "-c", wait,
    ]);
    wait_until("the program runs", || world.has("ready"));
    assert_eq!(world.read("stdout"), "[]\n", "no signal is blocked");
    send(&run, Signal::SIGINT);
    assert_eq!(run.wait().expect("memweir ends").code(), Some(130));
    let report = world.json("run.json");
    // Python raises KeyboardInterrupt, then ends by the signal as the shell expects it.
    assert_eq!(report["signal"], 2, "{report}");
}
