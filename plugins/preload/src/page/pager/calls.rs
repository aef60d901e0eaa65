//! Calls of the program that have another meaning for mappings of a file than for plain memory:
//! dropping content, moving, and operations that only plain memory supports.

use memweir_abi::preload::page::PageCounter;

use super::memory::Memory;
use super::pages::Pages;
use super::protocol::Steps;
use super::store::Source;
use crate::maps::Mapping;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::pagemap::{Found, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Attempts to close the gate.
const TRIES: usize = 100_000;

impl Memory {
    /// Does `work` while the program changes no mapping, however long it takes until then.
    fn while_closed<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        for _ in 0..TRIES {
            if self.monitor.control.close_gate() {
                let result = work(self);
                self.monitor.control.open_gate();
                return result;
            }
            // A thread that changes a mapping may be waiting for a fork.
            self.monitor.drain();
        }
        Err(Errno(libc::EAGAIN))
    }

    /// Discards content that the program dropped: later reads return zeros.
    pub(super) fn discard(&mut self, range: Span) -> Result<(), Errno> {
        self.while_closed(|memory| {
            let shared = memory.monitor.is_shared();
            memory.each_in_file(range, |memory, piece| {
                if shared {
                    return memory.replace(piece, None);
                }
                if memory.store.may_be_large(piece) {
                    return memory.empty(piece);
                }
                memory.clear(piece);
                drop_copies(piece)
            })
        })
    }

    /// Fills the piece with zeros, whether or not the kernel removes its slots from the file, in
    /// the way in which the protocol that [`page`](crate::page) argues for fills slots.
    fn empty(&mut self, piece: Span) -> Result<(), Errno> {
        self.watch_chunks(piece);
        if !self.monitor.protect(piece) {
            return self.replace(piece, None);
        }
        let settled = self.await_faults(&[piece]);
        if settled {
            self.clear(piece);
        }
        let dropped = drop_copies(piece);
        self.monitor.unprotect(piece);
        if settled { dropped } else { self.replace(piece, None) }
    }

    /// Turns the range into plain memory with the same content.
    pub(super) fn restore(&mut self, range: Span) -> Result<(), Errno> {
        self.while_closed(|memory| {
            memory.each_in_file(range, Self::restore_piece)?;
            memory.settle(range)
        })
    }

    fn restore_piece(&mut self, piece: Span) -> Result<(), Errno> {
        self.watch_chunks(piece);
        let before = self.populated(piece).ok_or(Errno(libc::EAGAIN))?;
        if !self.monitor.protect(piece) {
            return Err(Errno(libc::EAGAIN));
        }
        let how = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let fresh = sys::map(piece.length(), sys::READ_WRITE, how);
        let done = fresh.and_then(|fresh| {
            let copied = self.copy_content(piece, &before, fresh);
            copied.inspect_err(|_| sys::unmap(fresh, piece.length()))?;
            self.replace(piece, Some(fresh))
        });
        match done {
            Ok(()) => self.tally.add(PageCounter::MovedBytes, piece.length()),
            Err(_) => self.monitor.unprotect(piece),
        }
        done
    }

    /// Copies the pages of the piece that have content. Those that the kernel has swapped out are
    /// among the pages that were populated `before` the piece was protected: afterwards, all pages
    /// that are not there look like them. In copying mode they may do so before, and the helper
    /// would wait for itself to read one.
    fn copy_content(&mut self, piece: Span, before: &Pages, to: usize) -> Result<(), Errno> {
        let present = self.in_dram(piece).ok_or(Errno(libc::EAGAIN))?;
        for (number, page) in piece.pages().enumerate() {
            let target = to + number * PAGE;
            let populated = present.has(number) || before.has(number) && !self.copies;
            let evicted = self.store.slot(page).filter(|slot| self.residency.is_in_nvm(*slot));
            let copied = match evicted {
                _ if populated => self.read_to(page, target),
                Some(slot) => self.store.read_to(slot, target),
                None => Ok(()),
            };
            self.tally.check(copied).ok_or(Errno(libc::EFAULT))?;
        }
        Ok(())
    }

    /// Replaces a piece by plain memory: that at `content`, or new memory. After an error, a part
    /// of it may be replaced, nothing is protected, and the rest of `content` is unmapped.
    fn replace(&mut self, piece: Span, content: Option<usize>) -> Result<(), Errno> {
        let mut rest = piece;
        let mut result = Ok(());
        while result.is_ok() && !rest.is_empty() {
            let content = content.map(|content| content + (rest.start - piece.start));
            result = self.replace_first(rest, content).map(|end| rest.start = end);
        }
        if result.is_err() {
            self.monitor.unprotect(piece);
            if let Some(content) = content {
                // Only the rest: the program may have got the addresses of what has left already.
                sys::unmap(content + (rest.start - piece.start), rest.length());
            }
        }
        let done = Span::new(piece.start, rest.start);
        self.monitor.replaced(done);
        self.monitor.ranges(|ranges| {
            ranges.converted.remove(done);
            ranges.given_back.push(done);
        });
        self.keep_from_children(done);
        result
    }

    /// Replaces the part of a piece that is in its first mapping: others may have another
    /// protection. Returns the end of that part.
    fn replace_first(&mut self, piece: Span, content: Option<usize>) -> Result<usize, Errno> {
        let mapping = self.mapping(piece.start).ok_or(Errno(libc::EFAULT))?;
        let part = vmas::span(mapping).and(piece);
        let protection = mapping.protection();
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let own = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE | libc::MAP_ANONYMOUS;
        let (start, length) = (part.start, part.length());
        // SAFETY: the content is that of the piece, or the program dropped it; no write is in
        // progress.
        unsafe {
            match content {
                Some(content) => {
                    sys::protect(content, length, protection)?;
                    sys!(libc::SYS_mremap, content, length, length, fixed, start)
                }
                None => sys!(libc::SYS_mmap, start, length, protection, own, usize::MAX, 0),
            }
        }?;
        Ok(part.end)
    }

    /// Merges the mappings of plain memory in the range again, as the program made them.
    pub(super) fn settle(&mut self, range: Span) -> Result<(), Errno> {
        self.monitor.unwatch_plain(range)
    }

    /// Performs `mremap`; see [`Ask::Move`](crate::control::Ask::Move).
    /// `nvm_room` are the bytes that may go to NVM.
    pub(super) fn relocate(
        &mut self,
        old: Span,
        [length, flags, to]: [usize; 3],
        nvm_room: usize,
    ) -> Result<usize, Errno> {
        let length = length.next_multiple_of(PAGE);
        self.while_closed(|memory| memory.relocate_closed(old, length, flags as i32, to, nvm_room))
    }

    fn relocate_closed(
        &mut self,
        old: Span,
        length: usize,
        flags: i32,
        to: usize,
        nvm_room: usize,
    ) -> Result<usize, Errno> {
        let mapping = self.mapping(old.start);
        let protection = mapping.ok_or(Errno(libc::EFAULT))?.protection();
        let fixed = flags & libc::MREMAP_FIXED != 0;
        let kept = Span::of(old.start, old.length().min(length));
        if !fixed {
            if length <= old.length() {
                self.remove(Span::new(kept.end, old.end))?;
                return Ok(old.start);
            }
            let more = Span::new(old.end, old.start + length);
            if plain_at(more, protection, libc::MAP_FIXED_NOREPLACE) == Ok(more.start) {
                self.monitor.ranges(|ranges| ranges.add(more));
                return Ok(old.start);
            }
        }
        if flags & libc::MREMAP_MAYMOVE == 0 {
            return Err(Errno(libc::ENOMEM));
        }
        let place = Span::of(if fixed { to } else { 0 }, length);
        let new = plain_at(place, protection, if fixed { libc::MAP_FIXED } else { 0 })?;
        self.monitor.ranges(|ranges| ranges.add(Span::of(new, length)));
        let by = new.wrapping_sub(old.start);
        // The file first: that can fail, and then all of the memory is still at its old address.
        let filed = self.each_in_file(kept, |memory, piece| memory.move_piece(piece, by, nvm_room));
        if let Err(error) = filed {
            self.each_in_file(kept, |memory, piece| {
                memory.monitor.unprotect(piece);
                Ok(())
            })?;
            self.remove(Span::of(new, length))?;
            return Err(error);
        }
        self.move_plain(kept, by)?;
        self.remove(old)?;
        Ok(new)
    }

    /// Unmaps a part of the program's memory.
    fn remove(&mut self, range: Span) -> Result<(), Errno> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the program releases it.
        unsafe { sys!(libc::SYS_munmap, range.start, range.length()) }?;
        self.monitor.replaced(range);
        self.monitor.ranges(|ranges| ranges.forget(range));
        Ok(())
    }

    /// Moves plain memory, mapping by mapping.
    fn move_plain(&mut self, range: Span, by: usize) -> Result<(), Errno> {
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let mut at = range.start;
        while at < range.end {
            let Some(mapping) = self.next_mapping(at) else { break };
            let part = vmas::span(mapping).and(range);
            if mapping.anonymous && !part.is_empty() {
                let (from, length) = (part.start, part.length());
                let _ = self.monitor.uffd.unregister(from, length);
                // SAFETY: the target is memory that was just created for it.
                unsafe {
                    sys!(libc::SYS_mremap, from, length, length, fixed, from.wrapping_add(by))
                }?;
            }
            at = mapping.end;
        }
        Ok(())
    }

    /// Copies a piece that is in the file to the slots of its new address. Makes it plain memory
    /// instead, still at its old address, if a forked child needs the content of those slots, or if
    /// the helper, which reads the piece as the program does, would wait for itself to copy a page.
    fn move_piece(&mut self, piece: Span, by: usize, nvm_room: usize) -> Result<(), Errno> {
        let mapping = self.mapping(piece.start);
        let mapping = mapping.ok_or(Errno(libc::EFAULT))?;
        let target = Span::of(piece.start.wrapping_add(by), piece.length());
        // The target lies in one mapping of one file.
        let within = self.make_slots(target.start) && self.store.slots_of(target).0 == target;
        let clean = self.monitor.ranges(|ranges| ranges.given_back.is_empty());
        let room = nvm_room >= piece.length();
        let readable = mapping.readable && !self.copies;
        if self.monitor.is_shared() || !within || !clean || !room || !readable {
            return self.restore_piece(piece);
        }
        self.watch_chunks(piece);
        if !self.monitor.ranges(|ranges| ranges.converted.insert(target)) {
            return Err(Errno(libc::ENOMEM));
        }
        let moved = self.move_content(piece, target, mapping);
        match moved {
            Ok(()) => self.tally.add(PageCounter::MovedBytes, piece.length()),
            Err(_) => {
                self.monitor.unprotect(piece);
                // Otherwise the next memory at the new address would have this content.
                self.clear(target);
                self.monitor.ranges(|ranges| ranges.converted.remove(target));
            }
        }
        moved
    }

    /// Fills the slots of a piece's new address and maps them there. The old address stays
    /// protected.
    fn move_content(&mut self, piece: Span, target: Span, like: Mapping) -> Result<(), Errno> {
        let before = self.populated(piece).ok_or(Errno(libc::EAGAIN))?;
        if !self.monitor.protect(piece) {
            return Err(Errno(libc::EAGAIN));
        }
        self.store.bind(Source::Nvm);
        let written = self.write_elsewhere(piece, &before, target);
        self.store.bind(Source::Anywhere);
        written?;
        self.map_file(target, like)
    }

    /// Writes the content of a piece to the slots of its new address. For `before` see
    /// [`copy_content`](Self::copy_content).
    fn write_elsewhere(&mut self, piece: Span, before: &Pages, target: Span) -> Result<(), Errno> {
        for (number, page) in piece.pages().enumerate() {
            let slot = self.store.slot(page);
            let known = slot.is_some_and(|slot| self.residency.is_known(slot));
            let (from, along) = (Span::of(page, PAGE), number * PAGE);
            if !known && !before.has(number) && !self.is_present(from) {
                continue;
            }
            if !self.store.write_out(from, target.start + along) {
                return Err(Errno(libc::ENOMEM));
            }
            if let Some(slot) = self.store.slot(target.start + along) {
                self.residency.left(slot);
            }
        }
        Ok(())
    }

    fn is_present(&self, page: Span) -> bool {
        let mut found = [Found::default(); 1];
        let scanned = self.pagemap.scan(Pagemap::PRESENT, page.start, page.end, &mut found);
        scanned.is_ok_and(|(count, _)| count > 0)
    }
}

/// Drops the copies in DRAM of pages that the program has dropped, locked or not.
fn drop_copies(piece: Span) -> Result<(), Errno> {
    sys::advise(piece.start, piece.length(), sys::MADV_DONTNEED_LOCKED)
}

/// Maps new memory for the program.
fn plain_at(range: Span, protection: i32, how: i32) -> Result<usize, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | how;
    // SAFETY: nothing is mapped there, or the program wants it replaced.
    unsafe { sys!(libc::SYS_mmap, range.start, range.length(), protection, flags, usize::MAX, 0) }
}
