//! Published characteristics of real programs, by name.

use memweir_core::Bytes;
use memweir_core::input::Refusal;
use memweir_core::names::choose;

use crate::fit::Characteristics;

/// The table, with a note on its limits.
pub const SPEC2006: &str = include_str!("../data/characteristics/spec2006.csv");

/// Footprint of each program. A multiple of every cache is enough; mapping a program's whole
/// footprint would cost time without effect.
const FOOTPRINT: Bytes = Bytes(256 << 20);

/// Returns every program of the table. The table does not state writes, so there are none: draining
/// them closes rows, and the localities would differ from the table's.
#[must_use]
pub fn all() -> Vec<(String, Characteristics)> {
    let lines = SPEC2006.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(row).collect()
}

fn row(line: &str) -> Option<(String, Characteristics)> {
    let mut fields = line.split(',').map(str::trim);
    let name = fields.next()?.to_owned();
    let mut number = || fields.next()?.parse::<f64>().ok();
    let (mpki, rbl, blp) = (number()?, number()? / 100.0, number()?);
    Some((name, Characteristics { mpki, rbl, blp, write_share: 0.0, footprint: FOOTPRINT }))
}

/// Returns the program called `name`.
///
/// # Errors
/// If there is none; the error suggests the nearest name.
pub fn named(name: &str) -> Result<Characteristics, Refusal> {
    choose("program", name, all().iter().map(|(known, found)| (known.as_str(), *found)))
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
