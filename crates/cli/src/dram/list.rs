//! `memweir dram list`: the memories that come with memweir.

use memweir_dram::MemorySpec;
use memweir_dram::spec::SHIPPED;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Align, rate, table};

pub(super) fn execute() -> Result<Outcome, Failure> {
    let columns = [
        ("name", Align::Left),
        ("device", Align::Left),
        ("channel", Align::Right),
        ("peak", Align::Right),
        ("source", Align::Left),
    ];
    let specs =
        SHIPPED.iter().filter_map(|(name, _)| Some((name, MemorySpec::shipped(name).ok()?)));
    let rows = specs.map(|(name, spec)| {
        let organization = &spec.organization;
        let ranks = u64::from(organization.ranks * organization.sub_channels);
        vec![
            (*name).to_owned(),
            spec.name.clone(),
            memweir_core::Bytes(organization.rank_bytes().0 * ranks).to_string(),
            rate(peak(&spec)),
            spec.source.clone(),
        ]
    });
    output::print(&format!("{}\n", table(&columns, rows.collect())))?;
    Ok(Outcome::Success)
}

/// Bytes per second of a channel whose bus never rests.
pub(super) fn peak(spec: &MemorySpec) -> f64 {
    let organization = &spec.organization;
    let bytes = f64::from(organization.bus_bits * organization.sub_channels) / 8.0;
    2.0 * bytes / (spec.clock.as_f64() * 1e-12)
}
