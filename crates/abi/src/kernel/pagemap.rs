//! The pagemap (`/proc/PID/pagemap`): its entries, one for each page, and its search
//! (`PAGEMAP_SCAN` of `linux/fs.h`, Linux 6.7).

use super::PAGE_BYTES;
use super::ioctl::iowr;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;

const FRAME_BITS: u32 = 55;
const EXCLUSIVE: u64 = 1 << 56;
const FILE: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

/// Returns the offset in the pagemap of the entry of the page at this address.
#[must_use]
pub const fn entry_offset(address: usize) -> u64 {
    (address / PAGE_BYTES * ENTRY_BYTES) as u64
}

/// An entry of the pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(pub u64);

impl Entry {
    /// Returns the entries in the content of the file.
    pub fn all(content: &[u8]) -> impl Iterator<Item = Self> {
        let (entries, _) = content.as_chunks::<ENTRY_BYTES>();
        entries.iter().map(|bytes| Self(u64::from_le_bytes(*bytes)))
    }

    /// Returns the page frame; zero if the page is not in memory, or if the reader lacks
    /// `CAP_SYS_ADMIN`.
    #[must_use]
    pub const fn frame(self) -> u64 {
        if self.is_present() { self.0 & ((1 << FRAME_BITS) - 1) } else { 0 }
    }

    /// Returns true if the page is in memory.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Returns true if the page is neither in memory nor swapped.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 & (PRESENT | SWAPPED) == 0
    }

    /// Returns true if the page is in swap.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.0 & (PRESENT | SWAPPED) == SWAPPED
    }

    /// Returns true if the page belongs to a file or to shared memory.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.0 & FILE != 0
    }

    /// Returns true if no other process has the page mapped.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }
}

/// Searches the page table: the argument is a [`Scan`].
pub const PAGEMAP_SCAN: u64 = iowr(b'f', 16, size_of::<Scan>());

/// Category: the page belongs to a file or to shared memory.
pub const PAGE_IS_FILE: u64 = 1 << 2;
/// Category: the page is in memory.
pub const PAGE_IS_PRESENT: u64 = 1 << 3;
/// Category: the page is in swap.
pub const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// Category: the shared page of zeros.
pub const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Argument of [`PAGEMAP_SCAN`] (`struct pm_scan_arg`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Bytes of this structure.
    pub size: u64,
    /// Flags of the search; zero to search only.
    pub flags: u64,
    /// First address of the search.
    pub start: u64,
    /// End of the search.
    pub end: u64,
    /// Address at which the search ended, written by the kernel.
    pub walk_end: u64,
    /// Address of an array of [`Found`].
    pub found: u64,
    /// Length of that array.
    pub found_count: u64,
    /// Pages after which the search ends; zero for no limit.
    pub max_pages: u64,
    /// Categories to find.
    pub categories: Categories,
}

/// Categories of pages to find: sums of `PAGE_IS_...`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    /// Categories whose meaning is inverted below.
    pub inverted: u64,
    /// Categories of which all are required.
    pub all_of: u64,
    /// Categories of which one is required, if there are any.
    pub any_of: u64,
    /// Categories to report.
    pub reported: u64,
}

const _: () = assert!(size_of::<Scan>() == 96);

impl Default for Scan {
    fn default() -> Self {
        Self {
            size: size_of::<Self>() as u64,
            flags: 0,
            start: 0,
            end: 0,
            walk_end: 0,
            found: 0,
            found_count: 0,
            max_pages: 0,
            categories: Categories::default(),
        }
    }
}

/// A range that [`PAGEMAP_SCAN`] found (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Address of its first page.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Those of the reported categories to which its pages belong.
    pub categories: u64,
}

impl Found {
    /// Returns true if the pages belong to the file and are not copies.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        self.categories & PAGE_IS_FILE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_tell_what_is_at_a_page() {
        let own = Entry(1 << 63 | 1 << 56 | 0x1234);
        assert_eq!((own.frame(), own.is_empty()), (0x1234, false));
        assert!(own.is_exclusive() && !own.is_file());
        let soft_dirty_file = Entry(1 << 63 | 1 << 61 | 1 << 55 | 5);
        assert!(soft_dirty_file.is_file() && !soft_dirty_file.is_exclusive());
        assert_eq!(soft_dirty_file.frame(), 5);
        let swapped = Entry(1 << 62 | 0x77);
        assert_eq!((swapped.frame(), swapped.is_empty()), (0, false));
        assert!(swapped.is_swapped() && !own.is_swapped());
        assert!(Entry(1 << 55).is_empty(), "only known to be clean");
    }

    #[test]
    fn entries_follow_each_other_in_the_file() {
        let words = [1 << 63 | 7, 0];
        let mut content: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        content.push(1);
        assert!(Entry::all(&content).eq(words.map(Entry)), "an incomplete one is left out");
        assert_eq!(entry_offset(3 * PAGE_BYTES + 5), 24);
    }

    #[test]
    fn the_search_has_the_number_of_the_header() {
        assert_eq!(PAGEMAP_SCAN, 0xc060_6610);
    }
}
