//! The pagemap of this process: reading its entries, and searching the page table.

use memweir_abi::kernel::pagemap::{
    Categories, PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGEMAP_SCAN,
    Scan, entry_offset,
};
pub(crate) use memweir_abi::kernel::pagemap::{Entry, Found};

use crate::sys::{self, Errno, sys};

/// Finds pages by category, without visiting holes.
#[derive(Clone, Copy)]
pub(crate) struct Pagemap(pub(crate) i32);

impl Pagemap {
    /// Categories of [`scan_populated`](Self::scan_populated).
    const POPULATED: Categories = Categories {
        inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
        all_of: PAGE_IS_FILE | PAGE_IS_PFNZERO,
        any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        reported: PAGE_IS_PRESENT,
    };

    /// Finds pages of the program's own memory between the addresses; returns the number of ranges
    /// found, and the address where the search ended.
    pub(crate) fn scan(
        &self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let categories = Categories {
            inverted: PAGE_IS_FILE,
            all_of: PAGE_IS_FILE | PAGE_IS_PRESENT,
            any_of: 0,
            reported: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
        };
        self.scan_for(start, end, found, categories)
    }

    /// Finds present pages, and reports whether they belong to the file ([`Found::is_file`]).
    pub(crate) fn scan_present(
        self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let categories = Categories {
            inverted: 0,
            all_of: PAGE_IS_PRESENT,
            any_of: 0,
            reported: PAGE_IS_PRESENT | PAGE_IS_FILE,
        };
        self.scan_for(start, end, found, categories)
    }

    /// Finds pages with content of the program, present or in the kernel's swap.
    pub(crate) fn scan_populated(
        self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        self.scan_for(start, end, found, Self::POPULATED)
    }

    /// Returns the first page that [`scan_populated`](Self::scan_populated) finds. It stops there,
    /// however many follow.
    pub(crate) fn first_populated(self, start: usize, end: usize) -> Result<Option<usize>, Errno> {
        let mut found = [Found::default(); 1];
        let (count, _) = self.scan_up_to(1, start, end, &mut found, Self::POPULATED)?;
        Ok((count > 0).then_some(found[0].start as usize))
    }

    /// Finds all pages of these categories.
    fn scan_for(
        self,
        start: usize,
        end: usize,
        found: &mut [Found],
        categories: Categories,
    ) -> Result<(usize, usize), Errno> {
        const ALL: u64 = 0;
        self.scan_up_to(ALL, start, end, found, categories)
    }

    /// Does the same, until it has found that many pages.
    fn scan_up_to(
        self,
        pages: u64,
        start: usize,
        end: usize,
        found: &mut [Found],
        categories: Categories,
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
