//! Results of real programs: recordings of their references to pages, alone and in turn.

use std::io::Cursor;
use std::sync::Arc;

use memweir_core::input::InputError;
use memweir_core::{Bytes, Nanos, PAGE};
use memweir_plot::Bars;
use memweir_policy::paging::VICTIM_POLICIES;
use memweir_swap::memory::{Counts, Killer};
use memweir_swap::session::{AppSpec, Behavior, SessionSpec};
use memweir_swap::trace::{PageTrace, WINDOW};
use memweir_trace::Trace;
use serde::Deserialize;

use super::sessions::{COPIED, DIRECT, kinds, less};
use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::source::{FigureData, Statement};
use crate::work::Bench;

/// Work of the whole figure, for the progress display.
pub(super) const WORK: u64 = 12;

macro_rules! recording {
    ($name:literal, $window:expr) => {
        (
            $name,
            include_bytes!(concat!("../../experiments/drswap/programs/", $name, ".mwt")),
            $window,
        )
    };
}

/// The programs, their recordings, and the windows of these in instructions: longer for programs
/// that execute more.
const PROGRAMS: [(&str, &[u8], u64); 5] = [
    recording!("python3", WINDOW),
    recording!("sqlite3", WINDOW),
    recording!("perl", WINDOW),
    recording!("redis", 10 * WINDOW),
    recording!("gcc", 10 * WINDOW),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// DRAM as a share of the pages.
    dram_share: f64,
    /// Turns in which each program goes through its recording.
    rounds: u32,
}

fn recorded(name: &str, bytes: &'static [u8], window: u64) -> Result<AppSpec, InputError> {
    let mut trace = Trace::read(name, Box::new(Cursor::new(bytes)), None)?;
    Ok(AppSpec {
        name: name.to_owned(),
        behavior: Behavior::Recorded(Arc::new(PageTrace::read(&mut trace, window)?)),
        size: Bytes::ZERO,
        resume: Nanos::ZERO,
        launch: Nanos::ZERO,
        lines_per_reference: 1.0,
    })
}

/// Session of programs in turn, or of one of them alone, on memory in which nothing is killed.
fn session(apps: &[AppSpec], parameters: &Parameters) -> SessionSpec {
    let pages: u64 = apps.iter().map(|app| u64::from(app.behavior.pages())).sum();
    SessionSpec {
        apps: apps.to_vec(),
        dram: Bytes((pages as f64 * parameters.dram_share).ceil() as u64 * PAGE.0),
        swap: Bytes(pages * PAGE.0),
        rounds: parameters.rounds,
        foreground: Nanos::from_millis(1000),
        victims: Arc::new(VICTIM_POLICIES[0]),
        killer: Killer::default(),
    }
}

/// Copies with and without direct read.
struct Pair {
    name: String,
    pages: u64,
    copied: Counts,
    direct: Counts,
}

impl Pair {
    fn less(&self) -> f64 {
        less(self.copied.copies_in as f64, self.direct.copies_in as f64)
    }

    /// Share of the direct reads whose pages were not written afterwards, in percent.
    fn unwritten(&self) -> f64 {
        100.0 * self.direct.copies_avoided() as f64 / self.direct.direct_reads as f64
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.pages.to_string(),
            self.copied.copies_in.to_string(),
            self.direct.copies_in.to_string(),
            format!("{:.1}", self.less()),
            self.direct.direct_reads.to_string(),
            self.direct.upgrades.to_string(),
            format!("{:.1}", self.unwritten()),
        ]
    }
}

pub(super) fn programs(data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
    let parameters: Parameters = data.parameters()?;
    let kinds = kinds()?;
    let apps = PROGRAMS.iter().map(|(name, bytes, window)| recorded(name, bytes, *window));
    let apps = apps.collect::<Result<Vec<_>, _>>()?;
    let mut sessions: Vec<(String, SessionSpec)> = apps
        .iter()
        .map(|app| (app.name.clone(), session(std::slice::from_ref(app), &parameters)))
        .collect();
    sessions.push(("all in turn".to_owned(), session(&apps, &parameters)));
    let inputs: Vec<_> = sessions
        .iter()
        .flat_map(|(_, session)| [COPIED, DIRECT].map(|kind| (session, &kinds[kind])))
        .collect();
    let counts = bench.all(1, &inputs, |(session, kind)| session.run(kind, 0).counts);
    let pairs: Vec<Pair> = sessions
        .iter()
        .zip(counts.chunks(2))
        .map(|((name, session), pair)| Pair {
            name: name.clone(),
            pages: session.apps.iter().map(|app| u64::from(app.behavior.pages())).sum(),
            copied: pair[0],
            direct: pair[1],
        })
        .collect();
    let all = &pairs[pairs.len() - 1];
    Ok(Found {
        plots: vec![bars(&pairs)],
        tables: vec![Table::of(pairs.iter().map(Pair::row))],
        values: vec![("mix", all.less()), ("unwritten", all.unwritten())],
        rows: pairs[..pairs.len() - 1].iter().flat_map(|pair| rows(data, pair)).collect(),
        ..Found::default()
    })
}

/// Statements about one program, which the paper does not measure.
fn rows(data: &FigureData, pair: &Pair) -> [(Statement, f64); 2] {
    [("fewer", pair.less()), ("unwritten", pair.unwritten())]
        .map(|(id, ours)| (data.row(id, &pair.name, None), ours))
}

fn bars(pairs: &[Pair]) -> Plot {
    let sets = [Pair::less, Pair::unwritten].map(|of: fn(&Pair) -> f64| {
        let values = pairs.iter().map(of);
        ("", values.map(|value| if value.is_finite() { value } else { 0.0 }).collect())
    });
    Plot::of([Bars::of(pairs.iter().map(|pair| &pair.name), sets)])
}
