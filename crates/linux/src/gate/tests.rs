use std::process::{Child, Command};

use super::*;

/// The record of a thread of `job` in the process of `child`, as the only thread there.
fn take(gate: &Gate, job: u32, child: &Child, state: ThreadState) -> usize {
    let number = gate.page().claim(job).expect("a free record");
    let record = &gate.page().threads[number];
    record.pid.store(child.id(), Relaxed);
    record.tid.store(child.id(), Relaxed);
    record.state.store(state as u32, Relaxed);
    number
}

fn child(program: &str, arguments: &[&str]) -> Child {
    Command::new(program).args(arguments).spawn().expect("a child")
}

fn until_quiet(gate: &Gate, child: &Child) {
    while !gate.sleepers.is_quiet(child.id()) {
        std::thread::yield_now();
    }
}

/// A thread that wrote to a pipe waits until the reader, whom the host lets wait for a processor,
/// is at the gate. Its siblings must not be moved meanwhile, or figures depend on the host's load.
#[test]
fn a_thread_that_awaits_another_process_is_stuck_only_once_that_is_quiet() {
    let gate = Gate::new(Costs::default(), 1, Nanos::ZERO).expect("a gate");
    let mut writer = child("sleep", &["60"]);
    let mut reader = child("sh", &["-c", "while :; do :; done"]);
    until_quiet(&gate, &writer);
    let record = &gate.page().threads[take(&gate, 3, &writer, ThreadState::Settling)];
    let others = take(&gate, 3, &reader, ThreadState::Blocked);
    assert!(!gate.is_stuck(record, ThreadState::Settling), "the reader computes");
    assert!(gate.is_stuck(record, ThreadState::Running), "its own process does not");
    gate.page().threads[others].call.store(NATIVE, Relaxed);
    assert!(gate.is_stuck(record, ThreadState::Settling), "nobody waits for such a program");
    gate.page().threads[others].call.store(0, Relaxed);
    gate.page().threads[others].job.store(4, Relaxed);
    assert!(gate.is_stuck(record, ThreadState::Settling), "nor for another job");
    gate.page().threads[others].job.store(3, Relaxed);
    reader.kill().expect("a child of ours");
    reader.wait().expect("a child of ours");
    assert!(gate.is_stuck(record, ThreadState::Settling), "the reader is gone");
    gate.page().threads[others].pid.store(0, Relaxed);
    assert!(!gate.is_stuck(record, ThreadState::Settling), "a fork's child is on its way");
    writer.kill().expect("a child of ours");
    writer.wait().expect("a child of ours");
}
