//! `memweir emulate`: real programs on a machine that one does not have.

mod args;

use memweir_emulate::{EmulateOptions, Emulated, MachineReport, emulate, emulate_each};
use memweir_linux::stderr;
use memweir_run::compare::CompareOptions;
use memweir_run::options::RunOptions;
use memweir_run::report::BatchReport;

pub(crate) use args::Args;

use crate::failure::{Failure, Outcome};
use crate::render::text::counted;
use crate::render::{batch as render, comparison as render_comparison};
use crate::shared::batch::{ended, outcome, plot_comparison, plot_run, whole, with_notes, worst};
use crate::shared::batch_args::Plan;
use crate::shared::watcher::Watcher;
use crate::{interrupt, output};

/// Emulates the batch and shows the result.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let plan = args.plan()?;
    args.results.check(&args.comparing, &args.jobs)?;
    interrupt::block()?;
    match &plan.compare {
        None => once(args, &plan),
        Some(options) => several(args, &plan, options),
    }
}

fn once(args: &Args, plan: &Plan<EmulateOptions>) -> Result<Outcome, Failure> {
    let mut watcher = Watcher::new(args.results.plot.as_deref());
    let emulated = emulate(&plan.batch, &plan.options, &mut watcher);
    let (notes, mut timelines) = watcher.finish();
    let emulated = emulated?;
    let report = &emulated.report;
    let shown = output::report(args.results.json.as_deref(), &emulated, || {
        with_notes(&notes, &(machine(&emulated.machine) + &render::report(report)))
    });
    let plot = args.results.plot.as_ref().zip(timelines.pop());
    let plot = plot.map_or(Ok(()), |(path, rows)| plot_run(report, rows, path));
    let written = output::each([shown, plot, whole([report])]);
    let outcome = outcome(report).and_then(|outcome| match outcome {
        Outcome::Interrupted => Ok(outcome),
        _ if args.verify => verify(args, plan, &emulated),
        _ => Ok(outcome),
    });
    ended(outcome, written)
}

fn several(
    args: &Args,
    plan: &Plan<EmulateOptions>,
    options: &CompareOptions,
) -> Result<Outcome, Failure> {
    let mut watcher = Watcher::new(args.results.plot.as_deref());
    let emulated = emulate_each(&plan.batch, &plan.options, options, &mut watcher);
    let (notes, timelines) = watcher.finish();
    let (emulated, failure) = emulated?;
    let comparison = &emulated.report;
    let shown = output::report(args.results.json.as_deref(), &emulated, || {
        let text = machine(&emulated.machine) + &render_comparison::report(comparison);
        with_notes(&notes, &text)
    });
    let plot = args.results.plot.as_ref();
    let plot = plot.map_or(Ok(()), |path| plot_comparison(comparison, timelines, options, path));
    let whole = whole(comparison.runs.iter().map(|run| &run.report));
    ended(worst(comparison, failure), output::each([shown, plot, whole]))
}

/// Emulates the batch once more and compares.
fn verify(
    args: &Args,
    plan: &Plan<EmulateOptions>,
    first: &Emulated<BatchReport>,
) -> Result<Outcome, Failure> {
    let options = EmulateOptions {
        run: RunOptions {
            logs_of_run: "verify".into(),
            timeline: None,
            record: None,
            ..plan.options.run.clone()
        },
        ..plan.options.clone()
    };
    let mut watcher = Watcher::new(None);
    let second = emulate(&plan.batch, &options, &mut watcher);
    watcher.finish();
    let second = second?;
    let again = outcome(&second.report)?;
    let differences = first.differences(&second);
    let verdict = match differences.as_slice() {
        [] => "verified: a second run gave the same result\n".to_owned(),
        [first, ..] => {
            format!("a second run differs in {} figures, first in {first}\n", differences.len())
        }
    };
    match output::is_stdout(args.results.json.as_deref()) {
        true => stderr::print(verdict),
        false => output::print(&verdict)?,
    }
    Ok(if differences.is_empty() { again } else { Outcome::Different })
}

fn machine(machine: &MachineReport) -> String {
    format!(
        "emulated machine {}: {}, {}; times are virtual\n",
        machine.name,
        counted(u64::from(machine.cores), "core"),
        machine.memories.join(", ")
    )
}
