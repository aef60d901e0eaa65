//! The description of a partition: `manifest.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use memweir_core::input::InputError;
use memweir_run::files::write_atomically;
use memweir_run::table::Column;
use memweir_study::sweep::{Grid, Sweep};
use serde::{Deserialize, Serialize};

use crate::SweepError;

/// Number of the layout of manifests and files.
pub const FORMAT: u32 = 2;
/// Name of the file.
pub const FILE: &str = "manifest.json";

/// The description of a sweep. It follows from the sweep alone, so that all processes that write it
/// write the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of memweir.
    pub version: String,
    /// Hash of the sources of its simulators.
    pub sources: String,
    /// The command that simulates the points, such as `page sim`.
    pub command: String,
    /// Hash of the sweep, as in the name of its directory.
    pub scenario: String,
    /// Name of the scenario's file.
    pub name: String,
    /// Text of the scenario.
    pub text: String,
    /// Keys and the values in place of the text's own.
    pub set: BTreeMap<String, String>,
    /// The swept keys in the order of the grid, with their values.
    pub sweep: Vec<(String, Vec<String>)>,
    /// The columns of the files.
    pub columns: Vec<Column>,
    /// Number of points.
    pub points: usize,
}

impl Manifest {
    /// Reads the manifest of a partition; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read, or is none of this version of the layout.
    pub fn read(partition: &Path) -> Result<Option<Self>, InputError> {
        let path = partition.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(InputError::unreadable(&path, &error)),
        }
    }

    /// Parses the text of a manifest; `name` stands in refusals.
    ///
    /// # Errors
    /// If it is none of this version of the layout.
    pub fn parse(text: &str, name: &str) -> Result<Self, InputError> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| {
            InputError::new(name, format!("it is no manifest of a sweep: {error}"))
        })?;
        if manifest.format != FORMAT {
            let reason = format!("its format is {}", manifest.format);
            let help = format!("this memweir reads format {FORMAT}");
            return Err(InputError::new(name, reason).help(help));
        }
        Ok(manifest)
    }

    /// Returns the grid of all points.
    ///
    /// # Errors
    /// If a key or its values are none of a sweep.
    pub fn grid(&self) -> Result<Grid, InputError> {
        let sweep =
            |(key, values): &(String, Vec<String>)| Sweep::new(key.parse()?, values.clone());
        let sweeps = self.sweep.iter().map(sweep).collect::<Result<Vec<_>, _>>();
        sweeps.and_then(Grid::new).map_err(|refusal| refusal.written_in(FILE).key("sweep"))
    }

    /// Returns true if another sweep may have points of this one: it has the same keys, and values
    /// of each in common.
    pub(crate) fn may_share(&self, other: &Self) -> bool {
        let same = |of: fn(&Self) -> &str| of(self) == of(other);
        let common = |(key, values): &(String, Vec<String>)| {
            let theirs = other.sweep.iter().find(|(their, _)| their == key);
            theirs.is_some_and(|(_, theirs)| values.iter().any(|value| theirs.contains(value)))
        };
        same(|manifest| manifest.version.as_str())
            && same(|manifest| manifest.sources.as_str())
            && same(|manifest| manifest.command.as_str())
            && self.sweep.len() == other.sweep.len()
            && self.sweep.iter().all(common)
    }

    /// Writes the manifest of a partition, which appears whole or not at all.
    pub(crate) fn write(&self, partition: &Path) -> Result<(), SweepError> {
        let path = partition.join(FILE);
        let text = serde_json::to_string(self).map_err(io::Error::from);
        text.and_then(|text| write_atomically(&path, format!("{text}\n").as_bytes()))
            .map_err(|error| SweepError::write(&path, error))
    }
}
