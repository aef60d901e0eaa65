//! `memweir wait`, `hold`, `release`, `cancel`, `requeue` and `drain`.

use memweir_core::JobId;
use memweir_daemon::protocol::{Drain, Ids, Request};

use super::{ending, ids};
use crate::failure::{Failure, Outcome};
use crate::shared::connection::Connection;

/// Options of the commands that name jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs, by number (3) or range (3-7)
    #[arg(value_name = "ID", required = true, value_parser = ids::range)]
    ids: Vec<(JobId, JobId)>,
    #[command(flatten)]
    connection: Connection,
}

/// Options of `memweir drain`.
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Let jobs start again
    #[arg(long)]
    end: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Waits for the jobs' end, and ends as they did.
pub(crate) fn wait(args: &Args) -> Result<Outcome, Failure> {
    let jobs = args.connection.open()?.wait(&args.ids)?;
    Ok(ending(&jobs))
}

/// Changes the jobs.
pub(crate) fn change(args: &Args, request: fn(Ids) -> Request) -> Result<Outcome, Failure> {
    args.connection.open()?.request(&request(args.ids.clone()))?;
    Ok(Outcome::Success)
}

/// Keeps further jobs from starting, or no longer.
pub(crate) fn drain(args: &DrainArgs) -> Result<Outcome, Failure> {
    let drain = if args.end { Drain::End } else { Drain::Begin };
    args.connection.open()?.request(&Request::Drain { drain })?;
    Ok(Outcome::Success)
}
