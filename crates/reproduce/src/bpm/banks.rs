//! Performance against the number of banks: Fig. 1.

use std::collections::BTreeMap;

use memweir_core::address_map::ColorSet;
use memweir_core::input::Refusal;
use memweir_plot::{Chart, Level, PALETTE};
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits, Supply};
use serde::Deserialize;

use super::programs::Profile;
use super::rig::Conditions;
use super::runs::{ALONE_WORK, Runs, refused};
use crate::report::{self, Found, Plot, Table};
use crate::run::Failed;
use crate::statistics::{highest, lowest, mean};

/// Share of its best performance with which a program has enough banks (Fig. 1).
const ENOUGH: f64 = 0.9;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Numbers of banks, ascending; the last is all of them.
    banks: Vec<u32>,
}

/// Performance of each program in each number of banks, over its best.
fn performance(parameters: &Parameters, runs: &Runs<'_>) -> Result<Vec<Vec<f64>>, Failed> {
    let profiles = runs.profiles()?;
    let sets: Vec<ColorSet> = parameters
        .banks
        .iter()
        .map(|banks| first(&runs.rig.board.supply, *banks, CacheUse::Balance))
        .collect::<Result<_, _>>()
        .map_err(refused)?;
    let inputs: Vec<(&Profile, &ColorSet)> =
        profiles.iter().flat_map(|profile| sets.iter().map(move |set| (profile, set))).collect();
    let (rig, on) = (runs.rig, Conditions::of_paper());
    let speeds = runs
        .bench
        .try_all(ALONE_WORK, &inputs, |(profile, set)| {
            rig.alone(&profile.program().colored(Some((*set).clone())), &on)
                .map(|alone| 1.0 / alone.seconds)
        })
        .map_err(refused)?;
    let over_best = |speeds: &[f64]| -> Vec<f64> {
        let best = highest(speeds);
        speeds.iter().map(|speed| speed / best).collect()
    };
    Ok(speeds.chunks(sets.len()).map(over_best).collect())
}

/// The colors of `banks` banks: those of the first of as many such programs as fit.
pub(super) fn first(supply: &Supply, banks: u32, cache: CacheUse) -> Result<ColorSet, Refusal> {
    let programs = (supply.colors() * supply.banks_per_color() / banks).max(1);
    let programs = vec![ProgramTraits::default(); programs as usize];
    let sets = ColorAssignment::named("uniform")?.assign(&programs, supply, cache)?;
    Ok(sets.into_iter().next().unwrap_or_default())
}

/// The smallest number of banks with which each program has enough.
pub(super) fn demands(
    parameters: &Parameters,
    runs: &Runs<'_>,
) -> Result<BTreeMap<String, u32>, Failed> {
    let performance = performance(parameters, runs)?;
    let demand = |speeds: &Vec<f64>| {
        let enough = speeds.iter().position(|speed| *speed >= ENOUGH);
        parameters.banks[enough.unwrap_or(parameters.banks.len() - 1)]
    };
    let profiles = runs.profiles()?;
    Ok(profiles
        .iter()
        .zip(&performance)
        .map(|(p, speeds)| (p.name.clone(), demand(speeds)))
        .collect())
}

/// Fig. 1.
pub(super) fn figure_1(parameters: &Parameters, runs: &Runs<'_>) -> Result<Found, Failed> {
    let performance = performance(parameters, runs)?;
    let profiles = runs.profiles()?;
    let column = |banks: u32| parameters.banks.iter().position(|known| *known == banks);
    let at = |program: usize, banks: u32| {
        column(banks).map_or(f64::NAN, |column| 100.0 * performance[program][column])
    };
    let of = |short: &str, banks: u32| {
        let place = profiles.iter().position(|profile| profile.short() == short);
        place.map_or(f64::NAN, |place| at(place, banks))
    };
    let all = |banks: u32| -> Vec<f64> { (0..profiles.len()).map(|p| at(p, banks)).collect() };
    let lowest = |banks: u32| lowest(all(banks));
    let average = |banks: u32| mean(all(banks));
    let light: Vec<f64> = ["gcc", "dealII", "namd"].iter().map(|name| of(name, 16)).collect();
    let values = vec![
        ("lowest", lowest(16)),
        ("libquantum", of("libquantum", 16)),
        ("mcf", of("mcf", 16)),
        ("light", mean(&light)),
        ("eight", average(8)),
    ];
    let line = |value: &dyn Fn(u32) -> f64| {
        let points = parameters.banks.iter().map(|banks| (f64::from(*banks), value(*banks)));
        ("", points.collect())
    };
    let drawn: [&dyn Fn(u32) -> f64; 4] =
        [&average, &lowest, &|banks| of("libquantum", banks), &|banks| of("mcf", banks)];
    let chart = Chart {
        y_start: Some(60.0),
        levels: vec![Level::new("90 %", 90.0, PALETTE[4])],
        ..Chart::lines(drawn.into_iter().map(line))
    };
    Ok(Found {
        plots: vec![Plot::of([chart])],
        tables: vec![by_program(parameters, profiles, &performance), fits(profiles)],
        values,
        remarks: vec![misfits(profiles)],
        ..Found::default()
    })
}

fn by_program(parameters: &Parameters, profiles: &[Profile], performance: &[Vec<f64>]) -> Table {
    let row = |(profile, speeds): (&Profile, &Vec<f64>)| {
        report::row(&profile.name, 1, speeds.iter().map(|speed| 100.0 * speed))
    };
    let banks = parameters.banks.iter().map(u32::to_string);
    Table::of(profiles.iter().zip(performance).map(row)).columns(banks)
}

/// Table of the requested and the measured characteristics of each program.
fn fits(profiles: &[Profile]) -> Table {
    let row = |profile: &Profile| {
        let (asked, alone) = (&profile.asked, &profile.alone);
        let beside =
            |asked: f64, is: f64, digits: usize| format!("{asked:.digits$} / {is:.digits$}");
        vec![
            profile.name.clone(),
            beside(asked.mpki, alone.mpki, 2),
            beside(100.0 * asked.rbl, 100.0 * alone.rbl, 1),
            beside(asked.blp, alone.blp, 2),
            format!("{:.2}", alone.bandwidth / 1e9),
        ]
    };
    Table::of(profiles.iter().map(row))
}

fn misfits(profiles: &[Profile]) -> String {
    let far: Vec<&str> =
        profiles.iter().filter(|p| !p.fitted.reached).map(Profile::short).collect();
    match far.as_slice() {
        [] => "All programs do alone what is published of them.".to_owned(),
        far => format!(
            "Of {} programs, these do not do alone what is published of them to within 2 % (misses), \
             1 point (locality) and 4 % (parallelism): {}. The published values are of another \
             machine, and a page of 4 KiB on two channels opens two rows, so that no program that \
             goes from page to page has a locality above 97 % here.",
            profiles.len(),
            far.join(", ")
        ),
    }
}
