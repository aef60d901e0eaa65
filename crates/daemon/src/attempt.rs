//! The files of a job's attempts: how the daemon and the supervisor of a job tell each other what
//! happened, across the death of either.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `runs/ID.N.order` | the daemon | command, environment and user of attempt N |
//! | `runs/ID.N.claim` | supervisor or successor | the first to make it decides whether N begins |
//! | `runs/ID.N.begin` | the supervisor | the job's files as they were before a first run |
//! | `runs/ID.N.exit` | the supervisor | the end of attempt N |
//! | `logs/ID.out`, `logs/ID.err` | the job | its output in the last attempt |
//!
//! A claim is a hard link to a finished file, so it exists whole or not at all, and only one can
//! be made. Claims and ends are on disk before anything follows from them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use memweir_core::{Bytes, JobId};
use memweir_linux::foreign::ProcessName;
use memweir_linux::journal::with_ending;
use memweir_linux::peer::Credentials;
use memweir_linux::private;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::profiles::Begin;
use crate::protocol::Work;
use crate::queue::{End, Loss};

/// Largest of these files: an order holds a request, in which text may have been escaped.
const MAX_FILE: Bytes = Bytes(64 << 20);

/// Files whose room is taken before they are written.
const CLAIM_DRAFT: &str = "claim-draft";
const EXIT_DRAFT: &str = "exit-draft";

/// Exit code of what SIGKILL ended.
const KILLED: i32 = 128 + 9;

/// Room for a claim or an end, in bytes; both are shorter.
const ROOM: usize = 256;

/// The directories of all attempts.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    runs: PathBuf,
    logs: PathBuf,
}

/// One start of a job.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Path of its files without their endings.
    base: PathBuf,
}

/// The command of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Command and surroundings.
    pub(crate) work: Work,
    /// User to become; absent if that is the daemon's.
    pub(crate) user: Option<Credentials>,
    /// True for the first run of a program.
    pub(crate) is_first_run: bool,
}

/// The decision about an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Claim {
    /// This supervisor runs it.
    Begun(ProcessName),
    /// It never begins.
    Revoked,
}

/// End of an attempt as its supervisor saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exit {
    /// Exit code of the job, or 128 plus the signal that ended it.
    pub(crate) code: i32,
    /// True if the kernel killed processes for want of memory meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) short_of_memory: bool,
    /// True if the machine had no room for the job's process, which never was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) refused: bool,
}

impl Exit {
    /// Returns the end of the job; `None` if it never began.
    pub(crate) fn end(self) -> Option<End> {
        match self.code {
            _ if self.refused => None,
            // Its shell says so, too, if the process was a child of one.
            KILLED if self.short_of_memory => Some(End::OutOfMemory),
            code => Some(End::Exited(code)),
        }
    }
}

impl Attempts {
    /// The directories below a state directory.
    pub(crate) fn new(state: &Path) -> Self {
        Self { runs: state.join("runs"), logs: state.join("logs") }
    }

    /// Makes the directories. Users reach their logs through that of a daemon of root.
    pub(crate) fn create(&self) -> io::Result<()> {
        for (directory, mode) in [(&self.runs, 0o700), (&self.logs, 0o711)] {
            DirBuilder::new().recursive(true).mode(mode).create(directory)?;
        }
        Ok(())
    }

    /// An attempt of a job.
    pub(crate) fn of(&self, job: JobId, attempt: u32) -> Attempt {
        Attempt { base: self.runs.join(format!("{job}.{attempt}")) }
    }

    /// File of a job's standard output.
    pub(crate) fn stdout(&self, job: JobId) -> PathBuf {
        self.logs.join(format!("{job}.out"))
    }

    /// File of a job's standard error.
    pub(crate) fn stderr(&self, job: JobId) -> PathBuf {
        self.logs.join(format!("{job}.err"))
    }

    /// Removes all files of a job and of its attempts up to this number.
    pub(crate) fn remove_all(&self, job: JobId, attempts: u32) {
        let _ = fs::remove_file(self.stdout(job));
        let _ = fs::remove_file(self.stderr(job));
        (1..=attempts).for_each(|attempt| self.of(job, attempt).remove());
    }

    /// Returns all files of jobs, each with its job.
    pub(crate) fn files(&self) -> Vec<(JobId, PathBuf)> {
        let of_job = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let (number, _) = name.to_str()?.split_once('.')?;
            Some((JobId(number.parse().ok()?), entry.path()))
        };
        let entries = [&self.runs, &self.logs].into_iter().flat_map(fs::read_dir);
        entries.flatten().flatten().filter_map(of_job).collect()
    }

    /// Opens both log files of a job, empty, for its user alone.
    pub(crate) fn open_logs(&self, job: JobId, user: Credentials) -> io::Result<(File, File)> {
        let open = |path: PathBuf| {
            // A file of an earlier attempt may belong to the job's user, who may have linked it
            // elsewhere. Its name is the daemon's.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = private::create(&path)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            if Credentials::of_this_process().is_root() {
                fchown(&file, Some(user.user), Some(user.group))?;
            }
            Ok(file)
        };
        Ok((open(self.stdout(job))?, open(self.stderr(job))?))
    }
}

impl Attempt {
    /// The attempt whose files begin with this path.
    pub(crate) fn at(base: PathBuf) -> Self {
        Self { base }
    }

    /// The path with which its files begin.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    fn file(&self, ending: &str) -> PathBuf {
        with_ending(&self.base, &format!(".{ending}"))
    }

    /// Writes the order, and takes room for what its supervisor will write: a disk that is full
    /// later costs no exit code. Neither need survive a crash of the machine: the attempt would not
    /// either.
    pub(crate) fn order(&self, order: &Order) -> io::Result<()> {
        self.write("order", &serde_json::to_vec(order)?)?;
        [CLAIM_DRAFT, EXIT_DRAFT].iter().try_for_each(|draft| self.write(draft, &[b' '; ROOM]))
    }

    fn write(&self, ending: &str, contents: &[u8]) -> io::Result<()> {
        fs::write(self.file(ending), contents)?;
        fs::set_permissions(self.file(ending), Permissions::from_mode(0o600))
    }

    /// Reads the order.
    pub(crate) fn read_order(&self) -> io::Result<Order> {
        read(&self.file("order"))
    }

    /// Makes the claim, unless there is one. Returns the one that there is then.
    pub(crate) fn claim(&self, claim: &Claim) -> io::Result<Claim> {
        let path = self.file("claim");
        let draft = match claim {
            // Of a supervisor there is one, of daemons that revoke there may be several in turn.
            Claim::Begun(_) => self.file(CLAIM_DRAFT),
            Claim::Revoked => self.file(&format!("claim-{}", std::process::id())),
        };
        let made = write_durably(&draft, claim).and_then(|()| fs::hard_link(&draft, &path));
        let _ = fs::remove_file(&draft);
        match made {
            Ok(()) => sync_directory(&path)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        read(&path)
    }

    /// Reads the claim, if there is one.
    pub(crate) fn read_claim(&self) -> io::Result<Option<Claim>> {
        read_if_there(&self.file("claim"))
    }

    /// Writes the beginning of a first run.
    pub(crate) fn begin(&self, begin: &Begin) -> io::Result<()> {
        self.write("begin", &serde_json::to_vec(begin)?)
    }

    /// Reads the beginning of a first run.
    pub(crate) fn read_begin(&self) -> io::Result<Begin> {
        read(&self.file("begin"))
    }

    /// Writes the end.
    pub(crate) fn end(&self, exit: Exit) -> io::Result<()> {
        let (path, draft) = (self.file("exit"), self.file(EXIT_DRAFT));
        write_durably(&draft, &exit)?;
        fs::rename(&draft, &path)?;
        sync_directory(&path)
    }

    /// Reads the end, if there is one.
    pub(crate) fn read_end(&self) -> io::Result<Option<Exit>> {
        read_if_there(&self.file("exit"))
    }

    /// Returns the end of the job once its supervisor has ended; `None` if the job never began.
    pub(crate) fn outcome(&self) -> io::Result<Option<End>> {
        if let Some(exit) = self.read_end()? {
            return Ok(exit.end());
        }
        let began = matches!(self.read_claim()?, Some(Claim::Begun(_)));
        Ok(began.then_some(End::Lost(Loss::Supervisor)))
    }

    /// Removes the files. Those that stay take room and do no harm: no attempt has their number.
    pub(crate) fn remove(&self) {
        for ending in ["order", "begin", EXIT_DRAFT, "exit", CLAIM_DRAFT, "claim"] {
            let _ = fs::remove_file(self.file(ending));
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&private::read(path, MAX_FILE)?)?)
}

fn read_if_there<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a value over the room that was taken for it, if it was. The blanks behind it are part of
/// the JSON.
fn write_durably(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.resize(text.len().max(ROOM), b' ');
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all(&text)?;
    file.sync_all()
}

fn sync_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts() -> (tempfile::TempDir, Attempts) {
        let directory = tempfile::tempdir().unwrap();
        let attempts = Attempts::new(directory.path());
        attempts.create().unwrap();
        (directory, attempts)
    }

    #[test]
    fn of_two_claims_the_first_counts() {
        let (_directory, attempts) = attempts();
        let attempt = attempts.of(JobId(3), 1);
        let begun = Claim::Begun(ProcessName::of_this_process().unwrap());
        assert_eq!(attempt.claim(&begun).unwrap(), begun);
        assert_eq!(attempt.claim(&Claim::Revoked).unwrap(), begun);
        let next = attempts.of(JobId(3), 2);
        assert_eq!(next.claim(&Claim::Revoked).unwrap(), Claim::Revoked);
        assert_eq!(next.claim(&begun).unwrap(), Claim::Revoked);
    }

    #[test]
    fn an_end_is_absent_or_whole_and_removal_takes_everything() {
        let (directory, attempts) = attempts();
        let attempt = attempts.of(JobId(3), 1);
        assert_eq!(attempt.read_end().unwrap(), None);
        let exit = Exit { code: 7, short_of_memory: false, refused: false };
        attempt.end(exit).unwrap();
        assert_eq!(attempt.read_end().unwrap(), Some(exit));
        attempt.claim(&Claim::Revoked).unwrap();
        attempt.remove();
        assert_eq!(fs::read_dir(directory.path().join("runs")).unwrap().count(), 0);
    }

    #[test]
    fn a_supervisor_that_ends_without_a_claim_has_begun_nothing() {
        let (_directory, attempts) = attempts();
        let attempt = attempts.of(JobId(3), 1);
        assert_eq!(attempt.outcome().unwrap(), None);
        attempt.claim(&Claim::Begun(ProcessName::of_this_process().unwrap())).unwrap();
        assert_eq!(attempt.outcome().unwrap(), Some(End::Lost(Loss::Supervisor)));
        attempt.end(Exit { code: 7, short_of_memory: false, refused: false }).unwrap();
        assert_eq!(attempt.outcome().unwrap(), Some(End::Exited(7)));
    }

    #[test]
    fn only_what_was_killed_can_have_been_killed_for_want_of_memory() {
        let end = |code, short_of_memory| Exit { code, short_of_memory, refused: false }.end();
        assert_eq!(end(137, true), Some(End::OutOfMemory));
        assert_eq!(end(137, false), Some(End::Exited(137)));
        assert_eq!(end(1, true), Some(End::Exited(1)));
        // As an earlier memweir wrote it.
        assert_eq!(serde_json::from_str::<Exit>(r#"{"code":137}"#).unwrap().end(), end(137, false));
    }

    #[test]
    fn a_job_takes_the_files_of_all_its_attempts_with_it() {
        let (directory, attempts) = attempts();
        attempts.open_logs(JobId(3), Credentials::of_this_process()).unwrap();
        for number in 1..=3 {
            attempts.of(JobId(3), number).claim(&Claim::Revoked).unwrap();
        }
        attempts.remove_all(JobId(3), 3);
        for files in ["runs", "logs"] {
            assert_eq!(fs::read_dir(directory.path().join(files)).unwrap().count(), 0, "{files}");
        }
    }

    #[test]
    fn logs_are_those_of_the_user_of_the_job_alone() {
        use std::os::unix::fs::MetadataExt;

        let (_directory, attempts) = attempts();
        let me = Credentials::of_this_process();
        let ann = Credentials { user: 4_000_001, group: 4_000_002 };
        let user = if me.is_root() { ann } else { me };
        let (stdout, stderr) = attempts.open_logs(JobId(1), user).unwrap();
        for log in [stdout, stderr] {
            let found = log.metadata().unwrap();
            let owner = Credentials { user: found.uid(), group: found.gid() };
            assert_eq!((owner, found.mode() & 0o777), (user, 0o600));
        }
    }

    #[test]
    fn logs_start_empty_and_leave_links_alone() {
        let (directory, attempts) = attempts();
        let me = Credentials::of_this_process();
        let precious = directory.path().join("precious");
        fs::write(&precious, "content").unwrap();
        std::os::unix::fs::symlink(&precious, attempts.stdout(JobId(1))).unwrap();
        let (mut stdout, _) = attempts.open_logs(JobId(1), me).unwrap();
        stdout.write_all(b"new").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"content");
        assert_eq!(fs::read(attempts.stdout(JobId(1))).unwrap(), b"new");
    }
}
