//! Paging to byte-addressable memory in which reads are served in place (DR.Swap): running programs
//! with it, and its cost in energy. The preload library moves the pages, or a kernel that can.

#![forbid(unsafe_code)]

pub mod energy;
pub mod kernel;
pub mod live;
