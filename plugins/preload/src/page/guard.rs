//! Refuses calls that would silently lose data. Most of them are I/O that holds pages of the
//! program and writes to them later, behind the page table. A page that is evicted meanwhile would
//! not get the data.
//!
//! * Buffers that are registered with an io_uring are held for as long as the io_uring exists. So
//!   are rings of buffers and regions in memory of the program, from which the kernel reads.
//! * A read from a file opened with `O_DIRECT` holds the pages until the device has written them.
//! * So do sockets of some kinds: the buffers of AF_XDP, a receiving socket that decrypts TLS, and
//!   the algorithms of AF_ALG.
//! * `process_vm_writev` holds the pages of the other process until it has written them.
//!
//! The kernel does not reveal which pages are held, so these calls fail as they do if there is no
//! memory to lock (`ENOMEM`), on file systems without direct I/O and with ciphers that the kernel
//! does not know (`EINVAL`), and on kernels without the feature (`EAFNOSUPPORT`, `ENOSYS`):
//! programs know these errors. `openat2`, whose flags a filter cannot read, fails as before Linux
//! 5.6 (`ENOSYS`).
//!
//! Memory that a program drops by a system call of its own would keep its evicted content. The
//! runtime of Go, which maps memory by libc if it is linked with cgo, does that, and knows kernels
//! without `madvise` (`ENOSYS`). Pages that are guarded by such a call would have that content
//! again when the guard is removed; it fails as before Linux 6.13 (`EINVAL`). The library's own
//! calls have a mark in an argument that the kernel does not read.
//!
//! A seccomp filter sees the calls whichever way they are made. Devices that hold memory by calls
//! of their own (RDMA, VFIO), and files that an io_uring opens, are not seen.

use crate::sys::{self, Errno, sys};

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const FAIL_WITH: u32 = 0x0005_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const X86_64: u32 = 0xc000_003e;

/// Operations of `io_uring_register` that hold memory: two that register buffers, one that copies
/// registered buffers, and those that register a ring of buffers, an area for the packets of a
/// network device, and a region.
const HOLDING: [u32; 6] = [0, 15, 30, 22, 32, 34];
/// Level and option of `setsockopt` that make a socket decrypt what it receives.
const TLS_RECEIVE: [u32; 2] = [282, 2];
/// Those that register the buffers of an AF_XDP socket.
const XDP_BUFFERS: [u32; 2] = [283, 4];
/// Added to the operation if the io_uring is named by the number under which it is registered.
const BY_NUMBER: u32 = 1 << 31;

const fn step(code: u16, yes: u8, no: u8, number: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: yes, jf: no, k: number }
}

const fn argument(number: u32) -> libc::sock_filter {
    step(LOAD_WORD, 0, 0, ARGUMENTS + 8 * number)
}

const PROGRAM: [libc::sock_filter; 58] = [
    step(LOAD_WORD, 0, 0, ARCHITECTURE),
    step(JUMP_EQUAL, 0, 52, X86_64),
    step(LOAD_WORD, 0, 0, NUMBER),
    step(JUMP_EQUAL, 10, 0, libc::SYS_io_uring_register as u32),
    step(JUMP_EQUAL, 18, 0, libc::SYS_openat as u32),
    step(JUMP_EQUAL, 19, 0, libc::SYS_open as u32),
    step(JUMP_EQUAL, 22, 0, libc::SYS_fcntl as u32),
    step(JUMP_EQUAL, 48, 0, libc::SYS_openat2 as u32),
    step(JUMP_EQUAL, 26, 0, libc::SYS_madvise as u32),
    step(JUMP_EQUAL, 23, 0, libc::SYS_process_madvise as u32),
    step(JUMP_EQUAL, 45, 0, libc::SYS_process_vm_writev as u32),
    step(JUMP_EQUAL, 32, 0, libc::SYS_setsockopt as u32),
    step(JUMP_EQUAL, 38, 0, libc::SYS_socket as u32),
    step(RETURN, 0, 0, ALLOW),
    // io_uring_register: the operation is the second argument.
    argument(1),
    step(AND, 0, 0, !BY_NUMBER),
    step(JUMP_EQUAL, 38, 0, HOLDING[0]),
    step(JUMP_EQUAL, 37, 0, HOLDING[1]),
    step(JUMP_EQUAL, 36, 0, HOLDING[2]),
    step(JUMP_EQUAL, 35, 0, HOLDING[3]),
    step(JUMP_EQUAL, 34, 0, HOLDING[4]),
    step(JUMP_EQUAL, 33, 0, HOLDING[5]),
    step(RETURN, 0, 0, ALLOW),
    // openat, open: the flags are the third argument, and the second.
    argument(2),
    step(JUMP, 0, 0, 1),
    argument(1),
    step(JUMP_BITS, 0, 27, libc::O_DIRECT as u32),
    step(AND, 0, 0, libc::O_ACCMODE as u32),
    // A device only reads buffers that are written to it.
    step(JUMP_EQUAL, 25, 24, libc::O_WRONLY as u32),
    // fcntl: the command is the second argument, and the flags the third.
    argument(1),
    step(JUMP_EQUAL, 0, 23, libc::F_SETFL as u32),
    argument(2),
    step(JUMP_BITS, 20, 21, libc::O_DIRECT as u32),
    // process_madvise, madvise: the advice is the fourth argument, and the third.
    argument(3),
    step(JUMP, 0, 0, 1),
    argument(2),
    step(JUMP_EQUAL, 5, 0, sys::MADV_GUARD_INSTALL as u32),
    step(JUMP_EQUAL, 2, 0, libc::MADV_DONTNEED as u32),
    step(JUMP_EQUAL, 1, 0, libc::MADV_FREE as u32),
    step(JUMP_EQUAL, 0, 14, sys::MADV_DONTNEED_LOCKED as u32),
    argument(5),
    step(JUMP_EQUAL, 12, 14, sys::ADVICE_MARK),
    argument(5),
    step(JUMP_EQUAL, 10, 9, sys::ADVICE_MARK),
    // setsockopt: the level is the second argument, and the option the third.
    argument(1),
    step(JUMP_EQUAL, 1, 0, TLS_RECEIVE[0]),
    step(JUMP_EQUAL, 2, 7, XDP_BUFFERS[0]),
    argument(2),
    step(JUMP_EQUAL, 4, 5, TLS_RECEIVE[1]),
    argument(2),
    step(JUMP_EQUAL, 4, 3, XDP_BUFFERS[1]),
    // socket: the family is the first argument.
    argument(0),
    step(JUMP_EQUAL, 4, 1, libc::AF_ALG as u32),
    step(RETURN, 0, 0, FAIL_WITH | libc::EINVAL as u32),
    step(RETURN, 0, 0, ALLOW),
    step(RETURN, 0, 0, FAIL_WITH | libc::ENOMEM as u32),
    step(RETURN, 0, 0, FAIL_WITH | libc::ENOSYS as u32),
    step(RETURN, 0, 0, FAIL_WITH | libc::EAFNOSUPPORT as u32),
];

/// Installs the filter, unless it is inherited already. Returns false if the process may not.
pub(crate) fn install() -> bool {
    // SAFETY: with this descriptor the kernel does nothing; the filter fails in its own way.
    let tried = unsafe { sys!(libc::SYS_io_uring_register, u32::MAX, HOLDING[0], 0, 0) };
    if tried == Err(Errno(libc::ENOMEM)) {
        return true;
    }
    let program = libc::sock_fprog {
        len: PROGRAM.len() as u16,
        // The kernel only reads it.
        filter: PROGRAM.as_ptr().cast_mut(),
    };
    let (filter, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: the program is read, and concerns the system calls that are named in it.
    unsafe { sys!(libc::SYS_seccomp, filter, flags, &raw const program) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the action of the kernel's filter machine for a system call.
    fn verdict(architecture: u32, number: i64, arguments: &[u32]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = PROGRAM[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                LOAD_WORD if step.k == NUMBER => value = number as u32,
                LOAD_WORD if step.k == ARCHITECTURE => value = architecture,
                LOAD_WORD => {
                    let number = (step.k - ARGUMENTS) as usize / 8;
                    value = arguments.get(number).copied().unwrap_or(0);
                }
                AND => value &= step.k,
                JUMP => at += step.k as usize,
                JUMP_EQUAL => at += jump(value == step.k),
                JUMP_BITS => at += jump(value & step.k != 0),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn only_what_would_lose_data_is_refused() {
        let direct = libc::O_DIRECT as u32;
        let (read, write, both) =
            (libc::O_RDONLY as u32, libc::O_WRONLY as u32, libc::O_RDWR as u32);
        let (einval, enomem) = (FAIL_WITH | libc::EINVAL as u32, FAIL_WITH | libc::ENOMEM as u32);
        let register = libc::SYS_io_uring_register;
        let enosys = FAIL_WITH | libc::ENOSYS as u32;
        let (advise, advise_all) = (libc::SYS_madvise, libc::SYS_process_madvise);
        let drop = libc::MADV_DONTNEED as u32;
        let install = sys::MADV_GUARD_INSTALL as u32;
        let no_family = FAIL_WITH | libc::EAFNOSUPPORT as u32;
        let (option, socket) = (libc::SYS_setsockopt, libc::SYS_socket);
        let cases: [(i64, &[u32], u32); 41] = [
            (register, &[9, 0, 0], enomem),
            (register, &[9, 15, 0], enomem),
            (register, &[9, 30, 0], enomem),
            (register, &[9, 22, 0], enomem),
            (register, &[9, 34, 0], enomem),
            (register, &[9, BY_NUMBER, 0], enomem),
            (register, &[9, 15 | BY_NUMBER, 0], enomem),
            (register, &[9, 2, 0], ALLOW),
            (register, &[9, 23 | BY_NUMBER, 0], ALLOW),
            (libc::SYS_openat, &[0, direct, direct | both], einval),
            (libc::SYS_openat, &[0, 0, direct | read], einval),
            (libc::SYS_openat, &[0, direct, both], ALLOW),
            (libc::SYS_openat, &[0, 0, direct | write], ALLOW),
            (libc::SYS_open, &[0, direct | read, 0], einval),
            (libc::SYS_open, &[0, read, direct], ALLOW),
            (libc::SYS_read, &[0, direct, direct], ALLOW),
            (libc::SYS_fcntl, &[0, libc::F_SETFL as u32, direct], einval),
            (libc::SYS_fcntl, &[0, libc::F_SETFL as u32, 0], ALLOW),
            (libc::SYS_fcntl, &[0, libc::F_SETFD as u32, direct], ALLOW),
            (libc::SYS_openat2, &[0, 0, 0], enosys),
            (advise, &[0, 1, drop], enosys),
            (advise, &[0, 1, libc::MADV_FREE as u32], enosys),
            (advise, &[0, 1, sys::MADV_DONTNEED_LOCKED as u32], enosys),
            (advise, &[0, 1, drop, 0, 0, sys::ADVICE_MARK], ALLOW),
            (advise, &[0, 1, install], einval),
            (advise, &[0, 1, install, 0, 0, sys::ADVICE_MARK], ALLOW),
            (advise, &[0, 1, install + 1], ALLOW),
            (advise_all, &[5, 0, 1, install, 0, 0], einval),
            (advise, &[0, drop, libc::MADV_HUGEPAGE as u32], ALLOW),
            (advise_all, &[5, 0, 1, drop, 0, 0], enosys),
            (advise_all, &[5, 0, drop, sys::MADV_COLD as u32, 0, 0], ALLOW),
            (option, &[9, 282, 2], einval),
            (option, &[9, 282, 1], ALLOW),
            (option, &[9, 282, 4], ALLOW),
            (option, &[9, 283, 4], enomem),
            (option, &[9, 283, 2], ALLOW),
            (option, &[9, 1, 2], ALLOW),
            (socket, &[38, 5, 0], no_family),
            (socket, &[2, 38, 0], ALLOW),
            (libc::SYS_process_vm_writev, &[1], enosys),
            (libc::SYS_process_vm_readv, &[1], ALLOW),
        ];
        for (number, arguments, expected) in cases {
            assert_eq!(verdict(X86_64, number, arguments), expected, "{number} {arguments:?}");
            assert_eq!(verdict(1, number, arguments), ALLOW);
        }
    }
}
