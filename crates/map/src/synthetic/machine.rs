//! The simulated machine: the addresses that share a bank, and those that share a row.

use memweir_core::address_map::{AddressMap, Span, XorFunction};
use memweir_core::{Bytes, PhysAddr};

/// Number of column bits of a machine whose map has neither rows nor columns: rows of 8 KiB, as
/// with most channels of 64 bits.
const COLUMN_BITS: usize = 13;

/// A map with rows, known or supplied.
#[derive(Clone, Debug)]
pub struct Machine {
    map: AddressMap,
    rows: Vec<XorFunction>,
}

impl Machine {
    /// Creates the machine with this map. If the map has no rows, they are the highest bits that
    /// are independent of banks (and of columns if they are known), until as many bits are left as
    /// the columns need: 13 if they are not known, at most half of the bits beside the banks.
    #[must_use]
    pub fn of(map: &AddressMap) -> Self {
        let rows = if map.row.is_empty() { supplied(map) } else { map.row.clone() };
        Self { map: map.clone(), rows }
    }

    /// Returns the memory that the map covers, over all channels.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        let channels = self.map.interleave.map_or(1, |interleave| interleave.channels);
        Bytes((1 << self.map.bits) * u64::from(channels))
    }

    /// Returns true if the addresses lie in different rows of one bank.
    #[must_use]
    pub fn conflict(&self, a: PhysAddr, b: PhysAddr) -> bool {
        let ((way_a, a), (way_b, b)) = (self.map.enter(a), self.map.enter(b));
        let differ = |f: XorFunction| f.value(a ^ b) == 1;
        way_a == way_b
            && !self.map.functions.iter().any(|set| differ(set.function))
            && self.rows.iter().any(|row| differ(*row))
    }

    /// Returns the row functions, known or supplied.
    #[must_use]
    pub fn rows(&self) -> &[XorFunction] {
        &self.rows
    }
}

fn supplied(map: &AddressMap) -> Vec<XorFunction> {
    let columns = map.column.len();
    let mut told: Span = map.span();
    let left = map.bits as usize - told.dimension();
    let wanted = match columns {
        0 => left - COLUMN_BITS.min(left / 2),
        known => left.saturating_sub(known),
    };
    for column in &map.column {
        told.add(*column);
    }
    let mut rows = Vec::new();
    for bit in (0..map.bits).rev() {
        let row = XorFunction(1 << bit);
        if rows.len() < wanted && told.add(row) {
            rows.insert(0, row);
        }
    }
    rows
}
