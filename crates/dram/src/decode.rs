//! An address map compiled for decoding: address bits that move by the same distance move together.

use memweir_core::PhysAddr;
use memweir_core::address_map::{AddressMap, Role, XorFunction};

/// The location of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Channel, counting sub-channels.
    pub(crate) channel: usize,
    /// Bank in the channel: rank, then group, then bank.
    pub(crate) bank: u16,
    pub(crate) row: u32,
    /// Column in units of lines.
    pub(crate) column: u32,
}

/// Bits of a place, packed: column, row, bank, channel.
const ROW: u32 = 16;
const BANK: u32 = 40;
const CHANNEL: u32 = 52;

/// Address bits that move by the same distance.
#[derive(Clone, Copy, Debug)]
struct Move {
    /// The bits in the address.
    mask: u64,
    /// Distance of the move to the left, modulo 64.
    distance: u32,
}

/// A decoder of one map.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    map: Option<AddressMap>,
    offset: u64,
    moves: Vec<Move>,
    /// Channels that the functions choose, if an interleaving chooses among more.
    inner_channels: usize,
}

impl Decoder {
    /// Builds a decoder for a map with roles, rows and columns.
    pub(crate) fn new(map: &AddressMap) -> Self {
        let mut decoder = Self {
            map: map.interleave.is_some().then(|| map.clone()),
            offset: map.offset,
            moves: Vec::new(),
            inner_channels: 1,
        };
        let line = map.column.iter().copied().skip(6);
        decoder.add(0, line);
        decoder.add(ROW, map.row.iter().copied());
        let bank = [Role::Bank, Role::BankGroup, Role::Rank];
        decoder.add(BANK, bank.into_iter().flat_map(|role| map.functions_of(role)));
        let channel = [Role::SubChannel, Role::Channel];
        let channel: Vec<_> = channel.into_iter().flat_map(|role| map.functions_of(role)).collect();
        decoder.inner_channels = 1 << channel.len();
        decoder.add(CHANNEL, channel.into_iter());
        decoder
    }

    fn add(&mut self, to: u32, functions: impl Iterator<Item = XorFunction>) {
        for (place, function) in functions.enumerate() {
            for bit in function.bits() {
                let distance = (to + place as u32).wrapping_sub(u32::from(bit)) & 63;
                match self.moves.iter_mut().find(|known| known.distance == distance) {
                    Some(known) => known.mask |= 1 << bit,
                    None => self.moves.push(Move { mask: 1 << bit, distance }),
                }
            }
        }
    }

    /// Returns the location of the line of `address`.
    #[inline]
    pub(crate) fn place(&self, address: PhysAddr) -> Place {
        let (way, inner) = match &self.map {
            None => (0, address.0.wrapping_sub(self.offset)),
            Some(map) => map.enter(address),
        };
        let packed = self
            .moves
            .iter()
            .fold(0, |packed, step| packed ^ (inner & step.mask).rotate_left(step.distance));
        Place {
            channel: (packed >> CHANNEL) as usize + way as usize * self.inner_channels,
            bank: (packed >> BANK & 0xfff) as u16,
            row: (packed >> ROW & 0xff_ffff) as u32,
            column: (packed & 0xffff) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASHED: &str = r#"
        name = "hashed"
        bits = 33
        function = [
            { role = "bank-group", bits = [7, 14] }, { role = "bank-group", bits = [15, 19] },
            { role = "bank", bits = [16, 20] }, { role = "bank", bits = [17, 21, 30] },
        ]
        row = [18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, [32, 14], 14]
        column = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    "#;

    proptest! {
        #[test]
        fn agrees_with_the_map(address in 0u64..1 << 33) {
            for channels in [None, Some("interleave = { channels = 3, granule = 256 }\n")] {
                let text = format!("{}{HASHED}", channels.unwrap_or_default());
                let map = AddressMap::parse("hashed", &text).unwrap();
                let place = Decoder::new(&map).place(PhysAddr(address));
                let location = map.decode(PhysAddr(address));
                prop_assert_eq!(place.channel as u32, location.way);
                prop_assert_eq!(u64::from(place.row), location.row);
                prop_assert_eq!(u64::from(place.column), location.column >> 6);
                let set = location.set;
                prop_assert_eq!(u64::from(place.bank), (set & 3) << 2 | set >> 2);
            }
        }
    }

    /// Blocks of 256 bytes go round three channels, each of which bit 13 divides in two.
    #[test]
    fn an_interleaving_chooses_among_groups_of_channels() {
        let text = r#"
            name = "six channels"
            bits = 20
            function = [{ role = "channel", bits = [13] }]
            row = [14, 15, 16, 17, 18, 19]
            column = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
            interleave = { channels = 3, granule = 256 }
        "#;
        let decoder = Decoder::new(&AddressMap::parse("six", text).unwrap());
        // Block 98 is number 32 of the last channel: address 8192 there.
        let place = decoder.place(PhysAddr(98 * 256 + 64));
        assert_eq!(place, Place { channel: 5, bank: 0, row: 0, column: 1 });
    }
}
