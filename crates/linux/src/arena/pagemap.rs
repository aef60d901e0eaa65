//! Physical addresses of huge pages, from `/proc/self/pagemap`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use memweir_core::PhysAddr;

use super::huge::HugePages;
use super::{ArenaError, HUGE};

const PAGE: u64 = 4096;
const ENTRY: u64 = 8;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Returns the physical start and the mapping offset of every huge page whose 4 KiB parts are
/// contiguous, ascending.
pub(super) fn huge_pages(pages: &HugePages) -> Result<Vec<(PhysAddr, usize)>, ArenaError> {
    let bytes = pages.bytes();
    let count = bytes.len() as u64 / PAGE;
    let mut entries = vec![0; (count * ENTRY) as usize];
    let file =
        File::open("/proc/self/pagemap").map_err(ArenaError::system("/proc/self/pagemap"))?;
    file.read_exact_at(&mut entries, bytes.as_ptr() as u64 / PAGE * ENTRY)
        .map_err(ArenaError::system("/proc/self/pagemap"))?;
    let entries: Vec<u64> = entries
        .chunks_exact(ENTRY as usize)
        .map(|entry| entry.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .collect();
    let mut places = places(&entries)?;
    places.sort_unstable();
    Ok(places)
}

fn places(entries: &[u64]) -> Result<Vec<(PhysAddr, usize)>, ArenaError> {
    // Without the capability the kernel reports pages as present, with zero as their frame number.
    if entries.iter().any(|entry| entry & PRESENT != 0)
        && entries.iter().all(|entry| entry & FRAME == 0)
    {
        return Err(ArenaError::Addresses);
    }
    let per_huge = (HUGE.0 / PAGE) as usize;
    let start = |(number, part): (usize, &[u64])| {
        let first = part[0] & FRAME;
        let in_a_row = part
            .iter()
            .zip(first..)
            .all(|(entry, frame)| entry & PRESENT != 0 && entry & FRAME == frame);
        let aligned = (first * PAGE).is_multiple_of(HUGE.0);
        (in_a_row && aligned).then_some((PhysAddr(first * PAGE), number * HUGE.0 as usize))
    };
    Ok(entries.chunks_exact(per_huge).enumerate().filter_map(start).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(first: u64) -> impl Iterator<Item = u64> {
        (first..first + 512).map(|frame| frame | PRESENT)
    }

    #[test]
    fn only_pages_in_a_row_are_taken() {
        let mut entries: Vec<u64> = page(1024).chain(page(512 + 1)).chain(page(0x4000)).collect();
        entries[2 * 512 + 7] = 9 | PRESENT;
        let found = places(&entries).expect("addresses");
        assert_eq!(found, [(PhysAddr(1024 * PAGE), 0)]);
    }

    #[test]
    fn hidden_addresses_are_told_from_absent_pages() {
        assert!(matches!(places(&[PRESENT; 512]), Err(ArenaError::Addresses)));
        assert!(places(&[0; 512]).expect("nothing is there").is_empty());
    }
}
