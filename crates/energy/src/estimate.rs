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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Medium;

    fn memory(name: &str) -> BusMemory {
        match Medium::shipped(name) {
            Ok(Medium::Memory(memory)) => memory,
            other => panic!("{other:?}"),
        }
    }

    fn paging() -> Paging {
        Paging {
            duration: Seconds(10.0),
            size: Bytes(128 << 20),
            evictions: 1000,
            copies_in: 200,
            copies_avoided: 300,
        }
    }

    #[test]
    fn a_copy_that_was_not_made_costs_nothing() {
        let (dram, nvm) = (memory("lpddr2-dram"), memory("lpddr2-pcm"));
        let of = |paging| Estimate::new(&paging, &dram, &nvm, ("physical", &Reading::PHYSICAL));
        let found = of(paging());
        // A page in is 148.2 mW of reading, 156 mW of activating and 20.3 mW of driving, for 256
        // bursts of 4 cycles of 5 ns (8 beats of 2 bytes), and 3 cycles of latency. 300 of them.
        let read = (256.0 * 4.0 + 3.0) * 5e-9;
        let active = read + 80e-9;
        let driven = 256.0 * 4.0 * 5e-9;
        let page = 0.1482 * read + 0.156 * active + 0.0203 * driven;
        // While pages move the area is in active standby, otherwise powered down: 4.8 over 0.2 mW.
        let standby = (4.8e-3 - 0.2e-3) * active;
        let saved = 300.0 * (page + standby);
        assert!((found.direct_read_saved_j.0 / saved - 1.0).abs() < 1e-9, "{found:?} {saved}");
        let none = of(Paging { copies_avoided: 0, copies_in: 500, ..paging() });
        assert_eq!(none.direct_read_saved_j, Joules::ZERO);
        assert_eq!(none.nvm_copying_j, found.nvm_copying_j);
        assert_eq!(none.dram_backed_j, found.dram_backed_j);
    }
}
