//! Cores for jobs. The policy selects the jobs; this module only places them.

use std::collections::HashMap;

use memweir_core::JobId;

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

    /// Returns the core that a job was last placed on.
    pub(super) fn of(&self, job: JobId) -> Option<usize> {
        self.last.get(&job).copied()
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
        assert_eq!(map.of(C), Some(4), "for the time when it is free again");
    }

    #[test]
    fn a_job_without_a_core_stays_unbound() {
        let mut map = CoreMap::new(vec![0]);
        assert_eq!(map.place(&[A, B]), [(A, 0)]);
        assert_eq!(map.place(&[B]), [(B, 0)]);
    }
}
