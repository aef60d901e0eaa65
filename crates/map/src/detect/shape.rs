//! Transformation of an address before functions of its bits choose a bank: an offset is
//! subtracted, and blocks rotate over a number of channels that is not a power of two.

use memweir_core::address_map::{Interleave, Span, XorFunction};
use memweir_core::{Bytes, LINE_BYTES, PhysAddr};

use crate::hash::scramble;
use crate::oracle::Reach;

/// A transformation of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes that are subtracted.
    pub(super) offset: u64,
    /// Odd numbers of channels only: functions of bits represent the even factor, until
    /// [`evened`](Self::evened).
    pub(super) interleave: Option<Interleave>,
}

impl Shape {
    /// The identity.
    pub(super) const PLAIN: Self = Self { offset: 0, interleave: None };

    pub(super) fn channels(self) -> u32 {
        self.interleave.map_or(1, |interleave| interleave.channels)
    }

    /// Returns channel and inner address; `None` for addresses below the offset.
    pub(super) fn enter(self, address: PhysAddr) -> Option<(u64, u64)> {
        let address = address.0.checked_sub(self.offset)?;
        Some(match self.interleave {
            None => (0, address),
            Some(Interleave { channels, granule }) => {
                let (block, within) = (address / granule.0, address % granule.0);
                let channels = u64::from(channels);
                (block % channels, block / channels * granule.0 + within)
            }
        })
    }

    /// Returns the address that [`enter`](Self::enter) maps to this channel and inner address.
    pub(super) fn leave(self, way: u64, inner: u64) -> PhysAddr {
        let address = match self.interleave {
            None => inner,
            Some(Interleave { channels, granule }) => {
                let block = inner / granule.0 * u64::from(channels) + way;
                block * granule.0 + inner % granule.0
            }
        };
        PhysAddr(address + self.offset)
    }

    /// Returns the difference of the inner addresses if the channel is the same.
    pub(super) fn difference(self, a: PhysAddr, b: PhysAddr) -> Option<Result<u64, OtherWay>> {
        let ((way_a, a), (way_b, b)) = (self.enter(a)?, self.enter(b)?);
        Some(if way_a == way_b { Ok(a ^ b) } else { Err(OtherWay) })
    }

    /// Returns the inner bits that vary over the reach.
    pub(super) fn known(self, reach: &Reach) -> Known {
        let entered = sample(reach).filter_map(|address| self.enter(address));
        let mut lines: Vec<u64> = entered.map(|(_, inner)| inner & !(LINE_BYTES - 1)).collect();
        // They ascend, so the one in the middle has no rare bit.
        let usual = lines.get(lines.len() / 2).copied().unwrap_or(0);
        lines.iter_mut().for_each(|line| *line ^= usual);
        let rare = |bit: u32| {
            let ones = lines.iter().filter(|line| *line >> bit & 1 == 1).count();
            ones.min(lines.len() - ones) as f64 <= RARE * lines.len() as f64
        };
        let mut top = lines.iter().map(|line| u64::BITS - line.leading_zeros()).max().unwrap_or(0);
        let mut foreign = 0;
        while top > LINE_BYTES.trailing_zeros() && rare(top - 1) {
            top -= 1;
            foreign |= 1 << top;
        }
        let familiar = lines.iter().filter(|line| *line & foreign == 0);
        let seen: Span = familiar.map(|line| XorFunction(line & !foreign)).collect();
        let bits = seen.basis().iter().fold(0u64, |bits, row| bits | 1 << row.lowest());
        Known { bits, foreign }
    }

    /// Returns the same shape with a doubled number of channels while the lowest bit of the block
    /// number is itself in the span of the functions, and the bits that are thereby removed from
    /// inner addresses.
    pub(super) fn evened(self, banks: &Span) -> (Self, Vec<u32>) {
        let (mut shape, mut taken, mut banks) = (self, Vec::new(), banks.clone());
        while let Some(interleave) = shape.interleave {
            let bit = interleave.granule.0.trailing_zeros();
            if !banks.contains(XorFunction(1 << bit)) || interleave.channels > 32 {
                break;
            }
            banks = banks.basis().iter().filter_map(|f| without(*f, bit)).collect();
            taken.push(bit);
            shape.interleave = Some(Interleave { channels: 2 * interleave.channels, ..interleave });
        }
        (shape, taken)
    }

    /// Returns all odd numbers of channels and granules with which nearly all `pairs` agree in the
    /// channel.
    pub(super) fn interleaves(pairs: &[(PhysAddr, PhysAddr)]) -> Vec<Interleave> {
        const AGREE: f64 = 0.9;
        let granules = || (LINE_BYTES.trailing_zeros()..22).map(|bit| Bytes(1 << bit));
        let agree = |interleave: &Interleave| {
            let shape = Self { offset: 0, interleave: Some(*interleave) };
            let same =
                |(a, b): &&(PhysAddr, PhysAddr)| matches!(shape.difference(*a, *b), Some(Ok(_)));
            pairs.iter().filter(same).count() as f64 >= AGREE * pairs.len() as f64
        };
        [3, 5, 7, 9, 11, 13, 15]
            .into_iter()
            .flat_map(|channels| granules().map(move |granule| Interleave { channels, granule }))
            .filter(agree)
            .collect()
    }
}

/// Share of addresses with a different highest bit up to which that bit counts as foreign.
const RARE: f64 = 0.03;

/// Bits of inner addresses, without the bits within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Bits that distinguish all addresses of the reach: every function of the address is a
    /// function of these bits alone.
    pub(super) bits: u64,
    /// Highest bits that are rare in the reach: the relation of addresses that differ in one is
    /// unknown.
    pub(super) foreign: u64,
}

impl Known {
    /// Returns the number of bits from bit 0 on that are known without a gap.
    pub(super) fn width(self) -> u32 {
        (self.bits | (LINE_BYTES - 1)).trailing_ones()
    }
}

/// Returns a fixed set of lines, one of each of as many equal parts of the reach.
fn sample(reach: &Reach) -> impl Iterator<Item = PhysAddr> {
    const LINES: u64 = 256;
    let number = |i: u64| (i * reach.lines() + scramble(i) % reach.lines()) / LINES;
    (0..LINES).filter(|_| reach.lines() > 0).map(move |i| reach.line(number(i)))
}

/// The addresses lie in different channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherWay;

/// Returns the function with `bit` removed from the address; `None` if it consists of that bit
/// alone.
pub(super) fn without(function: XorFunction, bit: u32) -> Option<XorFunction> {
    let low = (1 << bit) - 1;
    let mask = function.0 & low | function.0 >> 1 & !low;
    (mask != 0).then_some(XorFunction(mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Region;

    fn shape(offset: u64, channels: u32, granule: u64) -> Shape {
        Shape { offset, interleave: Some(Interleave { channels, granule: Bytes(granule) }) }
    }

    #[test]
    fn leaves_where_it_entered() {
        let shape = shape(1 << 20, 3, 256);
        for address in (1 << 20..(1 << 20) + 8192).step_by(64).map(PhysAddr) {
            let (way, inner) = shape.enter(address).unwrap();
            assert_eq!(shape.leave(way, inner), address);
        }
        assert_eq!(shape.enter(PhysAddr(64)), None);
    }

    #[test]
    fn six_channels_are_three_and_a_bit() {
        let three = shape(0, 3, 256);
        let banks: Span =
            [XorFunction(1 << 8), XorFunction(1 << 9 | 1 << 15)].into_iter().collect();
        let (six, taken) = three.evened(&banks);
        assert_eq!((six.channels(), taken), (6, vec![8]));
        assert_eq!(without(XorFunction(1 << 9 | 1 << 15), 8), Some(XorFunction(1 << 8 | 1 << 14)));
        for address in (0..1 << 14).step_by(64).map(PhysAddr) {
            let (way, inner) = three.enter(address).unwrap();
            let (way_of_six, inner_of_six) = six.enter(address).unwrap();
            assert_eq!(way_of_six % 3, way);
            assert_eq!(inner_of_six, inner & 0xff | inner >> 1 & !0xff);
        }
    }

    #[test]
    fn odd_numbers_of_channels_are_those_in_which_pairs_agree() {
        for channels in [3, 5, 7, 9, 11, 13, 15] {
            // Whole rounds of every granule.
            let pairs =
                [1, 2, 4].map(|rounds| (PhysAddr(64), PhysAddr(64 + ((rounds * channels) << 22))));
            let found = Shape::interleaves(&pairs);
            let is_of = |number: u64| found.iter().any(|i| u64::from(i.channels) == number);
            assert!(is_of(channels) && !is_of(if channels == 7 { 5 } else { 7 }), "{found:?}");
        }
    }

    #[test]
    fn bits_that_do_not_vary_are_not_known() {
        let region = |start, length| Region { start: PhysAddr(start), length: Bytes(length) };
        let one = Reach::new(vec![region(1 << 30, 1 << 30)]);
        let known = Shape::PLAIN.known(&one);
        assert_eq!((known.bits, known.foreign, known.width()), ((1 << 30) - 64, 0, 30));
        let pages = [0, 1, 2, 3, 8].map(|page| region(page << 21, 1 << 21));
        let known = Shape::PLAIN.known(&Reach::new(pages.to_vec()));
        assert_eq!((known.bits, known.width()), ((1 << 24 | 1 << 23) - 64, 23));
        let mostly_low = Reach::new(vec![region(0, 1 << 30), region(1 << 30, 1 << 21)]);
        assert_eq!(Shape::PLAIN.known(&mostly_low).bits, (1 << 30) - 64);
        let mostly_high = Reach::new(vec![region(0, 1 << 24), region(1 << 30, 1 << 30)]);
        let known = Shape::PLAIN.known(&mostly_high);
        assert_eq!((known.bits, known.foreign), ((1 << 30) - 64, 1 << 30));
    }
}
