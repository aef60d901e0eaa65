//! The text of a scenario file, and what the readers of all kinds of scenarios share.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use memweir_core::input::{Document, InputError, Refusal, Replaced, Replacement, Value};

use crate::bank::CustomAssignments;
use crate::fidelity::Fidelity;
use crate::flow::CustomPolicies;
use crate::swap::CustomVictims;

/// The text of a scenario file, read once and checked at each point of a sweep.
#[derive(Clone, Debug)]
pub struct ScenarioText {
    name: String,
    text: String,
    /// The directory at which relative paths start.
    pub(crate) directory: PathBuf,
    /// Policies of each kind from outside the tables, which the scenario can name.
    pub(crate) custom: CustomPolicies,
    pub(crate) assignments: CustomAssignments,
    pub(crate) victims: CustomVictims,
}

impl ScenarioText {
    /// Reads the file at `path`. Relative paths in it start at its directory.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| InputError::unreadable(path, &error))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Ok(Self::new(&path.display().to_string(), &text, directory))
    }

    /// Creates a scenario called `name` from its text; relative paths in it start at `directory`.
    #[must_use]
    pub fn new(name: &str, text: &str, directory: &Path) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            directory: directory.to_owned(),
            custom: CustomPolicies::default(),
            assignments: CustomAssignments::default(),
            victims: CustomVictims::default(),
        }
    }

    /// Adds policies from outside the table, which the scenario can name from then on.
    #[must_use]
    pub fn with_policies(self, custom: CustomPolicies) -> Self {
        Self { custom, ..self }
    }

    /// Adds color assignments from outside the table, which a bank-level scenario can name from
    /// then on.
    #[must_use]
    pub fn with_assignments(self, assignments: CustomAssignments) -> Self {
        Self { assignments, ..self }
    }

    /// Adds victim policies from outside the table, which a paging scenario can name from then on.
    #[must_use]
    pub fn with_victims(self, victims: CustomVictims) -> Self {
        Self { victims, ..self }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text as the file has it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the fidelity of the simulation: `fidelity = "flow"`, which is the default, or
    /// `"bank"`.
    ///
    /// # Errors
    /// If the file cannot be parsed, or names another fidelity.
    pub fn fidelity(&self, replacements: &[Replacement]) -> Result<Fidelity, InputError> {
        let replaced = self.replaced_outside_machine(replacements);
        Ok(replaced.parse()?.map("fidelity", |v| v.named())?.unwrap_or_default())
    }

    /// Returns true if policies choose which of the programs of a bank-level scenario run.
    ///
    /// # Errors
    /// If the file cannot be parsed.
    pub fn is_batch(&self, replacements: &[Replacement]) -> Result<bool, InputError> {
        Ok(self.replaced_outside_machine(replacements).parse()?.has("policies"))
    }

    /// Returns the text with those replacements that are not for the file of a machine.
    pub(crate) fn replaced_outside_machine(&self, replacements: &[Replacement]) -> Replaced {
        let own: Vec<_> =
            replacements.iter().filter(|r| r.below("machine").is_none()).cloned().collect();
        self.replaced(&own)
    }

    /// Returns the text with `replacements` in place of its own values.
    pub(crate) fn replaced(&self, replacements: &[Replacement]) -> Replaced {
        Replaced::new(Document { name: &self.name, text: &self.text }, replacements)
    }
}

/// Reads one value, or an array of values of which no two have the same name. `none` refuses an
/// array of none.
pub(crate) fn one_or_more<T>(
    value: &Value<'_>,
    expected: &str,
    none: Refusal,
    read: impl Fn(&Value<'_>) -> Result<T, InputError>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>, InputError> {
    if value.text().is_some() {
        return Ok(vec![read(value)?]);
    }
    let mut all: Vec<T> = Vec::new();
    for element in value.array(expected)? {
        let next = read(&element)?;
        if all.iter().any(|known| name(known) == name(&next)) {
            return Err(element.refuse(format!("`{}` is named twice", name(&next))));
        }
        all.push(next);
    }
    if all.is_empty() { value.checked(Err(none)) } else { Ok(all) }
}

/// Reads a value, or an array of the lowest and the highest one.
pub(crate) fn range<T: Copy + PartialOrd>(
    value: &Value<'_>,
    read: impl Fn(&Value<'_>) -> Result<T, InputError>,
) -> Result<RangeInclusive<T>, InputError> {
    if !value.is_array() {
        return read(value).map(|one| one..=one);
    }
    match &value.array("the lowest and the highest")?[..] {
        [from, to] => {
            let (from, to) = (read(from)?, read(to)?);
            if from <= to {
                return Ok(from..=to);
            }
            Err(value.refuse("the range ends before it starts").help("the lowest comes first"))
        }
        _ => Err(value.refuse("is no range").help("[lowest, highest]")),
    }
}
