//! All policies on the mixes of the papers and on memweir's own: gains over the operating system.
//!
//! A figure is a family of mixes: a scenario, as `memweir sim` reads it, and the cases in which it
//! runs. The figure `summary` shows all families side by side.

mod family;
mod summary;

use memweir_core::input::InputError;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use family::Family;

pub(crate) const GOALS: File = file!("beyond/paper.toml");

/// In the order of the report.
pub(crate) const FIGURES: [File; 8] = [
    file!("beyond/summary.toml"),
    file!("beyond/spec.toml"),
    file!("beyond/npb.toml"),
    file!("beyond/own-lengths.toml"),
    file!("beyond/hybrid.toml"),
    file!("beyond/cores.toml"),
    file!("beyond/nodes.toml"),
    file!("beyond/bank.toml"),
];

/// The families by the names of their figures.
pub(crate) struct Lab(Vec<(String, Family)>);

impl Lab {
    /// Reads the families.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(suite: &Suite, effort: Effort) -> Result<Self, InputError> {
        let families = suite
            .figures
            .iter()
            .filter(|figure| !figure.parameters.is_empty())
            .map(|figure| Ok((figure.id.clone(), Family::read(figure, effort)?)))
            .collect::<Result<_, InputError>>()?;
        Ok(Self(families))
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        let all = figures.iter().any(|figure| figure.parameters.is_empty());
        let wanted = |name: &str| all || figures.iter().any(|figure| figure.id == name);
        let families = self.0.iter().filter(|(name, _)| wanted(name));
        families.map(|(_, family)| family.work()).sum()
    }

    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        if data.parameters.is_empty() {
            let all = self.0.iter().map(|(_, family)| family.gains(bench));
            return Ok(summary::found(&all.collect::<Result<Vec<_>, _>>()?));
        }
        let family = self.0.iter().find(|(name, _)| *name == data.id);
        let (_, family) = family.ok_or_else(|| Failed::no_code_for(data))?;
        Ok(family::found(data, family.gains(bench)?))
    }

    fn precision(&self) -> String {
        "One seed of each mix of the papers instead of three, one to three draws of programs \
         instead of twelve, and the policies alone; gains move by a percent or two."
            .to_owned()
    }
}
