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

/// The command with the usage line of its help as the synopsis: the generator's own leaves out the
/// values of options.
fn with_usage(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    let synopsis = usage.trim_start_matches("Usage:").trim().to_owned();
    command.override_usage(synopsis).mut_subcommands(with_usage)
}

/// Writes the pages.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let mut command = cli::command().disable_help_subcommand(true);
    command.build();
    std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(with_usage(command), &args.directory))
        .map_err(|error| Failure::write(&args.directory, error))?;
    Ok(Outcome::Success)
}
