//! The energy of the paging of a run, beside the energy of other swap areas for the same paging.

use memweir_core::{Bytes, Joules, Seconds};
use serde::Serialize;

use super::{Activity, BusMemory, Reading, break_even};

/// Counts of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paging {
    /// Time for which the area existed.
    pub duration: Seconds,
    /// Its size.
    pub size: Bytes,
    /// Pages copied into it.
    pub evictions: u64,
    /// Pages copied back.
    pub copies_in: u64,
    /// Pages that were read in place and never copied back.
    pub copies_avoided: u64,
}

/// Energies of three swap areas of one size, for the same paging. Lines that were read in place are
/// not counted, so these figures leave them out: see [`break_even_lines`](Self::break_even_lines).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The medium that DRAM stands for.
    pub dram: String,
    /// The medium that the NVM stands for.
    pub nvm: String,
    /// Name of the reading of the equations.
    pub reading: &'static str,
    /// Of DRAM, all pages copied.
    pub dram_backed_j: Joules,
    /// Of NVM, all pages copied.
    pub nvm_copying_j: Joules,
    /// Of NVM, with the pages read in place that were.
    pub nvm_j: Joules,
    /// Energy that direct read saved by avoided copies.
    pub direct_read_saved_j: Joules,
    /// Lines of a page that may be missed in place before copying it would have been cheaper.
    pub break_even_lines: f64,
}

impl Estimate {
    /// Computes the energies of `paging` with these media, the equations read as `reading`, by its
    /// name.
    #[must_use]
    pub fn new(
        paging: &Paging,
        dram: &BusMemory,
        nvm: &BusMemory,
        (name, reading): (&'static str, &Reading),
    ) -> Self {
        let copied = Activity {
            duration: paging.duration,
            size: paging.size,
            swap_ins: paging.copies_in + paging.copies_avoided,
            swap_outs: paging.evictions,
            direct_reads: 0,
            lines_in_place: 0,
        };
        let direct =
            Activity { swap_ins: paging.copies_in, direct_reads: paging.copies_avoided, ..copied };
        let copying = nvm.energy(&copied, reading, Some(dram)).total();
        let with = nvm.energy(&direct, reading, Some(dram)).total();
        Self {
            dram: dram.name.clone(),
            nvm: nvm.name.clone(),
            reading: name,
            dram_backed_j: dram.energy(&copied, reading, None).total(),
            nvm_copying_j: copying,
            nvm_j: with,
            direct_read_saved_j: copying - with,
            break_even_lines: break_even(nvm, dram),
        }
    }
}
