//! Refusals of the operating system.

use std::io;

/// An operation that the operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct OsError {
    /// The operation, with the object's name.
    pub what: String,
    /// Why it failed.
    pub source: io::Error,
}

impl OsError {
    /// Creates the error of an operation.
    pub fn new(what: impl Into<String>, source: io::Error) -> Self {
        Self { what: what.into(), source }
    }

    /// Returns the conversion of the operating system's error in an operation.
    pub fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::new(what, source)
    }
}
