//! `memweir guardian`: the process that thaws the jobs if memweir dies. memweir starts it; people
//! do not, so no help names it.

use crate::failure::{Failure, Outcome};

/// The argument with which memweir starts itself as a guardian.
pub(crate) use memweir_run::options::GUARDIAN_ARGUMENT as NAME;

/// Watches until every job that was given into its care runs on.
pub(crate) fn execute() -> Result<Outcome, Failure> {
    memweir_linux::guardian::main()
        .map_err(|error| Failure::Machine(format!("the guardian failed: {error}")))?;
    Ok(Outcome::Success)
}
