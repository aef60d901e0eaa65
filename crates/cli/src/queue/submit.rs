//! `memweir submit`: gives the daemon a job.

use std::ffi::OsString;

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_daemon::protocol::{Array, Initial, Reply, Request, Submission, Text, Work};
use memweir_run::options;

use super::{WAIT_EXIT_CODES, ending, ids};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::shared::connection::Connection;
use crate::value::{bandwidth, bandwidth_limit, expected_time};

/// Options of `memweir submit`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = WAIT_EXIT_CODES)]
pub(crate) struct Args {
    /// The command of the job; it runs in this directory and environment
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Name of the job [default: that of the program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Cores that the job occupies
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: u32,
    /// Start once this job, or all jobs of this range, have succeeded
    #[arg(long, value_name = "ID", value_parser = ids::range)]
    after: Vec<(JobId, JobId)>,
    /// Jobs of a higher priority start first; only root raises one above 0
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Keep the job from starting until `memweir release`
    #[arg(long)]
    hold: bool,
    /// Submit one job for each index, which it finds in MEMWEIR_ARRAY_INDEX; at most LIMIT of them
    /// run at the same time
    #[arg(long, value_name = "FIRST-LAST[%LIMIT]", value_parser = array)]
    array: Option<Array>,
    /// Wait for the end of the job, and exit as it did
    #[arg(long)]
    wait: bool,
    /// Print only the number of the job, or the range of an array
    #[arg(long)]
    parsable: bool,
    /// Time that the job takes alone
    #[arg(long, value_name = "TIME", value_parser = expected_time)]
    expect_time: Option<Nanos>,
    /// Bandwidth that the job draws alone, such as 4GB/s
    #[arg(long, value_name = "BANDWIDTH", value_parser = bandwidth)]
    expect_bandwidth: Option<BytesPerSec>,
    /// Most bandwidth that the job may draw, such as 500MB/s; the daemon must run with
    /// `--mechanism sched-ext`
    #[arg(long, value_name = "BANDWIDTH", value_parser = bandwidth_limit)]
    limit: Option<BytesPerSec>,
    #[command(flatten)]
    connection: Connection,
}

/// Parses the indices of an array.
fn array(text: &str) -> Result<Array, String> {
    let refuse = || format!("`{text}` is no array: write its indices, as `1-100` or `1-100%8`");
    let (range, limit) = match text.split_once('%') {
        Some((range, limit)) => (range, Some(limit.parse().map_err(|_| refuse())?)),
        None => (text, None),
    };
    let (first, last) = range.split_once('-').ok_or_else(refuse)?;
    let number = |text: &str| text.parse().map_err(|_| refuse());
    Ok(Array { first: number(first)?, last: number(last)?, limit })
}

impl Args {
    fn submission(&self) -> Result<Submission, Failure> {
        let directory = std::env::current_dir()
            .map_err(|error| Failure::Machine(format!("the working directory: {error}")))?;
        let program = options::program(&self.command[0], &directory)
            .map_err(|refusal| refusal.written_in("command line"))?;
        let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
        Ok(Submission {
            name: self.name.clone(),
            cores: self.cores,
            priority: self.priority,
            after: self.after.clone(),
            initial: if self.hold { Initial::Held } else { Initial::Ready },
            array: self.array,
            expected_time_ns: self.expect_time.map(|time| time.0),
            expected_bandwidth: self.expect_bandwidth.map(|rate| rate.0),
            bandwidth_limit: self.limit.map(|rate| rate.0),
            work: Work {
                program: Text::from(program),
                argv: self.command.iter().map(Text::from).collect(),
                directory: Text::from(directory),
                environment: environment.collect(),
            },
        })
    }
}

/// Submits the job.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let submission = args.submission()?;
    let mut client = args.connection.open()?;
    let reply = client.request(&Request::Submit(Box::new(submission)))?;
    let Reply::Submitted { first, last } = reply else {
        return Err(Failure::Fault(format!("the daemon replied {reply:?}")));
    };
    let range = ids::shown(first, last);
    let noun = if first == last { "job" } else { "jobs" };
    let text = if args.parsable { format!("{range}\n") } else { format!("{noun} {range}\n") };
    output::print(&text)?;
    if !args.wait {
        return Ok(Outcome::Success);
    }
    Ok(ending(&client.wait(&vec![(first, last)])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read() {
        let of = |first, last, limit| Ok(Array { first, last, limit });
        assert_eq!(array("1-100"), of(1, 100, None));
        assert_eq!(array("0-9%8"), of(0, 9, Some(8)));
        for wrong in ["", "5", "1-", "1-x", "1-5%", "1-5%x", "-1-5", "1..5"] {
            assert!(array(wrong).is_err(), "{wrong}");
        }
    }
}
