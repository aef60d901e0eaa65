//! Paging to byte-addressable memory in which reads are served in place (DR.Swap): what it costs in
//! energy. Nothing here moves a page.

#![forbid(unsafe_code)]

pub mod energy;
