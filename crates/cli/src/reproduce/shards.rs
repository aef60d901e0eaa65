//! `memweir reproduce --shard`: the figures of a paper as points of a sweep.

use std::num::NonZeroUsize;

use memweir_core::Stop;
use memweir_core::input::{InputError, Refusal};
use memweir_reproduce::{
    Comparison, Effort, FIGURES, Options, PaperName, Unobserved, choose, reproduce,
};
use memweir_run::table::{Cell, Column, Field, Kind, cells, columns};
use memweir_study::key::key;
use memweir_study::sweep::{Grid, Sweep};
use memweir_sweep::plan::Origin;
use memweir_sweep::simulation::{Simulated, Simulation};
use serde::Serialize;

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::shared::shards::Output;

const FIELDS: [Field<Comparison>; 8] = [
    ("item", Kind::String, |line| line.item.as_str().into()),
    ("quantity", Kind::String, |line| line.quantity.as_str().into()),
    ("paper", Kind::String, |line| word(&line.paper)),
    ("ours", Kind::Float, |line| line.ours.into()),
    ("unit", Kind::String, |line| line.unit.as_str().into()),
    ("kind", Kind::String, |line| line.kind.name().into()),
    ("ratio", Kind::Float, |line| line.ratio.into()),
    ("verdict", Kind::String, |line| word(&line.verdict)),
];

/// Reproduces the figures of the shard, or lists them.
pub(super) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let threads = args.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let output = Output { out: args.out.as_deref(), json: None, whole: Vec::new(), threads };
    args.shards.check_directory(&output)?;
    let suite = args.paper.0.suite()?;
    let figures = choose(&suite, &args.figure)?.into_iter().map(|figure| figure.id.clone());
    let on_command_line = |refusal: Refusal| refusal.written_in("command line").key("--figure");
    let grid = "figure"
        .parse()
        .and_then(|path| Sweep::new(path, figures.collect()))
        .and_then(|sweep| Grid::new(vec![sweep]))
        .map_err(on_command_line)?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let read = |grid| Ok(Figures { data: FIGURES, paper: args.paper.0, effort, grid });
    let name = args.paper.0.name().to_owned();
    args.shards.execute(&grid, read, &Origin { name, ..Origin::default() }, &output)
}

/// The figures of a paper.
struct Figures {
    /// Hash of the code and the data of the figures.
    data: &'static str,
    paper: PaperName,
    effort: Effort,
    grid: Grid,
}

impl Simulation for Figures {
    fn command(&self) -> &'static str {
        "reproduce"
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn keys(&self) -> Vec<String> {
        let key = |point| key(&self.grid.at(point), &(self.data, self.paper, self.effort));
        (0..self.grid.len()).map(key).collect()
    }

    fn columns(&self) -> Vec<Column> {
        columns(&FIELDS)
    }

    /// A figure runs to its end.
    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        _: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let figures = self.grid.values(point).into_iter().map(str::to_owned).collect();
        let options = Options { effort: self.effort, figures, threads: threads.get() };
        let report = reproduce(self.paper, &options, &Unobserved)
            .map_err(|failed| InputError::new(self.paper.name(), failed.to_string()))?;
        let mut rows: Vec<Vec<Cell>> =
            report.comparisons().map(|line| cells(&FIELDS, line)).collect();
        if rows.is_empty() {
            // A figure without a number to compare is done, too.
            rows.push(vec![Cell::Empty; FIELDS.len()]);
        }
        Ok(Some(Simulated::new(rows, &report.results())))
    }
}

/// Returns a value as the text that `results.json` has for it.
fn word(value: &impl Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => Cell::String(text),
        Ok(serde_json::Value::Null) | Err(_) => Cell::Empty,
        Ok(other) => Cell::String(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A resumed shard takes the points whose keys are its own.
    #[test]
    fn changed_figures_another_paper_and_another_effort_have_keys_of_their_own() {
        let of = |data, paper, effort| {
            let figures = vec!["table2".to_owned(), "fig9".to_owned()];
            let sweep = Sweep::new("figure".parse().expect("a path"), figures).expect("figures");
            let grid = Grid::new(vec![sweep]).expect("a grid");
            Figures { data, paper, effort, grid }.keys()
        };
        let all = [
            of("1f", PaperName::Iabw, Effort::Full),
            of("2f", PaperName::Iabw, Effort::Full),
            of("1f", PaperName::Bpm, Effort::Full),
            of("1f", PaperName::Iabw, Effort::Quick),
        ]
        .concat();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert_eq!(of("1f", PaperName::Iabw, Effort::Full), all[..2]);
    }
}
