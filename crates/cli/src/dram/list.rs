//! `memweir dram list`: the memories that come with memweir.

use std::collections::BTreeMap;
use std::path::PathBuf;

use memweir_core::Bytes;
use memweir_dram::MemorySpec;
use memweir_dram::spec::SHIPPED;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, rate};

/// Options of `memweir dram list`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the list as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// One memory.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    device: String,
    channel_bytes: u64,
    peak_bandwidth: f64,
    source: String,
}

impl Listed {
    fn of(name: &'static str) -> Option<Self> {
        let spec = MemorySpec::shipped(name).ok()?;
        Some(Self {
            name,
            channel_bytes: channel(&spec).0,
            peak_bandwidth: peak(&spec),
            device: spec.name,
            source: spec.source,
        })
    }
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let memories: Vec<Listed> = SHIPPED.iter().filter_map(|(name, _)| Listed::of(name)).collect();
    output::report(args.json.as_deref(), &BTreeMap::from([("memories", &memories)]), || {
        let table = Table::of(&memories)
            .left("name", |memory| memory.name)
            .left("device", |memory| memory.device.clone())
            .right("channel", |memory| Bytes(memory.channel_bytes))
            .right("peak", |memory| rate(memory.peak_bandwidth))
            .left("source", |memory| memory.source.clone());
        format!("{table}\n")
    })?;
    Ok(Outcome::Success)
}

/// Size of a channel.
pub(super) fn channel(spec: &MemorySpec) -> Bytes {
    let organization = &spec.organization;
    let ranks = u64::from(organization.ranks * organization.sub_channels);
    Bytes(organization.rank_bytes().0 * ranks)
}

/// Bytes per second of a channel whose bus never rests.
pub(super) fn peak(spec: &MemorySpec) -> f64 {
    let organization = &spec.organization;
    let bytes = f64::from(organization.bus_bits * organization.sub_channels) / 8.0;
    2.0 * bytes / (spec.clock.as_f64() * 1e-12)
}
