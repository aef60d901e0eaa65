//! `memweir guardian`: the process that thaws the jobs if memweir dies. memweir starts it; people
//! do not, so no help names it.

use memweir_linux::guardian::Command;

use crate::failure::{Failure, Outcome};

/// The argument with which memweir starts itself as a guardian.
pub(crate) use memweir_run::options::GUARDIAN_ARGUMENT as NAME;

/// Returns the command with which this program starts itself as a guardian.
pub(crate) fn command() -> Command {
    Command::this_program([NAME])
}

/// Watches until every job in its care runs on.
pub(crate) fn watch() -> Result<Outcome, Failure> {
    memweir_linux::guardian::main()
        .map_err(|error| Failure::Machine(format!("the guardian failed: {error}")))?;
    Ok(Outcome::Success)
}
