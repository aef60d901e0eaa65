//! The figure of the manual's first page: a live comparison of real programs, round by round.

use std::collections::BTreeMap;

use memweir_plot::{Figure, PALETTE};
use serde::Deserialize;

use crate::bars;
use crate::statistics::mean;

/// The recorded turnarounds, from the root of the repository.
pub const TURNAROUNDS: &str = "evidence/max-weight/live.csv";

/// The figure that is drawn from them.
pub const FIGURE: &str = "docs/images/live-rounds.svg";

/// The policies that the figure compares: the baseline, and memweir's default.
const COMPARED: [&str; 2] = ["os", "max-weight"];

/// One run, as a row of [`TURNAROUNDS`] has it.
#[derive(Deserialize)]
struct Run {
    batch: String,
    round: usize,
    policy: String,
    turnaround_s: f64,
}

/// The turnarounds of `batch` by policy and round, in seconds.
fn turnarounds(
    table: &str,
    batch: &str,
) -> Result<BTreeMap<String, BTreeMap<usize, f64>>, csv::Error> {
    let mut found: BTreeMap<String, BTreeMap<usize, f64>> = BTreeMap::new();
    for run in csv::Reader::from_reader(table.as_bytes()).deserialize() {
        let run: Run = run?;
        if run.batch == batch {
            found.entry(run.policy).or_default().insert(run.round, run.turnaround_s);
        }
    }
    Ok(found)
}

/// Returns the figure of the batch `demo`: each round under the operating system and under
/// `max-weight`, and the mean.
///
/// # Errors
/// If the table is not one of runs.
pub fn figure(table: &str) -> Result<Figure, csv::Error> {
    let by_policy = turnarounds(table, "demo")?;
    let sets = COMPARED.map(|policy| -> Vec<f64> {
        by_policy.get(policy).into_iter().flat_map(|rounds| rounds.values().copied()).collect()
    });
    let rounds = sets[0].len();
    let [baseline, ours] = [mean(&sets[0]), mean(&sets[1])];
    let categories = (1..=rounds).map(|round| format!("round {round}"));
    let names = ["operating system alone", "memweir, max-weight"];
    let bars = bars::with_means(categories, names.into_iter().zip(sets));
    let mut bars = bars.colored([PALETTE[6], PALETTE[0]]);
    bars.y_label = "turnaround (s)".to_owned();
    Ok(Figure {
        title: format!(
            "Eleven jobs of nine real programs end {:.1} % sooner on two cores",
            (1.0 - ours / baseline) * 100.0
        ),
        subtitle: format!(
            "{rounds} rounds of both in turn, on a virtual machine; time from the start of the batch \
             to the end of its last job"
        ),
        panels: vec![bars.into()],
    })
}

#[cfg(test)]
mod tests {
    use memweir_plot::Panel;

    use super::*;

    #[test]
    fn rounds_of_other_batches_and_policies_are_left_out() {
        let table = "batch,round,policy,turnaround_s,outcome,failed_jobs\n\
                     demo,1,os,8,finished,0\ndemo,0,os,4,finished,0\n\
                     demo,0,max-weight,3,finished,0\ndemo,1,max-weight,6,finished,0\n\
                     demo,0,ideal-average,9,finished,0\nprimes,0,os,9,finished,0\n";
        let figure = figure(table).unwrap();
        assert_eq!(
            figure.title,
            "Eleven jobs of nine real programs end 25.0 % sooner on two cores"
        );
        let [Panel::Bars(bars)] = figure.panels.as_slice() else { panic!("one panel of bars") };
        let values: Vec<&[f64]> = bars.sets.iter().map(|set| &*set.values).collect();
        assert_eq!(values, [[4.0, 8.0, 6.0], [3.0, 6.0, 4.5]]);
        assert_eq!(bars.categories, ["round 1", "round 2", "mean"]);
    }
}
