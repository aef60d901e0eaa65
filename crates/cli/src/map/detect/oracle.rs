//! Machines that `--oracle` names.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use memweir_map::live::Live;
use memweir_map::oracle::LatencyOracle;
use memweir_map::synthetic::{Noise, Synthetic};

use crate::failure::Failure;
use crate::shared::map;

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
            Some(file) => {
                let (file, id) = map::file_and_id(Path::new(file));
                Ok(Self::Map(file, id))
            }
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
                let map = map::read_entry(file, id.as_deref())?;
                Ok(Ok(Box::new(Synthetic::new(&map, noise, seed))))
            }
        }
    }
}
