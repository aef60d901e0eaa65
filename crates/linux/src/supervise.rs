//! Running one program as a parent that outlives requests to end.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

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

/// Runs the program in this process's session and group, and waits for its end. Returns its exit
/// code, or 128 plus the signal that ended it.
///
/// # Errors
/// If the program cannot be started as this user in this directory.
pub fn run(supervised: &Supervised) -> io::Result<i32> {
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
    let status = command.spawn()?.wait()?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

fn groups(user: &Credentials) -> io::Result<Vec<Gid>> {
    Ok(user.groups()?.into_iter().map(Gid::from_raw).collect())
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
        assert_eq!(run(&shell("test $ONLY = this -a $PWD = / && exit 7")).unwrap(), 7);
        assert_eq!(run(&shell("kill -9 $$")).unwrap(), 137);
        let absent = Supervised { program: "/no/such/program".into(), ..shell("") };
        assert_eq!(run(&absent).unwrap_err().kind(), io::ErrorKind::NotFound);
        let nowhere = Supervised { directory: "/no/such/directory".into(), ..shell("") };
        assert!(run(&nowhere).is_err());
    }
}
