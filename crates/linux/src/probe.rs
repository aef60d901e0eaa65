//! Answers to "can this machine do that?".

use serde::Serialize;

/// Availability of a feature on this machine, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// True if it can be used now.
    pub available: bool,
    /// Why it can or cannot, as one sentence for people.
    pub reason: String,
    /// The remedy that would enable it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Probe {
    /// Returns the probe of a feature that works; `reason` says with what.
    pub fn available(reason: impl Into<String>) -> Self {
        Self { available: true, reason: reason.into(), remedy: None }
    }

    /// Returns the probe of a feature that does not work, for `reason`.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { available: false, reason: reason.into(), remedy: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
