//! What happens to an address before functions of its bits choose a bank: an offset is taken off,
//! and blocks go round a number of channels that is no power of two.

use memweir_core::address_map::{Interleave, Span, XorFunction};
use memweir_core::{Bytes, LINE_BYTES, PhysAddr};

use crate::oracle::Reach;

/// One way to see addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes taken off.
    pub(super) offset: u64,
    /// Odd numbers of channels only: the even part is a matter of bits, until
    /// [`evened`](Self::evened).
    pub(super) interleave: Option<Interleave>,
}

impl Shape {
    /// Addresses as they are.
    pub(super) const PLAIN: Self = Self { offset: 0, interleave: None };

    pub(super) fn channels(self) -> u32 {
        self.interleave.map_or(1, |interleave| interleave.channels)
    }

    /// Channel and inner address; nothing for addresses below the offset.
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

    /// The address that [`enter`](Self::enter) takes there.
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

    /// The difference of the inner addresses if the channel is the same.
    pub(super) fn difference(self, a: PhysAddr, b: PhysAddr) -> Option<Result<u64, OtherWay>> {
        let ((way_a, a), (way_b, b)) = (self.enter(a)?, self.enter(b)?);
        Some(if way_a == way_b { Ok(a ^ b) } else { Err(OtherWay) })
    }

    /// The inner bits from that of a line on, up to the first in which the reach says nothing of its own.
    pub(super) fn known(self, reach: &Reach) -> u64 {
        let inner = |address: PhysAddr| self.enter(address).map(|(_, inner)| inner);
        let first = reach.regions().iter().find_map(|region| inner(region.start)).unwrap_or(0);
        let mut seen = Span::default();
        for region in reach.regions() {
            // A region holds every address between its ends: differences of all its powers of two.
            let steps = (6..63).map(|bit| 1 << bit).take_while(|step| *step < region.length.0);
            let last = region.length.0 - LINE_BYTES;
            let between =
                (1..64).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % region.length.0);
            for within in steps.chain([0, last]).chain(between) {
                if let Some(inner) = inner(PhysAddr(region.start.0 + within)) {
                    seen.add(XorFunction((inner ^ first) & !(LINE_BYTES - 1)));
                }
            }
        }
        let pivots = seen.basis().iter().fold(0u64, |bits, row| bits | 1 << row.lowest());
        let first_gap = (pivots | (LINE_BYTES - 1)).trailing_ones();
        pivots & ((1u64 << first_gap.min(63)) - 1)
    }

    /// The same shape with an even number of channels, as long as the functions tell the lowest bit
    /// of the block's number by itself, and what becomes of functions of the inner address.
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

    /// Every odd number of channels and granule with which `pairs` nearly all agree in the channel.
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

/// The addresses lie in different channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherWay;

/// The function with `bit` taken out of the address; nothing if it is that bit's alone.
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
    fn bits_that_do_not_vary_are_not_known() {
        let region = |start, length| Region { start: PhysAddr(start), length: Bytes(length) };
        let one = Reach::new(vec![region(1 << 30, 1 << 30)]);
        assert_eq!(Shape::PLAIN.known(&one), (1 << 30) - 64);
        let pages = [0, 1, 2, 3, 8].map(|page| region(page << 21, 1 << 21));
        assert_eq!(Shape::PLAIN.known(&Reach::new(pages.to_vec())), (1 << 23) - 64);
    }
}
