//! Batches: draws the papers' mixes from a pool of programs, with their seeds recorded.
//!
//! The mixes of iabw (sections 5.1 and 5.5) are drawn here, to a wanted ideal average bandwidth
//! where one is given; Table 1 and its counterparts are in [`iabw`], the mixes of hmmsched in
//! [`hmmsched`].

pub mod hmmsched;
pub mod iabw;
mod reach;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::{BytesPerSec, Nanos};
use memweir_policy::iabw::{Requirement, ideal_average_bandwidth};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::catalog::Entry;
use super::requirement;
use crate::hardware::Hardware;
use crate::program::Program;
use crate::task::{Placement, Task};
use reach::Reach;

/// A program that mixes are drawn from.
#[derive(Clone, Debug)]
pub struct Ingredient {
    /// The program.
    pub program: Arc<Program>,
    /// How long it takes alone.
    pub run_time: Nanos,
}

impl Ingredient {
    /// A program of the catalog on this machine.
    #[must_use]
    pub fn of(entry: &Entry, hardware: &Hardware, seed: u64) -> Self {
        Self { program: Arc::new(entry.program(hardware, seed)), run_time: entry.run_time() }
    }
}

/// How long each task of a mix works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Each for so long, round its program as often as it takes: the two minutes of iabw section
    /// 5.1.
    Equal(Nanos),
    /// Each executes its program once, and there is one instance of each: the *normal* workloads of
    /// iabw section 5.5.
    Normal,
}

/// The two minutes of iabw section 5.1.
pub const TWO_MINUTES: Weight = Weight::Equal(Nanos::from_millis(120_000));

/// An ideal average bandwidth that a mix is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The bandwidth.
    pub iabw: BytesPerSec,
    /// How far the mix may be from it, over it: 0.02 is two percent.
    pub tolerance: f64,
}

/// What a mix is to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Cores for which the ideal average bandwidth counts.
    pub cores: u32,
    /// How many tasks it has: each number as likely as another.
    pub jobs: RangeInclusive<u32>,
    /// The most instances of one program.
    pub instances: u32,
    /// How long each task works.
    pub weight: Weight,
    /// The ideal average bandwidth that it is to have, if any.
    pub wanted: Option<Wanted>,
}

impl Recipe {
    /// The random workloads of iabw section 5.1: a degree of multiprogramming from 2 to 4, so 8 to
    /// 16 jobs on 4 cores, two minutes each. That a program is drawn at most twice is ours.
    #[must_use]
    pub fn iabw(cores: u32) -> Self {
        Self { cores, jobs: 2 * cores..=4 * cores, instances: 2, weight: TWO_MINUTES, wanted: None }
    }
}

/// A batch that was drawn, and from what.
#[derive(Clone, Debug)]
pub struct Mix {
    /// How people call it: `spec-training-06`.
    pub name: String,
    /// Seed that it was drawn with: the same pool, recipe and seed give it again.
    pub seed: u64,
    /// Its ideal average bandwidth, iabw eq. (10).
    pub iabw: BytesPerSec,
    /// Its tasks, all submitted at the start.
    pub tasks: Vec<Task>,
}

impl Mix {
    /// The same programs as a *normal* workload: one instance of each, executed once. Programs
    /// that are not of `pool`, from which the mix was drawn, are left out.
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

/// Exchanges of one program for another before a mix is drawn anew.
const EXCHANGES: u32 = 200;
/// Mixes that are drawn before a wanted bandwidth is given up.
const DRAWS: u32 = 200;

/// Draws a mix. With a wanted bandwidth, programs of a random mix are exchanged at random for ones
/// that bring it nearer.
///
/// # Errors
/// If the pool is too small for the recipe, or has no mix of the wanted bandwidth.
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

/// A task to be.
#[derive(Clone, Copy, Debug)]
struct Card {
    /// Place of its program in the pool.
    program: usize,
    /// Where in the program it starts.
    offset: Nanos,
    /// What it requires: found once, for a hand is judged again and again.
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
                format!("{most} tasks cannot be drawn from {} programs", self.pool.len()),
                format!("at most {supply}, with {} instances of each", self.instances()),
            ));
        }
        if self.pool.iter().any(|part| part.program.length() == Nanos::ZERO) {
            return Err(Refusal::new("a program of the pool has no length", "leave it out"));
        }
        Ok(())
    }

    /// Whether it can be worthwhile to draw again: what is there at once need not be asked for.
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
        match self.recipe.weight {
            Weight::Equal(_) => self.recipe.instances.max(1),
            Weight::Normal => 1,
        }
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

    /// A program of which the hand has fewer instances than it may have.
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

    /// Exchanges cards until the hand has the wanted bandwidth, or gives up; tells what it has.
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

/// The instance of a program that has this number, counted from 1.
fn task(part: &Ingredient, number: u32, offset: Nanos, work: Nanos) -> Task {
    Task {
        name: instance_name(&part.program.name, number),
        program: Arc::clone(&part.program),
        offset,
        work,
        arrival: Nanos::ZERO,
        placement: Placement::default(),
    }
}

/// `433.milc`, and `433.milc#2` for the second.
pub(crate) fn instance_name(program: &str, number: u32) -> String {
    if number == 1 { program.to_owned() } else { format!("{program}#{number}") }
}

#[cfg(test)]
mod tests;
