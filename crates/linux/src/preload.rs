//! Requirements for starting a program with memweir's preload library: the library's file, and a
//! program whose loader loads it. Also the programs of a tree that it does not reach. The library's
//! work, and what that needs of the machine, is not here.

mod open_files;
mod program;
mod unreached;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
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
/// If the library is not found, or lies at a path that the variable cannot hold; the message has
/// the places searched and the way to name it.
pub fn variable() -> Result<(OsString, OsString), MissingFeature> {
    Ok(("LD_PRELOAD".into(), preloaded(library()?, std::env::var_os("LD_PRELOAD"))?))
}

/// Returns the value of the variable, with the library before the `others`.
fn preloaded(library: PathBuf, others: Option<OsString>) -> Result<OsString, MissingFeature> {
    if library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        let path = library.display();
        return Err(MissingFeature::new(
            format!("{path}: `LD_PRELOAD` has no place for a path with a space or a colon"),
            format!("name a copy of the library at another path by {}", LIBRARY.variable),
        ));
    }
    let mut value = library.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}

/// Returns the file of the preload library.
///
/// # Errors
/// If it is not found; the message has the places searched and the way to name it.
pub fn library() -> Result<PathBuf, MissingFeature> {
    LIBRARY.find(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        let with = |path: &str, others: &str| {
            let value = preloaded(path.into(), Some(others.into()));
            value.map_err(|missing| missing.to_string())
        };
        assert_eq!(with("/a/library.so", ""), Ok("/a/library.so".into()));
        assert_eq!(with("/a/library.so", "b.so c.so"), Ok("/a/library.so:b.so c.so".into()));
        for path in ["/my programs/library.so", "/a:b/library.so"] {
            let refused = with(path, "").unwrap_err();
            assert!(refused.starts_with(path) && refused.ends_with("MEMWEIR_PRELOAD"), "{refused}");
        }
    }
}
