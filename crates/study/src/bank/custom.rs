//! Color assignments from outside the table, which a bank-level scenario names as partitions.

use std::fmt;
use std::sync::Arc;

use memweir_core::address_map::ColorSet;
use memweir_core::input::Refusal;
use memweir_core::words::counted;
use memweir_policy::colors::{ProgramTraits, Supply, names};
use memweir_policy::policies::check_names;

/// A color assignment from outside the table.
pub trait CustomAssignment: Send + Sync {
    /// Returns the name by which scenarios choose it: letters, digits, `-`, `_` and `.`.
    fn name(&self) -> &str;

    /// Returns the colors of each program, in the order of the programs; two programs may share a
    /// color.
    ///
    /// # Errors
    /// If the programs cannot have colors.
    fn assign(&self, programs: &[ProgramTraits], supply: &Supply)
    -> Result<Vec<ColorSet>, Refusal>;
}

/// The color assignments from outside the table that a scenario can name.
#[derive(Clone, Default)]
pub struct CustomAssignments(Vec<Arc<dyn CustomAssignment>>);

impl CustomAssignments {
    /// Creates the set of these assignments.
    ///
    /// # Errors
    /// If a name is not a name of a policy, is that of a partition of memweir, or occurs twice.
    pub fn new(assignments: Vec<Arc<dyn CustomAssignment>>) -> Result<Self, Refusal> {
        let own: Vec<&str> = assignments.iter().map(|assignment| assignment.name()).collect();
        check_names(&own, &mut names().chain(["none", "given"]))?;
        Ok(Self(assignments))
    }

    /// Returns the assignment with this name.
    pub(super) fn find(&self, name: &str) -> Option<Custom> {
        let found = self.0.iter().find(|assignment| assignment.name() == name);
        found.cloned().map(Custom)
    }
}

impl fmt::Debug for CustomAssignments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|assignment| assignment.name())).finish()
    }
}

/// An assignment that a scenario has named.
#[derive(Clone)]
pub struct Custom(Arc<dyn CustomAssignment>);

impl Custom {
    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the colors of each program.
    ///
    /// # Errors
    /// If the assignment refuses, or its answer cannot be carried out.
    pub(super) fn assign(
        &self,
        programs: &[ProgramTraits],
        supply: &Supply,
    ) -> Result<Vec<ColorSet>, Refusal> {
        let sets = self.0.assign(programs, supply)?;
        let refuse = |reason: String| {
            let help = "one set of the supply's colors for each program";
            Refusal::new(format!("the assignment `{}` {reason}", self.name()), help)
        };
        if sets.len() != programs.len() {
            let given = counted(sets.len() as u64, "set");
            let wanted = counted(programs.len() as u64, "program");
            return Err(refuse(format!("has {given} of colors for {wanted}")));
        }
        for (place, set) in sets.iter().enumerate() {
            if set.is_empty() {
                return Err(refuse(format!("gives program {place} no color")));
            }
            let there = |color| supply.parts().iter().any(|(known, _)| *known == color);
            if let Some(color) = set.iter().find(|color| !there(*color)) {
                return Err(refuse(format!("gives program {place} color {}", color.0)));
            }
        }
        Ok(sets)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
