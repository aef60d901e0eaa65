//! The range of ideal average bandwidths that the mixes of a recipe can have; a target outside of
//! it is refused without a search.
//!
//! The bounds are those of iabw eq. (10) over everything that may be drawn. With equal weights they
//! result from the heaviest and the lightest programs, each from the offset at which it moves most
//! or least. With normal weights they are a little wider than the real range.

use memweir_core::{BytesPerSec, Nanos};

use super::{Ingredient, Recipe, Wanted, Weight, task};
use crate::program::Program;
use crate::workload::requirement::{self, rate};

/// A range of ideal average bandwidths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    pub(super) least: BytesPerSec,
    pub(super) most: BytesPerSec,
}

/// Relative difference that sums in another order may have.
const ROUNDING: f64 = 1e-9;

impl Reach {
    /// Returns the range of the mixes of a recipe, with at most `instances` of each program of the
    /// pool.
    pub(super) fn of(pool: &[Ingredient], recipe: &Recipe, instances: u32) -> Self {
        let each = pool.iter().map(|part| match recipe.weight {
            Weight::Equal(work) => Self::of_program(&part.program, work),
            Weight::Normal => {
                let once = task(part, 1, Nanos::ZERO, part.run_time);
                let mean = requirement::of(&once).bandwidth;
                Self { least: mean, most: mean }
            }
        });
        let (mut least, mut most): (Vec<f64>, Vec<f64>) =
            each.map(|reach| (reach.least.0, reach.most.0)).unzip();
        least.sort_by(f64::total_cmp);
        most.sort_by(|one, other| other.total_cmp(one));
        let (least, most) = match recipe.weight {
            Weight::Equal(_) => {
                let lightest = extremes(&least, recipe, instances);
                let heaviest = extremes(&most, recipe, instances);
                (lightest.fold(f64::INFINITY, f64::min), heaviest.fold(0.0, f64::max))
            }
            // Eq. (9) is at most the sum of the times, and at least that over the cores and any of
            // the times.
            Weight::Normal => {
                let heaviest = most.first().copied().unwrap_or(0.0) * f64::from(recipe.cores);
                let sum: f64 = drawn(&most, instances).take(*recipe.jobs.end() as usize).sum();
                (least.first().copied().unwrap_or(0.0), heaviest.min(sum))
            }
        };
        Self { least: BytesPerSec(least), most: BytesPerSec(most) }
    }

    /// Returns true if the range includes a bandwidth within the target's tolerance.
    pub(super) fn holds(&self, wanted: Wanted) -> bool {
        let slack = (wanted.tolerance + ROUNDING) * wanted.iabw.0;
        wanted.iabw.0 + slack >= self.least.0 && wanted.iabw.0 - slack <= self.most.0
    }

    /// Returns the range of mean bandwidths of a program over `work`, from any offset.
    ///
    /// The bytes moved from an offset on are linear between the offsets at which the work begins or
    /// ends with a span, so the extremes are at one of those.
    fn of_program(program: &Program, work: Nanos) -> Self {
        let round = program.length();
        let starts = starts(program);
        let bytes_to = |time: Nanos| {
            let rounds = (time.0 / round.0) as f64;
            let within = Nanos(time.0 % round.0);
            let span = starts.partition_point(|(start, _)| *start <= within) - 1;
            let (start, before) = starts[span];
            let here = program.spans.get(span).map_or(0.0, |span| rate(&span.demand).0);
            let all = starts[starts.len() - 1].1;
            rounds * all + before + (within - start).as_secs_f64() * here
        };
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for (start, _) in &starts {
            // The work begins with the span, or ends with it a round or more later.
            let back = Nanos(round.0 - work.0 % round.0);
            for offset in [*start, *start + back] {
                let bytes = bytes_to(offset + work) - bytes_to(offset);
                (least, most) = (least.min(bytes), most.max(bytes));
            }
        }
        let seconds = work.as_secs_f64().max(f64::MIN_POSITIVE);
        Self { least: BytesPerSec(least.max(0.0) / seconds), most: BytesPerSec(most / seconds) }
    }
}

/// Returns the start of each span and the bytes moved until then; the last entry is the end.
fn starts(program: &Program) -> Vec<(Nanos, f64)> {
    let (mut time, mut bytes) = (Nanos::ZERO, 0.0);
    let mut starts = vec![(time, bytes)];
    for span in &program.spans {
        time += span.length;
        bytes += span.length.as_secs_f64() * rate(&span.demand).0;
        starts.push((time, bytes));
    }
    starts
}

/// Returns the rates of an order, each as often as its program may be drawn.
fn drawn(order: &[f64], instances: u32) -> impl Iterator<Item = f64> {
    order.iter().flat_map(move |rate| std::iter::repeat_n(*rate, instances as usize))
}

/// Returns the ideal average bandwidth of the first tasks of an order, for each number of tasks of
/// a recipe: with equal weights, the number of cores in use times the tasks' mean.
fn extremes(order: &[f64], recipe: &Recipe, instances: u32) -> impl Iterator<Item = f64> {
    let sums = drawn(order, instances).scan(0.0, |sum, rate| {
        *sum += rate;
        Some(*sum)
    });
    let (least, most, cores) = (*recipe.jobs.start(), *recipe.jobs.end(), recipe.cores);
    (1..=most)
        .zip(sums)
        .filter(move |(tasks, _)| *tasks >= least)
        .map(move |(tasks, sum)| sum * f64::from(tasks.min(cores)) / f64::from(tasks))
}
