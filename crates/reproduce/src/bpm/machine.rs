//! The machine of section 4.1: a Core i7-860 with 8 GB of DDR3.

use memweir_bank::clock::Clock;
use memweir_bank::experiment::{ColoredBy, Machine, MemoryUnit};
use memweir_bank::machine::{CacheLevel, CoreConfig};
use memweir_bank::os::{Aging, Exhausted, FaultCosts, Os, Start, uncolored};
use memweir_core::Bytes;
use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, Coloring, XorFunction};
use memweir_core::cache::CacheGeometry;
use memweir_core::input::{InputError, Refusal};
use memweir_dram::MemoryConfig;
use memweir_policy::colors::Supply;

use super::MAP;
use super::memory;
use super::rig::Conditions;

/// Cores of the machine; each can execute two threads.
const CORES: u32 = 4;

/// Memory of the machine.
pub(super) const MEMORY: Bytes = Bytes(8 << 30);

/// Instructions per cycle, reorder window and line fill buffers of a Nehalem core (Intel's
/// optimization manual); its private caches are in the programs' characteristics already.
const CORE: CoreConfig = CoreConfig { width: 4, window: 128, mshrs: 10, l1: None, l2: None };

/// Core cycles from a miss of the private caches to the data in the shared cache.
const LLC_LATENCY: u32 = 39;

/// A kernel to boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// It has no colors.
    Plain,
    /// Its free lists are colored.
    Colored,
}

/// Parts of the machine that do not change between runs.
#[derive(Debug)]
pub(super) struct Board {
    machine: Machine,
    pub(super) supply: Supply,
    plain: Os,
    colored: Os,
}

impl Board {
    /// The machine of the paper, its pages colored by their banks.
    ///
    /// # Errors
    /// If the map is invalid.
    pub(super) fn of_paper(aging: Aging) -> Result<Self, InputError> {
        let map = AddressMap::parse(MAP.0, MAP.1)?;
        let coloring = map.coloring(BASE_PAGE_BITS);
        let supply = Supply::of_map(&map, BASE_PAGE_BITS, Some(&llc()));
        Self::boot(&map, &coloring, supply, aging)
    }

    /// A machine on which bits 17 to 19 choose what bits 13 to 15 choose on the paper's, and the
    /// other way round; its pages are colored by the cache as on the paper's. Cache colors choose
    /// no bank.
    ///
    /// # Errors
    /// If the map is invalid.
    pub(super) fn apart(aging: Aging) -> Result<Self, InputError> {
        let mut map = AddressMap::parse(MAP.0, MAP.1)?;
        let sets = map.functions.iter_mut().map(|set| &mut set.function);
        for function in sets.chain(&mut map.row).chain(&mut map.column) {
            let low = function.0 >> 13 & 7;
            let high = function.0 >> 17 & 7;
            function.0 = function.0 & !(7 << 13 | 7 << 17) | low << 17 | high << 13;
        }
        let span = [13, 14, 15].into_iter().map(|bit| XorFunction(1 << bit)).collect();
        let coloring = Coloring::of_span(&span, BASE_PAGE_BITS, 0);
        let supply = Supply::new(coloring.colors(), 64);
        Self::boot(&map, &coloring, supply, aging)
    }

    /// Boots both kernels, with and without colors, on memory that has been in use in the same way.
    fn boot(
        map: &AddressMap,
        coloring: &Coloring,
        supply: Supply,
        aging: Aging,
    ) -> Result<Self, InputError> {
        let refused = |refusal: Refusal| refusal.written_in(MAP.0);
        let memory = memory::config(&Conditions::of_paper(), map).map_err(refused)?;
        let machine = machine(memory, aging);
        let kernel = |coloring: &Coloring| machine.boot(|_| coloring.clone()).map_err(refused);
        let (plain, colored) = (kernel(&uncolored(BASE_PAGE_BITS))?, kernel(coloring)?);
        Ok(Self { machine, supply, plain, colored })
    }

    /// The machine under these conditions.
    ///
    /// # Errors
    /// If there is no such memory.
    pub(super) fn machine(&self, on: &Conditions) -> Result<Machine, Refusal> {
        let mut machine = self.machine.clone();
        machine.memories[0].config = memory::config(on, self.machine.map())?;
        Ok(machine)
    }

    /// One of the kernels, freshly booted.
    pub(super) fn os(&self, kernel: Kernel) -> Os {
        match kernel {
            Kernel::Plain => self.plain.clone(),
            Kernel::Colored => self.colored.clone(),
        }
    }
}

/// The shared cache: 8 MB, 16 ways.
pub(super) fn llc() -> CacheGeometry {
    CacheGeometry::new(Bytes(8 << 20), 16)
}

/// The machine with this memory, whose pages have been in use.
fn machine(config: MemoryConfig, aging: Aging) -> Machine {
    Machine {
        clock: Clock::gigahertz(2.8),
        cores: CORES,
        threads_per_core: 2,
        core: CORE,
        llc: Some(CacheLevel { geometry: llc(), latency: LLC_LATENCY }),
        memories: vec![MemoryUnit { name: "dram".to_owned(), config }],
        colored_by: ColoredBy::Banks,
        start: Start::Aged(aging),
        exhausted: Exhausted::Spill,
        // A program has touched its memory long before the time that is measured.
        faults: FaultCosts::FREE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_cache_colors_choose_no_bank_the_map_is_complete_too() {
        let board = Board::apart(Aging::default()).unwrap();
        board.machine.map().validate().unwrap();
        let banks = board.machine.map().coloring(BASE_PAGE_BITS);
        let bits: Vec<u32> = banks.span().basis().iter().map(|f| f.lowest()).collect();
        assert_eq!(bits, [17, 18, 19, 21, 22]);
        assert_eq!(board.supply.colors(), 8);
    }

    #[test]
    fn the_map_is_that_of_the_paper() {
        let map = AddressMap::parse(MAP.0, MAP.1).unwrap();
        assert!(map.is_complete());
        let coloring = map.coloring(BASE_PAGE_BITS);
        let bits: Vec<u32> = coloring.span().basis().iter().map(|f| f.lowest()).collect();
        assert_eq!(bits, [13, 14, 15, 21, 22]);
        let supply = Supply::of_map(&map, BASE_PAGE_BITS, Some(&llc()));
        assert_eq!((supply.colors(), supply.banks_per_color()), (32, 2));
    }
}
