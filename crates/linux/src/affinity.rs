//! Binding running processes to CPUs.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::blocker::processes::threads;

/// Binds every thread of process `pid` and of its descendants to `cpus`; threads and children
/// created later inherit it. A descendant that was adopted by another process is not found.
///
/// # Errors
/// If a CPU is beyond those that the kernel knows, or it refuses to bind a thread that is there.
pub fn bind_all(pid: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu)?;
    }
    let mut processes = vec![pid];
    while let Some(pid) = processes.pop() {
        for thread in threads(pid).unwrap_or_default() {
            match sched_setaffinity(Pid::from_raw(thread), &set) {
                // A thread may end, or change its user, at any time.
                Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
                Err(error) => return Err(error.into()),
            }
            let children = format!("/proc/{pid}/task/{thread}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            processes.extend(children.split_whitespace().filter_map(|c| c.parse::<i32>().ok()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_children_are_bound() {
        let allowed = crate::topology::allowed_cpus().expect("this process has CPUs");
        let cpu = *allowed.last().expect("at least one");
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        // The shell's line says that it has its child.
        let mut line = [0];
        let stdout = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut line).expect("a line");
        let pid = child.id() as i32;
        bind_all(pid, &[cpu]).expect("our own children");
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .expect("the kernel lists children");
        let sleeper: i32 = children.trim().parse().expect("one child");
        for pid in [pid, sleeper] {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
            let line = format!("Cpus_allowed_list:\t{cpu}\n");
            assert!(status.contains(&line), "{status}");
        }
        nix::sys::signal::kill(Pid::from_raw(sleeper), nix::sys::signal::Signal::SIGKILL)
            .expect("our own child");
        child.wait().expect("our own child");
    }
}
