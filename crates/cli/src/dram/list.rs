//! `memweir dram list`: the memories that come with memweir.

use memweir_dram::MemorySpec;
use memweir_dram::spec::SHIPPED;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, rate};

pub(super) fn execute() -> Result<Outcome, Failure> {
    let specs =
        SHIPPED.iter().filter_map(|(name, _)| Some((name, MemorySpec::shipped(name).ok()?)));
    let table = Table::of(specs)
        .left("name", |(name, _)| *name)
        .left("device", |(_, spec)| spec.name.clone())
        .right("channel", |(_, spec)| {
            let organization = &spec.organization;
            let ranks = u64::from(organization.ranks * organization.sub_channels);
            memweir_core::Bytes(organization.rank_bytes().0 * ranks)
        })
        .right("peak", |(_, spec)| rate(peak(spec)))
        .left("source", |(_, spec)| spec.source.clone());
    output::print(&format!("{table}\n"))?;
    Ok(Outcome::Success)
}

/// Bytes per second of a channel whose bus never rests.
pub(super) fn peak(spec: &MemorySpec) -> f64 {
    let organization = &spec.organization;
    let bytes = f64::from(organization.bus_bits * organization.sub_channels) / 8.0;
    2.0 * bytes / (spec.clock.as_f64() * 1e-12)
}
