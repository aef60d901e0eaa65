//! The jobs of a batch and their tasks.

use std::ops::Range;

use crate::experiment::Experiment;

/// Jobs, each of one task or of several that are selected together.
pub(super) struct Jobs {
    /// First task of each job, and the number of all tasks.
    starts: Vec<usize>,
    of_task: Vec<u32>,
}

impl Jobs {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let of_task = match experiment.jobs.is_empty() {
            true => (0..experiment.tasks.len() as u32).collect(),
            false => experiment.jobs.to_vec(),
        };
        let mut starts = vec![0];
        for tasks in of_task.chunk_by(|a, b| a == b) {
            starts.push(starts[starts.len() - 1] + tasks.len());
        }
        Self { starts, of_task }
    }

    /// Returns the number of jobs.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the job of a task.
    pub(super) fn of_task(&self, task: usize) -> usize {
        self.of_task[task] as usize
    }

    /// Returns the tasks of a job.
    pub(super) fn tasks(&self, job: usize) -> Range<usize> {
        self.starts[job]..self.starts[job + 1]
    }
}
