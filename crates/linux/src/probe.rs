//! Answers to "can this machine do that?".

use serde::Serialize;

/// Whether something is available here, why or why not, and what would enable it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Whether it can be used now.
    pub available: bool,
    /// Why it can or cannot, as one sentence for people.
    pub reason: String,
    /// What would enable it, where something would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Probe {
    /// It works; `reason` says with what.
    pub fn available(reason: impl Into<String>) -> Self {
        Self { available: true, reason: reason.into(), remedy: None }
    }

    /// It does not work, for `reason`.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { available: false, reason: reason.into(), remedy: None }
    }

    /// Names what would enable it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
