//! Answers to "can this machine do that?".

use std::fmt;

use serde::Serialize;

/// Availability of a feature on this machine, with the reason and help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// True if it can be used now.
    pub available: bool,
    /// Why it can or cannot, as one sentence for people.
    pub reason: String,
    /// A way to enable it, where there is one; `remedy` in JSON.
    #[serde(rename = "remedy", skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Probe {
    /// Returns the probe of a feature that works; `reason` says with what.
    pub fn available(reason: impl Into<String>) -> Self {
        Self { available: true, reason: reason.into(), help: None }
    }

    /// Returns the probe of a feature that does not work, for `reason`.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { available: false, reason: reason.into(), help: None }
    }

    /// Adds a way to enable it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Probe {
    /// `this virtual machine has no PMU (remedy: ...)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.help {
            Some(help) => write!(f, " (remedy: {help})"),
            None => Ok(()),
        }
    }
}
