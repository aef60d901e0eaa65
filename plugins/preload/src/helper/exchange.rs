//! Exchanging a page that the program uses for one of another color, where the kernel moves none, or not
//! this one.
//!
//! The page is taken away by `mremap` with `MREMAP_DONTUNMAP`, which leaves a hole that is watched, and
//! its content comes back by recycling. Somebody may hold the page (a device, io_uring), and would
//! write into a page that is nobody's any more. No interface tells that, but reclaim looks: it drops
//! a page that was freed lazily (`MADV_FREE`) only if nobody holds it and nobody wrote to it since.
//! So the page is given to reclaim, and put back as it was if reclaim leaves it.

use memweir_core::preload::Counter;

use super::mend::protection;
use super::recycle::ZEROS;
use super::{Helper, Start};
use crate::choice::Set;
use crate::maps::Mapping;
use crate::pagemap::{Entry, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::{PAGE, Uffd};

const MREMAP_DONTUNMAP: i32 = 4;
/// Microseconds between two orders to all processors to let go of pages.
const PAUSE: u64 = 200_000;

/// What exchanging needs. All zero at first.
#[repr(C)]
pub(super) struct Exchange {
    /// Both ends of a pipe that holds a page while its content is read.
    pipe: [i32; 2],
    content: [u64; PAGE / 8],
    /// The frame of the shared page of zeros.
    zero: u64,
    drained: u64,
}

impl Exchange {
    pub(super) fn prepare(&mut self, pagemap: Pagemap) -> Result<(), Errno> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the kernel writes two descriptors.
        unsafe { sys!(libc::SYS_pipe2, self.pipe.as_mut_ptr(), flags) }?;
        let untouched = sys::map(PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        // SAFETY: the page is readable. It is never written, so it is that of zeros.
        unsafe { std::ptr::read_volatile(untouched as *const u8) };
        self.zero = pagemap.entry(untouched).frame();
        sys::unmap(untouched, PAGE);
        Ok(())
    }

    /// Whether a page is the shared one of zeros, which a write would replace by any page, without a
    /// word to the helper.
    pub(super) fn is_zero(&self, entry: Entry) -> bool {
        entry.frame() == self.zero
    }

    /// Lets go of the page at `aside`, which was `before`; returns where its content is now. None if
    /// somebody else holds it: then it is there as it was.
    fn let_go(&mut self, pagemap: Pagemap, aside: usize, before: Entry) -> Option<usize> {
        if self.is_zero(before) {
            return Some(ZEROS.as_ptr() as usize);
        }
        let vector = [aside, PAGE];
        // SAFETY: holds a page for reading.
        let held = unsafe { sys!(libc::SYS_vmsplice, self.pipe[1], vector.as_ptr(), 1, 0) };
        if held != Ok(PAGE) {
            return None;
        }
        // What is written from here on makes the page dirty. It cannot go before it was read: the
        // pipe holds it.
        let free = sys::advise(aside, PAGE, libc::MADV_FREE).is_ok();
        if sys::read(self.pipe[0], &mut self.content) == Ok(PAGE) && free {
            let _ = sys::advise(aside, PAGE, sys::MADV_PAGEOUT);
        }
        let content = self.content.as_ptr() as usize;
        let after = pagemap.entry(aside);
        if after.is_empty() {
            return Some(content);
        }
        if after.is_swapped() {
            return None;
        }
        // Reclaim must not drop it later. It may have done so until here, and then there is another.
        let both = libc::PROT_READ | libc::PROT_WRITE;
        if sys::protect(aside, PAGE, both).is_ok() {
            // SAFETY: a writable page that only the helper and those who hold it know; changes
            // nothing. The compiler would make a mere read of an atomic operation that does so.
            unsafe { std::arch::asm!("lock or byte ptr [{}], 0", in(reg) aside) };
        }
        (pagemap.entry(aside).frame() != before.frame()).then_some(content)
    }

    /// Makes all processors let go of new pages that they have yet to list, which look as if
    /// somebody held them; at most once in a while. Returns whether it did.
    fn drain(&mut self) -> bool {
        let now = sys::micros();
        if now < self.drained + PAUSE {
            return false;
        }
        self.drained = now;
        const MPOL_MF_MOVE: i32 = 2;
        let (nowhere, node, mut status) = (0usize, 0i32, 0i32);
        let [pages, nodes] = [&raw const nowhere as usize, &raw const node as usize];
        let told = &raw mut status;
        // SAFETY: moves no page, for there is none at this address; what it does first is wanted.
        unsafe { sys!(libc::SYS_move_pages, 0, 1, pages, nodes, told, MPOL_MF_MOVE) }.is_ok()
    }
}

impl Helper {
    /// Puts the content of `page` into a recycled page. The mappings must not change meanwhile.
    pub(super) fn exchange_over(
        &mut self,
        start: &Start,
        page: usize,
        colored: usize,
        set: &Set,
        mapping: Mapping,
    ) -> Result<(), Errno> {
        let mut done = self.exchange_once(page, Some(colored), mapping);
        if done.is_err() && self.exchange.drain() {
            done = self.exchange_once(page, Some(colored), mapping);
        }
        if done.is_err() {
            self.pool.put_back(colored, 1);
            self.look_again();
            return done;
        }
        let frame = Pagemap(self.pagemap).entry(page).frame();
        if frame != 0 && !start.palette.is_of(frame, set) {
            start.counters.add(Counter::Missed, 1);
            self.look_again();
        }
        Ok(())
    }

    /// Puts the content of `page` into a new page of any color, if nobody else has or holds it.
    pub(super) fn renew(&mut self, page: usize, mapping: Mapping) {
        if self.exchange_once(page, None, mapping).is_err() && self.exchange.drain() {
            let _ = self.exchange_once(page, None, mapping);
        }
    }

    /// Puts the content of `page` into another one: into that whose frame is recycled, if there is one.
    fn exchange_once(
        &mut self,
        page: usize,
        colored: Option<usize>,
        mapping: Mapping,
    ) -> Result<(), Errno> {
        let pagemap = Pagemap(self.pagemap);
        let before = pagemap.entry(page);
        // Shared with another process: reclaim would leave it.
        if before.frame() == 0 || !(before.is_exclusive() || self.exchange.is_zero(before)) {
            return Err(Errno(libc::EBUSY));
        }
        // `mremap` would take the lock of the whole mapping.
        let (start, length) = around(page, mapping);
        sys::unlock(start, length)?;
        let taken = take_away(page);
        let _ = sys::lock_on_fault(start, length);
        taken.and_then(|aside| {
            let same = pagemap.entry(aside).frame() == before.frame();
            let free = if same { self.exchange.let_go(pagemap, aside, before) } else { None };
            match free {
                Some(content) => self.refill(page, aside, colored, content),
                None => self.bring_back(page, aside, mapping),
            }
            free.map(drop).ok_or(Errno(libc::EBUSY))
        })
    }

    /// Gives the content that was read to the hole.
    fn refill(&mut self, page: usize, aside: usize, colored: Option<usize>, content: usize) {
        sys::unmap(aside, PAGE);
        if let Some(colored) = colored {
            self.pool.drop_page(colored);
        }
        while let Err(errno) = Uffd(self.uffd).copy(page, content) {
            // Else the program has unmapped it, or put something else there.
            if !matches!(errno, Errno(libc::EAGAIN | libc::ENOMEM)) {
                Uffd(self.uffd).wake(page);
                break;
            }
            sys::sleep_micros(100);
        }
    }

    /// Puts a page that could not be exchanged back to where it was.
    fn bring_back(&mut self, page: usize, aside: usize, mapping: Mapping) {
        let _ = sys::protect(aside, PAGE, protection(mapping));
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the page belongs there, and the hole that it left holds nothing.
        let _ = unsafe { sys!(libc::SYS_mremap, aside, PAGE, PAGE, flags, page) };
        let _ = Uffd(self.uffd).register(page, PAGE);
        let _ = sys::lock_on_fault(page, PAGE);
        Uffd(self.uffd).wake(page);
    }
}

/// The page and one beside it in its mapping, if there is one: a mapping from which `mremap` takes all
/// loses what it needs to merge again with those that it was split from.
fn around(page: usize, mapping: Mapping) -> (usize, usize) {
    if page + 2 * PAGE <= mapping.end {
        (page, 2 * PAGE)
    } else if mapping.start < page && page < mapping.end {
        (page - PAGE, 2 * PAGE)
    } else {
        (page, PAGE)
    }
}

/// Moves the page to an address that nobody has, and leaves a hole; returns the address.
fn take_away(page: usize) -> Result<usize, Errno> {
    let flags = libc::MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    // SAFETY: the program waits when it touches the hole.
    unsafe { sys!(libc::SYS_mremap, page, PAGE, PAGE, flags, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(pagemap: Pagemap) -> Box<Exchange> {
        // SAFETY: zero is valid for all fields, which are numbers.
        let mut exchange = unsafe { Box::<Exchange>::new_zeroed().assume_init() };
        exchange.prepare(pagemap).unwrap();
        exchange
    }

    fn pagemap() -> Pagemap {
        Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY).unwrap())
    }

    /// A page of its own mapping that holds this word everywhere.
    fn page(word: u64) -> usize {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let page = sys::map(PAGE, both, libc::MAP_PRIVATE).unwrap();
        // SAFETY: fresh memory.
        unsafe { std::slice::from_raw_parts_mut(page as *mut u64, PAGE / 8) }.fill(word);
        page
    }

    #[test]
    fn a_page_that_nobody_holds_leaves_its_content() {
        let pagemap = pagemap();
        let mut exchange = exchange(pagemap);
        let aside = page(0x1234);
        // A processor that has yet to list the page holds it.
        let content = loop {
            match exchange.let_go(pagemap, aside, pagemap.entry(aside)) {
                Some(content) => break content,
                None => drop(exchange.drain()),
            }
        };
        assert!(pagemap.entry(aside).is_empty());
        // SAFETY: the content of a page.
        let content = unsafe { std::slice::from_raw_parts(content as *const u64, PAGE / 8) };
        assert!(content.iter().all(|word| *word == 0x1234));
    }

    #[test]
    fn a_page_that_somebody_holds_stays_as_it_is() {
        let pagemap = pagemap();
        let mut exchange = exchange(pagemap);
        let aside = page(0x1234);
        let mut pipe = [0; 2];
        let vector = [aside, PAGE];
        // SAFETY: a pipe that holds the page.
        unsafe {
            sys!(libc::SYS_pipe2, pipe.as_mut_ptr(), 0).unwrap();
            assert_eq!(sys!(libc::SYS_vmsplice, pipe[1], vector.as_ptr(), 1, 0), Ok(PAGE));
        }
        let before = pagemap.entry(aside);
        assert_eq!(exchange.let_go(pagemap, aside, before), None);
        assert_eq!(pagemap.entry(aside).frame(), before.frame());
        // Neither may reclaim take it now that nobody holds it any more: it was written to.
        let mut read = [0; PAGE / 8];
        assert_eq!(sys::read(pipe[0], &mut read), Ok(PAGE));
        let _ = sys::advise(aside, PAGE, sys::MADV_PAGEOUT);
        // SAFETY: the page is there.
        let content = unsafe { std::slice::from_raw_parts(aside as *const u64, PAGE / 8) };
        assert!(content.iter().all(|word| *word == 0x1234));
    }

    #[test]
    fn a_page_is_split_off_with_one_beside_it() {
        let mapping = |start, end| Mapping { start, end, ..Mapping::default() };
        let three = mapping(0x1000, 0x4000);
        assert_eq!(around(0x1000, three), (0x1000, 0x2000));
        assert_eq!(around(0x2000, three), (0x2000, 0x2000));
        assert_eq!(around(0x3000, three), (0x2000, 0x2000));
        assert_eq!(around(0x3000, mapping(0x3000, 0x4000)), (0x3000, 0x1000));
    }

    #[test]
    fn a_taken_page_comes_back_to_its_place_and_mapping() {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let start = sys::map(3 * PAGE, both, libc::MAP_PRIVATE).unwrap();
        // SAFETY: fresh memory.
        unsafe { std::slice::from_raw_parts_mut(start as *mut u8, 3 * PAGE) }.fill(7);
        let middle = start + PAGE;
        let aside = take_away(middle).unwrap();
        assert!(pagemap().entry(middle).is_empty(), "a hole is left");
        // SAFETY: both are mapped; the first is the content, the second what a new page holds.
        let bytes = unsafe { [*(aside as *const u8), *(middle as *const u8)] };
        assert_eq!(bytes, [7, 0]);
    }
}
