//! Features that a machine lacks.

/// Something that this machine lacks, with help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {help}")]
pub struct MissingFeature {
    /// The missing feature.
    pub reason: String,
    /// A way to get it.
    pub help: String,
}

impl MissingFeature {
    /// Names the missing feature, with a way to get it.
    pub fn new(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: help.into() }
    }
}
