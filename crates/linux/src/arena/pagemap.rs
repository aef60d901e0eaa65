//! Physical addresses of huge pages, from `/proc/self/pagemap`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{ENTRY_BYTES, Entry, entry_offset};
use memweir_core::PhysAddr;

use super::huge::HugePages;
use super::{ArenaError, HUGE};
use crate::OsError;

const PAGE: u64 = PAGE_BYTES as u64;

/// Returns the physical start and the mapping offset of every huge page whose 4 KiB parts are
/// contiguous, ascending.
pub(super) fn huge_pages(pages: &HugePages) -> Result<Vec<(PhysAddr, usize)>, ArenaError> {
    let bytes = pages.bytes();
    let mut entries = vec![0; bytes.len() / PAGE_BYTES * ENTRY_BYTES];
    let offset = entry_offset(bytes.as_ptr() as usize);
    File::open("/proc/self/pagemap")
        .and_then(|file| file.read_exact_at(&mut entries, offset))
        .map_err(OsError::of("/proc/self/pagemap"))?;
    let entries: Vec<Entry> = Entry::all(&entries).collect();
    let mut places = places(&entries)?;
    places.sort_unstable();
    Ok(places)
}

fn places(entries: &[Entry]) -> Result<Vec<(PhysAddr, usize)>, ArenaError> {
    // Without the capability the kernel reports pages as present, with zero as their frame number.
    if entries.iter().any(|entry| entry.is_present())
        && entries.iter().all(|entry| entry.frame() == 0)
    {
        return Err(ArenaError::Addresses);
    }
    let per_huge = (HUGE.0 / PAGE) as usize;
    let start = |(number, part): (usize, &[Entry])| {
        let first = part[0].frame();
        let in_a_row = part
            .iter()
            .zip(first..)
            .all(|(entry, frame)| entry.is_present() && entry.frame() == frame);
        let aligned = (first * PAGE).is_multiple_of(HUGE.0);
        (in_a_row && aligned).then_some((PhysAddr(first * PAGE), number * HUGE.0 as usize))
    };
    Ok(entries.chunks_exact(per_huge).enumerate().filter_map(start).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(frame: u64) -> Entry {
        Entry(1 << 63 | frame)
    }

    fn page(first: u64) -> impl Iterator<Item = Entry> {
        (first..first + 512).map(present)
    }

    #[test]
    fn only_pages_in_a_row_are_taken() {
        let mut entries: Vec<Entry> = page(1024).chain(page(512 + 1)).chain(page(0x4000)).collect();
        entries[2 * 512 + 7] = present(9);
        let found = places(&entries).expect("addresses");
        assert_eq!(found, [(PhysAddr(1024 * PAGE), 0)]);
    }

    #[test]
    fn hidden_addresses_are_told_from_absent_pages() {
        assert!(matches!(places(&[present(0); 512]), Err(ArenaError::Addresses)));
        assert!(places(&[Entry(0); 512]).expect("nothing is there").is_empty());
    }
}
