//! `memweir queue` and `memweir status`: the jobs of the daemon, and the daemon itself.

use std::path::PathBuf;

use memweir_core::Nanos;
use memweir_daemon::protocol::{Expected, JobView, Listing, Reply, Request, Sources, Status};
use memweir_daemon::queue::Source;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::{Table, age, counted, padded, rate, seconds, shortened};
use crate::shared::connection::Connection;

/// Jobs beyond which the columns are not fitted to the terminal: fitting takes time with each row.
const MAX_FITTED: usize = 500;

/// Options of `memweir queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    /// List the jobs that have ended, too
    #[arg(long)]
    all: bool,
    /// Write the list as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// Options of `memweir status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Write the status as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// The list as JSON.
#[derive(Serialize)]
struct Listed {
    jobs: Vec<JobView>,
}

/// Lists the jobs.
pub(crate) fn queue(args: &QueueArgs) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let which = if args.all { Listing::All } else { Listing::Unfinished };
    let listed = Listed { jobs: args.connection.open()?.jobs(&Request::Queue { which })? };
    output::report(args.json.as_deref(), &listed, || match listed.jobs.as_slice() {
        [] => "no jobs\n".to_owned(),
        jobs if jobs.len() <= MAX_FITTED => format!("{}\n", fitted(jobs)),
        jobs => jobs.iter().map(line).collect(),
    })?;
    Ok(Outcome::Success)
}

/// Shows the daemon.
pub(crate) fn status(args: &StatusArgs) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let reply = args.connection.open()?.request(&Request::Status {})?;
    let Reply::Status(status) = reply else {
        return Err(Failure::Fault(format!("the daemon replied {reply:?}")));
    };
    output::report(args.json.as_deref(), &*status, || described(&status))?;
    Ok(Outcome::Success)
}

fn fitted(jobs: &[JobView]) -> Table<&JobView> {
    let now = jiff::Timestamp::now().as_millisecond().cast_unsigned();
    let mut table = Table::of(jobs)
        .right("job", |job| job.id)
        .left("name", |job| shortened(&job.name, 24))
        .left("user", |job| &*job.user)
        .right("cores", |job| job.cores)
        .left("state", |job| job.state.name())
        .left("", |job| remark(job, now));
    // An ordinary terminal has no room for empty columns.
    if jobs.iter().any(|job| job.expected.is_some()) {
        let of = |job: &&JobView| job.expected.as_ref().map(expected).unwrap_or_default();
        table = table.left("expected", of);
    }
    if jobs.iter().any(|job| job.bandwidth_limit.is_some()) {
        table = table.right("limit", |job| job.bandwidth_limit.map(rate).unwrap_or_default());
    }
    table.left("command", |job| shortened(&job.command, 40))
}

/// One line of a list that is too long for a table.
fn line(job: &JobView) -> String {
    let reason = job.reason.as_deref().unwrap_or_default();
    let state = job.state.name();
    format!("{:>7}  {}  {state:<9}  {reason}\n", job.id.0, padded(&job.name, 24))
}

/// Says which time and bandwidth are expected of a job, and from where that is known.
fn expected(expected: &Expected) -> String {
    let time = expected.time_ns.map(|time| seconds(Nanos(time).as_secs_f64()));
    let bandwidth = expected.bandwidth.map(rate);
    let figures: Vec<String> = time.into_iter().chain(bandwidth).collect();
    let source = match expected.source {
        Source::Submission => "submitted".to_owned(),
        Source::SubmissionAndStore => "submitted, and from the store".to_owned(),
        Source::Store => "from the store".to_owned(),
        Source::Replaced => "of the replaced program".to_owned(),
        Source::Job(job) => format!("from job {job}"),
    };
    format!("{} ({source})", figures.join(", "))
}

/// Says why a job waits, for how long it runs, or how it ended.
fn remark(job: &JobView, now: u64) -> String {
    let since = |start: u64| age(now.saturating_sub(start) as f64 / 1000.0);
    match (&job.reason, job.exit_code, job.started_ms) {
        (Some(reason), ..) => reason.clone(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, _, Some(start)) if job.blocked => format!("for {}, blocked now", since(start)),
        (_, _, Some(start)) => format!("for {}", since(start)),
        _ => String::new(),
    }
}

fn described(status: &Status) -> String {
    let Status { version, pid, policy, mechanism, cores, admit, busy, .. } = status;
    let meter = status.meter.as_deref().unwrap_or("none");
    let drains = if status.draining { "; the queue drains" } else { "" };
    let mut text = format!(
        "memweir {version}, process {pid}, state in {}\n\
         policy {policy}, meter {meter}, blocking by {mechanism}\n\
         {busy} of {admit} places taken on {}\n\
         {} pending, {} running, {} ended{drains}\n",
        status.state.to_path().display(),
        counted(u64::from(*cores), "core"),
        status.pending,
        status.running,
        status.ended,
    );
    if let Some(profiles) = &status.profiles {
        let Sources { submission, store, job, unknown } = status.expected;
        text.push_str(&format!(
            "expected figures: {submission} submitted, {store} from the profile store, {job} from \
             earlier jobs, {unknown} none; profiles in {}\n",
            profiles.to_path().display(),
        ));
    }
    text.push_str(&format!(
        "up to {} ended jobs are kept, for {} of uptime\n",
        status.keep_jobs,
        counted(status.keep_days, "day"),
    ));
    if let Some(group) = &status.operators {
        text.push_str(&format!("members of the group {group} command all jobs\n"));
    }
    for notice in &status.notices {
        text.push_str(&format!("notice: {notice}\n"));
    }
    text
}
