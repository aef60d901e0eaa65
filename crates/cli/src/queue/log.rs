//! `memweir log`: the output of a job.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use memweir_core::JobId;
use memweir_core::input::InputError;
use memweir_daemon::client::Client;
use memweir_daemon::protocol::{JobView, Request, ViewedState};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Reader};
use crate::shared::connection::Connection;

/// Time between two looks at a log that is followed.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// Options of `memweir log`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: u32,
    /// Print new output as it comes, until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Print standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Prints the log.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let mut client = args.connection.open()?;
    let mut job = look(&mut client, JobId(args.id))?;
    if job.attempt == 0 && !args.follow {
        let reason = job.reason.unwrap_or_else(|| "it was canceled".to_owned());
        let refusal = InputError::new("queue", format!("job {} has no log: {reason}", args.id));
        return Err(refusal.into());
    }
    let mut log = Log { path: path(args, &job), attempt: job.attempt, read: 0 };
    let mut reader = Reader::There;
    loop {
        // The state of before the copy: what the job writes until its end is copied.
        let goes_on = args.follow && !job.state.is_over();
        log.begin(job.attempt);
        if job.state != ViewedState::Pending || job.attempt > 0 {
            reader = log.copy()?;
        }
        if !goes_on || reader == Reader::Gone {
            return Ok(Outcome::Success);
        }
        std::thread::sleep(LOOK);
        job = look(&mut client, JobId(args.id))?;
    }
}

fn look(client: &mut Client, id: JobId) -> Result<JobView, Failure> {
    let jobs = client.jobs(&Request::Jobs { ids: vec![(id, id)] })?;
    let found = jobs.into_iter().next();
    found.ok_or_else(|| Failure::Fault("the daemon returned no job".to_owned()))
}

fn path(args: &Args, job: &JobView) -> PathBuf {
    if args.stderr { job.stderr.to_path() } else { job.stdout.to_path() }
}

/// A log that is printed.
struct Log {
    path: PathBuf,
    attempt: u32,
    /// Bytes that were printed of this attempt.
    read: u64,
}

impl Log {
    /// Starts anew where the job did.
    fn begin(&mut self, attempt: u32) {
        if attempt != self.attempt {
            (self.attempt, self.read) = (attempt, 0);
        }
    }

    /// Prints what is new. A file that is not there yet has nothing in it.
    fn copy(&mut self) -> Result<Reader, Failure> {
        let unreadable = |error| Failure::Machine(format!("{}: {error}", self.path.display()));
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reader::There),
            file => file.map_err(unreadable)?,
        };
        file.seek(SeekFrom::Start(self.read)).map_err(unreadable)?;
        let mut piece = vec![0; PIECE];
        loop {
            let size = file.read(&mut piece).map_err(unreadable)?;
            if size == 0 {
                return Ok(Reader::There);
            }
            if output::show(&piece[..size])? == Reader::Gone {
                return Ok(Reader::Gone);
            }
            self.read += size as u64;
        }
    }
}
