//! Address maps (B1): the physical address bits that choose the channel, rank, bank group, bank,
//! row and column of a request.
//!
//! A map is a set of XOR functions of the address ([`XorFunction`]), some of which may have a known
//! [`Role`], and the functions of row and column if they are known. These types are shared: the
//! detector writes maps, the simulator decodes requests with them, the allocators derive page
//! colors from them ([`Coloring`]), and all read one file format ([`AddressMap::parse`]).
//! `memweir-map` finds maps.

mod check;
mod color;
mod file;
mod gf2;
#[cfg(test)]
mod tests;

pub use color::{Color, ColorSet, Coloring, MAX_COLORS};
pub use gf2::{Span, XorFunction};

use serde::Serialize;

use crate::input::Refusal;
use crate::units::{Bytes, PAGE, PhysAddr};

/// Bits of the offset within a base page, the page size of live programs.
pub const BASE_PAGE_BITS: u32 = PAGE.0.trailing_zeros();

/// Level of the memory system that a function of the address chooses.
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
    /// One of these; it is not known which.
    Set,
}

crate::named! {
    pub Role, "role":
    Channel = "channel",
    SubChannel = "sub-channel",
    Rank = "rank",
    BankGroup = "bank-group",
    Bank = "bank",
    Set = "set",
}

/// A function that distinguishes banks, and its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFunction {
    /// Role of the function.
    pub role: Role,
    /// The function.
    pub function: XorFunction,
}

/// Interleaving over a number of channels that need not be a power of two: blocks of `granule`
/// bytes rotate over the channels. The functions of the map see the address without the blocks of
/// the other channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interleave {
    /// Number of channels, at least two.
    pub channels: u32,
    /// Size of a block, a power of two of at least one line.
    pub granule: Bytes,
}

/// Location of an address in the memory system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Channel among those of an [`Interleave`]; zero without one.
    pub way: u32,
    /// Bank among all that the functions distinguish: bit `i` is the value of function `i`.
    pub set: u64,
    /// Row; zero if the map has no row functions.
    pub row: u64,
    /// Byte in the row; zero if the map has no column functions.
    pub column: u64,
}

/// A memory controller's mapping of physical addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    /// Name for people: `Core i7-860, 8 GB`.
    pub name: String,
    /// Source of the map.
    pub source: Option<String>,
    /// Bytes that are subtracted from a physical address first (a hole below it is not memory).
    pub offset: u64,
    /// Interleaving that is not a function of bits.
    pub interleave: Option<Interleave>,
    /// Number of address bits that the map covers, from bit 0.
    pub bits: u32,
    /// Functions that distinguish banks, the least significant first within each role.
    pub functions: Vec<SetFunction>,
    /// Functions of the row, least significant first; empty if unknown.
    pub row: Vec<XorFunction>,
    /// Functions of the byte in the row, least significant first; empty if unknown.
    pub column: Vec<XorFunction>,
}

impl AddressMap {
    /// Returns the span of the functions that distinguish banks.
    #[must_use]
    pub fn span(&self) -> Span {
        self.functions.iter().map(|f| f.function).collect()
    }

    /// Returns true if row and column functions are known, so that each location has one address
    /// and can be [encoded](Self::encode).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.row.is_empty() && !self.column.is_empty()
    }

    /// Returns the functions that choose `role`, least significant first.
    pub fn functions_of(&self, role: Role) -> impl Iterator<Item = XorFunction> {
        self.functions.iter().filter(move |f| f.role == role).map(|f| f.function)
    }

    /// Returns the location of `address`.
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

    /// Refuses an address of which the map says nothing. A map that is not complete says something
    /// of banks beyond its bits.
    ///
    /// # Errors
    /// If the address lies below the offset, or beyond the bits of a complete map.
    pub fn covers(&self, address: PhysAddr) -> Result<(), Refusal> {
        let (offset, bits) = (self.offset, self.bits);
        let place = if address.0 < offset {
            format!("below the map's offset {offset:#x}")
        } else if self.is_complete() && self.enter(address).1 >> bits != 0 {
            format!("beyond the {bits} address bits of the map")
        } else {
            return Ok(());
        };
        Err(Refusal::plain(format!("{address} is {place}: the map says nothing of it")))
    }

    /// Returns the value of the functions that choose `role` at `address`: `decode` for one role.
    #[must_use]
    pub fn value_of(&self, role: Role, address: PhysAddr) -> u32 {
        gather(self.functions_of(role), self.enter(address).1) as u32
    }

    /// Returns the channel of the interleaving, and the address that the functions see.
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

    /// Returns the bank colors of pages of `1 << page_bits` bytes (bpm section 3.1.2). Under an
    /// [`Interleave`] there is only one color: with blocks smaller than a page, every page reaches
    /// every channel, and the blocks before it shift its position in them.
    #[must_use]
    pub fn coloring(&self, page_bits: u32) -> Coloring {
        let span = if self.interleave.is_some() { Span::default() } else { self.span() };
        Coloring::of_span(&span, page_bits, self.offset)
    }
}

fn gather(functions: impl Iterator<Item = XorFunction>, address: u64) -> u64 {
    functions.enumerate().map(|(i, function)| function.value(address) << i).sum()
}
