//! Files for the output of the jobs. The jobs write them themselves; memweir only opens them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use memweir_linux::private;

/// The directory of one run's logs.
#[derive(Debug)]
pub struct Logs {
    /// For readers of the reports, who may be in another directory.
    path: PathBuf,
    /// The files are opened in it, wherever another user lets its path lead by then.
    directory: File,
    /// Locked, so that no other run empties the files meanwhile.
    _locked: File,
}

/// Log files of one job.
#[derive(Debug)]
pub struct JobLogs {
    /// Standard output.
    pub stdout: File,
    /// Standard error.
    pub stderr: File,
}

impl Logs {
    /// Logs in the directory `part` of `logs`; both are made if they do not exist.
    ///
    /// # Errors
    /// A directory cannot be made, is a link that another user made, which could lead anywhere,
    /// takes no files, or has the logs of a run that is not over; with the path of that directory.
    /// The parents of `logs` are the user's choice.
    pub fn create(logs: &Path, part: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let named = |path: &Path, error| (path.to_owned(), error);
        if let Some(parent) = logs.parent() {
            fs::create_dir_all(parent).map_err(|error| named(logs, error))?;
        }
        let mut directory = private::directory(logs).map_err(|error| named(logs, error))?;
        let locked = lock(&directory).map_err(|error| named(logs, error))?;
        let mut path = logs.to_owned();
        for name in part {
            path.push(name);
            directory = private::directory(&private::lasting_path(&directory).join(name))
                .map_err(|error| named(&path, error))?;
        }
        // Otherwise every job would run, and its output would be discarded.
        let lasting = private::lasting_path(&directory);
        tempfile::tempfile_in(&lasting).map_err(|error| (path.clone(), error))?;
        let path = fs::read_link(lasting).map_err(|error| (path, error))?;
        Ok(Self { path, directory, _locked: locked })
    }

    /// The file for the standard output of the job called `name`.
    #[must_use]
    pub fn stdout_path(&self, name: &str) -> PathBuf {
        self.path.join(output(name))
    }

    /// The file for the standard error of the job called `name`.
    #[must_use]
    pub fn stderr_path(&self, name: &str) -> PathBuf {
        self.path.join(errors(name))
    }

    /// Opens both files of a job, replacing what an earlier run left in them. They are in append
    /// mode: a job and its children write without overwriting each other.
    ///
    /// # Errors
    /// As [`private::create`], with the path of the file.
    pub fn open(&self, name: &str) -> Result<JobLogs, (PathBuf, io::Error)> {
        let directory = private::lasting_path(&self.directory);
        let open = |file: String| {
            private::create(&directory.join(&file)).map_err(|error| (self.path.join(file), error))
        };
        Ok(JobLogs { stdout: open(output(name))?, stderr: open(errors(name))? })
    }
}

fn output(job: &str) -> String {
    format!("{job}.out")
}

fn errors(job: &str) -> String {
    format!("{job}.err")
}

/// Locks a directory, where that can be: some network file systems have no locks.
fn lock(directory: &File) -> io::Result<File> {
    let directory = directory.try_clone()?;
    match directory.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another run has its logs there; name another directory with --logs",
        )),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(directory),
    }
}

impl JobLogs {
    /// Discards the output.
    pub fn discard() -> io::Result<Self> {
        let open = || OpenOptions::new().write(true).open("/dev/null");
        Ok(Self { stdout: open()?, stderr: open()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_second_run_starts_with_empty_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = Logs::create(&directory.path().join("a"), Path::new("b/c")).expect("made");
        logs.open("job").expect("opens").stdout.write_all(b"first").expect("space");
        let mut second = logs.open("job").expect("opens");
        second.stdout.write_all(b"2").expect("space");
        second.stderr.write_all(b"e").expect("space");
        assert_eq!(fs::read(logs.stdout_path("job")).expect("a file"), b"2");
        assert_eq!(fs::read(logs.stderr_path("job")).expect("a file"), b"e");
    }

    #[test]
    fn two_runs_at_a_time_have_no_logs_in_common() {
        let directory = tempfile::tempdir().expect("a directory");
        let create = |part| Logs::create(directory.path(), Path::new(part));
        let first = create("round-1/os").expect("made");
        let (_, error) = create("").expect_err("refused");
        assert!(error.to_string().contains("--logs"), "{error}");
        drop(first);
        create("round-2/os").expect("the first run is over");
    }

    #[test]
    fn what_lies_in_the_way_of_a_log_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = Logs::create(directory.path(), Path::new("")).expect("made");
        let precious = directory.path().join("precious");
        fs::write(&precious, "content").expect("space");
        std::os::unix::fs::symlink(&precious, logs.stdout_path("link")).expect("a link");
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&logs.stderr_path("fifo"), mode).expect("a FIFO");
        for (name, reason) in [("link", "symbolic link"), ("fifo", "not a regular file")] {
            let error = logs.open(name).expect_err("refused").1.to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(fs::read(&precious).expect("a file"), b"content");
    }

    #[test]
    fn files_are_opened_where_the_directory_was_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("logs");
        let logs = Logs::create(&path, Path::new("round-1")).expect("made");
        let moved = directory.path().join("moved");
        fs::rename(&path, &moved).expect("a name");
        fs::create_dir_all(directory.path().join("elsewhere/round-1")).expect("a directory");
        std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
        logs.open("job").expect("opens");
        assert!(moved.join("round-1/job.out").exists());
        assert!(!logs.stdout_path("job").exists());
    }

    #[test]
    fn a_directory_that_is_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Logs::create(file.path(), Path::new("")).is_err());
    }

    #[test]
    fn a_directory_that_takes_no_files_is_refused() {
        // Not even root can make one there.
        let (path, _) = Logs::create(Path::new("/proc/sys"), Path::new("")).expect_err("refused");
        assert_eq!(path, Path::new("/proc/sys"));
    }

    #[test]
    fn no_directory_of_the_logs_is_a_link_of_another_user() {
        if !nix::unistd::geteuid().is_root() {
            return memweir_test_support::skip!(Privilege, "links of another user need root");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let (logs, elsewhere) = (directory.path().join("logs"), directory.path().join("elsewhere"));
        let foreign = |path: &Path| memweir_test_support::foreign_link(&elsewhere, path);
        let refused = |link: &Path| {
            let (path, error) = Logs::create(&logs, Path::new("round-1/os")).expect_err("refused");
            assert_eq!(path, link);
            assert!(error.to_string().contains("symbolic link"), "{error}");
            assert!(!elsewhere.exists());
        };
        foreign(&logs);
        refused(&logs);
        fs::remove_file(&logs).expect("the link");
        fs::create_dir(&logs).expect("a directory");
        foreign(&logs.join("round-1"));
        refused(&logs.join("round-1"));
        // The user's own links lead where the user wants.
        let own = directory.path().join("own");
        std::os::unix::fs::symlink(directory.path(), &own).expect("a link");
        Logs::create(&own, Path::new("part")).expect("made");
    }
}
