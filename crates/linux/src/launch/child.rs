//! The steps of a process between its birth and its exec.
//!
//! The child is a copy of a program with several threads of which only one lives on: a lock that
//! another thread held stays locked forever. So everything that the child needs is laid out in
//! [`Prepared`] beforehand, and [`Prepared::live`] does nothing but system calls.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use super::prepare::Prepared;

/// Byte that the parent writes to open the gate.
pub(super) const GO: u8 = b'g';

/// Descriptors of the child's ends of the gate and of the reports while it closes all others.
const GATE: RawFd = 3;
const REPORTS: RawFd = 4;

/// The steps of a child that can fail, and the one that reports success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Step {
    AtTheGate,
    Session,
    Cgroup,
    Files,
    Private,
    Directory,
    Affinity,
    Exec,
}

/// One message from the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) step: Step,
    pub(super) errno: i32,
}

impl Report {
    pub(super) const SIZE: usize = 8;

    fn encode(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = (self.step as i32).to_ne_bytes();
        let [e, f, g, h] = self.errno.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    pub(super) fn decode([a, b, c, d, e, f, g, h]: [u8; Self::SIZE]) -> Self {
        const STEPS: [Step; 7] = [
            Step::AtTheGate,
            Step::Session,
            Step::Cgroup,
            Step::Files,
            Step::Private,
            Step::Directory,
            Step::Affinity,
        ];
        let number = i32::from_ne_bytes([a, b, c, d]);
        let step = STEPS.into_iter().find(|step| *step as i32 == number).unwrap_or(Step::Exec);
        Self { step, errno: i32::from_ne_bytes([e, f, g, h]) }
    }
}

impl Prepared {
    /// Runs the child up to exec; it moves itself to the group `into`, unless it is there already
    /// or needs none. Makes only async-signal-safe calls: no allocation, no lock, no panic; nothing
    /// is dropped because it never returns.
    pub(super) fn live(
        &self,
        gate: RawFd,
        reports: RawFd,
        into: Option<&OwnedFd>,
        argv: &[*const libc::c_char],
        env: &[*const libc::c_char],
    ) -> ! {
        // SAFETY: every call is async-signal-safe and gets pointers into `self`, `argv` and `env`,
        // which the child has a whole copy of; `argv` and `env` end with a null pointer.
        unsafe {
            reset_signal_handlers();
            check(libc::setsid(), Step::Session, reports);
            if self.resume_at_death {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT, 0, 0, 0);
            }
            if let Some(directory) = into {
                // In both versions, 0 stands for the process that writes it.
                let entered = write_to(directory.as_raw_fd(), c"cgroup.procs", b"0");
                check(entered, Step::Cgroup, reports);
            }
            for (target, fd) in (0..).zip(&self.stdio) {
                check(libc::dup2(fd.as_raw_fd(), target), Step::Files, reports);
            }
            check(libc::dup2(gate, GATE), Step::Files, reports);
            check(libc::dup2(reports, REPORTS), Step::Files, reports);
            let reports = REPORTS;
            check(libc::fcntl(GATE, libc::F_SETFD, libc::FD_CLOEXEC), Step::Files, reports);
            check(libc::fcntl(REPORTS, libc::F_SETFD, libc::FD_CLOEXEC), Step::Files, reports);
            // Before the gate, not at exec: a newborn must not keep the gates of its siblings or
            // the guardian's pipe open while it waits.
            close_from(REPORTS + 1);
            if let Some(limit) = &self.open_files {
                libc::setrlimit(libc::RLIMIT_NOFILE, limit);
            }
            if let Some(private) = &self.private {
                check(private.enter(), Step::Private, reports);
                // Nobody can reach what it writes once this process is dead. A change of rights, as
                // before, would undo that.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            }
            if let Some(directory) = &self.directory {
                check(libc::chdir(directory.as_ptr()), Step::Directory, reports);
            }
            if !self.cpus.is_empty() {
                let bytes = size_of_val(self.cpus.as_slice());
                let bound =
                    libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, self.cpus.as_ptr());
                check(if bound < 0 { -1 } else { 0 }, Step::Affinity, reports);
            }
            unblock_signals();
            say(Report { step: Step::AtTheGate, errno: 0 }, reports);
            if !may_go() {
                libc::_exit(0);
            }
            if let Some(fifo) = &self.fifo {
                // The wait for a writer may be long, and the parent must not share it.
                libc::close(REPORTS);
                let fifo = libc::open(fifo.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                if libc::dup2(fifo, libc::STDIN_FILENO) == -1 {
                    libc::_exit(126);
                }
            }
            check(
                libc::execve(self.program.as_ptr(), argv.as_ptr(), env.as_ptr()),
                Step::Exec,
                reports,
            );
            libc::_exit(127)
        }
    }
}

/// Waits at the gate; returns false if it was closed instead of opened.
///
/// # Safety
///
/// For a child before exec, whose gate is the descriptor [`GATE`].
unsafe fn may_go() -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: the kernel writes one byte into a variable that lives; the errno is this
        // thread's.
        let (got, errno) =
            unsafe { (libc::read(GATE, (&raw mut byte).cast(), 1), *libc::__errno_location()) };
        if got != -1 || errno != libc::EINTR {
            return got == 1 && byte == GO;
        }
    }
}

/// Gives every signal its default action. Ignored signals would stay ignored after exec.
///
/// # Safety
///
/// For a child before exec, with all signals blocked.
unsafe fn reset_signal_handlers() {
    // The kernel's own structure (handler, flags, restorer, one 64-bit mask), all zero: SIG_DFL.
    // Not through libc, which refuses the two signals that it uses itself.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in 1..=64 {
        // SAFETY: the pointer is to a constant of the size that the kernel reads; it refuses the
        // numbers that cannot be changed.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr(), 0usize, 8usize);
        }
    }
}

/// Lets every signal through.
///
/// # Safety
///
/// For a child before exec, after [`reset_signal_handlers`].
unsafe fn unblock_signals() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the set.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Writes `content` with one call to the file `path`, which is below `directory` unless it is an
/// absolute path.
///
/// # Safety
///
/// For a child before exec.
pub(super) unsafe fn write_to(directory: RawFd, path: &CStr, content: &[u8]) -> libc::c_int {
    // SAFETY: pointer and length are those of `content`; the descriptor is this function's own.
    unsafe {
        let file = libc::openat(directory, path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file == -1 {
            return -1;
        }
        let written = libc::write(file, content.as_ptr().cast(), content.len());
        libc::close(file);
        if written == -1 { -1 } else { 0 }
    }
}

/// Closes every descriptor from `first` on.
///
/// # Safety
///
/// For a child before exec: nothing may use those descriptors any more.
unsafe fn close_from(first: RawFd) {
    // SAFETY: closing descriptors touches no memory.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        // Kernels before 5.9.
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        for fd in first..RawFd::try_from(limit.rlim_cur).unwrap_or(65_536) {
            libc::close(fd);
        }
    }
}

/// Ends the child with a report of `step` if `result` is -1.
///
/// # Safety
///
/// For a child before exec.
unsafe fn check(result: libc::c_int, step: Step, reports: RawFd) {
    if result == -1 {
        // SAFETY: errno is this thread's; _exit does not return.
        unsafe {
            say(Report { step, errno: *libc::__errno_location() }, reports);
            libc::_exit(127);
        }
    }
}

/// Writes a report; it is shorter than a pipe's atomic unit, so it arrives whole.
///
/// # Safety
///
/// For a child before exec.
unsafe fn say(report: Report, reports: RawFd) {
    let bytes = report.encode();
    // SAFETY: the pointer and the length are those of a live array.
    unsafe { libc::write(reports, bytes.as_ptr().cast(), bytes.len()) };
}
