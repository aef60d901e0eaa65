//! Published characteristics of real programs, by name.

use memweir_core::Bytes;
use memweir_core::input::Refusal;
use memweir_core::names::suggestion;

use super::fit::Characteristics;
use crate::workload::catalog::Catalog;

/// The table, with its caveat.
pub const SPEC2006: &str = include_str!("../../data/characteristics/spec2006.csv");

/// The share of writes of programs of which the catalog says nothing.
const WRITE_SHARE: f64 = 0.25;

/// The memory that a program goes through: a multiple of every cache is enough, and a program's whole
/// footprint would be mapped in vain.
const FOOTPRINT: Bytes = Bytes(256 << 20);

/// Every program of the table. Intensity, locality and parallelism are the table's; the share of
/// writes is that of the catalog of workloads, which estimates it.
#[must_use]
pub fn all() -> Vec<(String, Characteristics)> {
    let catalog = Catalog::shipped();
    let lines = SPEC2006.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(|line| row(line, &catalog)).collect()
}

fn row(line: &str, catalog: &Catalog) -> Option<(String, Characteristics)> {
    let mut fields = line.split(',').map(str::trim);
    let name = fields.next()?.to_owned();
    let mut number = || fields.next()?.parse::<f64>().ok();
    let (mpki, rbl, blp) = (number()?, number()? / 100.0, number()?);
    let entry = catalog.iter().find(|entry| entry.name == name);
    let write_share = entry.map_or(WRITE_SHARE, |entry| entry.write_share.value).min(0.5);
    Some((name, Characteristics { mpki, rbl, blp, write_share, footprint: FOOTPRINT }))
}

/// The program of this name.
///
/// # Errors
/// If there is none; with the nearest.
pub fn named(name: &str) -> Result<Characteristics, Refusal> {
    let all = all();
    let found = all.iter().find(|(known, _)| known == name).map(|(_, found)| *found);
    found.ok_or_else(|| {
        let names = all.iter().map(|(name, _)| name.as_str());
        Refusal::new(format!("unknown program `{name}`"), suggestion(name, names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_program_and_the_values_of_the_paper() {
        assert_eq!(all().len(), 25);
        let libquantum = named("462.libquantum").unwrap();
        assert_eq!((libquantum.mpki, libquantum.rbl, libquantum.blp), (50.0, 0.9922, 1.05));
        assert!(all().iter().all(|(_, c)| c.mpki > 0.0 && c.blp >= 1.0 && c.rbl < 1.0));
        assert!(named("462.libquantm").unwrap_err().help.unwrap().contains("462.libquantum"));
        assert!(SPEC2006.starts_with("# Memory behavior"), "the caveat stays");
    }
}
