//! Running one program as a parent that outlives requests to end, and stays for the processes that
//! the program leaves in the background.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::unistd::{Gid, Uid, chdir, setgid, setgroups, setuid};

use crate::peer::Credentials;

/// A program to run, and the user that it runs as.
#[derive(Clone, Debug)]
pub struct Supervised {
    /// The program's file.
    pub program: PathBuf,
    /// Arguments, `argv[0]` included.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory.
    pub directory: PathBuf,
    /// User to become, with all groups of that user; the one of this process if absent.
    pub user: Option<Credentials>,
}

/// Blocks every signal that can be blocked in this process, so that signals to all processes of a
/// job end the job and not its supervisor.
///
/// # Errors
/// If the kernel refuses the mask.
pub fn ignore_signals() -> io::Result<()> {
    Ok(SigSet::all().thread_block()?)
}

/// Makes this process the parent of all descendants whose own parent ends.
///
/// # Errors
/// If the kernel refuses.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Starts the program in this process's session and group.
///
/// # Errors
/// If the program cannot be started as this user in this directory. `WouldBlock` and `OutOfMemory`
/// say that a later try may succeed, as after a failure of the user database.
pub fn start(supervised: &Supervised) -> io::Result<Child> {
    let mut command = Command::new(&supervised.program);
    if let Some((name, arguments)) = supervised.argv.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env_clear().envs(&supervised.env).stdin(Stdio::null());
    let directory = CString::new(supervised.directory.as_os_str().as_bytes())?;
    let user = match supervised.user {
        Some(user) => Some((user, groups(&user)?)),
        None => None,
    };
    let become_submitter = move || {
        // The mask of this process would outlive the exec.
        SigSet::empty().thread_set_mask()?;
        if let Some((user, groups)) = &user {
            setgroups(groups)?;
            setgid(Gid::from_raw(user.group))?;
            setuid(Uid::from_raw(user.user))?;
        }
        // The directory may be open to its user alone.
        chdir(directory.as_c_str())?;
        Ok(())
    };
    // SAFETY: the closure makes system calls alone; what they need was allocated before the fork.
    unsafe { command.pre_exec(become_submitter) };
    command.spawn()
}

/// Waits for the end of a child, and reaps the orphans that end before. Returns the child's exit
/// code, or 128 plus the signal that ended it.
///
/// # Errors
/// If the child has been waited for already.
pub fn reap_until(child: &Child) -> io::Result<i32> {
    loop {
        let (pid, status) = reap()?;
        if pid == child.id() {
            return Ok(exit_code(status));
        }
    }
}

/// Waits until this process has no child left.
pub fn reap_all() {
    while reap().is_ok() {}
}

/// Waits for the end of any child.
fn reap() -> io::Result<(u32, ExitStatus)> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes an integer to the place that the valid pointer names.
        match Errno::result(unsafe { libc::waitpid(-1, &raw mut status, 0) }) {
            Ok(pid) => return Ok((pid.cast_unsigned(), ExitStatus::from_raw(status))),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

fn groups(user: &Credentials) -> io::Result<Vec<Gid>> {
    Ok(user.groups().map_err(not_now)?.into_iter().map(Gid::from_raw).collect())
}

/// Returns the error for a failure of the user database, which may be on another machine and answer
/// later: it is no end of the job.
fn not_now(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("the user database: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Supervised {
        Supervised {
            program: "/bin/sh".into(),
            argv: ["sh", "-c", script].map(Into::into).to_vec(),
            env: [("ONLY".into(), "this".into())].into(),
            directory: "/".into(),
            user: None,
        }
    }

    #[test]
    fn a_program_has_the_given_environment_and_directory() {
        // Each waits for its own child: the children of other tests are no orphans.
        let code = |script| exit_code(start(&shell(script)).unwrap().wait().unwrap());
        assert_eq!(code("test $ONLY = this -a $PWD = / && exit 7"), 7);
        assert_eq!(code("kill -9 $$"), 137);
        let absent = Supervised { program: "/no/such/program".into(), ..shell("") };
        assert_eq!(start(&absent).unwrap_err().kind(), io::ErrorKind::NotFound);
        let nowhere = Supervised { directory: "/no/such/directory".into(), ..shell("") };
        assert!(start(&nowhere).is_err());
    }

    #[test]
    fn a_user_database_that_fails_may_answer_later() {
        let error = not_now(io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().starts_with("the user database: "), "{error}");
    }
}
