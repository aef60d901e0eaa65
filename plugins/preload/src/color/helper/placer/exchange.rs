//! Exchanges a page that the program uses for one of another color, if the kernel cannot move
//! pages, or not this one.
//!
//! `mremap` with `MREMAP_DONTUNMAP` takes the page away and leaves a hole that is watched, and the
//! content comes back by recycling. A device or an io_uring may hold the page, and would then write
//! into a page that the program no longer has. No interface reveals that, but reclaim checks it: it
//! drops a page that was freed lazily (`MADV_FREE`) only if nothing holds it and nothing wrote to
//! it since. So the page is offered to reclaim, and put back unchanged if reclaim leaves it.

use super::recycle::ZEROS;
use crate::color::pool::give_back;
use crate::maps::Mapping;
use crate::pagemap::{Entry, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::{MISSING, PAGE, Uffd};

const MREMAP_DONTUNMAP: i32 = 4;
/// Microseconds between two requests to all processors to release pages.
const PAUSE: u64 = 200_000;

/// State of the exchange. All zero at first.
#[repr(C)]
pub(super) struct Exchange {
    /// Both ends of a pipe that holds a page while its content is read.
    pipe: [i32; 2],
    content: [u64; PAGE / 8],
    /// The frame of the shared page of zeros.
    zero: u64,
    drained: u64,
    uffd: Uffd,
    pagemap: Pagemap,
}

impl Exchange {
    pub(super) fn prepare(&mut self, uffd: Uffd, pagemap: Pagemap) -> Result<(), Errno> {
        (self.uffd, self.pagemap) = (uffd, pagemap);
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the kernel writes two descriptors.
        unsafe { sys!(libc::SYS_pipe2, self.pipe.as_mut_ptr(), flags) }?;
        let untouched = sys::map(PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        // SAFETY: the page is readable. It is never written, so it is the page of zeros.
        unsafe { std::ptr::read_volatile(untouched as *const u8) };
        self.zero = pagemap.entry(untouched).frame();
        sys::unmap(untouched, PAGE);
        Ok(())
    }

    /// Returns true if a page is the shared page of zeros.
    pub(super) fn is_zero(&self, entry: Entry) -> bool {
        entry.frame() == self.zero
    }

    /// Frees the page at `aside`, which was `before`; returns the address of its content. `None` if
    /// something else holds the page, which is then unchanged at `aside`.
    fn let_go(&mut self, aside: usize, before: Entry) -> Option<usize> {
        if self.is_zero(before) {
            return Some(ZEROS.as_ptr() as usize);
        }
        let vector = [aside, PAGE];
        // SAFETY: holds a page for reading.
        let held = unsafe { sys!(libc::SYS_vmsplice, self.pipe[1], vector.as_ptr(), 1, 0) };
        if held != Ok(PAGE) {
            return None;
        }
        // Writes from here on make the page dirty. It cannot be dropped before it was read: the
        // pipe holds it.
        let free = sys::advise(aside, PAGE, libc::MADV_FREE).is_ok();
        if sys::read(self.pipe[0], &mut self.content) == Ok(PAGE) && free {
            let _ = sys::advise(aside, PAGE, sys::MADV_PAGEOUT);
        }
        let content = self.content.as_ptr() as usize;
        let after = self.pagemap.entry(aside);
        if after.is_empty() {
            return Some(content);
        }
        if after.is_swapped() {
            return None;
        }
        // Reclaim must not drop it later. If it has done so already, there is another page now.
        if sys::protect(aside, PAGE, sys::READ_WRITE).is_ok() {
            // SAFETY: a writable page that only the helper and the holders of the page know;
            // changes nothing. The compiler would turn an atomic operation that changes nothing
            // into a mere read.
            unsafe { std::arch::asm!("lock or byte ptr [{}], 0", in(reg) aside) };
        }
        (self.pagemap.entry(aside).frame() != before.frame()).then_some(content)
    }

    /// Makes all processors release new pages that they have yet to list, which look as if they
    /// were held; at most once in a while. Returns true if it did.
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
        // SAFETY: moves no page, as there is none at this address; only its preparation is wanted.
        unsafe { sys!(libc::SYS_move_pages, 0, 1, pages, nodes, told, MPOL_MF_MOVE) }.is_ok()
    }

    /// Puts the content of `page` into another page, if nothing else has or holds it: the one whose
    /// frame is recycled, if given, or one of any color. The mappings must not change meanwhile.
    pub(super) fn exchange(
        &mut self,
        page: usize,
        colored: Option<usize>,
        mapping: Mapping,
    ) -> Result<(), Errno> {
        let mut done = self.exchange_once(page, colored, mapping);
        if done.is_err() && self.drain() {
            done = self.exchange_once(page, colored, mapping);
        }
        done
    }

    fn exchange_once(
        &mut self,
        page: usize,
        colored: Option<usize>,
        mapping: Mapping,
    ) -> Result<(), Errno> {
        let pagemap = self.pagemap;
        let before = pagemap.entry(page);
        // Shared with another process: reclaim would leave it.
        if before.frame() == 0 || !(before.is_exclusive() || self.is_zero(before)) {
            return Err(Errno(libc::EBUSY));
        }
        // `mremap` would take the lock of the whole mapping.
        let (start, length) = around(page, mapping);
        sys::unlock(start, length)?;
        let taken = take_away(page);
        let _ = sys::lock_on_fault(start, length);
        taken.and_then(|aside| {
            let same = pagemap.entry(aside).frame() == before.frame();
            let free = if same { self.let_go(aside, before) } else { None };
            match free {
                Some(content) => self.refill(page, aside, colored, content),
                None => self.bring_back(page, aside, mapping),
            }
            free.map(drop).ok_or(Errno(libc::EBUSY))
        })
    }

    /// Puts the saved content into the hole.
    fn refill(&self, page: usize, aside: usize, colored: Option<usize>, content: usize) {
        sys::unmap(aside, PAGE);
        if let Some(colored) = colored {
            give_back(colored, PAGE);
        }
        while let Err(errno) = self.uffd.copy(page, content) {
            // Otherwise the program has unmapped it, or mapped something else there.
            if !matches!(errno, Errno(libc::EAGAIN | libc::ENOMEM)) {
                self.uffd.wake(page);
                break;
            }
            sys::sleep_micros(100);
        }
    }

    /// Returns a page that could not be exchanged to its address.
    fn bring_back(&self, page: usize, aside: usize, mapping: Mapping) {
        let _ = sys::protect(aside, PAGE, mapping.protection());
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the page belongs there, and the hole that it left holds nothing.
        let _ = unsafe { sys!(libc::SYS_mremap, aside, PAGE, PAGE, flags, page) };
        let _ = self.uffd.register(page, PAGE, MISSING);
        let _ = sys::lock_on_fault(page, PAGE);
        self.uffd.wake(page);
    }
}

/// Returns the page with a neighbor in its mapping, if there is one: if `mremap` takes all of a
/// mapping, it loses what it needs to merge again with the mappings that it was split from.
fn around(page: usize, mapping: Mapping) -> (usize, usize) {
    if page + 2 * PAGE <= mapping.end {
        (page, 2 * PAGE)
    } else if mapping.start < page && page < mapping.end {
        (page - PAGE, 2 * PAGE)
    } else {
        (page, PAGE)
    }
}

/// Moves the page to a free address and leaves a hole; returns the address.
fn take_away(page: usize) -> Result<usize, Errno> {
    let flags = libc::MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    // SAFETY: the program waits if it touches the hole.
    unsafe { sys!(libc::SYS_mremap, page, PAGE, PAGE, flags, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(pagemap: Pagemap) -> Box<Exchange> {
        let mut exchange = crate::all_zero::<Exchange>();
        exchange.prepare(Uffd(-1), pagemap).unwrap();
        exchange
    }

    fn pagemap() -> Pagemap {
        Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY).unwrap())
    }

    /// Returns a page with its own mapping that holds this word everywhere.
    fn page(word: u64) -> usize {
        let page = sys::map(PAGE, sys::READ_WRITE, libc::MAP_PRIVATE).unwrap();
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
            match exchange.let_go(aside, pagemap.entry(aside)) {
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
        assert_eq!(exchange.let_go(aside, before), None);
        assert_eq!(pagemap.entry(aside).frame(), before.frame());
        // Reclaim must not take the page either, now that nothing holds it any more: it was written
        // to.
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
        let start = sys::map(3 * PAGE, sys::READ_WRITE, libc::MAP_PRIVATE).unwrap();
        // SAFETY: fresh memory.
        unsafe { std::slice::from_raw_parts_mut(start as *mut u8, 3 * PAGE) }.fill(7);
        let middle = start + PAGE;
        let aside = take_away(middle).unwrap();
        assert!(pagemap().entry(middle).is_empty(), "a hole is left");
        // SAFETY: both are mapped; the first is the content, the second the content of a new page.
        let bytes = unsafe { [*(aside as *const u8), *(middle as *const u8)] };
        assert_eq!(bytes, [7, 0]);
    }
}
