//! `memweir completions`: completions of memweir's options for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Options of `memweir completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "memweir", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Success)
}
