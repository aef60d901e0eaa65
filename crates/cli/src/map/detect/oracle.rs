//! Machines that `--oracle` names.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use memweir_core::address_map::AddressMap;
use memweir_core::input::InputError;
use memweir_map::live::Live;
use memweir_map::oracle::LatencyOracle;
use memweir_map::published;
use memweir_map::synthetic::{Noise, Synthetic};
use memweir_run::files;

use crate::failure::Failure;

/// A machine to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// This one.
    Live,
    /// A simulated one with the map of a file, and of an entry of it.
    Map(PathBuf, Option<String>),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("map:") {
            Some("") => Err("name a file: `map:FILE` or `map:FILE#ID`".to_owned()),
            // A file may have a # in its name.
            Some(file) if Path::new(file).exists() => Ok(Self::Map(file.into(), None)),
            Some(file) => Ok(match file.rsplit_once('#') {
                Some((file, id)) => Self::Map(file.into(), Some(id.to_owned())),
                None => Self::Map(file.into(), None),
            }),
            None if text == "live" => Ok(Self::Live),
            None => Err("write `live`, `map:FILE` or `map:FILE#ID`".to_owned()),
        }
    }
}

impl Source {
    /// Name of a map that is found there.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Live => "this machine".to_owned(),
            Self::Map(file, None) => format!("simulated {}", file.display()),
            Self::Map(_, Some(id)) => format!("simulated {id}"),
        }
    }

    /// Returns the file of the map of a simulated machine.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Live => None,
            Self::Map(file, _) => Some(file),
        }
    }

    /// Opens the machine, or returns the reason for which this one cannot be measured.
    pub(super) fn open(
        &self,
        noise: Noise,
        seed: u64,
    ) -> Result<Result<Box<dyn LatencyOracle>, String>, Failure> {
        match self {
            Self::Live => Ok(match Live::open() {
                Ok(live) => Ok(Box::new(live)),
                Err(error) => Err(error.to_string()),
            }),
            Self::Map(file, id) => {
                let map = read(file, id.as_deref())?;
                Ok(Ok(Box::new(Synthetic::new(&map, noise, seed))))
            }
        }
    }
}

fn read(file: &Path, id: Option<&str>) -> Result<AddressMap, InputError> {
    let name = file.display().to_string();
    let text = files::text(file)?;
    if text.trim_start().starts_with('{') {
        let entries = published::parse(&name, &text)?;
        let chosen = published::choose(entries, id).map_err(|refusal| refusal.written_in(&name))?;
        return Ok(chosen.map);
    }
    if let Some(id) = id {
        return Err(InputError::new(name, format!("a map file has no entry `{id}`"))
            .help("leave out #ID: only JSON collections have entries"));
    }
    AddressMap::parse(&name, &text)
}
