//! Runs of the workloads, each done once however many figures need it.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use memweir_core::BytesPerSec;
use memweir_core::address_map::ColorSet;
use memweir_core::input::Refusal;
use memweir_dram::config::PagePolicy;
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits};

use super::programs::{self, Profile};
use super::rig::{Alone, Conditions, Executed, Rig};
use super::workloads::Workload;
use crate::run::{Failed, made_once};
use crate::work::Bench;

/// Work of one run of a workload, of fitting a program, and of a program alone, roughly to scale.
pub(super) const WORK: u64 = 8;
pub(super) const FIT_WORK: u64 = 8;
pub(super) const ALONE_WORK: u64 = 1;

/// Division of the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Partition {
    /// None, by a kernel without colors.
    None,
    /// Evenly, the cache with the banks: BPM, which eliminates conflicts in both (section 6).
    Bpm,
    /// Evenly, the cache shared as far as the map allows.
    Banks,
    /// By demanded banks.
    Demand,
    /// By memory intensity.
    Intensity,
}

/// Everything in which runs of a workload differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    pub(super) on: Conditions,
    pub(super) partition: Partition,
}

impl Case {
    /// The machine of the paper, its banks divided like this.
    pub(super) fn of(partition: Partition) -> Self {
        Self { on: Conditions::of_paper(), partition }
    }
}

/// A workload that was run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Time of each program over its time alone.
    pub(super) slowdowns: Vec<f64>,
    pub(super) executed: Executed,
}

impl Outcome {
    /// Weighted speedup (section 4.3).
    pub(super) fn weighted_speedup(&self) -> f64 {
        self.slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum()
    }

    /// Maximum slowdown (section 4.3).
    pub(super) fn maximum_slowdown(&self) -> f64 {
        self.slowdowns.iter().copied().fold(0.0, f64::max)
    }
}

/// Results of runs.
#[derive(Default)]
pub(super) struct Known {
    profiles: OnceCell<Vec<Profile>>,
    /// By hardware, in the order of the profiles.
    alone: RefCell<HashMap<Conditions, Rc<Vec<Alone>>>>,
    outcomes: RefCell<HashMap<Case, Rc<Vec<Outcome>>>>,
}

/// The runs so far, and what makes further ones.
pub(super) struct Runs<'a> {
    pub(super) known: &'a Known,
    pub(super) rig: &'a Rig,
    pub(super) workloads: &'a [Workload],
    pub(super) bench: &'a Bench<'a>,
}

impl<'a> Runs<'a> {
    /// The programs.
    ///
    /// # Errors
    /// If a run is refused.
    pub(super) fn profiles(&self) -> Result<&'a [Profile], Failed> {
        let made = made_once(&self.known.profiles, || programs::profiles(self.rig, self.bench));
        made.map(Vec::as_slice)
    }

    /// Results of the programs alone with open page, in the order of the profiles.
    ///
    /// # Errors
    /// If a run is refused.
    fn alone(&self, on: &Conditions) -> Result<Rc<Vec<Alone>>, Failed> {
        let on = Conditions { page: PagePolicy::Open, ..on.clone() };
        if let Some(known) = self.known.alone.borrow().get(&on) {
            return Ok(Rc::clone(known));
        }
        let profiles = self.profiles()?;
        let alone = if on == Conditions::of_paper() {
            profiles.iter().map(|profile| profile.alone).collect()
        } else {
            let rig = self.rig;
            let run = |profile: &Profile| rig.alone(&profile.program(), &on);
            self.bench.try_all(ALONE_WORK, profiles, run).map_err(refused)?
        };
        let alone = Rc::new(alone);
        self.known.alone.borrow_mut().insert(on, Rc::clone(&alone));
        Ok(alone)
    }

    /// All workloads under a case whose colors need nothing but the programs' characteristics, in
    /// the order of their numbers.
    ///
    /// # Errors
    /// If a run is refused.
    pub(super) fn outcomes(&self, case: &Case) -> Result<Rc<Vec<Outcome>>, Failed> {
        self.outcomes_with(case, &BTreeMap::new())
    }

    /// The same with known numbers of banks that programs demand, by their names.
    ///
    /// # Errors
    /// If a run is refused.
    pub(super) fn outcomes_with(
        &self,
        case: &Case,
        demands: &BTreeMap<String, u32>,
    ) -> Result<Rc<Vec<Outcome>>, Failed> {
        if let Some(known) = self.known.outcomes.borrow().get(case) {
            return Ok(Rc::clone(known));
        }
        let profiles = self.profiles()?;
        let alone = self.alone(&case.on)?;
        let (rig, alone) = (self.rig, alone.as_slice());
        let run = |workload: &Workload| rig.workload(workload, case, profiles, alone, demands);
        let outcomes = Rc::new(self.bench.try_all(WORK, self.workloads, run).map_err(refused)?);
        self.known.outcomes.borrow_mut().insert(case.clone(), Rc::clone(&outcomes));
        Ok(outcomes)
    }
}

/// A refusal of the machine of the paper.
pub(super) fn refused(refusal: Refusal) -> Failed {
    Failed::Input(refusal.written_in("experiments/bpm"))
}

impl Rig {
    fn workload(
        &self,
        workload: &Workload,
        case: &Case,
        profiles: &[Profile],
        alone: &[Alone],
        demands: &BTreeMap<String, u32>,
    ) -> Result<Outcome, Refusal> {
        let members =
            |name: &String| profiles.iter().zip(alone).find(|(profile, _)| profile.name == *name);
        let members: Vec<(&Profile, &Alone)> =
            workload.programs.iter().filter_map(members).collect();
        let traits: Vec<ProgramTraits> = members
            .iter()
            .map(|(profile, alone)| ProgramTraits {
                mpki: Some(alone.mpki),
                row_buffer_locality: Some(alone.rbl),
                bank_parallelism: Some(alone.blp),
                bandwidth: Some(BytesPerSec(alone.bandwidth)),
                demanded_banks: demands.get(&profile.name).copied(),
            })
            .collect();
        let sets = self.colors(case, &traits)?;
        let programs = members.iter().enumerate().map(|(place, (profile, _))| {
            profile.program().colored(sets.as_ref().map(|sets| sets[place].clone()))
        });
        let executed = self.execute(&programs.collect::<Vec<_>>(), &case.on)?;
        let times = executed.seconds.iter().zip(&members);
        let slowdowns = times.map(|(seconds, (_, alone))| seconds / alone.seconds).collect();
        Ok(Outcome { slowdowns, executed })
    }

    /// The colors of each program; `None` without partition.
    fn colors(
        &self,
        case: &Case,
        programs: &[ProgramTraits],
    ) -> Result<Option<Vec<ColorSet>>, Refusal> {
        let (policy, cache) = match case.partition {
            Partition::None => return Ok(None),
            Partition::Bpm => ("uniform", CacheUse::Balance),
            Partition::Banks => ("uniform", CacheUse::Keep),
            Partition::Demand => ("demand", CacheUse::Balance),
            Partition::Intensity => ("intensity", CacheUse::Balance),
        };
        let policy = ColorAssignment::named(policy)?;
        policy.assign(programs, &self.board(case.on.layout).supply, cache).map(Some)
    }
}

/// Work of these figures together.
pub(super) fn work<'a>(figures: impl Iterator<Item = &'a str> + Clone) -> u64 {
    let programs = programs::names().len() as u64;
    let all_workloads = 20 * WORK;
    let has = |id: &str| figures.clone().any(|figure| figure == id);
    let any = |ids: &[&str]| ids.iter().any(|id| has(id));
    let of = |needed: bool, work: u64| if needed { work } else { 0 };
    let evaluated = any(&["4", "5", "7", "8", "9", "10", "power", "assignment", "causes"]);
    of(evaluated || has("1"), programs * FIT_WORK)
        + of(any(&["1", "assignment"]), 4 * programs * ALONE_WORK)
        + of(evaluated, all_workloads)
        + of(any(&["4", "5", "7", "8", "9", "10", "power", "causes"]), all_workloads)
        + of(has("8"), all_workloads)
        + of(any(&["9", "causes"]), all_workloads)
        + of(has("9"), 2 * all_workloads + programs * ALONE_WORK)
        + of(has("causes"), 3 * all_workloads + 7 * programs * ALONE_WORK + 4 * WORK)
        + of(has("10"), 2 * (2 * all_workloads + programs * ALONE_WORK))
        + of(has("assignment"), 2 * all_workloads)
        + of(has("streamcluster"), 6 * WORK)
}
