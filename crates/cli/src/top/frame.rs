//! The frames that a source yields: one for each quantum or interval.

use std::time::Duration;

use memweir_watch::State;

use crate::failure::Failure;

/// One job or subject in a frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lane {
    /// Its number, or its path.
    pub(super) id: String,
    /// Name for people.
    pub(super) name: String,
    /// A subject without processes waits, too.
    pub(super) state: State,
    /// Its bandwidth in bytes per second; absent if nothing was counted.
    pub(super) bandwidth: Option<f64>,
    /// The reason for which it runs or waits; empty if none is known.
    pub(super) why: String,
    /// More about it, by name.
    pub(super) details: Vec<(&'static str, String)>,
}

/// One quantum or interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Frame {
    /// Its end in seconds since the beginning.
    pub(super) at_s: f64,
    /// Bandwidth of all lanes together in bytes per second; absent if nothing was counted.
    pub(super) bandwidth: Option<f64>,
    /// Bandwidth that the policy aims at.
    pub(super) target: Option<f64>,
    pub(super) lanes: Vec<Lane>,
}

/// A source, and what is known of it from the beginning.
pub(super) struct Opened {
    /// Its name for people.
    pub(super) title: String,
    /// The highest bandwidth that the machine sustains, in bytes per second, if known.
    pub(super) peak: Option<f64>,
    pub(super) source: Box<dyn Source>,
}

/// A source of frames.
pub(super) trait Source {
    /// Returns the frames since the last call; `None` once there will be no more.
    ///
    /// # Errors
    /// If the source is gone.
    fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure>;

    /// Returns the time until the next call, at the rate 1.
    fn interval(&self) -> Duration;
}
