//! Paging to byte-addressable memory in which reads are served in place (DR.Swap): running programs
//! so, and what it costs in energy. The pages themselves are moved by the preload library, or by a kernel
//! that can.

#![forbid(unsafe_code)]

pub mod energy;
pub mod kernel;
pub mod live;
