//! Causes of the differences between our figures and the paper's: each experiment removes one
//! factor and keeps all others.

use memweir_core::address_map::ColorSet;
use memweir_dram::config::RefreshPolicy;
use memweir_policy::colors::CacheUse;

use super::banks;
use super::evaluation::Gains;
use super::programs::Profile;
use super::rig::{Alone, Conditions};
use super::runs::{ALONE_WORK, Case, Partition, Runs, refused};
use super::threads::{self, Parameters};
use crate::report::{self, Found, Table};
use crate::run::Failed;
use crate::statistics::{lowest, mean};

/// Banks of Fig. 1 that are examined, of 64.
const BANKS: u32 = 16;

/// All experiments.
pub(super) fn causes(streamcluster: &Parameters, runs: &Runs<'_>) -> Result<Found, Failed> {
    let mut found = Found::default();
    few_banks(runs, &mut found)?;
    one_rank(runs, &mut found)?;
    write_backs(runs, &mut found)?;
    let [four, eight] = threads::shared_everywhere(streamcluster, runs)?;
    found.values.extend([("shared-four", four), ("shared-eight", eight)]);
    Ok(found)
}

/// Fig. 1 with all of the cache, and without refresh besides.
fn few_banks(runs: &Runs<'_>, found: &mut Found) -> Result<(), Failed> {
    let (profiles, rig) = (runs.profiles()?, runs.rig);
    let refreshed = Conditions::of_paper();
    let still = Conditions { refresh: RefreshPolicy::Off, ..Conditions::of_paper() };
    let all = ColorSet::all(runs.rig.board.supply.colors());
    let first = |cache| banks::first(&rig.board.supply, BANKS, cache).map_err(refused);
    let (share, whole) = (first(CacheUse::Balance)?, first(CacheUse::Keep)?);
    let cases = [
        (&all, &refreshed),
        (&share, &refreshed),
        (&whole, &refreshed),
        (&all, &still),
        (&share, &still),
        (&whole, &still),
    ];
    let inputs: Vec<(&Profile, (&ColorSet, &Conditions))> =
        profiles.iter().flat_map(|profile| cases.map(|case| (profile, case))).collect();
    let run = |(profile, (set, on)): &(&Profile, (&ColorSet, &Conditions))| {
        rig.alone(&profile.program().colored(Some((*set).clone())), on)
    };
    let alone = runs.bench.try_all(ALONE_WORK, &inputs, run).map_err(refused)?;
    let rows: Vec<&[Alone]> = alone.chunks(cases.len()).collect();
    let speed = |row: &[Alone], case: usize| 100.0 * row[case / 3 * 3].seconds / row[case].seconds;
    let misses = |row: &[Alone], case: usize| 100.0 * (row[case].mpki / row[0].mpki - 1.0);
    let mcf = profiles.iter().position(|profile| profile.short() == "mcf");
    let of_mcf = |value: &dyn Fn(&[Alone]) -> f64| mcf.map_or(f64::NAN, |place| value(rows[place]));
    let lowest = |case| lowest(rows.iter().map(|row| speed(row, case)));
    let mean_of = |value: &dyn Fn(&[Alone]) -> f64| {
        mean(rows.iter().map(|row| value(row)).filter(|value| value.is_finite()))
    };
    found.values.extend([
        ("mcf-share", of_mcf(&|row| speed(row, 1))),
        ("mcf-whole", of_mcf(&|row| speed(row, 2))),
        ("mcf-still", of_mcf(&|row| speed(row, 4))),
        ("mcf-misses", of_mcf(&|row| misses(row, 1))),
        ("lowest-share", lowest(1)),
        ("lowest-whole", lowest(2)),
        ("lowest-still", lowest(4)),
        ("mean-misses", mean_of(&|row| misses(row, 1))),
    ]);
    found.tables.push(table(profiles, &rows, &speed, &misses));
    Ok(())
}

fn table(
    profiles: &[Profile],
    rows: &[&[Alone]],
    speed: &dyn Fn(&[Alone], usize) -> f64,
    misses: &dyn Fn(&[Alone], usize) -> f64,
) -> Table {
    let row = |(profile, row): (&Profile, &&[Alone])| {
        let cells = [
            speed(row, 1),
            misses(row, 1),
            speed(row, 2),
            misses(row, 2),
            speed(row, 4),
            speed(row, 5),
        ];
        report::row(&profile.name, 1, cells)
    };
    Table::of(profiles.iter().zip(rows).map(row)).captioned(BANKS.to_string())
}

/// Gains of the two ways of dividing the banks, with and without refresh: the way that keeps the
/// cache whole has each program in one rank.
fn one_rank(runs: &Runs<'_>, found: &mut Found) -> Result<(), Failed> {
    let gains = |partition, refresh| -> Result<f64, Failed> {
        let on = Conditions { refresh, ..Conditions::of_paper() };
        let case = |partition| Case { on: on.clone(), partition };
        let without = runs.outcomes(&case(Partition::None))?;
        Ok(mean(&Gains::of(&runs.outcomes(&case(partition))?, &without).speedup))
    };
    found.values.extend([
        ("keep", gains(Partition::Banks, RefreshPolicy::AllBank)?),
        ("keep-still", gains(Partition::Banks, RefreshPolicy::Off)?),
        ("balance", gains(Partition::Bpm, RefreshPolicy::AllBank)?),
        ("balance-still", gains(Partition::Bpm, RefreshPolicy::Off)?),
    ]);
    Ok(())
}

/// Fig. 5 for all requests, for reads and for write-backs.
fn write_backs(runs: &Runs<'_>, found: &mut Found) -> Result<(), Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let with = runs.outcomes(&Case::of(Partition::Bpm))?;
    let less = |rows: fn(&super::rig::Executed) -> f64| {
        let pairs = without.iter().zip(with.iter());
        let each = pairs.map(|(without, with)| rows(&without.executed) - rows(&with.executed));
        mean(each.map(|less| 100.0 * less))
    };
    found.values.extend([
        ("misses-less", less(|run| run.miss_rate())),
        ("read-misses-less", less(|run| run.read_miss_rate())),
        ("write-misses-less", less(|run| run.write_miss_rate())),
    ]);
    Ok(())
}
