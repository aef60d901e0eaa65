//! Divides colors by memory intensity: programs that move more data get more banks.

use super::apportion::by_weight;
use super::{MEMORY_INTENSIVE_MPKI, ProgramTraits, Supply};

/// Gives every program half of an even share, at least one color, and divides the rest by bandwidth
/// if that is known of all programs, else by misses per 1,000 instructions. Where these are not
/// known, a program counts as one at the threshold of memory intensity.
pub(super) fn counts(programs: &[ProgramTraits], supply: &Supply) -> Vec<u32> {
    let even = supply.colors() / programs.len() as u32;
    let base = (even / 2).max(1);
    let bandwidths: Option<Vec<f64>> =
        programs.iter().map(|program| program.bandwidth.map(|bandwidth| bandwidth.0)).collect();
    let weights = bandwidths.unwrap_or_else(|| {
        programs.iter().map(|program| program.mpki.unwrap_or(MEMORY_INTENSIVE_MPKI)).collect()
    });
    let left = supply.colors() - base * programs.len() as u32;
    by_weight(left, &weights).into_iter().map(|more| base + more).collect()
}
