//! Policies from outside the table of policies, which a scenario names like those in it.

use std::fmt;
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_flow::optimal::SCHEDULES;
use memweir_policy::policies::{self, check_names};
use memweir_policy::{Policy, SchedulerConfig};

/// A policy from outside the table.
pub trait CustomPolicy: Send + Sync {
    /// Returns the name by which scenarios choose it: letters, digits, `-`, `_` and `.`.
    fn name(&self) -> &str;

    /// Creates the policy of one run. Runs on several threads must not share state.
    fn build(&self, config: &SchedulerConfig) -> Box<dyn Policy>;
}

/// The policies from outside the table that a scenario can name.
#[derive(Clone, Default)]
pub struct CustomPolicies(Vec<Arc<dyn CustomPolicy>>);

impl CustomPolicies {
    /// Creates the set of these policies.
    ///
    /// # Errors
    /// If a name is not a name of a policy, is that of a policy of the table, or occurs twice.
    pub fn new(policies: Vec<Arc<dyn CustomPolicy>>) -> Result<Self, Refusal> {
        let names: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
        check_names(&names, &mut policies::names().chain(SCHEDULES))?;
        Ok(Self(policies))
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|policy| policy.name())
    }

    /// Returns the policy with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&dyn CustomPolicy> {
        self.0.iter().find(|policy| policy.name() == name).map(|policy| &**policy)
    }
}

impl fmt::Debug for CustomPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|policy| policy.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;

    use memweir_core::Stop;
    use memweir_policy::QuantumView;

    use super::*;
    use crate::ScenarioText;
    use crate::flow::report::{Report, Run};
    use crate::flow::study::Study;
    use crate::sweep::Grid;

    const SCENARIO: &str = "machine = \"iabw\"\npolicies = [\"round-robin\", \"in-order\"]\n\
                            repetitions = 3\noptimum = \"none\"\n\
                            [[tasks]]\nprogram = \"433.milc\"\ninstances = 6\nwork_s = 2\n";

    /// `round-robin`, written a second time; requests the end of the study on its first call if it
    /// holds a `Stop`.
    struct InOrder {
        name: &'static str,
        stop: Option<Stop>,
    }

    impl CustomPolicy for InOrder {
        fn name(&self) -> &str {
            self.name
        }

        fn build(&self, _: &SchedulerConfig) -> Box<dyn Policy> {
            Box::new(InOrder { name: self.name, stop: self.stop.clone() })
        }
    }

    impl Policy for InOrder {
        fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
            self.stop.iter().for_each(Stop::request);
            chosen.extend(0..view.queue.len().min(view.cores as usize));
        }
    }

    fn policies(names: &[&'static str]) -> Result<CustomPolicies, Refusal> {
        let policy = |name: &&'static str| Arc::new(InOrder { name, stop: None }) as _;
        CustomPolicies::new(names.iter().map(policy).collect())
    }

    fn study(custom: CustomPolicies) -> Study {
        let text = ScenarioText::new("s.toml", SCENARIO, Path::new(".")).with_policies(custom);
        let no_recordings = |_: &Path| Err(Refusal::new("there is none", "none is needed"));
        Study::read(&text, &[], Grid::default(), &no_recordings).expect("a scenario")
    }

    fn runs_of(report: &Report, policy: &str) -> Vec<Run> {
        let runs = report.points[0].runs.iter().filter(|run| run.policy == policy);
        runs.map(|run| Run { policy: String::new(), ..run.clone() }).collect()
    }

    #[test]
    fn a_copy_of_a_policy_of_the_table_gives_its_results() {
        let study = study(policies(&["in-order"]).expect("a name"));
        let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("runs");
        assert_eq!(runs_of(&report, "in-order"), runs_of(&report, "round-robin"));
        assert_eq!(runs_of(&report, "in-order").len(), 3);
    }

    #[test]
    fn names_that_mislead_are_refused() {
        for (names, said) in [
            (&["os"][..], "is the name of a policy of memweir"),
            (&["a", "b", "a"], "two policies are called `a`"),
            (&["max-weight:x"], "is not a name"),
            (&[""], "is not a name"),
        ] {
            let refused = policies(names).expect_err("a wrong name").to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_study_ends_when_its_end_is_requested() {
        let stop = Stop::default();
        let policy = InOrder { name: "in-order", stop: Some(stop.clone()) };
        let study = study(CustomPolicies::new(vec![Arc::new(policy)]).expect("a name"));
        let mut done = 0;
        let refused = study.run(&stop, NonZeroUsize::MIN, |_| done += 1).expect_err("a stop");
        assert_eq!(refused.to_string(), "s.toml: stopped before its end");
        assert_eq!(done, 1, "only the run before the first of `in-order` ends");
    }
}
