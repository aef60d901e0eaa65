//! libc's functions that change mappings, as paged programs call them.
//!
//! Mappings of programs that call the kernel directly (Go) are not seen here and are not evicted.
//! In a forked child, which has no helper, memory stays as it is, and only the calls that would go
//! wrong with mappings of a file are performed in another way.

use std::ffi::{CStr, c_int};
use std::sync::atomic::Ordering;

use crate::control::{self, Ask, Control};
use crate::page::space::{self, Ranges, Space};
use crate::page::spans::Span;
use crate::page::start;
use crate::patch::{self, address as address_of, changing, done};
use crate::sys::{self, Errno, sys};
use crate::uffd::{self, PAGE};

fn pages(start: usize, length: usize) -> Span {
    Span::of(start, length.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX - start))
}

/// Returns the pages that the bytes lie in, as the kernel understands calls that lock them.
fn pages_of(bytes: usize, length: usize) -> Span {
    let within = bytes % PAGE;
    pages(bytes - within, length.saturating_add(within))
}

/// Sends a request to the helper, and tries again if too many wait; `None` if there is no helper.
fn ask(ask: Ask, range: Span, more: [usize; 3]) -> Option<usize> {
    let control = control::get()?;
    while control.is_ready() {
        if let Some(answer) = control.ask_more(ask, range.start, range.length(), more) {
            return Some(answer);
        }
        sys::sleep_micros(10);
        control.look_after_helper();
    }
    None
}

/// Returns what the helper answered: a value, or an error as the kernel would return it.
fn result_of(answer: usize) -> Result<usize, Errno> {
    let error = (answer as isize).wrapping_neg();
    if (1..4096).contains(&error) { Err(Errno(error as i32)) } else { Ok(answer) }
}

fn has_helper() -> bool {
    control::get().is_some_and(Control::is_ready)
}

fn tell(look: impl FnOnce(&Space)) {
    if let Some(space) = space::get() {
        look(space);
    }
}

fn with_ranges<T: Default>(look: impl FnOnce(&mut Ranges) -> T) -> T {
    space::get().map_or_else(T::default, |space| space.with(look))
}

fn in_file(range: Span) -> bool {
    with_ranges(|ranges| ranges.converted.touches(range))
}

fn is_known(range: Span) -> bool {
    with_ranges(|ranges| ranges.known.at(range.start).is_some_and(|known| range.end <= known.end))
}

fn forget(range: Span) {
    with_ranges(|ranges| ranges.forget(range));
}

fn is_all_locked() -> bool {
    space::get().is_some_and(Space::is_locked)
}

extern "C" fn mmap(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: usize,
) -> usize {
    // Not stacks: a thread that ends writes to its own stack when it can no longer wait for
    // anything.
    let unfit = libc::MAP_HUGETLB | libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_LOCKED;
    let private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let own = private && flags & libc::MAP_ANONYMOUS != 0 && flags & unfit == 0;
    let writable = private && protection & libc::PROT_WRITE != 0;
    let mapped = changing(|| {
        // SAFETY: the program's own call.
        let mapped =
            unsafe { sys!(libc::SYS_mmap, address, length, protection, flags, fd, offset) };
        if let Ok(start) = mapped {
            let range = pages(start, length);
            with_ranges(|ranges| match (own, writable) {
                (true, _) => ranges.add(range),
                (false, true) => ranges.add_unwatched(range),
                (false, false) => ranges.forget(range),
            });
        }
        mapped
    });
    if let Ok(start) = mapped {
        if own {
            announce(pages(start, length));
        }
        if writable {
            grown(length);
        }
    }
    address_of(mapped)
}

/// Notifies the helper of a large range of new memory, if it needs that.
fn announce(range: Span) {
    let from = space::get().map_or(0, |space| space.tell_from.load(Ordering::Relaxed));
    if from > 0 && range.length() >= from {
        ask(Ask::Watch, range, [0; 3]);
    }
}

/// Notifies the helper of address space that was made writable, if it needs that.
fn grown(length: usize) {
    if space::get().is_some_and(|space| space.grow(length)) {
        ask(Ask::Look, Span::default(), [0; 3]);
    }
}

extern "C" fn munmap(address: usize, length: usize) -> c_int {
    // SAFETY: the program's own call.
    let call = || unsafe { sys!(libc::SYS_munmap, address, length) };
    done(changing(|| releasing(pages(address, length), call)))
}

/// Performs a call that releases the range, and forgets the range, but not what another thread was
/// given there as soon as the kernel had released it.
fn releasing(range: Span, call: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let noted = with_ranges(|ranges| ranges.releasing.insert(range));
    let result = call();
    with_ranges(|ranges| match result {
        Ok(_) if noted => ranges.forget_released(range),
        Ok(_) => ranges.forget(range),
        Err(_) => {
            ranges.releasing.remove(range);
        }
    });
    result
}

extern "C" fn mprotect(address: usize, length: usize, protection: c_int) -> c_int {
    // SAFETY: the program's own call.
    protecting(length, protection, || unsafe {
        sys!(libc::SYS_mprotect, address, length, protection)
    })
}

/// The mapping of a file would have no protection key, and the helper has no right to read memory
/// with one.
extern "C" fn pkey_mprotect(address: usize, length: usize, protection: c_int, key: c_int) -> c_int {
    const NO_KEY: c_int = -1;
    const DEFAULT_KEY: c_int = 0;
    if key == NO_KEY {
        return mprotect(address, length, protection);
    }
    // The kernel refuses other addresses.
    if key != DEFAULT_KEY && address.is_multiple_of(PAGE) {
        keep_plain(pages(address, length));
    }
    // SAFETY: the program's own call.
    protecting(length, protection, || unsafe {
        sys!(libc::SYS_pkey_mprotect, address, length, protection, key)
    })
}

/// Performs a call that sets the protection of as many bytes, and counts them.
fn protecting(
    length: usize,
    protection: c_int,
    call: impl FnOnce() -> Result<usize, Errno>,
) -> c_int {
    let writable = protection & libc::PROT_WRITE != 0;
    if !writable {
        // Before the call, so that the range always counts as one or the other.
        tell(|space| space.shut(length));
    }
    let result = changing(call);
    if result.is_ok() && writable {
        grown(length);
    }
    done(result)
}

extern "C" fn mremap(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    to: usize,
) -> usize {
    // It leaves the old range in place without its content, which evicted pages would still have.
    // Kernels before 5.7 know no such flag.
    if flags & libc::MREMAP_DONTUNMAP != 0 {
        return address_of(Err(Errno(libc::EINVAL)));
    }
    let range = pages(old, old_length);
    let (unforked, locked) =
        with_ranges(|ranges| (ranges.unforked.at(old).is_some(), ranges.locks.touches(range)));
    let lock_lost = in_file(range) && (locked || is_all_locked());
    let start = remapped(old, old_length, length, flags, to);
    if lock_lost && start != usize::MAX {
        if locked {
            with_ranges(|ranges| ranges.lock(pages(start, length)));
        }
        lock_again(pages(start, length));
    }
    if unforked && start != usize::MAX {
        // If memory was copied, it is a new mapping.
        let _ = advise_about_forks(pages(start, length), libc::MADV_DONTFORK);
    }
    start
}

/// Changes the size or the place of a mapping. Calls that the kernel refuses for any memory go to
/// the kernel.
fn remapped(old: usize, old_length: usize, length: usize, flags: c_int, to: usize) -> usize {
    const MOST: usize = isize::MAX as usize;
    let range = pages(old, old_length);
    let ours = with_ranges(|ranges| ranges.known.touches(range));
    // True if the range is in the file, or in several mappings because the helper watches parts of
    // it.
    let pieces = in_file(range)
        || (ours && space::get().is_some_and(|s| s.tell_from.load(Ordering::Relaxed) > 0));
    let target = if flags & libc::MREMAP_FIXED == 0 { Span::default() } else { pages(to, length) };
    let usual = old.is_multiple_of(PAGE)
        && old_length > 0
        && (1..=MOST).contains(&length)
        && target.and(range).is_empty();
    let plain = flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) == 0;
    if !usual || !plain {
        return address_of(changing(|| moved(old, old_length, length, flags, to)));
    }
    // Since Linux 6.17, the kernel moves several mappings to a fixed place one by one, and leaves
    // one that is watched, and all behind it, where they are.
    let one_by_one = pieces && has_helper() && flags & libc::MREMAP_FIXED != 0;
    if pieces && has_helper() && !in_file(range) && !one_by_one {
        ask(Ask::Settle, range, [0; 3]);
    }
    let result = changing(|| {
        // Until now, the helper may have put the range into the file. The kernel would move the
        // mapping with the slots of its old address, which the helper would take for unused.
        if in_file(range) || one_by_one {
            return Err(Errno(libc::EFAULT));
        }
        moved(old, old_length, length, flags, to)
    });
    if result.is_ok() {
        grown(length.saturating_sub(old_length));
    }
    if result != Err(Errno(libc::EFAULT)) || !pieces && !in_file(range) {
        return address_of(result);
    }
    let Some(answer) = ask(Ask::Move, range, [length, flags as usize, to]) else {
        return address_of(copied(range, length, flags, to));
    };
    address_of(result_of(answer))
}

/// Performs the call itself, and updates the known ranges.
fn moved(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    to: usize,
) -> Result<usize, Errno> {
    let range = pages(old, old_length);
    let record = with_ranges(|ranges| ranges.record_of(range));
    // SAFETY: the program's own call.
    let call = || unsafe { sys!(libc::SYS_mremap, old, old_length, length, flags, to) };
    let start = releasing(range, call)?;
    with_ranges(|ranges| ranges.move_to(pages(start, length), record));
    Ok(start)
}

/// Does the same without a helper: copies the content to new memory.
fn copied(range: Span, length: usize, flags: c_int, to: usize) -> Result<usize, Errno> {
    let length = length.next_multiple_of(PAGE);
    let fixed = flags & libc::MREMAP_FIXED != 0;
    if length <= range.length() && !fixed {
        // SAFETY: the program releases this part.
        let rest = unsafe { sys!(libc::SYS_munmap, range.start + length, range.length() - length) };
        forget(Span::new(range.start + length, range.end));
        return if length == range.length() { Ok(range.start) } else { rest.map(|_| range.start) };
    }
    if flags & libc::MREMAP_MAYMOVE == 0 {
        return Err(Errno(libc::ENOMEM));
    }
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if fixed { libc::MAP_FIXED } else { 0 };
    let place = if fixed { to } else { 0 };
    // SAFETY: new memory, or memory that the program wants replaced; then the program's own
    // content, whose old address it releases.
    unsafe {
        let start = sys!(libc::SYS_mmap, place, length, sys::READ_WRITE, how, usize::MAX, 0)?;
        let content = range.length().min(length);
        std::ptr::copy_nonoverlapping(range.start as *const u8, start as *mut u8, content);
        let _ = sys!(libc::SYS_munmap, range.start, range.length());
        forget(range);
        forget(Span::of(start, length));
        Ok(start)
    }
}

extern "C" fn madvise(address: usize, length: usize, advice: c_int) -> c_int {
    let range = pages(address, length);
    let call = |advice: c_int| sys::advise(address, length, advice).map(|()| 0);
    match advice {
        // The kernel refuses it.
        _ if !address.is_multiple_of(PAGE) => done(call(advice)),
        libc::MADV_DONTNEED | libc::MADV_FREE | sys::MADV_DONTNEED_LOCKED => {
            // The helper must not copy pages that vanish; pages that it has copied are in the file.
            let (filed, mut result) = changing(|| {
                // Pages that are merely marked as free count as used, and would go to the file.
                let free = advice == libc::MADV_FREE && is_known(range);
                (in_file(range), call(if free { libc::MADV_DONTNEED } else { advice }))
            });
            // Otherwise the next read would find the evicted content.
            if filed && !matches!(result, Err(Errno(libc::EINVAL))) {
                match ask(Ask::Discard, range, [0; 3]) {
                    Some(answer) => result = result.and(result_of(answer)),
                    None => result = result.and(discard_alone(range)),
                }
            }
            done(result)
        }
        libc::MADV_DONTFORK | libc::MADV_DOFORK => done(advise_about_forks(range, advice)),
        // Advice that only memory without a file supports, or that a new mapping would not inherit.
        libc::MADV_WIPEONFORK
        | libc::MADV_MERGEABLE
        | libc::MADV_DONTDUMP
        | sys::MADV_GUARD_INSTALL => {
            keep_plain(range);
            done(changing(|| call(advice)))
        }
        _ => done(call(advice)),
    }
}

/// Brings the range back to plain memory, which stays in DRAM.
fn keep_plain(range: Span) {
    // While the helper puts nothing into the file that it found free.
    changing(|| {
        with_ranges(|ranges| {
            if ranges.known.touches(range) {
                ranges.exclude(range);
            }
        });
    });
    if in_file(range) {
        ask(Ask::Restore, range, [0; 3]);
        lock_again(range);
    }
}

/// Records for the kernel and the helper whether forked children inherit the range; the helper
/// repeats the advice on mappings that it makes there.
fn advise_about_forks(range: Span, advice: c_int) -> Result<usize, Errno> {
    changing(|| {
        sys::advise(range.start, range.length(), advice)?;
        with_ranges(|ranges| match advice {
            libc::MADV_DONTFORK => ranges.keep_from_children(range),
            _ => {
                ranges.unforked.remove(range);
            }
        });
        Ok(0)
    })
}

/// Without a helper: maps new memory over the parts that are in the file. If the kernel refuses
/// that, the rest has its evicted content.
fn discard_alone(range: Span) -> Result<usize, Errno> {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let mut rest = range;
    loop {
        let part = with_ranges(|ranges| ranges.converted.first_in(rest));
        if part.is_empty() {
            return Ok(0);
        }
        let (start, length) = (part.start, part.length());
        // SAFETY: the program has dropped the content.
        unsafe { sys!(libc::SYS_mmap, start, length, sys::READ_WRITE, how, usize::MAX, 0) }?;
        let unforked = with_ranges(|ranges| {
            ranges.converted.remove(part);
            ranges.unforked.first_in(part)
        });
        if !unforked.is_empty() {
            let _ = sys::advise(unforked.start, unforked.length(), libc::MADV_DONTFORK);
        }
        rest.start = part.end;
    }
}

extern "C" fn brk(address: usize) -> c_int {
    let (before, now, result) = patch::set_heap_end(address);
    let (from, to) = (before.next_multiple_of(PAGE), now.next_multiple_of(PAGE));
    if to > from {
        with_ranges(|ranges| ranges.add(Span::new(from, to)));
        announce(Span::new(from, to));
        grown(to - from);
    } else if to < from {
        forget(Span::new(to, from));
    }
    result
}

/// Locks by `call` and records that: before the call, and while the helper evicts nothing that it
/// found unlocked.
fn lock(range: Span, call: impl FnOnce() -> Result<usize, Errno>) -> c_int {
    let was_locked = changing(|| {
        with_ranges(|ranges| {
            let was_locked = ranges.locks.touches(range);
            ranges.lock(range);
            was_locked
        })
    });
    let result = call();
    // A lock that fails may leave an earlier one in place.
    if result.is_err() && !was_locked {
        unlocked(range);
    }
    done(result)
}

/// Locks the parts that the program has locked once more: other mappings have taken their place.
fn lock_again(range: Span) {
    let mut rest = range;
    loop {
        let locked = match is_all_locked() {
            true => rest,
            false => with_ranges(|ranges| ranges.locks.first_in(rest)),
        };
        if locked.is_empty() {
            return;
        }
        // SAFETY: locking changes no memory.
        let _ = unsafe { sys!(libc::SYS_mlock, locked.start, locked.length()) };
        rest.start = locked.end;
    }
}

fn unlocked(range: Span) {
    with_ranges(|ranges| ranges.unlock(range));
}

extern "C" fn mlock(address: usize, length: usize) -> c_int {
    // SAFETY: the program's own call.
    lock(pages_of(address, length), || unsafe { sys!(libc::SYS_mlock, address, length) })
}

extern "C" fn mlock2(address: usize, length: usize, flags: u32) -> c_int {
    let range = pages_of(address, length);
    // SAFETY: the program's own call.
    lock(range, || unsafe { sys!(libc::SYS_mlock2, address, length, flags) })
}

extern "C" fn munlock(address: usize, length: usize) -> c_int {
    // SAFETY: the program's own call.
    let result = unsafe { sys!(libc::SYS_munlock, address, length) };
    if result.is_ok() {
        unlocked(pages_of(address, length));
    }
    done(result)
}

extern "C" fn mlockall(flags: c_int) -> c_int {
    let mut was_locked = false;
    changing(|| tell(|space| was_locked = space.locked.swap(true, Ordering::AcqRel)));
    // SAFETY: the program's own call.
    let result = unsafe { sys!(libc::SYS_mlockall, flags) };
    if result.is_err() {
        tell(|space| space.locked.store(was_locked, Ordering::Release));
    }
    done(result)
}

extern "C" fn munlockall() -> c_int {
    // SAFETY: the program's own call.
    let result = unsafe { sys!(libc::SYS_munlockall) };
    tell(|space| space.locked.store(false, Ordering::Release));
    unlocked(Span::new(0, usize::MAX));
    done(result)
}

extern "C" fn ioctl(fd: c_int, request: usize, argument: *mut u64) -> c_int {
    // SAFETY: the program's own call.
    if let Some((start, length)) = unsafe { uffd::registered(request, argument) }
        && has_helper()
    {
        let range = pages_of(start, length);
        // The program handles page faults of this range itself, and the kernel allows only one
        // handler.
        with_ranges(|ranges| ranges.exclude(range));
        ask(Ask::Restore, range, [0; 3]);
    }
    // SAFETY: the program's own call.
    done(unsafe { sys!(libc::SYS_ioctl, fd, request, argument) })
}

/// Installs the hooks. To be called once, before the program has threads.
pub(crate) fn install() {
    let hooks: [(&CStr, usize); 14] = [
        (c"mmap", mmap as *const () as usize),
        (c"munmap", munmap as *const () as usize),
        (c"mprotect", mprotect as *const () as usize),
        (c"pkey_mprotect", pkey_mprotect as *const () as usize),
        (c"mremap", mremap as *const () as usize),
        (c"madvise", madvise as *const () as usize),
        (c"brk", brk as *const () as usize),
        (c"mlock", mlock as *const () as usize),
        (c"mlock2", mlock2 as *const () as usize),
        (c"munlock", munlock as *const () as usize),
        (c"mlockall", mlockall as *const () as usize),
        (c"munlockall", munlockall as *const () as usize),
        (c"ioctl", ioctl as *const () as usize),
        (c"execve", start::execve as *const () as usize),
    ];
    patch::install(&hooks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_value_or_an_error() {
        let error = |errno: i32| -(errno as isize) as usize;
        assert_eq!(result_of(error(libc::ENOMEM)), Err(Errno(libc::ENOMEM)));
        assert_eq!([0, 0x7fff_f7ff_f000].map(result_of), [Ok(0), Ok(0x7fff_f7ff_f000)]);
        // A drop that the kernel has done has failed if the helper has not.
        assert_eq!(Ok(0).and(result_of(error(libc::EAGAIN))), Err(Errno(libc::EAGAIN)));
    }
}
