//! Requirements for starting a program with memweir's preload library: the library's file, and a
//! program whose loader loads it. Also the programs of a tree that it does not reach. The library's
//! work, and what that needs of the machine, is not here.

mod open_files;
mod program;
mod unreached;

use std::ffi::OsString;
use std::path::PathBuf;

use memweir_core::input::Refusal;

use crate::MissingFeature;
use crate::companion::Companion;

pub use open_files::check_inherited_files;
pub use program::check_program;
pub use unreached::{Unreached, UnreachedProcess, UnreachedProgram};

/// The preload library.
const LIBRARY: Companion = Companion {
    what: "library",
    file: "libmemweir_preload.so",
    package: "memweir-preload",
    variable: "MEMWEIR_PRELOAD",
};

/// Why a program was not started, or a running one not examined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] Refusal),
    /// This machine cannot do it.
    #[error(transparent)]
    Machine(#[from] MissingFeature),
}

/// Returns the variable that makes the loader load the library, and its value, in which the library
/// comes before the entries of this process's own.
///
/// # Errors
/// If the library is not found; the message has the places searched and the way to name it.
pub fn variable() -> Result<(OsString, OsString), MissingFeature> {
    let mut value = library()?.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(("LD_PRELOAD".into(), value))
}

/// Returns the file of the preload library.
///
/// # Errors
/// If it is not found; the message has the places searched and the way to name it.
pub fn library() -> Result<PathBuf, MissingFeature> {
    LIBRARY.find(None)
}
