//! By demanded banks: more than a program can keep busy do nothing for it (bpm section 2.3).

use super::apportion::{by_weight, up_to};
use super::{MEMORY_INTENSIVE_MPKI, ProgramTraits, Supply};

/// What each program demands ([`ProgramTraits::banks`]). If that is more than there is, everybody has
/// the same but nobody more than its demand. If there is something left, it goes by how much time a
/// program spends on opening rows.
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

/// Misses per 1,000 instructions that open a row, each in a bank of its own if the program has several
/// in flight. What is not known is that of a program at the threshold of memory intensity, half of
/// whose misses find their row open, one at a time.
fn gain(program: &ProgramTraits) -> f64 {
    let opens = 1.0 - program.row_buffer_locality.unwrap_or(0.5);
    program.mpki.unwrap_or(MEMORY_INTENSIVE_MPKI) * opens * program.bank_parallelism.unwrap_or(1.0)
}
