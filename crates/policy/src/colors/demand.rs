//! Divides colors by demanded banks: more banks than a program can keep busy do not speed it up
//! (bpm section 2.3).

use super::apportion::{by_weight, up_to};
use super::{MEMORY_INTENSIVE_MPKI, ProgramTraits, Supply};

/// Gives each program the colors that it demands ([`ProgramTraits::banks`]). If the supply is too
/// small, all programs get the same, but none more than its demand. Leftover colors are divided by
/// the time that each program spends on opening rows.
pub(super) fn counts(programs: &[ProgramTraits], supply: &Supply) -> Vec<u32> {
    let demand =
        |program: &ProgramTraits| program.banks().div_ceil(supply.banks_per_color()).max(1);
    let demands: Vec<u32> = programs.iter().map(demand).collect();
    let met = up_to(supply.colors(), &demands);
    let left = supply.colors() - met.iter().sum::<u32>();
    let gains: Vec<f64> = programs.iter().map(gain).collect();
    let surplus = by_weight(left, &gains);
    met.into_iter().zip(surplus).map(|(met, more)| met + more).collect()
}

/// Returns the misses per 1,000 instructions that open a row, weighted by bank-level parallelism,
/// since overlapping misses each need a bank of their own. Unknown traits default to those of a
/// program at the threshold of memory intensity, with half of its misses row-buffer hits and one
/// miss in flight.
fn gain(program: &ProgramTraits) -> f64 {
    let opens = 1.0 - program.row_buffer_locality.unwrap_or(0.5);
    program.mpki.unwrap_or(MEMORY_INTENSIVE_MPKI) * opens * program.bank_parallelism.unwrap_or(1.0)
}
