//! A fault at each step of a command: before the n-th call that changes something outside of it the
//! command is killed or interrupted, or for want of room this call fails, or it and all that
//! follow, for every n that it reaches.
//!
//! Faults at random moments mostly hit the long phases; here each short one has its turn.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{World, exists, root, stdout_of, wait_until};
use crate::{colors, paged};

/// The library that counts the calls of a command, and makes the fault at one of them.
const LIBRARY: &str = include_str!("steps.c");

/// One step in so many is tried, beginning with a random one, unless MEMWEIR_STEPS says otherwise.
const STRIDE: u64 = 20;

/// Trials at a time, each in a world of its own.
const WORKERS: usize = 4;

/// Exit codes of a command for which there was no room: a job could not be started, the machine
/// refused, or a result could not be written.
const REFUSED: [i32; 3] = [1, 3, 4];

/// Exit code of a command that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    /// The disk is full, or there may be no further process.
    Shortage,
    /// The same from then on.
    LastingShortage,
    /// Somebody presses Ctrl-C.
    Interrupt,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Shortage => "shortage",
            Fault::LastingShortage => "lasting-shortage",
            Fault::Interrupt => "interrupt",
        }
    }
}

/// The library, compiled.
pub(crate) struct Steps {
    built: World,
}

impl Steps {
    /// Compiles the library; returns `None` and reports a skip where there is no compiler.
    pub(crate) fn compiled() -> Option<Self> {
        let built = World::new();
        let source = built.file("steps.c", LIBRARY);
        let steps = exists("cc").then_some(Self { built })?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(steps.library()).arg(&source).arg("-ldl");
        assert!(compiler.status().expect("it starts").success());
        Some(steps)
    }

    fn library(&self) -> PathBuf {
        self.built.path().join("steps.so")
    }

    /// Lets a command of `world` meet a fault at this step.
    pub(crate) fn arm(&self, command: &mut Command, world: &World, fault: Fault, step: u64) {
        command.env("LD_PRELOAD", self.library()).env("COUNT", count(world));
        command.env("STEP", step.to_string()).env("FAULT", fault.name());
    }

    /// Tries steps until one is not reached.
    pub(crate) fn each(try_step: impl Fn(u64) -> Reached + Sync) {
        let stride = std::env::var("MEMWEIR_STEPS")
            .map_or(STRIDE, |number| number.parse().expect("MEMWEIR_STEPS is a number"));
        let first = 1 + u64::from(std::process::id()) % stride;
        println!("one step in {stride}, from {first}");
        let (next, tried) = (AtomicU64::new(first), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while try_step(next.fetch_add(stride, Ordering::Relaxed)) == Reached::Yes {
                        tried.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let tried = tried.into_inner();
        println!("{tried} steps");
        if tried == 0 {
            // The command has fewer steps than the first that was tried.
            assert_eq!(try_step(1), Reached::Yes, "no step was reached");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Yes,
    No,
}

fn count(world: &World) -> PathBuf {
    world.path().join("count")
}

/// Says if the command in `world` has reached a step.
pub(crate) fn reached(world: &World, step: u64) -> Reached {
    let steps = std::fs::metadata(count(world)).expect("the library was loaded").len();
    if steps >= step { Reached::Yes } else { Reached::No }
}

/// Returns true if this signal has ended a process.
pub(crate) fn ended_by(end: ExitStatus, signal: Signal) -> bool {
    end.signal() == Some(signal as i32)
}

/// A command that writes a report to `run.json`; most let programs run.
struct Case {
    /// Its arguments, with blanks between them.
    arguments: &'static str,
    /// Number of programs whose files can be seen: those of a profile are private.
    programs: u32,
    prepare: fn(&World),
}

/// The file `program` of each world: it says that it begins, works for a while, and says that it is
/// done.
const PROGRAM: &str =
    "echo > began.$1; i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done; echo > done.$1";

impl Case {
    fn try_all(&self) {
        let Some(steps) = Steps::compiled() else { return };
        for fault in [Fault::Kill, Fault::Shortage, Fault::LastingShortage, Fault::Interrupt] {
            Steps::each(|step| self.try_step(&steps, fault, step));
        }
    }

    fn try_step(&self, steps: &Steps, fault: Fault, step: u64) -> Reached {
        let world = World::new();
        world.file("program", PROGRAM);
        (self.prepare)(&world);
        let mut command = world.without_input();
        let log = |name: &str| std::fs::File::create(world.path().join(name)).expect("a file");
        command.args(self.arguments.split_whitespace()).stdout(log("stdout")).stderr(log("stderr"));
        steps.arm(&mut command, &world, fault, step);
        let end = command.status().expect("it starts");
        let reached = reached(&world, step);
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| world.read(name));
        let what = format!("{}, {fault:?} at step {step}: {end}", self.arguments);
        let what = format!("{what}\n{stdout}{stderr}");
        wait_until("every program ends", || world.processes().is_empty());
        // Ctrl-C ends the programs, too.
        let whole = if fault == Fault::Interrupt { 0 } else { 2 };
        for number in 1..=whole {
            let [began, done] =
                ["began", "done"].map(|name| world.has(&format!("{name}.{number}")));
            assert_eq!(
                began, done,
                "program {number} began and was not done, or without it: {what}"
            );
        }
        match (fault, end.code()) {
            (Fault::Kill, _) if reached == Reached::Yes => {
                assert!(ended_by(end, Signal::SIGKILL), "{what}");
            }
            (Fault::Interrupt, None) => assert!(ended_by(end, Signal::SIGINT), "{what}"),
            (Fault::Interrupt, Some(INTERRUPTED)) => assert_eq!(reached, Reached::Yes, "{what}"),
            (_, Some(0)) => {
                let missing = (1..=self.programs).find(|n| !world.has(&format!("done.{n}")));
                assert_eq!(missing, None, "a program was not done: {what}");
                let whole: Result<Value, _> = serde_json::from_str(&world.read("run.json"));
                assert!(whole.is_ok(), "{whole:?}: {what}");
            }
            (_, code) => {
                let is_refused = code.is_some_and(|code| REFUSED.contains(&code));
                assert!(is_refused && reached == Reached::Yes, "{what}");
            }
        }
        reached
    }
}

#[test]
fn a_batch_meets_a_fault_at_each_step() {
    if root("freezing in cgroups") {
        let arguments = "run --policy round-robin --quantum 10ms --cores 1 --json run.json \
                         --timeline run.csv --record run.jsonl -- sh program 1 ::: sh program 2";
        Case { arguments, programs: 2, prepare: |_| () }.try_all();
    }
}

#[test]
fn a_comparison_meets_a_fault_at_each_step() {
    if root("freezing in cgroups") {
        let arguments = "run --compare os,round-robin --repeat 1 --quantum 10ms --cores 1 \
                         --json run.json -- sh program 1 ::: sh program 2";
        Case { arguments, programs: 2, prepare: |_| () }.try_all();
    }
}

#[test]
fn emulation_meets_a_fault_at_each_step() {
    if exists("qemu-x86_64") {
        let arguments = "emulate --machine iabw --policy round-robin --quantum 10ms \
                         --json run.json -- sh program 1 ::: sh program 2";
        Case { arguments, programs: 2, prepare: |_| () }.try_all();
    }
}

#[test]
fn profiling_meets_a_fault_at_each_step() {
    if exists("qemu-x86_64") {
        let arguments = "profile --json run.json --recording run.parquet --svg run.svg \
                         -- sh program 1";
        Case { arguments, programs: 0, prepare: |_| () }.try_all();
    }
}

#[test]
fn coloring_meets_a_fault_at_each_step() {
    if colors::possible() {
        let arguments = "color run --map map.toml --colors 0-3 --json run.json -- sh program 1";
        let prepare = |world: &World| drop(world.file("map.toml", colors::MAP));
        Case { arguments, programs: 1, prepare }.try_all();
    }
}

#[test]
fn paging_meets_a_fault_at_each_step() {
    if paged::possible() {
        let arguments = "page run --dram 8M --nvm memfd:64M --json run.json --timeline run.csv \
                         -- sh program 1";
        Case { arguments, programs: 1, prepare: |_| () }.try_all();
    }
}

#[test]
fn a_sweep_meets_a_fault_at_each_step() {
    let arguments = "sim mix.toml --sweep cores=1..3 --json run.json --out run.csv --svg run.svg";
    let prepare = |world: &World| {
        world.file("mix.toml", &stdout_of(world.memweir().args(["sim", "--example"]), 0));
    };
    Case { arguments, programs: 0, prepare }.try_all();
}
