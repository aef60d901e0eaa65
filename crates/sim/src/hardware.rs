//! Machines and memory media as data files: the shipped ones, those of users, and the
//! `platform.toml` that `memweir calibrate` measured. What a machine is lives in
//! [`crate::machine`].

mod file;
mod measured;

use std::path::Path;

use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;

use crate::machine::Machine;

/// Machines that come with memweir: their names and the texts of their files.
pub const MACHINES: [(&str, &str); 4] = [
    ("iabw", include_str!("../data/machines/iabw.toml")),
    ("hmmsched", include_str!("../data/machines/hmmsched.toml")),
    ("two-node", include_str!("../data/machines/two-node.toml")),
    ("cxl-server", include_str!("../data/machines/cxl-server.toml")),
];

/// Instructions per second of a core where the file does not say: 1.5 per cycle at 2 GHz, a guess.
/// It matters only to catalog programs, of which the demand per instruction is known.
pub const DEFAULT_CORE_INSTRUCTIONS: f64 = 3e9;

/// A machine, and what its file says about it beyond what the engine needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The machine.
    pub machine: Machine,
    /// Instructions per second of one core that never waits for memory; more than zero. Programs
    /// that are known by their traffic per instruction get their rates from it.
    pub core_instructions: f64,
    /// Where the figures come from.
    pub source: String,
}

impl Hardware {
    /// The shipped machine with this name.
    ///
    /// # Errors
    /// If there is none: with the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let names = MACHINES.iter().map(|(name, _)| *name);
        let Some((_, text)) = MACHINES.iter().find(|(shipped, _)| *shipped == name) else {
            let help = format!("{}; or a file that ends in `.toml`", suggestion(name, names));
            return Err(Refusal::new(format!("unknown machine `{name}`"), help));
        };
        Ok(Self::parse(name, text, Path::new("."))
            .unwrap_or_else(|error| unreachable!("a shipped machine: {error}")))
    }

    /// The shipped machine with this name or, where it ends in `.toml`, the one in that file,
    /// which starts at `directory`.
    ///
    /// # Errors
    /// If there is no such machine, or its file is refused.
    pub fn find(choice: &str, directory: &Path) -> Result<Self, InputError> {
        if choice.ends_with(".toml") {
            return Self::read(&directory.join(choice));
        }
        Self::shipped(choice).map_err(|refusal| refusal.written_in("machine"))
    }

    /// Reads a machine file, or a `platform.toml` of `memweir calibrate`. Media files that it
    /// names start at its directory.
    ///
    /// # Errors
    /// If it cannot be read or says something impossible: with line, key and reason.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| InputError::new(&name, format!("cannot be read: {error}")))?;
        Self::parse(&name, &text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads the text of a machine file, or of a `platform.toml`; `name` stands in messages.
    ///
    /// # Errors
    /// If it says something impossible: with line, key and reason.
    pub fn parse(name: &str, text: &str, directory: &Path) -> Result<Self, InputError> {
        if measured::is_platform(text) {
            measured::parse(name, text)
        } else {
            file::parse(name, text, directory)
        }
    }
}

#[cfg(test)]
mod tests;
