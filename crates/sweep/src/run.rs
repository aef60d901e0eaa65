//! Running points of a sweep.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_study::parallel::{FirstError, for_each};

use crate::partition::{Partition, ShardFile};
use crate::plan::Plan;
use crate::simulation::Simulated;
use crate::{Shard, SweepError};

/// Points to simulate, and the directory that keeps them.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The sweep.
    pub plan: &'a Plan<'a>,
    /// Its directory.
    pub partition: &'a Partition,
    /// Threads to run on.
    pub threads: NonZeroUsize,
}

/// Result of running points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Number of points that were simulated.
    pub simulated: usize,
    /// Number of points that were taken from another partition.
    pub adopted: usize,
    /// The file; absent without a point.
    pub file: Option<PathBuf>,
}

/// Returns the points of a plan that no file of the partition has.
///
/// # Errors
/// If a file cannot be read.
pub fn missing(plan: &Plan<'_>, partition: &Partition) -> Result<Vec<usize>, InputError> {
    let (done, grid) = (partition.done()?, plan.simulation().grid());
    Ok((0..grid.len()).filter(|point| !done.contains(&grid.number(*point))).collect())
}

impl Work<'_> {
    /// Simulates `points` of the plan into a file of the shard, and calls `done` after each. Points
    /// that a partition beside this one has are taken from there. After a request to `stop`, the
    /// points that have ended are kept.
    ///
    /// # Errors
    /// If the file cannot be written, or a point is refused; the others are kept.
    pub fn run(
        &self,
        shard: &Shard,
        points: &[usize],
        stop: &Stop,
        mut done: impl FnMut(),
    ) -> Result<Ran, SweepError> {
        let Self { plan, partition, .. } = *self;
        let mut file = ShardFile::new(partition, &shard.file_stem(), plan.columns())?;
        let mut ran = Ran { simulated: 0, adopted: 0, file: None };
        let adopted = partition.adopted(plan, points)?;
        let rest: Vec<usize> =
            points.iter().filter(|point| !adopted.contains_key(point)).copied().collect();
        for rows in adopted.into_values() {
            file.add(rows);
            ran.adopted += 1;
            done();
        }
        let simulated = simulate(plan, &rest, self.threads, stop, |point, results| {
            file.add(plan.rows(point, &results));
            ran.simulated += 1;
            done();
        });
        ran.file = file.finish()?;
        simulated?;
        Ok(ran)
    }
}

/// Simulates points and passes the results of each to `done` on the calling thread.
///
/// # Errors
/// The first refusal of a point, after the others have run.
pub fn simulate(
    plan: &Plan<'_>,
    points: &[usize],
    threads: NonZeroUsize,
    stop: &Stop,
    mut done: impl FnMut(usize, Simulated),
) -> Result<(), InputError> {
    // With fewer points than threads, each point has all of them in turn.
    let (at_a_time, threads) = match points.len() < threads.get() {
        true => (NonZeroUsize::MIN, threads),
        false => (threads, NonZeroUsize::MIN),
    };
    let mut refused = FirstError::default();
    for_each(
        points.len(),
        at_a_time,
        |index| match stop.is_requested() {
            true => Ok(None),
            false => plan.simulation().simulate(points[index], threads, stop),
        },
        |index, results| match results {
            Ok(Some(results)) => done(points[index], results),
            Ok(None) => {}
            Err(error) => refused.note(index, error),
        },
    );
    refused.result()
}
