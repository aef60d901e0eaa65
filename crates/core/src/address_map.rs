//! Address maps (B1): which bits of a physical address choose the channel, rank, bank group, bank,
//! row and column of a request.
//!
//! A map is a set of XOR functions of the address ([`XorFunction`]), some of which may have a
//! known [`Role`], and, where they are known, those of row and column. Whoever needs a map speaks
//! these types: the detector writes them, the simulator decodes requests with them, the allocators
//! derive page colors from them ([`Coloring`]), and all read the one file format ([`AddressMap::parse`]).
//! Finding a map is the business of `memweir-map`.

mod check;
mod color;
mod file;
mod gf2;
#[cfg(test)]
mod tests;
mod write;

pub use color::{Color, ColorSet, Coloring, MAX_COLORS};
pub use gf2::{Span, XorFunction};

use crate::units::{Bytes, PhysAddr};

/// Bits of the offset within a base page of 4 KiB, what live programs are given.
pub const BASE_PAGE_BITS: u32 = 12;

/// What a function of the address chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The channel.
    Channel,
    /// One half of a channel that is split in two (DDR5).
    SubChannel,
    /// The rank.
    Rank,
    /// The bank group.
    BankGroup,
    /// The bank in its group.
    Bank,
    /// One of these, it is not known which.
    Set,
}

impl Role {
    /// Every role and its name in files, from the channel inward.
    pub const ALL: [(&'static str, Self); 6] = [
        ("channel", Self::Channel),
        ("sub-channel", Self::SubChannel),
        ("rank", Self::Rank),
        ("bank-group", Self::BankGroup),
        ("bank", Self::Bank),
        ("set", Self::Set),
    ];

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, role)| *role == self).map_or("set", |(name, _)| name)
    }
}

/// A function that tells banks apart, and what it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFunction {
    /// What it chooses.
    pub role: Role,
    /// The function.
    pub function: XorFunction,
}

/// Interleaving over a number of channels that need not be a power of two: blocks of `granule`
/// bytes go round the channels. The functions of the map see the address that is left when the
/// blocks of the other channels are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// Channels, at least two.
    pub channels: u32,
    /// Bytes of a block, a power of two of at least one line.
    pub granule: Bytes,
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The channel among those of an [`Interleave`]; zero without.
    pub way: u32,
    /// The bank among all banks that the functions tell apart: bit `i` is the value of the `i`th.
    pub set: u64,
    /// The row; zero where the map does not know rows.
    pub row: u64,
    /// The byte in the row; zero where the map does not know columns.
    pub column: u64,
}

/// How a memory controller places physical addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    /// What people call it: `Core i7-860, 8 GB`.
    pub name: String,
    /// Where it comes from.
    pub source: Option<String>,
    /// Bytes that are taken off a physical address first (a hole below it is not memory).
    pub offset: u64,
    /// Interleaving that is not a matter of bits.
    pub interleave: Option<Interleave>,
    /// Address bits that the map speaks of, from bit 0; what lies above is not known to it.
    pub bits: u32,
    /// The functions that tell banks apart, the least significant first within each role.
    pub functions: Vec<SetFunction>,
    /// Functions of the row, least significant first; empty if they are not known.
    pub row: Vec<XorFunction>,
    /// Functions of the byte in the row, least significant first; empty if they are not known.
    pub column: Vec<XorFunction>,
}

impl AddressMap {
    /// The span of the functions that tell banks apart.
    #[must_use]
    pub fn span(&self) -> Span {
        self.functions.iter().map(|f| f.function).collect()
    }

    /// Whether rows and columns are known, so that each location has one address and can be
    /// [encoded](Self::encode).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.row.is_empty() && !self.column.is_empty()
    }

    /// The functions that choose `role`, least significant first.
    pub fn functions_of(&self, role: Role) -> impl Iterator<Item = XorFunction> {
        self.functions.iter().filter(move |f| f.role == role).map(|f| f.function)
    }

    /// Where `address` lies.
    #[must_use]
    pub fn decode(&self, address: PhysAddr) -> Location {
        let (way, inner) = self.enter(address);
        Location {
            way,
            set: gather(self.functions.iter().map(|f| f.function), inner),
            row: gather(self.row.iter().copied(), inner),
            column: gather(self.column.iter().copied(), inner),
        }
    }

    /// The value of the functions that choose `role` at `address`: `decode` for one role.
    #[must_use]
    pub fn value_of(&self, role: Role, address: PhysAddr) -> u32 {
        gather(self.functions_of(role), self.enter(address).1) as u32
    }

    /// The channel of the interleaving, and the address that the functions see.
    #[must_use]
    pub fn enter(&self, address: PhysAddr) -> (u32, u64) {
        let address = address.0.wrapping_sub(self.offset);
        match self.interleave {
            None => (0, address),
            Some(Interleave { channels, granule }) => {
                let (block, within) = (address / granule.0, address % granule.0);
                let channels = u64::from(channels);
                ((block % channels) as u32, block / channels * granule.0 + within)
            }
        }
    }

    /// Bank colors of pages of `1 << page_bits` bytes (bpm section 3.1.2). Under an [`Interleave`]
    /// whose blocks are smaller than a page, every page reaches every channel and the blocks
    /// before it shift its place in them, so there is but one color.
    #[must_use]
    pub fn coloring(&self, page_bits: u32) -> Coloring {
        let span = if self.interleave.is_some() { Span::default() } else { self.span() };
        Coloring::of_span(&span, page_bits, self.offset)
    }
}

fn gather(functions: impl Iterator<Item = XorFunction>, address: u64) -> u64 {
    functions.enumerate().map(|(i, function)| function.value(address) << i).sum()
}
