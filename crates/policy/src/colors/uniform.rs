//! The static policy of the paper: 8 of 32 colors for each of four programs, 4 for each of eight.

use super::apportion::by_weight;
use super::{ProgramTraits, Supply};

/// Returns even shares; a remainder goes to the first programs, one color each.
pub(super) fn counts(programs: &[ProgramTraits], supply: &Supply) -> Vec<u32> {
    by_weight(supply.colors(), &vec![1.0; programs.len()])
}
