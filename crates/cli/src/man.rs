//! `memweir man`: the manual pages, one per command.

use std::path::PathBuf;

use crate::cli;
use crate::failure::{Failure, Outcome};

/// Options of `memweir man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the pages; made if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(cli::command(), &args.directory))
        .map_err(|error| Failure::write(&args.directory, error))?;
    Ok(Outcome::Success)
}
