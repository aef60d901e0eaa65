//! Commands of the jobs of a batch, with the files and variables that they start with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memweir_core::JobId;
use memweir_linux::Launch;
use memweir_linux::launch::LaunchError;

use super::plan::Plan;
use crate::files;
use crate::logs::{JobLogs, Logs};

/// Exit codes that shells give to a program that is not there or cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Reason for which a job was not started, and the exit code that stands for it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) exit_code: i32,
}

impl Failure {
    pub(super) fn new(error: &dyn std::fmt::Display) -> Self {
        Self { reason: error.to_string(), exit_code: NOT_EXECUTABLE }
    }

    pub(super) fn of_launch(error: LaunchError) -> Self {
        let mut failure = Self::new(&error);
        if error.source.kind() == io::ErrorKind::NotFound {
            failure.exit_code = NOT_FOUND;
        }
        if let Some(help) = error.help {
            failure.reason = format!("{} ({help})", failure.reason);
        }
        failure
    }
}

/// Returns the command of a job that starts on `cpu`, or where the plan says; and the file and the
/// error if its output cannot be kept in `directory`.
///
/// # Errors
/// The file of its input cannot be opened.
pub(super) fn launch(
    plan: &Plan<'_>,
    directory: &Logs,
    id: JobId,
    cpu: Option<usize>,
) -> Result<(Launch, Option<(PathBuf, io::Error)>), Failure> {
    let job = &plan.batch.jobs[id.index()];
    let fifo = job.stdin.as_deref().and_then(files::fifo);
    let stdin = job.stdin.as_deref().filter(|_| fifo.is_none()).unwrap_or(Path::new("/dev/null"));
    let stdin = File::open(stdin)
        .map_err(|error| Failure::new(&format_args!("{}: {error}", stdin.display())))?;
    let (logs, trouble) = match directory.open(&job.name) {
        Ok(logs) => (logs, None),
        Err(trouble) => (JobLogs::discard().map_err(|error| Failure::new(&error))?, Some(trouble)),
    };
    let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    env.extend(job.env.clone());
    let launch = Launch {
        program: plan.programs[id.index()].clone(),
        argv: job.command.argv(),
        env,
        directory: job.directory.clone(),
        stdin,
        stdout: logs.stdout,
        stderr: logs.stderr,
        cpus: cpu.map_or_else(|| plan.cpus_of(job), |cpu| vec![cpu]),
        fifo,
        private: None,
    };
    Ok((launch, trouble))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Batch, Command, Job};
    use crate::options::RunOptions;

    /// Makes the command of one job. If `blocked`, a directory is in the way of its log.
    fn launch(job: Job, blocked: bool) -> Result<(Launch, Option<(PathBuf, io::Error)>), Failure> {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = Logs::create(directory.path(), std::path::Path::new("")).expect("made");
        if blocked {
            std::fs::create_dir(logs.stderr_path(&job.name)).expect("made");
        }
        let (batch, options) = (Batch { jobs: vec![job] }, RunOptions::default());
        let plan = Plan::new(&batch, &options).expect("a valid batch");
        super::launch(&plan, &logs, JobId(0), Some(3))
    }

    fn job() -> Job {
        let mut job = Job::new("a".to_owned(), Command::Exec(vec!["true".into(), "x".into()]));
        job.env.insert("PATH_OF_A".into(), "1".into());
        job
    }

    #[test]
    fn a_job_starts_with_its_own_variables_on_its_core() {
        let (launch, trouble) = launch(job(), false).expect("launched");
        assert!(trouble.is_none());
        assert_eq!((launch.argv.len(), launch.cpus), (2, vec![3]));
        assert_eq!(launch.env.get(&OsString::from("PATH_OF_A")), Some(&"1".into()));
        assert!(launch.env.len() > 1, "those of memweir, too");
    }

    #[test]
    fn output_that_cannot_be_kept_does_not_stop_a_job() {
        let (_, trouble) = launch(job(), true).expect("launched");
        assert!(trouble.is_some_and(|(path, _)| path.ends_with("a.err")));
    }

    #[test]
    fn missing_input_stops_a_job_and_is_named() {
        let job = Job { stdin: Some("/nonexistent/input".into()), ..job() };
        let failure = launch(job, false).expect_err("no input");
        assert!(failure.reason.starts_with("/nonexistent/input: "), "{}", failure.reason);
        assert_eq!(failure.exit_code, NOT_EXECUTABLE);
    }
}
