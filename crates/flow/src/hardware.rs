//! Machines and memory media as data files: the shipped ones, those of users, and the
//! `platform.toml` of `memweir calibrate`. [`crate::machine`] defines the machine itself.

mod core;
mod file;
mod measured;

use std::fs;
use std::path::Path;

use memweir_core::cache::CacheHierarchy;
use memweir_core::input::{
    DataFile, Document, InputError, Refusal, Replaced, Replacement, Section, shipped,
};

use crate::machine::Machine;

pub use self::core::{CoreModel, default_caches};

/// Machines that come with memweir: the names and the texts of their files.
pub const MACHINES: [(&str, &str); 4] = [
    ("iabw", include_str!("../data/machines/iabw.toml")),
    ("hmmsched", include_str!("../data/machines/hmmsched.toml")),
    ("two-node", include_str!("../data/machines/two-node.toml")),
    ("cxl-server", include_str!("../data/machines/cxl-server.toml")),
];

/// Instructions per second of a core if the file gives none: 1.5 per cycle at 2 GHz, a guess. It
/// matters only to catalog programs, whose demand is known per instruction.
pub const DEFAULT_CORE_INSTRUCTIONS: f64 = 3e9;

/// A machine, and the figures of its file beyond those that the engine needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The machine.
    pub machine: Machine,
    /// Instructions per second of one core that never waits for memory; more than zero. Programs
    /// known by their traffic per instruction get their rates from it.
    pub core_instructions: f64,
    /// Costs of instructions and cache hits, for emulation.
    pub core: CoreModel,
    /// The caches, for emulation. One last level serves all cores.
    pub caches: CacheHierarchy,
    /// Source of the figures.
    pub source: String,
}

impl Hardware {
    /// Returns the shipped machine with this name.
    ///
    /// # Errors
    /// If there is none, with the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let text = shipped("machine", name, &MACHINES)?;
        Ok(Self::parse(name, text, Path::new("."))
            .unwrap_or_else(|error| unreachable!("a shipped machine: {error}")))
    }

    /// Returns the shipped machine with this name or, if it ends in `.toml`, the one in that file,
    /// relative to `directory`.
    ///
    /// # Errors
    /// If there is no such machine, or its file is refused.
    pub fn find(choice: &str, directory: &Path) -> Result<Self, InputError> {
        let file = DataFile::find("machine", choice, &MACHINES, directory, fs::read_to_string);
        Self::of_file(&file.map_err(|refusal| refusal.written_in("machine"))?, &[])
    }

    /// Reads a machine file, or a `platform.toml` of `memweir calibrate`, with `replacements` in
    /// place of values. Media files that it names are relative to its directory.
    ///
    /// # Errors
    /// If it contains an impossible value: with line, key and reason.
    pub fn of_file(file: &DataFile<'_>, replacements: &[Replacement]) -> Result<Self, InputError> {
        Self::replacing(file.document(), &file.directory, replacements)
    }

    /// Reads the text of a machine file, or of a `platform.toml`; `name` appears in messages.
    ///
    /// # Errors
    /// If it contains an impossible value: with line, key and reason.
    pub fn parse(name: &str, text: &str, directory: &Path) -> Result<Self, InputError> {
        Self::replacing(Document { name, text }, directory, &[])
    }

    /// Reads a table with the content of a machine file. Media files that it names are relative to
    /// `directory`.
    ///
    /// # Errors
    /// If it contains an impossible value: with line, key and reason.
    pub fn of_section(section: Section<'_>, directory: &Path) -> Result<Self, InputError> {
        file::parse(section, directory)
    }

    fn replacing(
        document: Document<'_>,
        directory: &Path,
        replacements: &[Replacement],
    ) -> Result<Self, InputError> {
        let replaced = Replaced::new(document, replacements);
        let root = if replacements.is_empty() { document.parse()? } else { replaced.parse()? };
        if measured::is_platform(document.text) {
            measured::parse(document.name, root)
        } else {
            file::parse(root, directory)
        }
    }
}

#[cfg(test)]
mod tests;
