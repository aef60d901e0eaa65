//! All policies on the mixes of the papers and on memweir's own: gains over the operating system.
//!
//! A figure is a family of mixes: a scenario, as `memweir sim` reads it, and the cases in which it
//! runs. The figure `summary` shows all families side by side.

mod family;
mod summary;

use std::collections::HashMap;
use std::sync::Arc;

use memweir_core::input::InputError;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use family::{Family, Gains};

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

/// Families, and the gains of those that ran.
pub(crate) struct Lab {
    effort: Effort,
    families: Vec<(String, Family)>,
    known: HashMap<String, Arc<Gains>>,
}

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
        Ok(Self { effort, families, known: HashMap::new() })
    }

    /// Returns the gains of a family, which runs once.
    fn gains(&mut self, id: &str, bench: &Bench<'_>) -> Result<Arc<Gains>, Failed> {
        if let Some(gains) = self.known.get(id) {
            return Ok(Arc::clone(gains));
        }
        let family = self.families.iter().find(|(name, _)| name == id);
        let (_, family) = family.ok_or_else(|| {
            InputError::new("experiments/beyond", format!("figure `{id}` has no scenario"))
        })?;
        let gains = Arc::new(family.run(bench)?);
        self.known.insert(id.to_owned(), Arc::clone(&gains));
        Ok(gains)
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        let all = figures.iter().any(|figure| figure.parameters.is_empty());
        let wanted = |name: &str| all || figures.iter().any(|figure| figure.id == name);
        let families = self.families.iter().filter(|(name, _)| wanted(name));
        families.map(|(_, family)| family.work()).sum()
    }

    fn figure(&mut self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        if !data.parameters.is_empty() {
            return Ok(family::found(data, &*self.gains(&data.id, bench)?));
        }
        let ids: Vec<String> = self.families.iter().map(|(id, _)| id.clone()).collect();
        let all = ids.iter().map(|id| self.gains(id, bench)).collect::<Result<Vec<_>, _>>()?;
        Ok(summary::found(&all))
    }

    fn precision(&self) -> String {
        match self.effort {
            Effort::Full => String::new(),
            Effort::Quick => {
                "one seed of each mix of the papers instead of three, one to three draws of \
                              programs instead of twelve, and the policies alone; gains move by a \
                              percent or two."
                    .to_owned()
            }
        }
    }
}
