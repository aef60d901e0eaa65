//! The pagemap, which describes each page of this process, by its entries and by a search of the
//! page table that skips holes.

mod entry;

pub(crate) use entry::Entry;

use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Finds pages by category, without visiting holes.
#[derive(Clone, Copy)]
pub(crate) struct Pagemap(pub(crate) i32);

/// One range that [`Pagemap::scan`] found.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

impl Found {
    /// Returns true if the pages belong to the file and are not copies.
    pub(crate) const fn is_file(&self) -> bool {
        self.categories & Pagemap::FILE != 0
    }

    /// Returns true if it is the shared page of zeros, which a write would replace by any page
    /// without notice to the helper.
    pub(crate) fn is_zero(&self) -> bool {
        self.categories & Pagemap::ZERO != 0
    }
}

impl Pagemap {
    const SCAN: usize = (3 << 30) | (96 << 16) | ((b'f' as usize) << 8) | 16;
    const SCAN_SIZE: u64 = 96;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    const ZERO: u64 = 1 << 5;
    /// Categories of [`scan_populated`](Self::scan_populated); see [`scan_for`](Self::scan_for).
    const POPULATED: [u64; 4] = [
        Self::FILE | Self::ZERO,
        Self::FILE | Self::ZERO,
        Self::PRESENT | Self::SWAPPED,
        Self::PRESENT,
    ];

    /// Finds pages of the program's own memory between the addresses; returns the number of ranges
    /// found, and the address where the search ended.
    pub(crate) fn scan(
        &self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let (own, told) = (Self::FILE | Self::PRESENT, Self::PRESENT | Self::ZERO);
        self.scan_for(start, end, found, [Self::FILE, own, 0, told])
    }

    /// Finds present pages, and reports whether they belong to the file ([`Found::is_file`]).
    pub(crate) fn scan_present(
        self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let told = Self::PRESENT | Self::FILE;
        self.scan_for(start, end, found, [0, Self::PRESENT, 0, told])
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

    /// Scans with the categories in `which`: inverted, required, alternatively required, and
    /// reported.
    fn scan_for(
        self,
        start: usize,
        end: usize,
        found: &mut [Found],
        which: [u64; 4],
    ) -> Result<(usize, usize), Errno> {
        const ALL: u64 = 0;
        self.scan_up_to(ALL, start, end, found, which)
    }

    /// Does the same, until it has found that many pages.
    fn scan_up_to(
        self,
        pages: u64,
        start: usize,
        end: usize,
        found: &mut [Found],
        which: [u64; 4],
    ) -> Result<(usize, usize), Errno> {
        let [inverted, wanted, any, told] = which;
        let (buffer, length) = (found.as_mut_ptr() as u64, found.len() as u64);
        let range = [start as u64, end as u64];
        let mut argument = [
            Self::SCAN_SIZE,
            0,
            range[0],
            range[1],
            0,
            buffer,
            length,
            pages,
            inverted,
            wanted,
            any,
            told,
        ];
        // SAFETY: the argument has the layout of `struct pm_scan_arg` and names the buffer.
        let count = unsafe { sys!(libc::SYS_ioctl, self.0, Self::SCAN, argument.as_mut_ptr()) }?;
        Ok((count, argument[4] as usize))
    }

    /// Reads the page frames from `start` on (zero where there is none); returns their number.
    pub(crate) fn frames(&self, start: usize, frames: &mut [u64]) -> usize {
        let count = sys::read_words_at(self.0, frames, (start / PAGE * 8) as u64).unwrap_or(0);
        frames[..count].iter_mut().for_each(|word| *word = Entry(*word).frame());
        count
    }

    /// Reads the entries of the pages from `start` on; returns their number.
    pub(crate) fn entries(&self, start: usize, entries: &mut [Entry]) -> usize {
        // SAFETY: an entry is a word, and all words are entries.
        let words = unsafe { &mut *(std::ptr::from_mut(entries) as *mut [u64]) };
        sys::read_words_at(self.0, words, (start / PAGE * 8) as u64).unwrap_or(0)
    }

    /// Returns the entry of one page.
    pub(crate) fn entry(&self, page: usize) -> Entry {
        let mut entry = [Entry(0)];
        self.entries(page, &mut entry);
        entry[0]
    }
}
