//! Simulation at the level of banks: cores with windows and miss-status registers, caches, an
//! operating system that hands out page frames, and the memory systems of `memweir-dram` below.
//!
//! Milliseconds of a machine, request by request; the flow level of the rest of this crate does
//! hours. Time jumps from one miss to the next: what happens between them is computed.
//!
//! | module | what lives there |
//! |---|---|
//! | [`paging`] | what the machine asks of an operating system |
//! | [`os`] | the operating system: colored pages |

pub mod os;
pub mod paging;
