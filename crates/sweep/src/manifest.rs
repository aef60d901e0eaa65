//! The description of a partition: `manifest.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use memweir_core::input::InputError;
use memweir_run::files::write_atomically;
use memweir_run::table::{Column, Kind};
use serde::{Deserialize, Serialize};

use crate::SweepError;

/// Number of the layout of manifests and files.
pub const FORMAT: u32 = 1;
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
    pub columns: Vec<ManifestColumn>,
    /// The points in the order of the grid.
    pub points: Vec<ManifestPoint>,
}

/// A column of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestColumn {
    /// Its name.
    pub name: String,
    /// `text`, `whole` or `number`.
    pub kind: ColumnKind,
}

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// Names.
    Text,
    /// Counts.
    Whole,
    /// Measurements.
    Number,
}

/// A point of the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPoint {
    /// Its key.
    pub key: String,
    /// Seed of the first repetition, if anything is random.
    pub seed: Option<u64>,
    /// The swept keys with their values.
    pub at: BTreeMap<String, String>,
}

impl ManifestColumn {
    pub(crate) fn of(column: &Column) -> Self {
        let kind = match column.kind {
            Kind::Text => ColumnKind::Text,
            Kind::Whole => ColumnKind::Whole,
            Kind::Number => ColumnKind::Number,
        };
        Self { name: column.name.clone(), kind }
    }

    pub(crate) fn column(&self) -> Column {
        let kind = match self.kind {
            ColumnKind::Text => Kind::Text,
            ColumnKind::Whole => Kind::Whole,
            ColumnKind::Number => Kind::Number,
        };
        Column { name: self.name.clone(), kind }
    }
}

impl ManifestPoint {
    /// Returns the swept keys with their values in one line.
    #[must_use]
    pub fn place(&self) -> String {
        let values: Vec<String> =
            self.at.iter().map(|(key, value)| format!("{key}={value}")).collect();
        values.join(" ")
    }
}

impl Manifest {
    /// Reads the manifest of a partition; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read, or is none of this version of the layout.
    pub fn read(partition: &Path) -> Result<Option<Self>, InputError> {
        let path = partition.join(FILE);
        let name = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &name).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(InputError::new(&name, format!("cannot be read: {error}"))),
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

    /// Writes the manifest of a partition, which appears whole or not at all.
    pub(crate) fn write(&self, partition: &Path) -> Result<(), SweepError> {
        let path = partition.join(FILE);
        let text = serde_json::to_string(self).map_err(io::Error::from);
        text.and_then(|text| write_atomically(&path, format!("{text}\n").as_bytes()))
            .map_err(|error| SweepError::write(&path, error))
    }
}
