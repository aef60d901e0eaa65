//! iabw Table 1: 35 workloads by their ideal average bandwidth, and counterparts of the same
//! demand.
//!
//! The paper does not list the programs of the workloads. A counterpart is drawn from the same
//! suite by the same rules until its ideal average bandwidth is the printed one, within a
//! tolerance.

use memweir_core::input::Refusal;
use memweir_core::{BytesPerSec, LINE_BYTES, TransPerMicro};

use super::{Ingredient, Mix, Recipe, Wanted, draw};
use crate::hardware::Hardware;
use crate::workload::catalog::{Catalog, Suite};

/// Bytes of one transaction of the paper's bus (section 2.1).
pub const TRANSACTION_BYTES: u64 = 128;

/// Largest deviation of a counterpart's demand from the printed one, as a share of the latter.
pub const TOLERANCE: f64 = 0.02;

/// A set of workloads of Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// SPEC workloads with which the target was tuned.
    SpecTraining,
    /// Other SPEC workloads, for evaluation.
    Spec,
    /// NPB workloads, for evaluation.
    Npb,
}

memweir_core::named! { pub Set, "set": SpecTraining = "spec-training", Spec = "spec", Npb = "npb" }

impl Set {
    /// Returns the suite of its programs: SPEC stands for its floating-point programs (section
    /// 5.1).
    #[must_use]
    pub fn suite(self) -> Suite {
        match self {
            Self::SpecTraining | Self::Spec => Suite::Cfp2006,
            Self::Npb => Suite::Npb,
        }
    }
}

/// One workload of Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// The set that it belongs to.
    pub set: Set,
    /// Its number in the set.
    pub index: u32,
    /// Its ideal average bandwidth, in the paper's transactions per microsecond.
    pub iabw: f64,
}

/// The table, in its order.
pub const TABLE_1: [Workload; 35] = {
    const fn row(set: Set, index: u32, iabw: f64) -> Workload {
        Workload { set, index, iabw }
    }
    use Set::{Npb, Spec, SpecTraining};
    [
        row(SpecTraining, 11, 23.2),
        row(SpecTraining, 12, 25.0),
        row(SpecTraining, 13, 27.1),
        row(SpecTraining, 5, 28.1),
        row(SpecTraining, 14, 29.2),
        row(SpecTraining, 9, 31.3),
        row(SpecTraining, 15, 31.9),
        row(SpecTraining, 6, 33.3),
        row(SpecTraining, 3, 38.0),
        row(SpecTraining, 10, 43.7),
        row(SpecTraining, 7, 45.2),
        row(SpecTraining, 4, 45.3),
        row(SpecTraining, 8, 49.4),
        row(SpecTraining, 1, 58.1),
        row(SpecTraining, 2, 62.9),
        row(Spec, 6, 28.5),
        row(Spec, 8, 31.0),
        row(Spec, 4, 32.2),
        row(Spec, 2, 35.0),
        row(Spec, 3, 42.0),
        row(Spec, 1, 42.3),
        row(Spec, 9, 42.4),
        row(Spec, 10, 48.2),
        row(Spec, 7, 48.5),
        row(Spec, 5, 53.0),
        row(Npb, 2, 20.4),
        row(Npb, 3, 26.0),
        row(Npb, 9, 26.1),
        row(Npb, 1, 26.9),
        row(Npb, 8, 27.4),
        row(Npb, 5, 29.4),
        row(Npb, 10, 33.4),
        row(Npb, 6, 34.1),
        row(Npb, 4, 34.8),
        row(Npb, 7, 44.8),
    ]
};

impl Workload {
    /// Returns the name in files, such as `spec-training-06`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{:02}", self.set.name(), self.index)
    }

    /// Returns its ideal average bandwidth.
    #[must_use]
    pub fn bandwidth(&self) -> BytesPerSec {
        let lines = TRANSACTION_BYTES as f64 / LINE_BYTES as f64;
        TransPerMicro(self.iabw * lines).into()
    }

    /// Draws a workload of the same demand from `pool`, which is the [`pool`] of its set. Equal
    /// seeds give equal workloads.
    ///
    /// # Errors
    /// If the pool has none.
    pub fn counterpart(&self, pool: &[Ingredient], cores: u32, seed: u64) -> Result<Mix, Refusal> {
        let wanted = Wanted { iabw: self.bandwidth(), tolerance: TOLERANCE };
        let recipe = Recipe { wanted: Some(wanted), ..Recipe::iabw(cores) };
        // One stream of random numbers per workload, because the sets use the same numbers.
        let stream = 100 * self.set as u64 + u64::from(self.index);
        let seed = seed.wrapping_mul(1_000).wrapping_add(stream);
        draw(self.name(), pool, &recipe, seed)
    }
}

/// Converts a rate to the paper's transactions per microsecond.
#[must_use]
pub fn to_paper(rate: BytesPerSec) -> f64 {
    TransPerMicro::from(rate).0 * LINE_BYTES as f64 / TRANSACTION_BYTES as f64
}

/// Returns the programs from which the workloads of a set are drawn, for this machine.
#[must_use]
pub fn pool(set: Set, catalog: &Catalog, hardware: &Hardware, seed: u64) -> Vec<Ingredient> {
    catalog.suite(set.suite()).map(|entry| Ingredient::of(entry, hardware, seed)).collect()
}
