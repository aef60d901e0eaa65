//! Runs commands under a policy and prints the report: `memweir run` in the fewest lines.
//!
//! `run_batch POLICY QUANTUM_MS LOGS [--release] [--mechanism NAME] [--meter NAME]
//! [--plugin FILE] [--timeline FILE] -- CMD [ARGS] ::: CMD [ARGS]`
//!
//! The tests of the crate run it where they need a process to kill, and as their guardian.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

use memweir_run::batch::run_batch;
use memweir_run::jobs::Batch;
use memweir_run::observer::{Event, Observer};
use memweir_run::options::{self, GUARDIAN_ARGUMENT, OnExit, RunOptions};

/// Prints events to standard error.
struct Talk;

impl Observer for Talk {
    fn event(&mut self, event: Event<'_>) {
        if !matches!(event, Event::QuantumEnded(_)) {
            eprintln!("{event:?}");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == GUARDIAN_ARGUMENT) {
        return Ok(memweir_linux::guardian::main()?);
    }
    let dashes = arguments.iter().position(|argument| argument == "--").ok_or("no `--`")?;
    let batch = Batch::from_arguments(&arguments.split_off(dashes)[1..])?;
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let mut next = || words.next().ok_or("an argument is missing");
    let mut run = RunOptions {
        policy: options::policy(&next()?)?,
        quantum: options::quantum(next()?.parse()?)?,
        logs: PathBuf::from(next()?.into_owned()),
        ..RunOptions::default()
    };
    while let Ok(option) = next() {
        match &*option {
            "--release" => run.on_exit = OnExit::Release,
            "--mechanism" => run.mechanism = Some(next()?.parse()?),
            "--meter" => run.meter = next()?.parse()?,
            "--plugin" => run.software.qemu.plugin = Some(next()?.into_owned().into()),
            "--timeline" => run.timeline = Some(next()?.into_owned().into()),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let report = run_batch(&batch, &run, &mut Talk)?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
