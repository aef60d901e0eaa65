//! Batches: draws the papers' mixes from a pool of programs, with their seeds recorded.
//!
//! This module draws the mixes of iabw (sections 5.1 and 5.5), to a target ideal average bandwidth
//! if one is given; Table 1 and its counterparts are in [`iabw`], the mixes of hmmsched in
//! [`hmmsched`].

pub mod hmmsched;
pub mod iabw;
mod reach;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::words::counted;
use memweir_core::{BytesPerSec, Nanos};
use memweir_policy::iabw::{Requirement, ideal_average_bandwidth};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::catalog::Entry;
use super::requirement;
use crate::hardware::Hardware;
use crate::program::Program;
use crate::task::Task;
use reach::Reach;

/// A program that mixes are drawn from.
#[derive(Clone, Debug)]
pub struct Ingredient {
    /// The program.
    pub program: Arc<Program>,
    /// Time that it takes alone.
    pub run_time: Nanos,
}

impl Ingredient {
    /// Converts a program of the catalog for this machine.
    #[must_use]
    pub fn of(entry: &Entry, hardware: &Hardware, seed: u64) -> Self {
        Self { program: Arc::new(entry.program(hardware, seed)), run_time: entry.run_time() }
    }
}

/// Work of each task of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Each task works for this long and restarts its program as often as that takes: the two
    /// minutes of iabw section 5.1.
    Equal(Nanos),
    /// Each task executes its program once. With one instance of each program, these are the
    /// *normal* workloads of iabw section 5.5.
    Normal,
}

/// The two minutes of iabw section 5.1.
pub const TWO_MINUTES: Weight = Weight::Equal(Nanos::from_millis(120_000));

/// A target for the ideal average bandwidth of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The bandwidth.
    pub iabw: BytesPerSec,
    /// Largest deviation of a mix, as a share of the target: 0.02 is two percent.
    pub tolerance: f64,
}

/// Parameters of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Cores in the ideal average bandwidth.
    pub cores: u32,
    /// Number of tasks, drawn uniformly from this range.
    pub jobs: RangeInclusive<u32>,
    /// Most instances of one program.
    pub instances: u32,
    /// Work of each task.
    pub weight: Weight,
    /// The target for the ideal average bandwidth, if any.
    pub wanted: Option<Wanted>,
}

impl Recipe {
    /// Returns the recipe of the random workloads of iabw section 5.1: a degree of multiprogramming
    /// from 2 to 4, so 8 to 16 jobs on 4 cores, two minutes each. The limit of two instances of a
    /// program is ours.
    #[must_use]
    pub fn iabw(cores: u32) -> Self {
        Self { cores, jobs: 2 * cores..=4 * cores, instances: 2, weight: TWO_MINUTES, wanted: None }
    }
}

/// A batch that was drawn, with its seed.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Name, such as `spec-training-06`.
    pub name: String,
    /// Seed of the draw: the same pool, recipe and seed give the same mix.
    pub seed: u64,
    /// Its ideal average bandwidth, iabw eq. (10).
    pub iabw: BytesPerSec,
    /// Its tasks, all submitted at the start.
    pub tasks: Vec<Task>,
}

impl Mix {
    /// Returns the same programs as a *normal* workload: one instance of each, executed once.
    /// Programs that are not in `pool`, from which the mix was drawn, are left out.
    #[must_use]
    pub fn normal(&self, pool: &[Ingredient], cores: u32) -> Self {
        let mut tasks: Vec<Task> = Vec::new();
        for task in &self.tasks {
            let same = |program: &Arc<Program>| Arc::ptr_eq(program, &task.program);
            if tasks.iter().any(|other| same(&other.program)) {
                continue;
            }
            if let Some(part) = pool.iter().find(|part| same(&part.program)) {
                let name = part.program.name.clone();
                let (offset, work) = (Nanos::ZERO, part.run_time);
                tasks.push(Task { name, offset, work, ..task.clone() });
            }
        }
        Self {
            name: format!("{}-normal", self.name),
            seed: self.seed,
            iabw: requirement::ideal_average(&tasks, cores),
            tasks,
        }
    }
}

/// Most exchanges of one program for another before a new mix is drawn.
const EXCHANGES: u32 = 200;
/// Most mixes that are drawn for a target bandwidth.
const DRAWS: u32 = 200;

/// Draws a mix. With a target bandwidth, it exchanges programs of a random mix at random, and keeps
/// the exchanges that bring the mix nearer to the target.
///
/// # Errors
/// If the pool is too small for the recipe, or no mix of the target bandwidth is found.
pub fn draw(
    name: impl Into<String>,
    pool: &[Ingredient],
    recipe: &Recipe,
    seed: u64,
) -> Result<Mix, Refusal> {
    let mut dealer = Dealer { pool, recipe, random: ChaCha8Rng::seed_from_u64(seed) };
    dealer.check()?;
    let mut nearest: Option<BytesPerSec> = None;
    for _ in 0..DRAWS {
        let mut hand = dealer.hand();
        let iabw = match recipe.wanted {
            Some(wanted) => dealer.approach(&mut hand, wanted),
            None => dealer.iabw(&hand),
        };
        if recipe.wanted.is_none_or(|wanted| fits(iabw, wanted)) {
            return Ok(Mix { name: name.into(), seed, iabw, tasks: dealer.tasks(&hand) });
        }
        let better = |best: &BytesPerSec| {
            recipe.wanted.is_some_and(|w| iabw.distance(w.iabw) < best.distance(w.iabw))
        };
        if nearest.is_none()
            && let Some(wanted) = recipe.wanted
        {
            dealer.check_reach(wanted)?;
        }
        if nearest.as_ref().is_none_or(better) {
            nearest = Some(iabw);
        }
    }
    let (wanted, nearest) = (recipe.wanted.map(|wanted| wanted.iabw), nearest.unwrap_or_default());
    Err(Refusal::new(
        format!("the pool has no mix of {}", wanted.unwrap_or_default()),
        format!("the nearest that was found has {nearest}"),
    ))
}

fn fits(iabw: BytesPerSec, wanted: Wanted) -> bool {
    iabw.distance(wanted.iabw).0 <= wanted.tolerance * wanted.iabw.0
}

/// A task that is being drawn.
#[derive(Clone, Copy, Debug)]
struct Card {
    /// Index of its program in the pool.
    program: usize,
    /// Point of the program at which it starts.
    offset: Nanos,
    /// Its requirement, computed once because a hand is evaluated again and again.
    requirement: Requirement,
}

/// Draws mixes of one recipe from one pool.
struct Dealer<'a> {
    pool: &'a [Ingredient],
    recipe: &'a Recipe,
    random: ChaCha8Rng,
}

impl Dealer<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let (least, most) = (*self.recipe.jobs.start(), *self.recipe.jobs.end());
        if least == 0 || least > most {
            return Err(Refusal::new("a mix of no tasks", "a range like 8..=16"));
        }
        let supply = self.pool.len() as u64 * u64::from(self.instances());
        if u64::from(most) > supply {
            return Err(Refusal::new(
                format!(
                    "{} cannot be drawn from {}",
                    counted(most.into(), "task"),
                    counted(self.pool.len() as u64, "program")
                ),
                format!(
                    "at most {supply}, with {} of each",
                    counted(self.instances().into(), "instance")
                ),
            ));
        }
        if self.pool.iter().any(|part| part.program.length() == Nanos::ZERO) {
            return Err(Refusal::new("a program of the pool has no length", "leave it out"));
        }
        Ok(())
    }

    /// Refuses a target that no mix can reach. It is called only after a first draw has failed.
    fn check_reach(&self, wanted: Wanted) -> Result<(), Refusal> {
        let reach = Reach::of(self.pool, self.recipe, self.instances());
        if reach.holds(wanted) {
            return Ok(());
        }
        let (least, most) = self.recipe.jobs.clone().into_inner();
        let tasks = if least == most { most.to_string() } else { format!("{least} to {most}") };
        Err(Refusal::new(
            format!("the pool has no mix of {}", wanted.iabw),
            format!("with {tasks} tasks, from {} to {}", reach.least, reach.most),
        ))
    }

    fn instances(&self) -> u32 {
        self.recipe.instances.max(1)
    }

    fn hand(&mut self) -> Vec<Card> {
        let jobs = self.random.random_range(self.recipe.jobs.clone());
        let mut hand = Vec::new();
        for _ in 0..jobs {
            let card = self.card(&hand);
            hand.push(card);
        }
        hand
    }

    /// Draws a program of which the hand has fewer instances than allowed.
    fn card(&mut self, hand: &[Card]) -> Card {
        loop {
            let program = self.random.random_range(0..self.pool.len());
            let held = hand.iter().filter(|card| card.program == program).count();
            if held < self.instances() as usize {
                return self.new_card(program);
            }
        }
    }

    fn new_card(&mut self, program: usize) -> Card {
        let part = &self.pool[program];
        let (offset, work) = match self.recipe.weight {
            // A cycle has no beginning, and instances in lockstep would be an artifact.
            Weight::Equal(work) => {
                let round = part.program.length().0.div_ceil(Nanos::MILLI.0);
                (Nanos::from_millis(self.random.random_range(0..round)), work)
            }
            Weight::Normal => (Nanos::ZERO, part.run_time),
        };
        Card { program, offset, requirement: requirement::of(&task(part, 1, offset, work)) }
    }

    /// Exchanges cards until the hand has the target bandwidth or the limit is reached; returns the
    /// hand's bandwidth.
    fn approach(&mut self, hand: &mut Vec<Card>, wanted: Wanted) -> BytesPerSec {
        let mut iabw = self.iabw(hand);
        for _ in 0..EXCHANGES {
            if fits(iabw, wanted) {
                break;
            }
            let place = self.random.random_range(0..hand.len());
            let before = hand.swap_remove(place);
            let card = self.card(hand);
            hand.push(card);
            let after = self.iabw(hand);
            if after.distance(wanted.iabw) < iabw.distance(wanted.iabw) {
                iabw = after;
            } else {
                hand.pop();
                hand.push(before);
            }
        }
        iabw
    }

    fn iabw(&self, hand: &[Card]) -> BytesPerSec {
        let requirements: Vec<Requirement> = hand.iter().map(|card| card.requirement).collect();
        ideal_average_bandwidth(&requirements, self.recipe.cores)
    }

    fn tasks(&self, hand: &[Card]) -> Vec<Task> {
        let mut instances: HashMap<usize, u32> = HashMap::new();
        hand.iter()
            .map(|card| {
                let number = instances.entry(card.program).or_default();
                *number += 1;
                task(&self.pool[card.program], *number, card.offset, card.requirement.time)
            })
            .collect()
    }
}

/// Creates instance `number` of a program, counted from 1.
fn task(part: &Ingredient, number: u32, offset: Nanos, work: Nanos) -> Task {
    Task {
        offset,
        work,
        ..Task::once(instance_name(&part.program.name, number), Arc::clone(&part.program))
    }
}

/// Returns the name of an instance: `433.milc`, and `433.milc#2` for the second.
#[must_use]
pub fn instance_name(program: &str, number: u32) -> String {
    if number == 1 { program.to_owned() } else { format!("{program}#{number}") }
}

#[cfg(test)]
mod tests;
