//! Victim policies from outside the table, which a paging scenario names like those in it.

use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_policy::paging::{VICTIM_POLICIES, VictimSource};
use memweir_policy::policies::check_names;

/// The victim policies from outside the table that a scenario can name.
#[derive(Clone, Debug, Default)]
pub struct CustomVictims(Vec<Arc<dyn VictimSource>>);

impl CustomVictims {
    /// Creates the set of these policies.
    ///
    /// # Errors
    /// If a name is not a name of a policy, is that of a policy of the table, or occurs twice.
    pub fn new(policies: Vec<Arc<dyn VictimSource>>) -> Result<Self, Refusal> {
        let names: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
        check_names(&names, &mut VICTIM_POLICIES.iter().map(|entry| entry.name))?;
        Ok(Self(policies))
    }

    /// Returns the policy with this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<dyn VictimSource>> {
        self.0.iter().find(|policy| policy.name() == name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;

    use memweir_policy::paging::{LearnsBy, VictimPolicy, find};

    use memweir_core::Stop;

    use super::*;
    use crate::ScenarioText;
    use crate::swap::study::PageStudy;
    use crate::sweep::Grid;

    /// A policy of the table under another name.
    #[derive(Debug)]
    struct Renamed(&'static str, &'static str);

    impl VictimSource for Renamed {
        fn name(&self) -> &str {
            self.0
        }

        fn learns_by(&self) -> LearnsBy {
            find(self.1).expect("a policy").learns_by
        }

        fn create(&self, pages: usize) -> Box<dyn VictimPolicy> {
            find(self.1).expect("a policy").create(pages)
        }
    }

    #[test]
    fn a_copy_of_a_policy_of_the_table_gives_its_results() {
        let text = "group = \"news\"\ndram_mib = 96\nswap_mib = 512\nswaps = \"nvm\"\nrounds = 2\n";
        for policy in ["clock", "scan"] {
            let custom = CustomVictims::new(vec![Arc::new(Renamed("mine", policy))]);
            let text = ScenarioText::new("s.toml", text, Path::new("."))
                .with_victims(custom.expect("a name"));
            let grid = Grid::new(vec![format!("policy={policy},mine").parse().expect("a sweep")]);
            let study = PageStudy::read(&text, &[], grid.expect("a grid")).expect("a scenario");
            let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("no end");
            let [table, mine] = &report.points[..] else { panic!("two points") };
            assert_eq!((table.policy.as_str(), mine.policy.as_str()), (policy, "mine"));
            assert_eq!(table.swaps, mine.swaps);
        }
    }

    #[test]
    fn the_name_of_a_policy_of_the_table_is_refused() {
        let refused = CustomVictims::new(vec![Arc::new(Renamed("fifo", "clock"))]);
        let said = refused.expect_err("a wrong name").to_string();
        assert!(said.contains("is the name of a policy of memweir"), "{said}");
    }
}
