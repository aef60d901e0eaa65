//! The programs of SPEC CPU2006 as access streams with the same characteristics.

use memweir_bank::experiment::{ProgramSpec, Source};
use memweir_bank::fit::{Characteristics, Fitted, Measured};
use memweir_bank::synthetic::{Resident, Structure};
use memweir_core::Bytes;
use memweir_core::input::{InputError, Refusal};
use memweir_flow::workload::catalog::{Catalog, Entry, Suite};

use super::rig::{Alone, Conditions, Parameters, Rig};
use super::runs::FIT_WORK;
use crate::report::short;
use crate::run::Failed;
use crate::work::Bench;

/// A program, fitted to its published characteristics.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Its name in the catalog.
    pub(super) name: String,
    /// Characteristics that it should have alone.
    pub(super) asked: Characteristics,
    /// Its structure, and its measured characteristics.
    pub(super) fitted: Fitted,
    /// Instructions that it executes in the time of a run when it is alone.
    pub(super) instructions: u64,
    /// Its run alone, on the memory of the paper's machine.
    pub(super) alone: Alone,
}

impl Profile {
    /// A run of it.
    pub(super) fn program(&self) -> ProgramSpec {
        program(&self.name, &self.fitted.structure, self.instructions)
    }

    /// Its name without the number.
    pub(super) fn short(&self) -> &str {
        short(&self.name)
    }
}

/// A program of this structure, with one thread.
pub(super) fn program(name: &str, structure: &Structure, instructions: u64) -> ProgramSpec {
    ProgramSpec::new(name, Source::Synthetic(Box::new(structure.clone())), instructions)
}

/// The programs of the catalog with known locality and parallelism, in its order.
pub(super) fn names() -> Vec<String> {
    let catalog = Catalog::shipped();
    let known = catalog.iter().filter(|entry| characteristics(entry).is_some());
    known.map(|entry| entry.name.clone()).collect()
}

/// Published characteristics of a program of SPEC CPU2006; `None` for others.
fn characteristics(entry: &Entry) -> Option<Characteristics> {
    if !matches!(entry.suite, Suite::Cint2006 | Suite::Cfp2006) {
        return None;
    }
    Some(Characteristics {
        mpki: entry.mpki.value,
        rbl: entry.row_buffer_locality.as_ref()?.value,
        blp: entry.bank_level_parallelism.as_ref()?.value.max(1.0),
        write_share: entry.write_share.value.min(0.5),
        footprint: Bytes((entry.footprint_mib.value * f64::from(1 << 20)) as u64).min(FOOTPRINT),
    })
}

/// Most memory that is mapped for a program: many times the cache, and more than the program goes
/// through while it is measured.
const FOOTPRINT: Bytes = Bytes(256 << 20);

/// Misses wanted in a run of the fit, and the most instructions for them.
const FIT_MISSES: f64 = 4_000.0;
const FIT_INSTRUCTIONS: f64 = 20e6;

/// Instructions in which a program with `mpki` misses per 1,000 has enough of them to be measured.
fn fit_instructions(mpki: f64) -> u64 {
    (FIT_MISSES / mpki * 1e3).clamp(1e5, FIT_INSTRUCTIONS) as u64
}

/// The part of a program that stays in the shared cache.
pub(super) fn base(parameters: &Parameters) -> Structure {
    let resident = Resident {
        bytes: Bytes(parameters.resident_kib << 10),
        intensity: parameters.resident_accesses,
    };
    let resident = Some(resident).filter(|resident| resident.intensity > 0.0);
    Structure { resident, ..Structure::default() }
}

/// Fits all programs.
///
/// # Errors
/// If a run is refused or stopped.
pub(super) fn profiles(rig: &Rig, bench: &Bench<'_>) -> Result<Vec<Profile>, Failed> {
    let catalog = Catalog::shipped();
    let entries = catalog.iter();
    let asked: Vec<(String, Characteristics)> =
        entries.filter_map(|entry| Some((entry.name.clone(), characteristics(entry)?))).collect();
    bench.try_all(FIT_WORK, &asked, |(name, asked)| made(name, asked, rig))
}

/// Fits one program, by its name in the catalog.
///
/// # Errors
/// If there is none of this name, or a run is refused.
pub(super) fn named(name: &str, rig: &Rig) -> Result<Profile, Failed> {
    let catalog = Catalog::shipped();
    let entry = catalog.find(name).map_err(|refusal| refusal.written_in("experiments"))?;
    let asked = characteristics(entry).ok_or_else(|| {
        let reason = format!("row-buffer locality and bank parallelism of `{name}` are not known");
        InputError::new("experiments", reason)
    })?;
    made(&entry.name, &asked, rig)
}

fn made(name: &str, asked: &Characteristics, rig: &Rig) -> Result<Profile, Failed> {
    let refused = |refusal: Refusal| refusal.written_in(&format!("program {name}"));
    Ok(profile(name, asked, rig).map_err(refused)?)
}

fn profile(name: &str, asked: &Characteristics, rig: &Rig) -> Result<Profile, Refusal> {
    let on = Conditions::of_paper();
    let instructions = fit_instructions(asked.mpki);
    let mut rate = 0.0;
    let fitted = asked.fit(&base(&rig.parameters), |structure| {
        let alone = rig.alone(&program(name, structure, instructions), &on)?;
        rate = instructions as f64 / alone.seconds;
        Ok(Measured { mpki: alone.mpki, rbl: alone.rbl, blp: alone.blp })
    })?;
    let instructions = (rate * rig.seconds).max(1e4) as u64;
    let alone = rig.alone(&program(name, &fitted.structure, instructions), &on)?;
    Ok(Profile { name: name.to_owned(), asked: *asked, fitted, instructions, alone })
}
