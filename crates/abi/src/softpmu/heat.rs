//! Heat of a job's pages in its shared page: a table without locks that all its processes update.
//! The plugin looks up pages in it and selects those for DRAM.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Number of cells in the table. The table is address space; only touched cells take memory.
pub const HEAT_CELLS: usize = 1 << 19;

/// One page of one process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct HeatCell {
    /// Address space and number of the page; zero where the cell is free.
    pub page: AtomicU64,
    /// Memory accesses, with older ones weighted less.
    pub heat: AtomicU32,
    /// One if the page is in DRAM, else zero.
    pub in_dram: AtomicU32,
}

const _: () = assert!(size_of::<HeatCell>() == 16);
