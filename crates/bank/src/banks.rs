//! Numbering of banks over all memory systems of a machine.

use memweir_core::PhysAddr;
use memweir_core::address_map::{AddressMap, XorFunction};

/// The banks of one memory system.
#[derive(Clone, Debug)]
pub struct Banks {
    map: AddressMap,
    functions: Vec<XorFunction>,
    first: usize,
}

impl Banks {
    /// Creates the banks that `map` distinguishes, numbered from `first`.
    #[must_use]
    pub fn new(map: &AddressMap, first: usize) -> Self {
        let functions = map.functions.iter().map(|function| function.function).collect();
        Self { map: map.clone(), functions, first }
    }

    /// Returns the number of banks, over all ranks and channels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.map.interleave.map_or(1, |interleave| interleave.channels as usize)
            << self.functions.len()
    }

    /// Returns the number of the bank that holds `address`.
    #[must_use]
    pub fn number(&self, address: PhysAddr) -> usize {
        let (way, inner) = self.map.enter(address);
        let bit =
            |(place, function): (usize, &XorFunction)| (function.value(inner) as usize) << place;
        let set: usize = self.functions.iter().enumerate().map(bit).sum();
        self.first + ((way as usize) << self.functions.len()) + set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_of_all_channels_are_numbered_from_the_first() {
        let text = r#"
            name = "six banks"
            bits = 30
            function = [{ role = "bank", bits = [12] }]
            interleave = { channels = 3, granule = 256 }
        "#;
        let banks = Banks::new(&AddressMap::parse("map", text).unwrap(), 10);
        assert_eq!(banks.count(), 6);
        // A channel has every third block of 256 bytes; its bit 12 is that of every 16th of them.
        let number = |block: u64| banks.number(PhysAddr(block * 256));
        assert_eq!([0, 1, 2, 3, 48, 49, 50].map(number), [10, 12, 14, 10, 11, 13, 15]);
    }
}
