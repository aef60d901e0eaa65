//! Results of a scenario in the form in which they are written.

use memweir_core::Bytes;
use memweir_swap::memory::Counts;
use serde::Serialize;

use crate::sweep::as_object;

/// Results of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageReport {
    /// Version of memweir.
    pub version: &'static str,
    /// The scenario's file.
    pub scenario: String,
    /// Points of the sweep; a single one without a sweep.
    pub points: Vec<PagePoint>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PagePoint {
    /// The swept keys and their values at this point.
    #[serde(serialize_with = "as_object")]
    pub at: Vec<(String, String)>,
    /// The applications, in the order of their turns.
    pub apps: Vec<String>,
    /// Memory of all applications together.
    pub footprint: Bytes,
    /// DRAM for the applications.
    pub dram: Bytes,
    /// Size of the swap area.
    pub swap: Bytes,
    /// The victim policy.
    pub policy: String,
    /// Name of the interpretation of the energy equations.
    pub reading: &'static str,
    /// Length of a session in seconds.
    pub duration_s: f64,
    /// Results by swap area.
    pub swaps: Vec<SwapResult>,
}

/// Results of the sessions on one swap area.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwapResult {
    /// Name of the swap area.
    pub swap: String,
    /// Means over the repetitions.
    pub mean: Session,
    /// Every repetition.
    pub runs: Vec<PageRun>,
}

/// A repetition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageRun {
    /// Its seed.
    pub seed: u64,
    /// Results of the session.
    #[serde(flatten)]
    pub session: Session,
    /// Results by application.
    pub by_app: Vec<AppResult>,
}

/// Results of one session, or means of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Session {
    /// Pages copied to the swap area.
    pub swap_outs: f64,
    /// Pages copied back to DRAM, including those first read in place.
    pub copies_in: f64,
    /// Faults resolved by mapping the page in place.
    pub direct_reads: f64,
    /// Pages read in place that were written, and copied, later.
    pub upgrades: f64,
    /// Pages read in place that were not copied later.
    pub copies_avoided: f64,
    /// Processes ended by the low-memory killer.
    pub killed: f64,
    /// References to pages.
    pub references: f64,
    /// Mean delay of switches to applications after the first round, in milliseconds; absent with
    /// one round.
    pub switch_ms: Option<f64>,
    /// Part of that delay spent in faults.
    pub switch_paging_ms: Option<f64>,
    /// Time of faults while the applications were used, in milliseconds.
    pub stalled_ms: f64,
    /// Block I/O, in bytes.
    pub block_io: f64,
    /// Maximum size of the data in the swap area, in bytes.
    pub most_in_swap: f64,
    /// Energy of the swap area, in joules.
    pub energy_j: f64,
    /// Background part of that energy: standby and refresh, in joules.
    pub energy_background_j: f64,
}

/// Results of an application's turns in the foreground.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppResult {
    /// Its name.
    pub app: String,
    /// Counters over its turns.
    #[serde(flatten)]
    pub counts: Counts,
    /// Mean delay of switches to it after the first, in milliseconds.
    pub switch_ms: Option<f64>,
}

impl Session {
    /// Returns the means of `sessions`; zeros if there are none.
    #[must_use]
    pub fn mean<'a>(sessions: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let count = sessions.clone().count().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| sessions.clone().map(of).sum::<f64>() / count;
        let known = |of: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = sessions.clone().filter_map(of).collect();
            memweir_core::metrics::mean(&values)
        };
        Self {
            swap_outs: mean(|s| s.swap_outs),
            copies_in: mean(|s| s.copies_in),
            direct_reads: mean(|s| s.direct_reads),
            upgrades: mean(|s| s.upgrades),
            copies_avoided: mean(|s| s.copies_avoided),
            killed: mean(|s| s.killed),
            references: mean(|s| s.references),
            switch_ms: known(|s| s.switch_ms),
            switch_paging_ms: known(|s| s.switch_paging_ms),
            stalled_ms: mean(|s| s.stalled_ms),
            block_io: mean(|s| s.block_io),
            most_in_swap: mean(|s| s.most_in_swap),
            energy_j: mean(|s| s.energy_j),
            energy_background_j: mean(|s| s.energy_background_j),
        }
    }
}
