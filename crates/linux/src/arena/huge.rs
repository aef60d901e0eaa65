//! Memory in huge pages.

use std::fs;
use std::io;
use std::path::Path;

use memmap2::{Advice, MmapMut, MmapOptions};
use memweir_abi::kernel::PAGE_BYTES;
use memweir_core::Bytes;

use crate::tell;

use super::HUGE;
use crate::topology;

/// The kernel's pool of pages of this size. The files below /proc/sys/vm are of the default size,
/// which may be 1 GiB.
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
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
        let mut length = (pages * HUGE.0) as usize;
        let mapping = match kind {
            Kind::Transparent => {
                let mapping = MmapOptions::new().len(length + HUGE.0 as usize).map_anon()?;
                mapping.advise(Advice::HugePage)?;
                mapping
            }
            Kind::Reserved => {
                let pool = Pool::raise(Path::new(POOL), pages)?;
                // The kernel raises it as far as it finds contiguous memory.
                length = (pages.min(pool.free()?) * HUGE.0) as usize;
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
struct Pool<'a> {
    directory: &'a Path,
    before: u64,
}

impl<'a> Pool<'a> {
    fn raise(directory: &'a Path, pages: u64) -> io::Result<Self> {
        let before = count(directory, SIZE)?;
        fs::write(directory.join(SIZE), (before + pages).to_string())?;
        Ok(Self { directory, before })
    }

    /// Returns the number of pages that a new mapping can have.
    fn free(&self) -> io::Result<u64> {
        let free = count(self.directory, "free_hugepages")?;
        Ok(free.saturating_sub(count(self.directory, "resv_hugepages")?))
    }
}

/// The file with the size of a pool in pages.
const SIZE: &str = "nr_hugepages";

fn count(pool: &Path, file: &str) -> io::Result<u64> {
    fs::read_to_string(pool.join(file))?.trim().parse().map_err(io::Error::other)
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        let size = self.directory.join(SIZE);
        if let Err(error) = fs::write(&size, self.before.to_string()) {
            tell!("{} could not be put back to {}: {error}", size.display(), self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_raised_and_put_back_and_pages_promised_to_others_are_not_free() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let files = [(SIZE, "3\n"), ("free_hugepages", "300\n"), ("resv_hugepages", "2\n")];
        files.iter().for_each(|(name, text)| fs::write(file(name), text).unwrap());
        let pool = Pool::raise(directory.path(), 1024).unwrap();
        assert_eq!(fs::read_to_string(file(SIZE)).unwrap(), "1027");
        assert_eq!(pool.free().unwrap(), 298);
        drop(pool);
        assert_eq!(fs::read_to_string(file(SIZE)).unwrap(), "3");
    }
}
