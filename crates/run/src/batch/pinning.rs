//! Binds jobs to cores. The policy selects the jobs; this module only places them.

use std::collections::HashMap;
use std::fs;
use std::io;

use memweir_core::JobId;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// One core for each running single-core job.
///
/// A job that runs on keeps its core, and a job that returns gets its last one if it is free,
/// because its data may still be in the private caches.
#[derive(Debug)]
pub(super) struct CoreMap {
    cpus: Vec<usize>,
    last: HashMap<JobId, usize>,
}

impl CoreMap {
    pub(super) fn new(cpus: Vec<usize>) -> Self {
        Self { cpus, last: HashMap::new() }
    }

    /// Places `jobs` on different CPUs and returns those whose CPU changed. Jobs for which no CPU
    /// is left stay where they are.
    pub(super) fn place(&mut self, jobs: &[JobId]) -> Vec<(JobId, usize)> {
        let mut free = self.cpus.clone();
        let mut homeless = Vec::new();
        for job in jobs {
            let home = self.last.get(job).and_then(|cpu| free.iter().position(|c| c == cpu));
            match home {
                Some(place) => drop(free.swap_remove(place)),
                None => homeless.push(*job),
            }
        }
        free.sort_unstable();
        let placed: Vec<_> = homeless.into_iter().zip(free).collect();
        self.last.extend(placed.iter().copied());
        placed
    }
}

/// Binds every thread of process `pid` and of its descendants to `cpus`; threads and children
/// created later inherit it. A descendant that was adopted by another process is not found.
pub(super) fn bind_all(pid: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu)?;
    }
    let mut processes = vec![pid];
    while let Some(pid) = processes.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let Some(tid) = thread.file_name().to_str().and_then(|tid| tid.parse().ok()) else {
                continue;
            };
            match sched_setaffinity(Pid::from_raw(tid), &set) {
                // A thread may end, or change its user, at any time.
                Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => {}
                Err(error) => return Err(error.into()),
            }
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            processes.extend(children.split_whitespace().filter_map(|c| c.parse::<i32>().ok()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobId = JobId(0);
    const B: JobId = JobId(1);
    const C: JobId = JobId(2);

    #[test]
    fn jobs_get_cores_of_their_own_and_come_back_to_them() {
        let mut map = CoreMap::new(vec![4, 6]);
        assert_eq!(map.place(&[A, B]), [(A, 4), (B, 6)]);
        // B stays; C gets what A left.
        assert_eq!(map.place(&[C, B]), [(C, 4)]);
        // A finds its core free again, B takes the other.
        assert_eq!(map.place(&[B, A]), []);
    }

    #[test]
    fn a_job_without_a_core_stays_unbound() {
        let mut map = CoreMap::new(vec![0]);
        assert_eq!(map.place(&[A, B]), [(A, 0)]);
        assert_eq!(map.place(&[B]), [(B, 0)]);
    }

    #[test]
    fn threads_and_children_are_bound() {
        let allowed = memweir_linux::topology::allowed_cpus().expect("this process has CPUs");
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
