//! Calls of the program that have another meaning for mappings of a file than for plain memory:
//! dropping content, moving, and operations that only plain memory supports.

use memweir_abi::preload::page::PageCounter;

use super::Pager;
use super::marks::{IN_DRAM, IN_NVM};
use super::store::Source;
use crate::maps::Mapping;
use crate::page::spans::Span;
use crate::page::{slots, vmas};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Bytes that are copied at a time.
const PIECE: usize = 512 * PAGE;
/// Attempts to close the gate.
const TRIES: usize = 100_000;

impl Pager<'_> {
    /// Closes the gate, however long it takes.
    fn shut(&mut self) -> Result<(), Errno> {
        for _ in 0..TRIES {
            if self.close_gate() {
                return Ok(());
            }
            // A thread that changes a mapping may be waiting for a fork.
            self.drain();
        }
        Err(Errno(libc::EAGAIN))
    }

    /// Calls `work` for every part of the range that is in the file, piece by piece.
    pub(super) fn each_in_file(
        &mut self,
        range: Span,
        mut work: impl FnMut(&mut Self, Span) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut rest = range;
        loop {
            let part = self.ranges(|ranges| ranges.converted.first_in(rest));
            if part.is_empty() {
                return Ok(());
            }
            let window = slots::Slots::window_end(part.start);
            let piece = Span::new(part.start, part.end.min(part.start + PIECE).min(window));
            work(self, piece)?;
            rest.start = piece.end;
        }
    }

    /// Discards content that the program dropped: later reads return zeros.
    pub(super) fn discard(&mut self, range: Span) -> Result<(), Errno> {
        self.shut()?;
        let shared = self.is_shared();
        let result = self.each_in_file(range, |pager, piece| {
            if shared {
                return pager.replace(piece, None);
            }
            if pager.store.may_be_large(piece) {
                return pager.empty(piece);
            }
            pager.clear(piece);
            sys::advise(piece.start, piece.length(), libc::MADV_DONTNEED)
        });
        self.open_gate();
        result
    }

    /// Fills the piece with zeros, whether or not the kernel removes its slots from the file, in
    /// the way in which the protocol that [`page`](crate::page) argues for fills slots.
    fn empty(&mut self, piece: Span) -> Result<(), Errno> {
        self.watch_chunks(piece);
        if !self.protect(piece) {
            return self.replace(piece, None);
        }
        let settled = self.await_faults(&[piece]);
        if settled {
            self.clear(piece);
        }
        let dropped = sys::advise(piece.start, piece.length(), libc::MADV_DONTNEED);
        self.unprotect(piece);
        if settled { dropped } else { self.replace(piece, None) }
    }

    /// Turns the range into plain memory with the same content.
    pub(super) fn restore(&mut self, range: Span) -> Result<(), Errno> {
        self.shut()?;
        let result = self
            .each_in_file(range, Self::restore_piece)
            .and_then(|()| self.uffd.unregister(range.start, range.length()));
        self.open_gate();
        result
    }

    fn restore_piece(&mut self, piece: Span) -> Result<(), Errno> {
        self.watch_chunks(piece);
        if !self.protect(piece) {
            return Err(Errno(libc::EAGAIN));
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let fresh = sys::map(piece.length(), both, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        let done = fresh.and_then(|fresh| {
            self.copy_content(piece, fresh)?;
            self.replace(piece, Some(fresh))
        });
        if done.is_err() {
            self.unprotect(piece);
        }
        self.start.tally.add(PageCounter::MovedBytes, piece.length());
        done
    }

    /// Copies the pages of the piece that have content.
    fn copy_content(&mut self, piece: Span, to: usize) -> Result<(), Errno> {
        let present = self.in_dram(piece).ok_or(Errno(libc::EAGAIN))?;
        for page in super::scan::range_pages(piece) {
            let target = to + (page - piece.start);
            let slot = self.store.slot(page);
            if present.has((page - piece.start) / PAGE) {
                // A load might fail, because the program may have removed the right to read.
                let local = [target, PAGE];
                let remote = [page, PAGE];
                // SAFETY: the target is new memory.
                let copied = unsafe {
                    sys!(
                        libc::SYS_process_vm_readv,
                        sys::process_id(),
                        local.as_ptr(),
                        1,
                        remote.as_ptr(),
                        1,
                        0
                    )
                };
                self.check(copied);
            } else if let Some(slot) =
                slot.filter(|slot| self.tables.residency.of(*slot) & IN_NVM != 0)
            {
                self.check(self.store.read_to(slot, target));
            }
        }
        Ok(())
    }

    /// Replaces a piece by plain memory: that at `content`, or new memory.
    fn replace(&mut self, piece: Span, content: Option<usize>) -> Result<(), Errno> {
        let mapping = vmas::at(self.maps, &mut self.tables.maps, piece.start);
        let protection = vmas::protection(mapping.ok_or(Errno(libc::EFAULT))?);
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let own = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE | libc::MAP_ANONYMOUS;
        let (start, length) = (piece.start, piece.length());
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
        self.tables.protection.end_move(piece);
        self.uffd.wake_range(start, length);
        self.ranges(|ranges| {
            ranges.converted.remove(piece);
            ranges.given_back.push(piece);
        });
        self.keep_from_children(piece);
        Ok(())
    }

    /// Merges the mappings of plain memory in the range again, as the program made them.
    pub(super) fn settle(&mut self, range: Span) -> Result<(), Errno> {
        self.uffd.unregister(range.start, range.length())
    }

    /// Performs `mremap`; see [`Ask::Move`](crate::control::Ask::Move).
    pub(super) fn relocate(&mut self, old: Span, more: [usize; 3]) -> Result<usize, Errno> {
        let [length, flags, to] = more;
        let length = length.next_multiple_of(PAGE);
        let flags = flags as i32;
        self.shut()?;
        let result = self.relocate_closed(old, length, flags, to);
        self.open_gate();
        result
    }

    fn relocate_closed(
        &mut self,
        old: Span,
        length: usize,
        flags: i32,
        to: usize,
    ) -> Result<usize, Errno> {
        let mapping = vmas::at(self.maps, &mut self.tables.maps, old.start);
        let protection = vmas::protection(mapping.ok_or(Errno(libc::EFAULT))?);
        let fixed = flags & libc::MREMAP_FIXED != 0;
        let kept = Span::of(old.start, old.length().min(length));
        if !fixed {
            if length <= old.length() {
                self.remove(Span::new(kept.end, old.end))?;
                return Ok(old.start);
            }
            let more = Span::new(old.end, old.start + length);
            if plain_at(more, protection, libc::MAP_FIXED_NOREPLACE) == Ok(more.start) {
                self.ranges(|ranges| ranges.add(more));
                return Ok(old.start);
            }
        }
        if flags & libc::MREMAP_MAYMOVE == 0 {
            return Err(Errno(libc::ENOMEM));
        }
        let place = Span::of(if fixed { to } else { 0 }, length);
        let new = plain_at(place, protection, if fixed { libc::MAP_FIXED } else { 0 })?;
        self.ranges(|ranges| ranges.add(Span::of(new, length)));
        let by = new.wrapping_sub(old.start);
        self.move_plain(kept, by)?;
        self.each_in_file(kept, |pager, piece| pager.move_piece(piece, by))?;
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
        self.tables.protection.end_move(range);
        self.uffd.wake_range(range.start, range.length());
        self.ranges(|ranges| ranges.forget(range));
        Ok(())
    }

    /// Moves plain memory, mapping by mapping.
    fn move_plain(&mut self, range: Span, by: usize) -> Result<(), Errno> {
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let mut at = range.start;
        while at < range.end {
            let Some(mapping) = vmas::next(self.maps, &mut self.tables.maps, at) else { break };
            let part = vmas::span(mapping).and(range);
            if mapping.anonymous && !part.is_empty() {
                let (from, length) = (part.start, part.length());
                let _ = self.uffd.unregister(from, length);
                // SAFETY: the target is memory that was just created for it.
                unsafe {
                    sys!(libc::SYS_mremap, from, length, length, fixed, from.wrapping_add(by))
                }?;
            }
            at = mapping.end;
        }
        Ok(())
    }

    /// Moves a piece that is in the file to the slots of its new address, or to plain memory if a
    /// forked child needs the content of those slots.
    fn move_piece(&mut self, piece: Span, by: usize) -> Result<(), Errno> {
        let mapping = vmas::at(self.maps, &mut self.tables.maps, piece.start);
        let mapping = mapping.ok_or(Errno(libc::EFAULT))?;
        let target = Span::of(piece.start.wrapping_add(by), piece.length());
        // The target lies in one mapping of one file.
        let within = self.store.make_slots(target.start) && self.store.slots_of(target).0 == target;
        let clean = self.ranges(|ranges| ranges.given_back.is_empty());
        let room = self.nvm_room() >= piece.length();
        if self.is_shared() || !within || !clean || !room || !mapping.readable {
            self.restore_piece(piece)?;
            let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let (from, length) = (piece.start, piece.length());
            // SAFETY: the target is memory that was just created for it.
            unsafe { sys!(libc::SYS_mremap, from, length, length, fixed, target.start) }?;
            return Ok(());
        }
        self.watch_chunks(piece);
        if !self.ranges(|ranges| ranges.converted.insert(target)) {
            return Err(Errno(libc::ENOMEM));
        }
        let moved = self.move_content(piece, target, mapping);
        match moved {
            Ok(()) => self.start.tally.add(PageCounter::MovedBytes, piece.length()),
            Err(_) => {
                self.unprotect(piece);
                self.ranges(|ranges| ranges.converted.remove(target));
            }
        }
        moved
    }

    /// Fills the slots of a piece's new address and maps them there. The old address stays
    /// protected.
    fn move_content(&mut self, piece: Span, target: Span, like: Mapping) -> Result<(), Errno> {
        if !self.protect(piece) {
            return Err(Errno(libc::EAGAIN));
        }
        self.store.bind(Source::Nvm);
        let written = self.write_elsewhere(piece, target);
        self.store.bind(Source::Anywhere);
        written?;
        self.map_file(target, like).ok_or(Errno(libc::ENOMEM))
    }

    /// Writes the content of a piece to the slots of its new address.
    fn write_elsewhere(&mut self, piece: Span, target: Span) -> Result<(), Errno> {
        for page in super::scan::range_pages(piece) {
            let slot = self.store.slot(page);
            let flags = slot.map_or(0, |slot| self.tables.residency.of(slot));
            let (from, along) = (Span::of(page, PAGE), page - piece.start);
            if flags & (IN_DRAM | IN_NVM) == 0 && !self.is_present(from) {
                continue;
            }
            if !self.store.write_out(from, target.start + along) {
                return Err(Errno(libc::ENOMEM));
            }
            if let Some(slot) = self.store.slot(target.start + along) {
                self.tables.residency.set(slot, IN_NVM);
            }
        }
        Ok(())
    }

    fn is_present(&self, page: Span) -> bool {
        let mut found = [crate::pagemap::Found::default(); 1];
        self.pagemap
            .scan_present(page.start, page.end, &mut found)
            .is_ok_and(|(count, _)| count > 0)
    }
}

/// Maps new memory for the program.
fn plain_at(range: Span, protection: i32, how: i32) -> Result<usize, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | how;
    // SAFETY: nothing is mapped there, or the program wants it replaced.
    unsafe { sys!(libc::SYS_mmap, range.start, range.length(), protection, flags, usize::MAX, 0) }
}
