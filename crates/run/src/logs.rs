//! Files for the output of the jobs. The jobs write them themselves; memweir only opens them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use memweir_linux::private;

/// The directory of one run's logs.
#[derive(Debug)]
pub struct Logs {
    directory: PathBuf,
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
    /// A directory cannot be made, is a link that another user made, which could lead anywhere, or
    /// has the logs of a run that is not over; with the path of that directory. The parents of
    /// `logs` are the user's choice.
    pub fn create(logs: &Path, part: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let mut directory = logs.to_owned();
        for name in iter::once(None).chain(part.iter().map(Some)) {
            directory.extend(name);
            private::no_foreign_link(&directory).map_err(|error| (directory.clone(), error))?;
        }
        let made = fs::create_dir_all(&directory).and_then(|()| {
            let _locked = locked(logs)?;
            // Reports name the files; their reader may be in another directory.
            Ok(Self { directory: fs::canonicalize(&directory)?, _locked })
        });
        made.map_err(|error| (directory, error))
    }

    /// The file for the standard output of the job called `name`.
    #[must_use]
    pub fn stdout_path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.out"))
    }

    /// The file for the standard error of the job called `name`.
    #[must_use]
    pub fn stderr_path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.err"))
    }

    /// Opens both files of a job, replacing what an earlier run left in them. They are in append
    /// mode: a job and its children write without overwriting each other.
    ///
    /// # Errors
    /// As [`private::create`].
    pub fn open(&self, name: &str) -> io::Result<JobLogs> {
        let open = |path: PathBuf| private::create(&path);
        Ok(JobLogs { stdout: open(self.stdout_path(name))?, stderr: open(self.stderr_path(name))? })
    }
}

/// Opens and locks a directory; where it cannot be locked, as on some network file systems, it is
/// only opened.
fn locked(directory: &Path) -> io::Result<File> {
    let directory = File::open(directory)?;
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
            let error = logs.open(name).expect_err("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(fs::read(&precious).expect("a file"), b"content");
    }

    #[test]
    fn a_directory_that_is_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Logs::create(file.path(), Path::new("")).is_err());
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
