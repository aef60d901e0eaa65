//! Validation of a map, and the inverse mapping from a location to its address.

use super::{AddressMap, Location, MAX_COLORS, Span, XorFunction};
use crate::input::Refusal;
use crate::units::PhysAddr;

/// The most functions of banks: pages have at most [`MAX_COLORS`].
const MOST_FUNCTIONS: usize = MAX_COLORS.ilog2() as usize;

impl AddressMap {
    /// Refuses maps whose functions are too many or not independent, and complete maps that are not
    /// bijective.
    ///
    /// # Errors
    /// Names the function that is a sum of others, or the bits without effect.
    pub fn validate(&self) -> Result<(), Refusal> {
        let functions = self.functions.len();
        if functions > MOST_FUNCTIONS {
            return Err(Refusal::new(
                format!("{functions} functions of banks are more than any machine has"),
                format!("at most {MOST_FUNCTIONS}, which make {MAX_COLORS} banks"),
            ));
        }
        let mut span = Span::default();
        let sets = self.functions.iter().map(|f| ("function", f.function));
        let rows = self.row.iter().map(|f| ("row", *f));
        let columns = self.column.iter().map(|f| ("column", *f));
        for (what, function) in sets.chain(rows).chain(columns) {
            if !span.add(function) {
                return Err(Refusal::new(
                    format!(
                        "{what} {function} is a sum of the functions before it: two addresses would share a place"
                    ),
                    "each function of banks, row and column must tell something new",
                ));
            }
        }
        if self.is_complete() && span.dimension() != self.bits as usize {
            return Err(Refusal::new(
                format!(
                    "{} functions of banks, row and column for {} address bits: not bijective",
                    span.dimension(),
                    self.bits
                ),
                format!("as many functions as `bits`; bits without effect: {}", self.unused_bits()),
            ));
        }
        Ok(())
    }

    fn unused_bits(&self) -> String {
        let all = self.functions.iter().map(|f| f.function).chain(self.row.iter().copied());
        let used = all.chain(self.column.iter().copied()).fold(0, |used, f| used | f.0);
        let unused = XorFunction(!used & ((1 << self.bits) - 1));
        let bits: Vec<String> = unused.bits().map(|bit| bit.to_string()).collect();
        if bits.is_empty() { "none".to_owned() } else { bits.join(", ") }
    }

    /// Returns the address at `location`, if the map is [complete](Self::is_complete).
    #[must_use]
    pub fn encode(&self, location: Location) -> Option<PhysAddr> {
        if !self.is_complete() {
            return None;
        }
        let values = |value: u64| (0..64).map(move |i| value >> i & 1);
        let sets = self.functions.iter().map(|f| f.function).zip(values(location.set));
        let rows = self.row.iter().copied().zip(values(location.row));
        let columns = self.column.iter().copied().zip(values(location.column));
        let inner = solve(sets.chain(rows).chain(columns))?;
        let address = match self.interleave {
            None => inner,
            Some(interleave) => {
                let granule = interleave.granule.0;
                let block =
                    inner / granule * u64::from(interleave.channels) + u64::from(location.way);
                block * granule + inner % granule
            }
        };
        Some(PhysAddr(address.wrapping_add(self.offset)))
    }
}

/// Returns the address at which each function has its value, with zero in bits that no function
/// determines; `None` if the values contradict each other.
fn solve(equations: impl Iterator<Item = (XorFunction, u64)>) -> Option<u64> {
    let mut reduced: Vec<(u64, u64)> = Vec::new();
    for (XorFunction(mut mask), mut value) in equations {
        for (known, known_value) in &reduced {
            if mask >> known.trailing_zeros() & 1 == 1 {
                (mask, value) = (mask ^ known, value ^ known_value);
            }
        }
        match (mask, value) {
            (0, 0) => {}
            (0, _) => return None,
            equation => reduced.push(equation),
        }
    }
    // Later equations have none of the earlier ones' lowest bits, so the last is solved first.
    let step = |address: u64, (mask, value): &(u64, u64)| {
        let others = u64::from((address & mask).count_ones() & 1);
        address | (others ^ value) << mask.trailing_zeros()
    };
    Some(reduced.iter().rev().fold(0, step))
}
