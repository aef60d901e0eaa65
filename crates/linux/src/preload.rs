//! Requirements for starting a program with memweir's preload library: the library's file, and a
//! program whose loader loads it. Also the programs of a tree that it does not reach. The library's
//! work, and what that needs of the machine, is not here.

mod open_files;
mod program;
mod unreached;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use memweir_core::input::Refusal;

use crate::MissingFeature;

pub use open_files::check_inherited_files;
pub use program::check_program;
pub(crate) use program::is_dynamic;
pub use unreached::{Unreached, UnreachedProcess, UnreachedProgram};

/// File name of the preload library.
const LIBRARY: &str = "libmemweir_preload.so";

/// Variable that names the library.
const LIBRARY_VARIABLE: &str = "MEMWEIR_PRELOAD";

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
    let found = |path: PathBuf| path.canonicalize();
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        return found(named.clone().into()).map_err(|error| {
            MissingFeature::new(
                format!("{}: {error}", named.display()),
                "name the file of the library",
            )
        });
    }
    let executable = std::env::current_exe().unwrap_or_default();
    let directory = executable.parent().unwrap_or(Path::new("/"));
    // `deps` is where cargo leaves the library when it builds it for another package's tests.
    let places = ["", "../lib/memweir", "deps", ".."];
    let candidates = places.iter().map(|place| directory.join(place).join(LIBRARY));
    candidates.into_iter().find_map(|candidate| found(candidate).ok()).ok_or_else(|| {
        MissingFeature::new(
            format!("{LIBRARY} was not found beside {} or in ../lib/memweir", executable.display()),
            format!("build it with `cargo build -p memweir-preload` or set {LIBRARY_VARIABLE}"),
        )
    })
}
