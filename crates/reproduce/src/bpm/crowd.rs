//! Instances of one program in the same banks of this machine (hmmsched Fig. 2).

use std::fmt;

use memweir_bank::experiment::ProgramSpec;
use memweir_core::Bytes;
use memweir_core::input::InputError;
use memweir_policy::colors::CacheUse;

use super::banks;
use super::programs::{self, Profile};
use super::rig::{Conditions, Parameters, Rig};
use super::runs::refused;
use crate::run::{Failed, PaperName};
use crate::statistics::mean;

/// Memory of an instance: large enough that the cache holds little of it, and small enough that
/// four instances fit into four banks, the fewest.
const FOOTPRINT: Bytes = Bytes(112 << 20);

/// Memory in which the instances live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// This many banks of the machine's DRAM.
    Dram(u32),
    /// All banks of a memory of another device in its place.
    Instead(String),
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dram(banks) => write!(f, "{banks} banks"),
            Self::Instead(device) => write!(f, "all banks of {device}"),
        }
    }
}

/// The machine on which the instances run.
pub(crate) struct Crowd {
    rig: Rig,
}

/// A program whose instances run.
pub(crate) struct Member(Profile);

impl Crowd {
    /// The machine of the paper with all of its memory free, on which each program executes for
    /// `milliseconds`. Nothing is reused in the cache, of which pages in few colors would have
    /// little.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(milliseconds: f64) -> Result<Self, InputError> {
        let suite = PaperName::Bpm.suite()?;
        let parameters: Parameters = suite.figure("4")?.parameters()?;
        Ok(Self { rig: Rig::lasting(parameters.with_all_memory_and_no_reuse(), milliseconds)? })
    }

    /// Fits a program of the catalog.
    ///
    /// # Errors
    /// If the catalog has no such program, or the machine refuses it.
    pub(crate) fn program(&self, name: &str) -> Result<Member, Failed> {
        let mut profile = programs::named(name, &self.rig)?;
        profile.fitted.structure.footprint = FOOTPRINT;
        Ok(Member(profile))
    }

    /// Mean time of `count` instances in the same room, in seconds.
    ///
    /// # Errors
    /// If the machine refuses them.
    pub(crate) fn time(&self, member: &Member, count: u32, room: &Room) -> Result<f64, Failed> {
        let profile = &member.0;
        let (colors, on) = match room {
            Room::Dram(banks) => {
                let set = banks::first(&self.rig.board.supply, *banks, CacheUse::Balance);
                (Some(set.map_err(refused)?), Conditions::of_paper())
            }
            Room::Instead(device) => (None, Conditions::with_memory(device)),
        };
        let program = profile.program().colored(colors);
        let instance = |n| ProgramSpec { name: format!("{}#{n}", profile.name), ..program.clone() };
        let instances: Vec<ProgramSpec> = (1..=count).map(instance).collect();
        let executed = self.rig.execute(&instances, &on).map_err(refused)?;
        Ok(mean(&executed.seconds))
    }
}
