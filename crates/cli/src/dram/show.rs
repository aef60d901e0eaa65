//! `memweir dram show`: everything that is known of a memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use memweir_core::Cycles;
use memweir_core::medium::MediumKind;
use memweir_dram::MemorySpec;
use memweir_dram::spec::{ArrayEnergy, Currents, Link, Organization};
use serde::Serialize;

use super::devices;
use super::list::{channel, peak};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, counted, properties, rate};

/// Options of `memweir dram show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A shipped memory or a device file
    #[arg(value_name = "NAME|FILE.toml")]
    memory: String,
    /// Write the memory as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// A memory in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    family: &'a str,
    kind: MediumKind,
    source: &'a str,
    clock_ps: u64,
    organization: Organization,
    channel_bytes: u64,
    peak_bandwidth: f64,
    read_latency_cycles: u64,
    write_latency_cycles: u64,
    burst_cycles: u64,
    timing_cycles: BTreeMap<&'a str, u64>,
    currents: Option<&'a Currents>,
    array: Option<ArrayEnergy>,
    link: Option<Link>,
}

impl<'a> From<&'a MemorySpec> for Shown<'a> {
    fn from(spec: &'a MemorySpec) -> Self {
        Self {
            name: &spec.name,
            family: &spec.family,
            kind: spec.kind,
            source: &spec.source,
            clock_ps: spec.clock.0,
            organization: spec.organization,
            channel_bytes: channel(spec).0,
            peak_bandwidth: peak(spec),
            read_latency_cycles: spec.read_latency.0,
            write_latency_cycles: spec.write_latency.0,
            burst_cycles: spec.burst.0,
            timing_cycles: spec.timing.iter().map(|(name, cycles)| (name, cycles.0)).collect(),
            currents: spec.currents.as_ref(),
            array: spec.array,
            link: spec.link,
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let spec = devices::spec(&args.memory, "NAME|FILE.toml")?;
    output::report(args.json.as_deref(), &Shown::from(&spec), || text(&spec))?;
    Ok(Outcome::Success)
}

fn text(spec: &MemorySpec) -> String {
    let mut text = format!("{}\nsource: {}\n\n", spec.name, spec.source);
    text += &organization(spec);
    text += &timing(spec);
    if let Some(currents) = &spec.currents {
        text += &rails(currents);
    }
    if let Some(array) = &spec.array {
        text += &cells(array);
    }
    if let Some(link) = &spec.link {
        let _ = writeln!(
            text,
            "\nlink: {} ns and {} each way",
            link.latency.as_f64() / 1e3,
            rate(link.bandwidth.0)
        );
    }
    text
}

fn organization(spec: &MemorySpec) -> String {
    let built = &spec.organization;
    let of = |noun, number: u32| counted(number.into(), noun);
    let nanos = spec.clock.as_f64() / 1e3;
    let rows = [
        ("family", spec.family.clone()),
        ("clock", format!("{nanos} ns, {:.1} MHz, {:.0} MT/s", 1e3 / nanos, 2e3 / nanos)),
        (
            "bus",
            format!(
                "{} bits of {} devices x{}, bursts of {}",
                built.bus_bits,
                built.devices(),
                built.device_bits,
                built.burst_length
            ),
        ),
        (
            "channel",
            format!("{}, {}", of("sub-channel", built.sub_channels), of("rank", built.ranks)),
        ),
        (
            "rank",
            format!(
                "{} of {}, {}",
                of("bank group", built.bank_groups),
                of("bank", built.banks),
                built.rank_bytes()
            ),
        ),
        ("bank", format!("{} rows of {}", built.rows, built.row_bytes())),
        ("peak", format!("{} per channel", rate(peak(spec)))),
        ("read latency", unloaded(spec)),
    ];
    properties(rows, 14)
}

/// Latencies of a read on an idle memory.
fn unloaded(spec: &MemorySpec) -> String {
    let hit = spec.read_latency.0 + spec.burst.0;
    let of = |name| spec.timing.get(name).unwrap_or(Cycles(0)).0;
    let (closed, conflict) = (hit + of("tRCD"), hit + of("tRCD") + of("tRP"));
    let nanos = |cycles: u64| spec.span(Cycles(cycles)).as_f64() / 1e3;
    format!(
        "row hit {hit} cycles ({:.1} ns), closed bank {closed} ({:.1} ns), conflict {conflict} ({:.1} ns)",
        nanos(hit),
        nanos(closed),
        nanos(conflict)
    )
}

fn timing(spec: &MemorySpec) -> String {
    let table = Table::of(spec.timing.iter())
        .left("timing", |(name, _)| *name)
        .right("cycles", |(_, cycles)| cycles.0)
        .right("ns", |(_, cycles)| format!("{:.2}", spec.span(*cycles).as_f64() / 1e3));
    format!("\n{table}\n")
}

fn rails(currents: &Currents) -> String {
    let table = Table::of(&currents.rails)
        .left("mA per device", |rail| rail.name.clone())
        .right("volts", |rail| rail.volts)
        .right("idd0", |rail| rail.idd0)
        .right("idd2n", |rail| rail.idd2n)
        .right("idd2p", |rail| rail.idd2p)
        .right("idd3n", |rail| rail.idd3n)
        .right("idd3p", |rail| rail.idd3p)
        .right("idd4r", |rail| rail.idd4r)
        .right("idd4w", |rail| rail.idd4w)
        .right("idd5b", |rail| rail.idd5b)
        .right("idd6", |rail| rail.idd6);
    format!("\n{table}\n")
}

fn cells(array: &ArrayEnergy) -> String {
    format!(
        "\ncells: {} pJ per bit read, {} pJ per bit written; row buffer: {} and {}\n",
        array.read_pj_per_bit,
        array.write_pj_per_bit,
        array.buffer_read_pj_per_bit,
        array.buffer_write_pj_per_bit
    )
}
