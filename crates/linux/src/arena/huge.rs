//! Memory in huge pages.

use std::fs;
use std::io;

use memmap2::{Advice, MmapMut, MmapOptions};
use memweir_abi::kernel::PAGE_BYTES;
use memweir_core::Bytes;

use crate::tell;

use super::HUGE;
use crate::topology;

const POOL: &str = "/proc/sys/vm/nr_hugepages";
/// At most one part in this many of available memory is taken.
const SHARE: u64 = 4;

/// Where huge pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Transparent huge pages, which the kernel provides on `madvise` where it can.
    Transparent,
    /// Huge pages of the administrator's pool, which is raised temporarily.
    Reserved,
}

/// A mapping whose bytes from a huge page's boundary on have all been written.
#[derive(Debug)]
pub(super) struct HugePages {
    mapping: MmapMut,
    start: usize,
    length: usize,
}

impl HugePages {
    pub(super) fn new(bytes: Bytes, kind: Kind) -> io::Result<Self> {
        let pages = bytes.0.min(topology::meminfo("MemAvailable")?.0 / SHARE) / HUGE.0;
        let length = (pages * HUGE.0) as usize;
        let mapping = match kind {
            Kind::Transparent => {
                let mapping = MmapOptions::new().len(length + HUGE.0 as usize).map_anon()?;
                mapping.advise(Advice::HugePage)?;
                mapping
            }
            Kind::Reserved => {
                let _pool = Pool::raise(pages)?;
                let bits = HUGE.0.trailing_zeros() as u8;
                // Populated before the pool shrinks again: pages in use leave it when they are
                // freed.
                MmapOptions::new().len(length).huge(Some(bits)).populate().map_anon()?
            }
        };
        let start = mapping.as_ptr().align_offset(HUGE.0 as usize);
        let mut pages = Self { mapping, start, length };
        for byte in pages.mapping[start..start + length].iter_mut().step_by(PAGE_BYTES) {
            *byte = 1;
        }
        Ok(pages)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.mapping[self.start..self.start + self.length]
    }
}

/// The raised pool of huge pages.
struct Pool {
    before: u64,
}

impl Pool {
    fn raise(pages: u64) -> io::Result<Self> {
        let before: u64 = fs::read_to_string(POOL)?.trim().parse().map_err(io::Error::other)?;
        fs::write(POOL, (before + pages).to_string())?;
        Ok(Self { before })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Err(error) = fs::write(POOL, self.before.to_string()) {
            tell!("{POOL} could not be put back to {}: {error}", self.before);
        }
    }
}
