//! Fig. 2 and Fig. 3 on memories at bank level.

use memweir_core::input::Refusal;
use memweir_core::medium::data::MediumData;
use memweir_core::units::LINE_BYTES;
use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::drive::{Mode, Offer, drive};
use memweir_dram::request::Source;
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem};
use memweir_plot::Chart;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::bpm::crowd::{Crowd, Room};
use crate::report::{Found, Plot, Table, row};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, lowest};
use crate::work::Bench;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrowdParameters {
    light: String,
    heavy: String,
    /// Ascending; the last is all of them.
    banks: Vec<u32>,
    milliseconds: f64,
    quick_milliseconds: f64,
    /// The device in place of DRAM.
    nvm: String,
}

/// Instances that run together, at most.
const INSTANCES: u32 = 4;

/// Slowdown of instances of a program by their number, in one room.
type Curve = (String, Vec<f64>);

/// Fig. 2.
pub(super) fn figure_2(data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
    let parameters: CrowdParameters = data.parameters()?;
    let milliseconds = bench.effort.pick(parameters.milliseconds, parameters.quick_milliseconds);
    let crowd = Crowd::new(milliseconds)?;
    let all_banks = parameters.banks.last().copied().unwrap_or(64);
    let curve = |name: &str, rooms: &[Room]| -> Result<Vec<Curve>, Failed> {
        let program = crowd.program(name)?;
        let inputs: Vec<(&Room, u32)> =
            rooms.iter().flat_map(|room| (1..=INSTANCES).map(move |count| (room, count))).collect();
        let times =
            bench.try_all(10, &inputs, |(room, count)| crowd.time(&program, *count, room))?;
        // The reference is one instance alone in the last room.
        let alone = times[times.len() - INSTANCES as usize];
        let curves = rooms.iter().zip(times.chunks(INSTANCES as usize));
        Ok(curves
            .map(|(room, times)| {
                (room.to_string(), times.iter().map(|time| time / alone).collect())
            })
            .collect())
    };
    let in_dram: Vec<Room> = parameters.banks.iter().map(|banks| Room::Dram(*banks)).collect();
    let light = curve(&parameters.light, &in_dram)?;
    let heavy = curve(&parameters.heavy, &in_dram)?;
    let nvm = curve(&parameters.heavy, &[Room::Instead(parameters.nvm.clone())])?;
    let at = |curves: &[Curve], room: usize, count: u32| curves[room].1[count as usize - 1];
    let last = parameters.banks.len() - 1;
    let values = vec![
        ("light", at(&light, 0, INSTANCES)),
        ("heavy", at(&heavy, 0, INSTANCES)),
        ("fewer", at(&heavy, 0, INSTANCES) / at(&heavy, last, INSTANCES)),
        ("growth", at(&heavy, 0, INSTANCES) / at(&heavy, 0, 2)),
        ("nvm", at(&nvm, 0, INSTANCES) / at(&heavy, last, INSTANCES)),
    ];
    let panels = vec![
        panel(&parameters.light, &light),
        panel(&parameters.heavy, &[heavy.clone(), nvm.clone()].concat()),
    ];
    let programs =
        [(&parameters.light, &light), (&parameters.heavy, &heavy), (&parameters.heavy, &nvm)];
    Ok(Found {
        plots: vec![Plot::of(panels).captioned(all_banks.to_string())],
        tables: vec![table(&programs)],
        values,
        ..Found::default()
    })
}

/// The slowdowns of each program in each room.
fn table(programs: &[(&String, &Vec<Curve>)]) -> Table {
    let rows = programs.iter().flat_map(|(name, curves)| {
        curves.iter().map(move |(room, slowdowns)| {
            row(format!("{name}, {room}"), 2, slowdowns.iter().copied())
        })
    });
    Table::of(rows).columns((1..=INSTANCES).map(|count| count.to_string()))
}

fn panel(name: &str, curves: &[Curve]) -> Chart {
    let curves = curves.iter().map(|(room, slowdowns)| {
        (room, slowdowns.iter().zip(1..).map(|(y, x)| (f64::from(x), *y)).collect())
    });
    Chart { title: name.to_owned(), x_start: 1.0, ..Chart::lines(curves) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareParameters {
    points: usize,
    /// Requests of each point.
    requests: u64,
}

/// A medium of Table I and the device that stands for it.
const MEDIA: [(&str, &str, &str); 3] =
    [("dram", "dram", "ddr3-1333"), ("stt", "stt-ram", "stt-ram"), ("pram", "pram", "pcm-lpddr2")];

/// Transactions per microsecond of a device under an endless supply of random requests.
fn rate(device: &str, write_share: f64, requests: u64) -> Result<f64, Refusal> {
    let spec = MemorySpec::shipped(device)?;
    let cycle = spec.clock.as_f64() / 1e6;
    let rank = vec![std::sync::Arc::new(spec)];
    let mut memory = MemorySystem::new(&MemoryConfig::of_ranks(rank, 1))?;
    let mut random = ChaCha8Rng::seed_from_u64(requests);
    let mut left = requests;
    let offer = || -> Result<Option<Offer>, std::convert::Infallible> {
        left -= u64::from(left > 0);
        let address = PhysAddr(random.random_range(0..1_u64 << 24) * LINE_BYTES);
        let write = random.random_bool(write_share);
        let direction = if write { Direction::Write } else { Direction::Read };
        Ok((left > 0).then_some(Offer {
            address,
            direction,
            source: Source::default(),
            due: Cycles::ZERO,
        }))
    };
    let driven = drive(&mut memory, Mode::Saturate, offer, &mut ())
        .map_err(|error| Refusal::new(error.to_string(), "a device that serves requests"))?
        .whole;
    Ok(driven.requests() as f64 / (driven.cycles.as_f64() * cycle))
}

/// Fig. 3.
pub(super) fn figure_3(data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
    let parameters: ShareParameters = data.parameters()?;
    let refused = |refusal: Refusal| refusal.written_in("experiments/hmmsched/writes.toml");
    let last = (parameters.points - 1).max(1) as f64;
    let shares: Vec<f64> = (0..parameters.points).map(|n| n as f64 / last).collect();
    let (mut counted, mut translated) = (Vec::new(), Vec::new());
    let mut values = Vec::new();
    for (id, medium, device) in MEDIA {
        let rates = bench
            .try_all(1, &shares, |share| rate(device, *share, parameters.requests))
            .map_err(refused)?;
        let medium = MediumData::shipped(medium).map_err(refused)?;
        let gamma = medium.read_latency.ratio(medium.dram_latency);
        let delta = medium.write_latency.ratio(medium.dram_latency);
        let effective: Vec<f64> = rates
            .iter()
            .zip(&shares)
            .map(|(rate, share)| rate * (gamma * (1.0 - share) + delta * share))
            .collect();
        values.push((id, rates[rates.len() - 1] / rates[0]));
        if id == "pram" {
            values.push(("ebw", lowest(&effective) / highest(&effective)));
        }
        counted.push((device, rates));
        translated.push((device, effective));
    }
    let chart = |curves: &[(&str, Vec<f64>)]| {
        let curves = curves.iter().map(|(device, rates)| {
            (*device, shares.iter().copied().zip(rates.iter().copied()).collect())
        });
        Chart::lines(curves)
    };
    Ok(Found {
        plots: vec![Plot::of([chart(&counted), chart(&translated)])],
        values,
        ..Found::default()
    })
}
