//! Options by which `run`, `emulate` and `daemon` choose the jobs of each quantum.

use memweir_policy::PredictorKind;
use memweir_policy::policies::Objective;
use memweir_run::options::{self, BatchOptions};

use crate::value::{named, parsed, refused};

/// Policy, objective and predictor.
#[derive(Debug, clap::Args)]
pub(crate) struct ChoiceArgs {
    /// Policy that selects the jobs of each quantum [default: max-weight]
    #[arg(long, value_name = "NAME", help_heading = "Scheduling")]
    #[arg(value_parser = |name: &str| options::policy(name).map_err(refused))]
    policy: Option<String>,
    /// Quantity that max-weight minimizes: the turnaround, the mean completion time, or the largest
    /// slowdown [default: turnaround]
    #[arg(long, value_name = "turnaround|completion|slowdown", help_heading = "Scheduling")]
    #[arg(value_parser = named::<Objective>)]
    objective: Option<Objective>,
    /// Predictor of a job's bandwidth in the next quantum
    #[arg(long, value_name = "NAME", help_heading = "Scheduling")]
    #[arg(value_parser = parsed::<PredictorKind>)]
    predictor: Option<PredictorKind>,
}

impl ChoiceArgs {
    /// Returns the options of a batch with these choices and no others.
    pub(crate) fn options(&self) -> BatchOptions {
        BatchOptions {
            policy: self.policy.clone(),
            objective: self.objective,
            predictor: self.predictor,
            ..BatchOptions::default()
        }
    }
}
