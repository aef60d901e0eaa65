//! The pagemap of this process: reading its entries, and searching the page table.

pub(crate) use memweir_abi::kernel::pagemap::{Categories, Entry, Found};
use memweir_abi::kernel::pagemap::{
    PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGEMAP_SCAN, Scan,
    entry_offset,
};

use crate::sys::{self, Errno, sys};

/// Finds pages by category, without visiting holes.
#[derive(Clone, Copy)]
pub(crate) struct Pagemap(pub(crate) i32);

impl Pagemap {
    /// Present pages of the program's own memory.
    pub(crate) const OWN: Categories = Categories {
        inverted: PAGE_IS_FILE,
        all_of: PAGE_IS_FILE | PAGE_IS_PRESENT,
        any_of: 0,
        reported: PAGE_IS_PRESENT,
    };
    /// Present pages; [`Found::is_file`] tells those of the file apart.
    pub(crate) const PRESENT: Categories = Categories {
        inverted: 0,
        all_of: PAGE_IS_PRESENT,
        any_of: 0,
        reported: PAGE_IS_PRESENT | PAGE_IS_FILE,
    };
    /// Pages with content of the program, present or in the kernel's swap.
    pub(crate) const POPULATED: Categories = Categories {
        inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
        all_of: PAGE_IS_FILE | PAGE_IS_PFNZERO,
        any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        reported: PAGE_IS_PRESENT,
    };

    /// Finds all pages of these categories between the addresses; returns the number of ranges
    /// found, and the address where the search ended.
    pub(crate) fn scan(
        self,
        categories: Categories,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        const ALL: u64 = 0;
        self.scan_up_to(ALL, categories, start, end, found)
    }

    /// Returns the first of the [populated](Self::POPULATED) pages. It stops there, however many
    /// follow.
    pub(crate) fn first_populated(self, start: usize, end: usize) -> Result<Option<usize>, Errno> {
        let mut found = [Found::default(); 1];
        let (count, _) = self.scan_up_to(1, Self::POPULATED, start, end, &mut found)?;
        Ok((count > 0).then_some(found[0].start as usize))
    }

    /// Finds pages until it has found that many.
    fn scan_up_to(
        self,
        pages: u64,
        categories: Categories,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let mut argument = Scan {
            start: start as u64,
            end: end as u64,
            found: found.as_mut_ptr() as u64,
            found_count: found.len() as u64,
            max_pages: pages,
            categories,
            ..Scan::default()
        };
        // SAFETY: the argument has the size that the request encodes, and names the buffer.
        let count = unsafe { sys!(libc::SYS_ioctl, self.0, PAGEMAP_SCAN, &raw mut argument) }?;
        Ok((count, argument.walk_end as usize))
    }

    /// Reads the page frames from `start` on (zero where there is none); returns their number.
    pub(crate) fn frames(&self, start: usize, frames: &mut [u64]) -> usize {
        let count = sys::read_words_at(self.0, frames, entry_offset(start)).unwrap_or(0);
        frames[..count].iter_mut().for_each(|word| *word = Entry(*word).frame());
        count
    }

    /// Reads the entries of the pages from `start` on; returns their number.
    pub(crate) fn entries(&self, start: usize, entries: &mut [Entry]) -> usize {
        // SAFETY: an entry is a word, and all words are entries.
        let words = unsafe { &mut *(std::ptr::from_mut(entries) as *mut [u64]) };
        sys::read_words_at(self.0, words, entry_offset(start)).unwrap_or(0)
    }

    /// Returns the entry of one page.
    pub(crate) fn entry(&self, page: usize) -> Entry {
        let mut entry = [Entry(0)];
        self.entries(page, &mut entry);
        entry[0]
    }
}
