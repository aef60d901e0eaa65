//! Heat of a job's pages in its shared page: a table without locks that all its processes add to.
//! How pages are found in it and which of them deserve DRAM is the plugin's business.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Cells of the table; address space, of which only what is touched is memory.
pub const HEAT_CELLS: usize = 1 << 19;

/// One page of one process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct HeatCell {
    /// Address space and number of the page; zero where the cell is free.
    pub page: AtomicU64,
    /// Accesses to memory, of which the older count less.
    pub heat: AtomicU32,
    /// One if the page is in DRAM, else zero.
    pub in_dram: AtomicU32,
}

const _: () = assert!(size_of::<HeatCell>() == 16);
