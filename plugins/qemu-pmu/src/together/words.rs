//! Groups of accesses as the emulator keeps them: in one word for each callback.

use super::{Access, LINE, PIECE};

/// Where the accesses that a callback serves are around its own address: in the lower 16 bits of a
/// word, the distance of its own address above the lowest, and that of the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent(u64);

impl Extent {
    /// Returns the extent of accesses at these addresses, relative to each other; the last is the
    /// callback's own.
    fn of(members: &[Access]) -> Self {
        let lowest = lowest(members);
        let highest = members.iter().map(Access::end).max().unwrap_or(lowest);
        let own = members.last().map_or(lowest, |own| own.distance);
        Self((own - lowest) as u64 | ((highest - lowest) as u64) << 8)
    }

    #[inline(always)]
    fn lowest(self, address: u64) -> u64 {
        address.wrapping_sub(self.0 & 0xff)
    }

    #[inline(always)]
    fn length(self) -> u64 {
        self.0 >> 8 & 0xff
    }

    #[inline(always)]
    fn is_on_one_line(self, address: u64) -> bool {
        self.lowest(address) % LINE as u64 + self.length() < LINE as u64
    }
}

fn lowest(members: &[Access]) -> i64 {
    members.iter().map(|access| access.distance).min().unwrap_or(0)
}

/// Accesses that are all loads, or all stores, and touch every line from the lowest to the highest.
/// The word that the emulator keeps has their extent, the bytes of the callback's own operand
/// beyond its first piece, and one for stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u64);

impl Span {
    /// Largest distance between the lowest and the highest.
    pub(super) const LONGEST: i64 = 255;

    /// Builds the span of accesses at these addresses, relative to each other; the last is the
    /// callback's own.
    pub(super) fn new(members: &[Access]) -> Self {
        let own = members.last();
        let operand = own.map_or(0, |own| (own.end() - own.distance) as u64);
        let store = own.is_some_and(|own| own.is_store);
        Self(Extent::of(members).0 | operand << 16 | u64::from(store) << 24)
    }

    /// Returns the bytes of the callback's own operand beyond its first piece: zero unless the
    /// emulator accesses it in pieces.
    #[inline(always)]
    pub(crate) fn operand(self) -> u64 {
        self.0 >> 16 & 0xff
    }

    /// Returns one for stores, otherwise zero.
    #[inline(always)]
    pub(crate) fn stores(self) -> u64 {
        self.0 >> 24 & 1
    }

    /// Returns true if all are on the line of the callback's own `address`.
    #[inline(always)]
    pub(crate) fn is_on_one_line(self, address: u64) -> bool {
        Extent(self.0).is_on_one_line(address)
    }

    /// Returns the lines, that of the end of the callback's own operand last.
    #[inline(always)]
    pub(crate) fn lines(self, address: u64) -> impl Iterator<Item = u64> {
        let extent = Extent(self.0);
        let lowest = extent.lowest(address);
        let line = |address: u64| address / LINE as u64;
        let own = line(address.wrapping_add(self.operand()));
        (line(lowest)..=line(lowest.wrapping_add(extent.length())))
            .filter(move |line| *line != own)
            .chain([own])
    }
}

/// The rest of an operand that is being accessed in pieces, each of which calls back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operand {
    next: u64,
    last: u64,
}

impl Operand {
    /// Returns true if the access of `size` bytes at `address` continues the operand, of which the
    /// first piece was looked at for all. A fault may have ended an operand early, but then hardly
    /// any other continues at its next piece.
    #[inline(always)]
    pub(crate) fn continues(&mut self, address: u64, size: u64) -> bool {
        let continues = address == self.next && address <= self.last;
        self.next = address.wrapping_add(size);
        continues
    }

    /// Begins an operand whose first piece [`continues`](Self::continues) has refused.
    #[inline(always)]
    pub(crate) fn begin(&mut self, address: u64, beyond: u64) {
        self.last = address.wrapping_add(beyond);
    }
}

/// Position of the first member's distance and kind in a [`Group`], and bits per member.
const MEMBERS_SHIFT: u32 = 16;
const MEMBER_BITS: u32 = 7;

/// Loads and stores of at most [`PIECE`] bytes, less than a line apart. The word that the emulator
/// keeps has their extent, and each access's distance from the lowest and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(pub(crate) u64);

impl Group {
    /// Most accesses.
    pub(super) const MEMBERS: usize = 6;

    /// Builds the group of accesses at these addresses, relative to each other; the last is the
    /// callback's own.
    pub(super) fn new(members: &[Access]) -> Self {
        debug_assert!(members.iter().all(|access| access.bytes <= PIECE));
        let lowest = lowest(members);
        let mut word = Extent::of(members).0;
        for number in 0..Self::MEMBERS {
            // A missing member repeats the last one, which changes nothing.
            let Some(access) = members.get(number).or(members.last()) else { break };
            let member = ((access.distance - lowest) as u64) << 1 | u64::from(access.is_store);
            word |= member << (MEMBERS_SHIFT + MEMBER_BITS * number as u32);
        }
        Self(word)
    }

    /// Returns true if all are on the line of the callback's own `address`, which a store modifies.
    #[inline(always)]
    pub(crate) fn is_on_one_line(self, address: u64) -> bool {
        Extent(self.0).is_on_one_line(address)
    }

    /// For accesses on two lines, returns an address on each line, the callback's own last, and for
    /// each line one if there is a store on it, otherwise zero.
    #[inline(always)]
    pub(crate) fn on_two_lines(self, address: u64) -> [(u64, u64); 2] {
        let lowest = Extent(self.0).lowest(address);
        let upper = (lowest | (LINE as u64 - 1)) + 1;
        let mut stores = [0, 0];
        for number in 0..Self::MEMBERS as u32 {
            let member = self.0 >> (MEMBERS_SHIFT + MEMBER_BITS * number);
            let is_upper = lowest + (member >> 1 & (LINE as u64 - 1)) >= upper;
            stores[usize::from(is_upper)] |= member & 1;
        }
        let (lower, upper) = ((lowest, stores[0]), (upper, stores[1]));
        if address < upper.0 { [upper, lower] } else { [lower, upper] }
    }
}
