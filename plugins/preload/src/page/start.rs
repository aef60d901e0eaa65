//! Programs that are about to be started and cannot be paged, because they do not load this
//! library: static ones, those for other machines, those that change user, and all that are started
//! without the order in their environment. They are counted, or refused if the order says so.
//!
//! This runs in forked children, also in those of `vfork`, on their small stacks: it neither
//! allocates nor calls libc.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use memweir_abi::kernel::image::{self, HEAD, Image, SCRIPT_DEPTH};
use memweir_abi::preload::page::{PAGE_ORDER_VARIABLE, PageCounter, UnpagedPrograms};

use crate::page::tally::Tally;
use crate::patch::done;
use crate::sys::{self, Errno, sys};

/// Program headers that are looked at; real programs have about a dozen.
const SEGMENTS: usize = 64;
/// Type of the program header that names the loader.
const PT_INTERP: u32 = 3;

/// The counters of starts, and the order's rule for programs that cannot be paged.
static RULE: OnceLock<(Tally, UnpagedPrograms)> = OnceLock::new();

/// Sets the rule, once.
pub(crate) fn follow(tally: Tally, unpaged: UnpagedPrograms) {
    let _ = RULE.set((tally, unpaged));
}

/// Replaces libc's `execve`.
pub(crate) extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the program passes a null-terminated array of strings, or none.
    if unsafe { starts_unpaged(path, environment) }
        && let Some((tally, unpaged)) = RULE.get()
    {
        match unpaged {
            UnpagedPrograms::Count => tally.add(PageCounter::Unpaged, 1),
            UnpagedPrograms::Refuse => {
                tally.add(PageCounter::Refused, 1);
                return done(Err(Errno(libc::EACCES)));
            }
        }
    }
    // SAFETY: the program's own call.
    done(unsafe { sys!(libc::SYS_execve, path, arguments, environment) })
}

/// Returns true if a program will be started and not be paged.
///
/// # Safety
/// As for [`inherits_order`].
unsafe fn starts_unpaged(path: *const c_char, environment: *const *const c_char) -> bool {
    // SAFETY: as the caller says.
    loads_library(path).is_some_and(|loads| !loads || unsafe { !inherits_order(environment) })
}

/// Returns true if the environment has the order and names a library to preload.
///
/// # Safety
/// `environment` is null, or a null-terminated array of strings.
unsafe fn inherits_order(environment: *const *const c_char) -> bool {
    let (mut order, mut preload) = (false, false);
    let mut at = environment;
    // SAFETY: as the caller says; the array ends with a null pointer.
    while !at.is_null() && unsafe { !(*at).is_null() } {
        // SAFETY: as above.
        let entry = unsafe { *at };
        // SAFETY: the entries are strings.
        unsafe {
            order |= is_variable(entry, PAGE_ORDER_VARIABLE);
            preload |= is_variable(entry, "LD_PRELOAD");
            at = at.add(1);
        }
    }
    order && preload
}

/// # Safety
/// `entry` is a string that ends with a zero byte.
unsafe fn is_variable(entry: *const c_char, name: &str) -> bool {
    let expected = name.bytes().chain([b'=']);
    // SAFETY: the comparison ends at the first byte that differs, the final zero at the latest.
    expected.enumerate().all(|(at, byte)| unsafe { *entry.add(at) } as u8 == byte)
}

/// Returns true if the loader loads the library into the program at `path`; `None` if the kernel
/// will not start it, such as in all but one of the directories in which a shell looks for it.
fn loads_library(path: *const c_char) -> Option<bool> {
    let mut name = [0u8; HEAD];
    let mut at = path;
    for _ in 0..SCRIPT_DEPTH {
        // A pipe, which cannot be started, must not block either.
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the kernel checks the program's pointer; the others end with a zero byte.
        let file = match unsafe { sys!(libc::SYS_openat, libc::AT_FDCWD, at, flags) } {
            Ok(file) => file as i32,
            Err(Errno(libc::ENOENT | libc::ENOTDIR)) => return None,
            // It may be executable nevertheless.
            Err(_) => return Some(true),
        };
        let mut head = [0u8; HEAD];
        let length = sys::read_at(file, &mut head, 0).unwrap_or(0);
        let start = StartMode::of(&head[..length], |buffer, offset| {
            sys::read_at(file, buffer, offset).unwrap_or(0)
        });
        let changes_user = changes_user(file);
        sys::close(file);
        match start {
            StartMode::Loads => return Some(!changes_user),
            StartMode::Unknown => return None,
            StartMode::Misses => return Some(false),
            StartMode::Script(interpreter) => {
                name.fill(0);
                name[..interpreter.len()].copy_from_slice(interpreter);
                at = name.as_ptr().cast();
            }
        }
    }
    None
}

/// The way in which a file is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartMode<'a> {
    /// By the loader, which loads the library first.
    Loads,
    /// By itself, or by a loader that cannot load the library.
    Misses,
    /// By its interpreter, at this path.
    Script(&'a [u8]),
    /// Not by the kernel: shells read such files themselves.
    Unknown,
}

impl<'a> StartMode<'a> {
    /// Determines how a file with these first bytes is started. `read` reads more of the file.
    fn of(head: &'a [u8], read: impl Fn(&mut [u8], u64) -> usize) -> Self {
        match Image::of(head) {
            Image::Script { interpreter, .. } => Self::Script(interpreter),
            Image::Foreign(_) => Self::Misses,
            Image::Unfit(_) => Self::Unknown,
            Image::X86_64 => match head.first_chunk() {
                Some(header) if names_loader(header, &read) => Self::Loads,
                Some(_) => Self::Misses,
                None => Self::Unknown,
            },
        }
    }
}

/// Returns true if a program header of the ELF file with this header names a loader.
fn names_loader(header: &[u8; 64], read: impl Fn(&mut [u8], u64) -> usize) -> bool {
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let table = u64::from_le_bytes(std::array::from_fn(|i| header[32 + i]));
    let (size, count) = (u64::from(half(54)), usize::from(half(56)).min(SEGMENTS));
    (0..count as u64).any(|segment| {
        let mut kind = [0u8; 4];
        let at = table.saturating_add(segment * size);
        read(&mut kind, at) == kind.len() && u32::from_le_bytes(kind) == PT_INTERP
    })
}

/// Returns true if the program would run as another user or group, for which the loader preloads
/// nothing.
fn changes_user(file: i32) -> bool {
    let Some(status) = sys::status(file) else { return false };
    // SAFETY: both only return numbers.
    let (user, group) = unsafe { (sys!(libc::SYS_geteuid), sys!(libc::SYS_getegid)) };
    let effective = (user.unwrap_or(0) as u32, group.unwrap_or(0) as u32);
    image::changes_user(status.st_mode, (status.st_uid, status.st_gid), effective)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: &[u8]) -> StartMode<'_> {
        StartMode::of(&content[..content.len().min(HEAD)], |buffer, offset| {
            let rest = content.get(offset as usize..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            length
        })
    }

    /// An ELF file with one program header of this type.
    fn elf(machine: u16, kind: u32) -> Vec<u8> {
        let mut file = vec![0; 300];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 3;
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32..40].copy_from_slice(&200u64.to_le_bytes());
        file[54..58].copy_from_slice(&[56, 0, 1, 0]);
        file[200..204].copy_from_slice(&kind.to_le_bytes());
        file
    }

    #[test]
    fn only_programs_with_a_loader_load_the_library() {
        assert_eq!(of(&elf(62, PT_INTERP)), StartMode::Loads);
        assert_eq!(of(&elf(62, 1)), StartMode::Misses);
        assert_eq!(of(&elf(3, PT_INTERP)), StartMode::Misses);
        assert_eq!(of(&elf(62, PT_INTERP)[..63]), StartMode::Unknown);
        assert_eq!(of(b"\x7fELF"), StartMode::Unknown);
        assert_eq!(of(b"echo"), StartMode::Unknown);
        assert_eq!(of(b"#! /bin/sh -e\n"), StartMode::Script(b"/bin/sh"));
        assert_eq!(of(b"#!/bin/x"), StartMode::Script(b"/bin/x"));
        assert_eq!(of(b"#!\n"), StartMode::Unknown);
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(of(&own), StartMode::Loads);
    }

    #[test]
    fn the_order_has_to_be_inherited() {
        let inherits = |entries: &[&std::ffi::CStr]| {
            let mut pointers: Vec<_> = entries.iter().map(|entry| entry.as_ptr()).collect();
            pointers.push(std::ptr::null());
            // SAFETY: the array ends with a null pointer.
            unsafe { inherits_order(pointers.as_ptr()) }
        };
        assert!(inherits(&[c"A=b", c"MEMWEIR_PAGE=x", c"LD_PRELOAD=y"]));
        assert!(!inherits(&[c"MEMWEIR_PAGER=x", c"LD_PRELOAD=y"]));
        assert!(!inherits(&[c"MEMWEIR_PAGE=x"]));
        assert!(!inherits(&[c""]) && !inherits(&[]));
        // SAFETY: there may be no array.
        assert!(!unsafe { inherits_order(std::ptr::null()) });
    }

    #[test]
    fn what_cannot_be_started_is_not_counted() {
        let unpaged = |path: &std::ffi::CStr| {
            // SAFETY: there may be no array.
            unsafe { starts_unpaged(path.as_ptr(), std::ptr::null()) }
        };
        let own = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        assert!(unpaged(&std::ffi::CString::new(own).unwrap()));
        assert!(!unpaged(c"/nowhere/at/all") && !unpaged(c"/proc/self/maps") && !unpaged(c"/"));
    }
}
