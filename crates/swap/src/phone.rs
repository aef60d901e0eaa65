//! The applications of drswap Table III in their eight groups, with assumed parameters.

use std::sync::LazyLock;

use memweir_core::input::{Document, Refusal};
use memweir_core::names::choose;
use memweir_core::{Bytes, Nanos};
use serde::Deserialize;

use crate::app::AppModel;
use crate::session::{AppSpec, Behavior};

/// The data file, which states for each value if it is the paper's or an assumption.
const TEXT: &str = include_str!("../data/phone.toml");

/// The group of all applications of the six categories.
pub const ALL: &str = "all";

/// An application.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneApp {
    /// Its name in Table III.
    pub name: String,
    /// Its size in Table III, in MB of 2^20 bytes.
    pub size_mb: f64,
}

/// Assumed parameters, the same for all applications.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumed {
    /// Anonymous memory of an application in addition to the part that depends on its size, in MiB.
    pub runtime_mib: f64,
    /// Anonymous memory per byte of an application's size.
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
    /// Time of a switch to a running application without its faults, in milliseconds.
    pub resume_ms: f64,
    /// Time of a switch that starts the application, without its faults, in milliseconds.
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

/// Contents of the data file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phone {
    /// Assumed parameters.
    pub assumed: Assumed,
    #[serde(rename = "group")]
    groups: Vec<Group>,
}

impl Phone {
    /// Returns the shipped data.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static PHONE: LazyLock<Phone> = LazyLock::new(|| {
            let document = Document { name: "phone.toml", text: TEXT };
            document.deserialize().unwrap_or_else(|error| unreachable!("shipped data: {error}"))
        });
        &PHONE
    }

    /// Returns name and title of each group in the order of the paper.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.groups.iter().map(|group| (group.name.as_str(), group.title.as_str()))
    }

    /// Returns all applications.
    pub fn apps(&self) -> impl Iterator<Item = &PhoneApp> + Clone {
        self.groups.iter().flat_map(|group| &group.apps)
    }

    /// Returns the applications of a group, or of [`ALL`].
    ///
    /// # Errors
    /// If there is no such group; the error suggests the nearest name.
    pub fn group(&self, name: &str) -> Result<Vec<&PhoneApp>, Refusal> {
        let groups = self.groups.iter().map(|group| (group.name.as_str(), Some(group)));
        let Some(group) = choose("group", name, groups.chain([(ALL, None)]))? else {
            return Ok(self.apps().collect());
        };
        let others = group.of.iter().map(|name| self.app(name));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        Ok(group.apps.iter().chain(others).collect())
    }

    /// Returns the application called `name`.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest name.
    pub fn app(&self, name: &str) -> Result<&PhoneApp, Refusal> {
        choose("application", name, self.apps().map(|app| (app.name.as_str(), app)))
    }
}

impl Assumed {
    /// Returns the model of an application of this size.
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
    /// Returns its size.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes((self.size_mb * f64::from(1 << 20)) as u64)
    }
}

/// Builds an application of the table with the assumed parameters.
#[must_use]
pub fn app(app: &PhoneApp, assumed: &Assumed) -> AppSpec {
    AppSpec {
        name: app.name.clone(),
        behavior: Behavior::Model(assumed.model(app.size())),
        size: app.size(),
        resume: Nanos::from_secs_f64(assumed.resume_ms / 1e3),
        launch: Nanos::from_secs_f64(assumed.launch_ms / 1e3),
        lines_per_reference: assumed.lines_per_reference,
    }
}
