//! Features that a machine lacks.

/// Something that this machine lacks, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct MissingFeature {
    /// The missing feature.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

impl MissingFeature {
    /// Names what is missing, and the remedy.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}
