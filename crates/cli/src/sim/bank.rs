//! `memweir sim` of a scenario with `fidelity = "bank"`.

use memweir_study::ScenarioText;
use memweir_study::bank::study::BankStudy;
use memweir_study::sweep::Grid;
use memweir_sweep::plan::Origin;
use memweir_sweep::simulation::{Simulation, bank as results};

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::bank as render;
use crate::render::progress::Counter;
use crate::shared::rows::Rows;
use crate::value::available_cores;

/// Simulates it and shows the results.
pub(super) fn simulate(args: &Args, text: &ScenarioText, grid: Grid) -> Result<Outcome, Failure> {
    if args.shards.is_wanted() {
        let read = |grid| Ok(BankStudy::read(text, &args.set, grid)?);
        return args.shards.execute(&grid, read, &Origin::of(text, &args.set), &args.output());
    }
    let of_flows = [("--timeline", &args.timeline), ("--svg", &args.svg)];
    if let Some((option, _)) = of_flows.iter().find(|(_, path)| path.is_some()) {
        let error = memweir_core::input::InputError::new(
            "command line",
            "is for scenarios of flows; this one has `fidelity = \"bank\"`",
        );
        let help = "`--json FILE` writes everything, `--out FILE` a row per program or job";
        return Err(error.key(*option).help(help).into());
    }
    let study = BankStudy::read(text, &args.set, grid)?;
    let rows = Rows::create(args.out.as_deref(), study.grid(), Simulation::columns(&study))?;
    let counter = Counter::new("runs", study.runs() as u64);
    let threads = args.threads.unwrap_or_else(available_cores);
    let report = study.run(threads, || counter.one_more());
    counter.finish();
    let report = report?;
    let of_point =
        |(point, results)| results::rows(results).into_iter().map(move |row| (point, row));
    rows.finish(report.points.iter().enumerate().flat_map(of_point))?;
    output::report(args.json.as_deref(), &report, || render::report(&report))?;
    Ok(Outcome::Success)
}
