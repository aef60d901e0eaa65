//! The applications of drswap Table III, in their eight groups, with what is assumed of them.

use std::sync::LazyLock;

use memweir_core::Bytes;
use memweir_core::input::Refusal;
use memweir_core::names::suggestion;
use serde::Deserialize;

use super::app::AppModel;

/// The data: what is the paper's and what is assumed is said there.
const TEXT: &str = include_str!("../../data/phone.toml");

/// The group of all applications of the six categories.
pub const ALL: &str = "all";

/// An application.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneApp {
    /// Its name in Table III.
    pub name: String,
    /// Its size there, in MB of 2^20 bytes.
    pub size_mb: f64,
}

/// What is assumed of all applications alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumed {
    /// Anonymous memory of an application besides its size, in MiB.
    pub runtime_mib: f64,
    /// Anonymous memory per byte of its size.
    pub per_size: f64,
    /// See [`AppModel`].
    pub written_pages: f64,
    /// See [`AppModel`].
    pub writes: f64,
    /// See [`AppModel`].
    pub hot_pages: f64,
    /// See [`AppModel`].
    pub hot_references: f64,
    /// See [`AppModel`].
    pub resumed_pages: f64,
    /// See [`AppModel`].
    pub allocated_mib: f64,
    /// See [`AppModel`].
    pub ring_mib: f64,
    /// See [`AppModel`].
    pub references: u64,
    /// Lines that a reference reads from memory.
    pub lines_per_reference: f64,
    /// A switch to an application that lives, without its faults, in milliseconds.
    pub resume_ms: f64,
    /// A switch to one that has to be started, in milliseconds.
    pub launch_ms: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    title: String,
    #[serde(default)]
    apps: Vec<PhoneApp>,
    /// Names of applications of the other groups.
    #[serde(default)]
    of: Vec<String>,
}

/// Everything in the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phone {
    /// What is assumed.
    pub assumed: Assumed,
    #[serde(rename = "group")]
    groups: Vec<Group>,
}

impl Phone {
    /// What comes with memweir.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static PHONE: LazyLock<Phone> = LazyLock::new(|| {
            toml::from_str(TEXT).unwrap_or_else(|error| unreachable!("shipped data: {error}"))
        });
        &PHONE
    }

    /// The groups in the order of the paper, by name and title.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.groups.iter().map(|group| (group.name.as_str(), group.title.as_str()))
    }

    /// All applications.
    pub fn apps(&self) -> impl Iterator<Item = &PhoneApp> + Clone {
        self.groups.iter().flat_map(|group| &group.apps)
    }

    /// The applications of a group, or of [`ALL`].
    ///
    /// # Errors
    /// If there is no such group: with the nearest.
    pub fn group(&self, name: &str) -> Result<Vec<&PhoneApp>, Refusal> {
        if name == ALL {
            return Ok(self.apps().collect());
        }
        let group = self.groups.iter().find(|group| group.name == name).ok_or_else(|| {
            let names = self.groups().map(|(name, _)| name).chain([ALL]);
            Refusal::new(format!("unknown group `{name}`"), suggestion(name, names))
        })?;
        let others = group.of.iter().map(|name| self.app(name));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        Ok(group.apps.iter().chain(others).collect())
    }

    /// The application of this name.
    ///
    /// # Errors
    /// If there is none: with the nearest.
    pub fn app(&self, name: &str) -> Result<&PhoneApp, Refusal> {
        self.apps().find(|app| app.name == name).ok_or_else(|| {
            let names = self.apps().map(|app| app.name.as_str());
            Refusal::new(format!("unknown application `{name}`"), suggestion(name, names))
        })
    }
}

impl Assumed {
    /// The model of an application of this size.
    #[must_use]
    pub fn model(&self, size: Bytes) -> AppModel {
        let mebibytes = |mib: f64| Bytes((mib * f64::from(1 << 20)) as u64);
        AppModel {
            footprint: mebibytes(self.runtime_mib) + Bytes((size.as_f64() * self.per_size) as u64),
            written_pages: self.written_pages,
            writes: self.writes,
            hot_pages: self.hot_pages,
            hot_references: self.hot_references,
            resumed_pages: self.resumed_pages,
            allocated: mebibytes(self.allocated_mib),
            ring: mebibytes(self.ring_mib),
            references: self.references,
        }
    }
}

impl PhoneApp {
    /// Its size.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes((self.size_mb * f64::from(1 << 20)) as u64)
    }
}
