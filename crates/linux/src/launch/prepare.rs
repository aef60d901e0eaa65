//! Everything that a child needs, laid out by its parent, and its birth.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::sys::signal::SigSet;

use super::{Launch, LaunchError, PrivateDirectories, Process, limits, pipe};
use crate::blocker::SpawnTarget;
use crate::signals::BlockedSignals;

/// Files that the child needs are moved here and above first, out of the way of 0 to 4.
const ABOVE: RawFd = 10;

/// From linux/sched.h; libc's constant does not fit its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Everything that a child needs, in the form that system calls take.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    pub(super) directory: Option<CString>,
    pub(super) fifo: Option<CString>,
    pub(super) private: Option<PrivateDirectories>,
    pub(super) stdio: [OwnedFd; 3],
    /// The CPU mask as `sched_setaffinity` takes it; empty for all CPUs.
    pub(super) cpus: Vec<u64>,
    /// The v2 group to create the child in.
    group: Option<OwnedFd>,
    /// The v1 group to move to.
    freezer: Option<OwnedFd>,
    /// SIGCONT at the death of memweir, for jobs that SIGSTOP blocks.
    pub(super) resume_at_death: bool,
    /// The limit of open files, where memweir has changed its own.
    pub(super) open_files: Option<libc::rlimit>,
}

impl Prepared {
    pub(super) fn new(launch: &Launch, target: &SpawnTarget) -> Result<Self, LaunchError> {
        let at = |what: &str| format!("{what} {}", launch.program.display());
        let files = |error| LaunchError::new(at("setting up the files of"), error);
        let text = |bytes: &OsStr| {
            CString::new(bytes.as_bytes()).map_err(|_| {
                let reason = "a NUL byte in an argument or in the environment";
                LaunchError::new(
                    at("preparing"),
                    io::Error::new(io::ErrorKind::InvalidInput, reason),
                )
            })
        };
        let (mut group, mut freezer) = (None, None);
        match target {
            SpawnTarget::CgroupV2(directory) => {
                group = Some(out_of_the_way(directory.as_fd()).map_err(files)?)
            }
            SpawnTarget::CgroupV1(path) => {
                let directory = File::open(path).map_err(|error| {
                    LaunchError::new(format!("opening {}", path.display()), error)
                })?;
                freezer = Some(out_of_the_way(directory.as_fd()).map_err(files)?);
            }
            SpawnTarget::Session => {}
        }
        let env = launch.env.iter().map(|(key, value)| {
            let mut pair = key.clone();
            pair.push("=");
            pair.push(value);
            text(&pair)
        });
        let path = |path: Option<&Path>| path.map(|path| text(path.as_os_str())).transpose();
        Ok(Self {
            program: text(launch.program.as_os_str())?,
            argv: launch.argv.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            directory: path(launch.directory.as_deref())?,
            fifo: path(launch.fifo.as_deref())?,
            private: launch.private.clone(),
            stdio: [
                out_of_the_way(launch.stdin.as_fd()).map_err(files)?,
                out_of_the_way(launch.stdout.as_fd()).map_err(files)?,
                out_of_the_way(launch.stderr.as_fd()).map_err(files)?,
            ],
            cpus: cpu_mask(&launch.cpus),
            group,
            freezer,
            resume_at_death: matches!(target, SpawnTarget::Session),
            open_files: limits::of_jobs(),
        })
    }

    /// Creates the process. Returns it with the parent's ends of its gate and of its reports.
    pub(super) fn spawn(mut self) -> Result<(Process, File, File), LaunchError> {
        let name = self.program.to_string_lossy().into_owned();
        let failed = |error| LaunchError::new(format!("making a process for {name}"), error);
        let ends = || -> io::Result<_> {
            let (gate_read, gate_write) = pipe()?;
            let (reports_read, reports_write) = pipe()?;
            let gate = out_of_the_way(gate_read.as_fd())?;
            let reports = out_of_the_way(reports_write.as_fd())?;
            Ok((gate, gate_write, reports_read, reports))
        };
        let (gate, gate_write, reports_read, reports) = ends().map_err(failed)?;

        // The vectors of pointers must outlive the clone, so they live here.
        let argv = pointers(&self.argv);
        let env = pointers(&self.env);
        // No handler of memweir's may run in the child.
        let blocked = BlockedSignals::new(&SigSet::all()).map_err(failed)?;
        let born = match self.group.take() {
            None => clone_process(None).map(|born| (born, None)),
            Some(group) => clone_process(Some(group.as_fd()))
                .map(|born| (born, None))
                // Containers often refuse clone3, and kernels before 5.7 lack the flag: then the
                // child moves itself, which asks for the same permission.
                .or_else(|_| clone_process(None).map(|born| (born, Some(group)))),
        };
        match born.map_err(failed)? {
            (Born::Child, group) => {
                let into = self.freezer.as_ref().or(group.as_ref());
                self.live(gate.as_raw_fd(), reports.as_raw_fd(), into, &argv, &env)
            }
            (Born::Parent(process), _) => {
                drop(blocked);
                Ok((process, File::from(gate_write), File::from(reports_read)))
            }
        }
    }
}

/// Returns a copy of `fd` above the numbers that the child rearranges, closed by exec.
fn out_of_the_way(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let copy = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(ABOVE))?;
    // SAFETY: fcntl has just made this descriptor, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns pointers to the strings and a null pointer, as execve takes them.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// Returns the mask with the bits of `cpus` set; empty for no CPUs.
fn cpu_mask(cpus: &[usize]) -> Vec<u64> {
    let Some(highest) = cpus.iter().max() else { return Vec::new() };
    let mut mask = vec![0u64; highest / 64 + 1];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    mask
}

enum Born {
    Parent(Process),
    Child,
}

/// Forks, into `group` if given. The child's end comes back as [`Born::Child`].
fn clone_process(group: Option<BorrowedFd<'_>>) -> io::Result<Born> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain integers, for which all zeroes means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = libc::CLONE_PIDFD as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of everything, and the
    // caller does nothing in it but `Prepared::live`. `args` and `pidfd` outlive the call.
    let mut pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    let refused = pid == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if refused && group.is_none() {
        // SAFETY: as above; clone() with these flags writes the pidfd through its third argument.
        pid = unsafe {
            libc::syscall(
                libc::SYS_clone,
                libc::CLONE_PIDFD | libc::SIGCHLD,
                0,
                &raw mut pidfd,
                0,
                0,
            )
        };
    }
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Born::Child),
        pid => {
            // SAFETY: the kernel has just made this descriptor for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Born::Parent(Process::new(pid as libc::pid_t, pidfd)))
        }
    }
}
