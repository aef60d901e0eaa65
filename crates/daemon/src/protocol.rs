//! The language between clients and the daemon: JSON lines over a Unix socket.
//!
//! A client sends [requests](Request) and gets one [reply](Reply) to each, in order. Every line
//! carries the version of the language; the daemon refuses other versions than its own. A request
//! is at most [`MAX_LINE`] bytes long. Reading and writing sockets is not here.

use memweir_core::JobId;
pub use memweir_run::text::Text;
use serde::{Deserialize, Serialize};

use crate::queue::Source;

/// Version of the language.
pub const VERSION: u32 = 1;

/// Most bytes in the line of a request.
pub const MAX_LINE: usize = 1 << 20;

/// Most jobs in one array.
pub const MAX_ARRAY: u32 = 100_000;

/// Most pairs of a job of a submission and a job that it waits for. Each is kept, on disk and in
/// memory, and the front of the queue is found by looking at them.
pub const MAX_WAITS: usize = 1_000_000;

/// Longest time for which the daemon holds back the reply to a [`Request::Wait`].
pub const MAX_WAIT_MS: u64 = 10_000;

/// Most characters of a job's name.
pub const MAX_NAME: usize = 200;

/// Longest time from one request of a connection to the end of the next, in milliseconds. The
/// daemon closes a connection after that.
pub const MAX_IDLE_MS: u64 = 30_000;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Request {
    /// Adds a job, or an array of jobs.
    Submit(Box<Submission>),
    /// Asks for all jobs.
    Queue {
        /// The jobs to list.
        which: Listing,
    },
    /// Asks for some jobs.
    Jobs {
        /// The jobs.
        ids: Ids,
    },
    /// Asks for some jobs once they have ended, or some time has passed.
    Wait {
        /// The jobs.
        ids: Ids,
        /// Longest wait in milliseconds, at most [`MAX_WAIT_MS`].
        timeout_ms: u64,
    },
    /// Keeps pending jobs from starting.
    Hold {
        /// The jobs.
        ids: Ids,
    },
    /// Lets held jobs start.
    Release {
        /// The jobs.
        ids: Ids,
    },
    /// Ends jobs.
    Cancel {
        /// The jobs.
        ids: Ids,
    },
    /// Runs ended jobs again.
    Requeue {
        /// The jobs.
        ids: Ids,
    },
    /// Lets no further job start, or lets them start again.
    Drain {
        /// Start or end of draining.
        drain: Drain,
    },
    /// Asks how the daemon fares.
    Status {},
    /// Asks for the last quanta. The daemon keeps some while it is asked for them.
    Activity {
        /// Number of the first quantum of interest.
        from: u64,
    },
}

/// Jobs to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listing {
    /// Those that have not ended.
    Unfinished,
    /// All of them.
    All,
}

/// Start or end of draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// No further job starts.
    Begin,
    /// Jobs start again.
    End,
}

/// Ranges of job numbers, both ends included.
pub type Ids = Vec<(JobId, JobId)>;

/// A job to add.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Name for people; the program's if absent.
    pub name: Option<String>,
    /// Cores that it occupies.
    pub cores: u32,
    /// Higher ones start first.
    pub priority: i32,
    /// Jobs that must have succeeded before; of an array, before each of its jobs, and the two
    /// numbers multiplied are at most [`MAX_WAITS`].
    pub after: Ids,
    /// State in which it is added.
    pub initial: Initial,
    /// Indices of an array of jobs.
    pub array: Option<Array>,
    /// Estimated execution time alone, in nanoseconds.
    pub expected_time_ns: Option<u64>,
    /// Estimated mean bandwidth alone, in bytes per second.
    pub expected_bandwidth: Option<f64>,
    /// Limit of its bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit: Option<f64>,
    /// The command and its surroundings.
    pub work: Work,
}

/// State in which a job is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// It may start.
    Ready,
    /// It is held by its submitter.
    Held,
}

/// Indices of an array of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// First index.
    pub first: u32,
    /// Last index.
    pub last: u32,
    /// Jobs that may run at the same time; any number if absent.
    pub limit: Option<u32>,
}

/// A command and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The program's file, as an absolute path.
    pub program: Text,
    /// Arguments, `argv[0]` included.
    pub argv: Vec<Text>,
    /// Working directory, as an absolute path.
    pub directory: Text,
    /// The whole environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(Text, Text)>,
}

impl Work {
    /// Returns everything but the environment, as JSON.
    pub(crate) fn without_environment(&self) -> String {
        let bare = Self { environment: Vec::new(), ..self.clone() };
        serde_json::to_string(&bare).unwrap_or_default()
    }

    /// Reads the JSON of both parts.
    pub(crate) fn of_texts(work: &str, environment: &str) -> Option<Self> {
        let work: Self = serde_json::from_str(work).ok()?;
        Some(Self { environment: serde_json::from_str(environment).ok()?, ..work })
    }
}

/// A job as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Name of its user.
    pub user: String,
    /// `pending`, `running`, `succeeded`, `failed`, `canceled` or `lost`.
    pub state: ViewedState,
    /// The reason for which it waits, was killed, or for which nobody saw its end, as a clause for
    /// people.
    pub reason: Option<String>,
    /// Exit code of a job that has ended.
    pub exit_code: Option<i32>,
    /// True if it runs and is blocked now in favor of others.
    pub blocked: bool,
    /// Cores that it occupies.
    pub cores: u32,
    /// Its priority.
    pub priority: i32,
    /// First job of its array, and its index there.
    pub array: Option<(JobId, u32)>,
    /// Jobs that must have succeeded before.
    pub after: Vec<JobId>,
    /// Number of its starts.
    pub attempt: u32,
    /// Its command as one line.
    pub command: String,
    /// Times in milliseconds since 1970.
    pub submitted_ms: u64,
    /// Time of its last start.
    pub started_ms: Option<u64>,
    /// Time of its end.
    pub ended_ms: Option<u64>,
    /// File of its standard output.
    pub stdout: Text,
    /// File of its standard error.
    pub stderr: Text,
    /// Its time and bandwidth alone, as far as they are known before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Limit of its bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_limit: Option<f64>,
}

/// Time and bandwidth that are expected of a job alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Execution time in nanoseconds.
    pub time_ns: Option<u64>,
    /// Mean bandwidth in bytes per second.
    pub bandwidth: Option<f64>,
    /// Source of both: `source`, and `job` where it is one.
    #[serde(flatten)]
    pub source: Source,
    /// Key of the command in the profile store, where the source is the store or a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Numbers of unfinished jobs by the source of their expected time and bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// The submission, in part or whole.
    pub submission: usize,
    /// The profile store.
    pub store: usize,
    /// The first run of the same command, as another job of this queue.
    pub job: usize,
    /// None.
    pub unknown: usize,
}

/// State of a job as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViewedState {
    /// It waits for its start.
    Pending,
    /// It runs, or is blocked in favor of others.
    Running,
    /// It ended with exit code 0.
    Succeeded,
    /// It ended with another exit code.
    Failed,
    /// A user canceled it.
    Canceled,
    /// Its end was not seen.
    Lost,
}

memweir_core::named! {
    pub ViewedState, "state":
    Pending = "pending",
    Running = "running",
    Succeeded = "succeeded",
    Failed = "failed",
    Canceled = "canceled",
    Lost = "lost",
}

impl ViewedState {
    /// Returns true for a job that is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// State of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of memweir.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Its state directory.
    pub state: Text,
    /// Policy that selects the jobs of each quantum.
    pub policy: String,
    /// Meter that counts their traffic, if there is one.
    pub meter: Option<String>,
    /// Mechanism that blocks them.
    pub mechanism: String,
    /// Cores that jobs may occupy at the same time.
    pub cores: u32,
    /// Cores' worth of jobs that are started and take turns.
    pub admit: u32,
    /// Cores' worth of jobs that have started.
    pub busy: u32,
    /// True while no job may start.
    pub draining: bool,
    /// Pending jobs.
    pub pending: usize,
    /// Running jobs.
    pub running: usize,
    /// Jobs that have ended.
    pub ended: usize,
    /// Ended jobs that are kept.
    #[serde(default)]
    pub keep_jobs: usize,
    /// Days of the machine's uptime for which they are kept.
    #[serde(default)]
    pub keep_days: u64,
    /// Messages of the daemon for people, the latest last.
    pub notices: Vec<String>,
    /// The profile store, if one can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Text>,
    /// Unfinished jobs by the source of what is expected of them.
    #[serde(default)]
    pub expected: Sources,
    /// Highest bandwidth that the machine sustains in bytes per second, if it is calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    /// The group whose members command all jobs, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<String>,
}

/// Most quanta that the daemon keeps for those who watch it.
pub const MAX_QUANTA: usize = 128;

/// One quantum that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantumView {
    /// Its number since the start of the daemon.
    pub number: u64,
    /// Its length in nanoseconds.
    pub span_ns: u64,
    /// Bandwidth of all jobs together in bytes per second; absent if nothing was counted.
    pub bandwidth: Option<f64>,
    /// Bandwidth that the policy aims at.
    pub target: Option<f64>,
    /// The jobs that ran in it or were blocked.
    pub jobs: Vec<JobActivity>,
}

/// One job in a quantum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobActivity {
    /// The job.
    pub id: JobId,
    /// True if it occupied a core.
    pub chosen: bool,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Its bandwidth in bytes per second; absent if nothing was counted.
    pub bandwidth: Option<f64>,
    /// Reason for its selection, if the policy gives one.
    pub reason: Option<String>,
}

/// A reply of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Jobs were added: the first and the last.
    Submitted {
        /// First job.
        first: JobId,
        /// Last job; the same unless it is an array.
        last: JobId,
    },
    /// The jobs.
    Jobs(Vec<JobView>),
    /// State of the daemon.
    Status(Box<Status>),
    /// The last quanta, the oldest first.
    Activity(Vec<QuantumView>),
    /// The request was carried out.
    Done {},
    /// The request was refused; nothing has changed.
    Refused(Refusal),
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Kind of the reason, for programs.
    pub kind: RefusalKind,
    /// The reason, as a sentence for people.
    pub message: String,
}

/// Kind of the reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The line is no request.
    Malformed,
    /// The request is of another version of the language.
    Version,
    /// A value of the request is out of its range.
    Value,
    /// There is no such job.
    NoSuchJob,
    /// The job, or the daemon, is not the client's to command.
    NotYours,
    /// The state of the job does not fit the request.
    WrongState,
    /// The daemon is at a limit; the client may try again.
    Busy,
    /// The state of the daemon cannot be written.
    Storage,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// A line with the version of the language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<T> {
    version: u32,
    #[serde(rename = "memweir")]
    content: T,
}

/// The part of a line that every version of the language has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Parses the line of a request.
///
/// # Errors
/// If it is too long, of another version, or no request.
pub fn parse_request(line: &[u8]) -> Result<Request, Refusal> {
    if line.len() > MAX_LINE {
        return Err(too_long());
    }
    let malformed = |error: serde_json::Error| {
        Refusal::new(RefusalKind::Malformed, format!("the line is no request: {error}"))
    };
    let Versioned { version } = serde_json::from_slice(line).map_err(malformed)?;
    if version != VERSION {
        let message = format!("the daemon speaks version {VERSION}, and the request is {version}");
        return Err(Refusal::new(RefusalKind::Version, message));
    }
    let line: Line<Request> = serde_json::from_slice(line).map_err(malformed)?;
    Ok(line.content)
}

/// Returns the refusal of a line that is too long.
pub(crate) fn too_long() -> Refusal {
    Refusal::new(RefusalKind::Malformed, format!("a request has at most {MAX_LINE} bytes"))
}

/// Writes a request as a line.
#[must_use]
pub fn write_request(request: &Request) -> Vec<u8> {
    line(request)
}

/// Writes a reply as a line.
#[must_use]
pub fn write_reply(reply: &Reply) -> Vec<u8> {
    line(reply)
}

/// Parses the line of a reply.
///
/// # Errors
/// If it is no reply of this version.
pub fn parse_reply(line: &[u8]) -> serde_json::Result<Reply> {
    serde_json::from_slice(line).map(|line: Line<Reply>| line.content)
}

fn line<T: Serialize>(content: T) -> Vec<u8> {
    let line = Line { version: VERSION, content };
    let mut text = serde_json::to_vec(&line).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests;
