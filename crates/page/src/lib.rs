//! Running programs with less DRAM than they want: paging to byte-addressable memory in which reads
//! are served in place (DR.Swap). The preload library moves the pages, or a kernel that can.

#![forbid(unsafe_code)]

pub mod kernel;
pub mod live;
