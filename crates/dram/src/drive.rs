//! Drives a memory system with the accesses of a trace and measures it.
//!
//! The driver is a loop over memory cycles. In each cycle it offers at most one request, in the
//! order of the trace, and then advances the memory by the cycle; a refused request is offered
//! again in the next cycle. The loop ends when all requests, writes included, were accepted and
//! completed. Cycles in which nothing can change are skipped, which does not change the result.
//!
//! Requests of a *warm-up* are served before the measurement begins. From then on everything counts
//! that happens, also what becomes of requests of the warm-up that still wait.

mod driven;
mod latency;
mod report;
mod target;
#[cfg(test)]
mod tests;

pub use driven::{Driven, DrivenParts};
pub use latency::{Bucket, Latencies};
pub use report::{LatencyReport, Measured, PartReport, Report, Served, WarmUp};
pub use target::{PartObserver, Target};

use std::str::FromStr;
use std::{fmt, iter, mem};

use memweir_core::input::Refusal;
use memweir_core::{Cycles, Direction, PhysAddr};

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::hybrid::Hybrid;
use crate::request::{Completion, Request, Source};
use crate::stats::Stats;
use crate::system::MemorySystem;
use crate::tagged::Tagged;

/// Times at which requests are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In every cycle: the memory is saturated.
    Saturate,
    /// A read only while fewer than this many reads are outstanding, at least 1; writes are posted.
    Parallel(u32),
    /// Request `i` not before cycle `i * K`, from which its latency counts; K is at least 1.
    Pace(u64),
    /// Each request not before its own due cycle ([`Offer::due`]), from which its latency counts.
    Due,
}

/// The way in which a memory is driven; of a [`Mode`] alone, without a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrivePlan {
    /// Times at which requests are offered.
    pub mode: Mode,
    /// Number of requests before the measurement, which begins with the cycle in which the next one
    /// is due.
    pub warm_up: u64,
}

impl From<Mode> for DrivePlan {
    fn from(mode: Mode) -> Self {
        Self { mode, warm_up: 0 }
    }
}

impl FromStr for Mode {
    type Err = Refusal;

    /// Parses `sat`, `mlp:16` or `pace:50`.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let help = "`sat`, `mlp:READS` or `pace:CYCLES`, for example `mlp:16`";
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let number = match number.map(str::parse::<u32>) {
            None => None,
            Some(Ok(number)) if number > 0 => Some(number),
            Some(_) => {
                let reason = format!("`{text}`: the number must be whole and more than zero");
                return Err(Refusal::new(reason, help));
            }
        };
        match (name, number) {
            ("sat", None) => Ok(Self::Saturate),
            ("mlp", Some(reads)) => Ok(Self::Parallel(reads)),
            ("pace", Some(cycles)) => Ok(Self::Pace(cycles.into())),
            ("mlp" | "pace", None) => Err(Refusal::new(format!("`{name}` lacks a number"), help)),
            ("sat", Some(_)) => Err(Refusal::new("`sat` takes no number", help)),
            _ => Err(Refusal::new(format!("unknown mode `{name}`"), help)),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saturate => f.write_str("sat"),
            Self::Parallel(reads) => write!(f, "mlp:{reads}"),
            Self::Pace(cycles) => write!(f, "pace:{cycles}"),
            Self::Due => f.write_str("due"),
        }
    }
}

/// A request that has not been offered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its address within the memory system.
    pub address: PhysAddr,
    /// Read or write.
    pub direction: Direction,
    /// The requester.
    pub source: Source,
    /// Earliest cycle of the offer if the mode is [`Mode::Due`]; cycles do not descend.
    pub due: Cycles,
}

/// Reason why a memory was not driven to the end.
#[derive(Debug, thiserror::Error)]
pub enum DriveError<E> {
    /// The source of requests failed.
    #[error(transparent)]
    Source(E),
    /// The memory holds requests that it never completes: a fault of this program.
    #[error("the memory hangs at cycle {} with {outstanding} requests", at.0)]
    Hangs {
        /// Cycle in which the memory hangs.
        at: Cycles,
        /// Requests that were not completed.
        outstanding: u64,
    },
    /// A memory cannot work, or two share addresses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No request was left after the warm-up.
    #[error("the warm-up took all requests, of which there are {requests}")]
    NothingMeasured {
        /// All requests.
        requests: u64,
    },
}

/// Drives the memories of `systems`, each of which begins at its address: one alone, or several
/// side by side.
///
/// # Errors
/// As [`drive`], or if a memory cannot work or two share addresses.
pub fn drive_systems<E>(
    systems: &[(PhysAddr, MemoryConfig)],
    plan: impl Into<DrivePlan>,
    source: impl FnMut() -> Result<Option<Offer>, E>,
    observer: &mut impl PartObserver,
) -> Result<DrivenParts, DriveError<E>> {
    match systems {
        [(_, config)] => drive(&mut MemorySystem::new(config)?, plan, source, observer),
        systems => drive(&mut Hybrid::new(systems)?, plan, source, observer),
    }
}

/// Drives `memory`, which is at cycle zero, with the requests of `source`. `observer` sees every
/// event.
///
/// # Errors
/// Errors of the source, a memory that hangs, or a warm-up that takes all requests.
pub fn drive<E>(
    memory: &mut impl Target,
    plan: impl Into<DrivePlan>,
    mut source: impl FnMut() -> Result<Option<Offer>, E>,
    observer: &mut impl PartObserver,
) -> Result<DrivenParts, DriveError<E>> {
    let plan = plan.into();
    let mut tally = Tally::new(plan, memory.parts(), observer);
    let mut now = 0;
    let mut next = source().map_err(DriveError::Source)?;
    while let Some(offer) = next {
        let due = tally.due(&offer);
        if now < due {
            memory.advance(Cycles(due - 1), &mut tally);
            now = due;
        }
        if tally.ends_warm_up() {
            tally.begin(Cycles(now), memory.stats());
        }
        let accepted = tally.may_offer(offer.direction)
            && memory.enqueue(Cycles(now), tally.request(offer)).is_ok();
        if accepted {
            tally.accepted(&offer, now);
            memory.advance(Cycles(now), &mut tally);
            now += 1;
            next = source().map_err(DriveError::Source)?;
        } else {
            // The reason for the refusal does not change before the next event.
            let Some(event) = memory.next_event() else { return Err(tally.hangs(now)) };
            memory.advance(event, &mut tally);
            now = now.max(event.0 + 1);
        }
    }
    while let Some(event) = memory.next_event() {
        memory.advance(event, &mut tally);
    }
    if tally.outstanding() > 0 {
        return Err(tally.hangs(now));
    }
    if plan.warm_up > 0 && tally.warm_up.is_none() {
        return Err(DriveError::NothingMeasured { requests: tally.offered });
    }
    Ok(tally.finish(memory.stats()))
}

/// Outstanding requests and measurements so far.
struct Tally<'a, O> {
    plan: DrivePlan,
    observer: &'a mut O,
    /// Accepted requests.
    offered: u64,
    outstanding_reads: u32,
    driven: Driven,
    /// Measurements of each part, if there are several.
    parts: Vec<Driven>,
    /// The same of the warm-up, once that is over.
    warm_up: Option<DrivenParts>,
    /// Cycles from which the latencies of the outstanding requests count.
    starts: Tagged<u64>,
}

impl<'a, O> Tally<'a, O> {
    /// Begins to measure a memory of this many parts, or one memory alone if there are none.
    fn new(plan: DrivePlan, parts: usize, observer: &'a mut O) -> Self {
        Self {
            plan,
            observer,
            offered: 0,
            outstanding_reads: 0,
            driven: Driven::default(),
            parts: vec![Driven::default(); parts],
            warm_up: None,
            starts: Tagged::new(),
        }
    }

    /// Returns true if the next request is the first that belongs to the measurement.
    fn ends_warm_up(&self) -> bool {
        self.offered == self.plan.warm_up && self.offered > 0 && self.warm_up.is_none()
    }

    /// Returns the measurements of a memory that has served all requests and has these counts.
    fn finish(self, mut stats: Vec<Stats>) -> DrivenParts {
        let Self { offered: mut accepted, driven: mut whole, mut parts, warm_up, .. } = self;
        if let Some(before) = &warm_up {
            accepted -= before.accepted;
            whole.cycles.0 -= before.whole.cycles.0;
            stats.iter_mut().zip(&before.stats).for_each(|(all, before)| *all -= *before);
        }
        parts.iter_mut().for_each(|part| part.cycles = whole.cycles);
        DrivenParts { accepted, whole, parts, stats, warm_up: warm_up.map(Box::new) }
    }

    /// Returns the earliest cycle for `offer`, which is the next request.
    fn due(&self, offer: &Offer) -> u64 {
        match self.plan.mode {
            Mode::Pace(pace) => self.offered * pace,
            Mode::Due => offer.due.0,
            Mode::Saturate | Mode::Parallel(_) => 0,
        }
    }

    fn may_offer(&self, direction: Direction) -> bool {
        match (self.plan.mode, direction) {
            (Mode::Parallel(reads), Direction::Read) => self.outstanding_reads < reads,
            _ => true,
        }
    }

    /// Builds the next request.
    fn request(&self, offer: Offer) -> Request {
        Request {
            address: offer.address,
            direction: offer.direction,
            source: offer.source,
            tag: self.starts.next_tag(),
        }
    }

    fn accepted(&mut self, offer: &Offer, now: u64) {
        let start = match self.plan.mode {
            Mode::Saturate | Mode::Parallel(_) => now,
            Mode::Pace(_) | Mode::Due => self.due(offer),
        };
        self.starts.insert(start);
        self.offered += 1;
        self.outstanding_reads += u32::from(offer.direction == Direction::Read);
        self.driven.cycles = self.driven.cycles.max(Cycles(now + 1));
    }

    fn outstanding(&self) -> u64 {
        let before = self.warm_up.as_ref().map_or(0, |before| before.whole.requests());
        self.offered - before - self.driven.requests()
    }

    fn hangs<E>(&self, now: u64) -> DriveError<E> {
        DriveError::Hangs { at: Cycles(now), outstanding: self.outstanding() }
    }
}

impl<O: PartObserver> Tally<'_, O> {
    /// Begins the measurement with cycle `at`, when the memory has these counts.
    fn begin(&mut self, at: Cycles, stats: Vec<Stats>) {
        let none = vec![Driven::default(); self.parts.len()];
        let mut parts = mem::replace(&mut self.parts, none);
        let mut whole = mem::take(&mut self.driven);
        iter::once(&mut whole).chain(&mut parts).for_each(|driven| driven.cycles = at);
        let accepted = self.offered;
        self.warm_up = Some(DrivenParts { accepted, whole, parts, stats, warm_up: None });
        self.observer.begins(at);
    }
}

impl<O: PartObserver> PartObserver for Tally<'_, O> {
    fn completed(&mut self, index: usize, completion: &Completion) {
        let start = self.starts.remove(completion.request.tag);
        let latency = match completion.request.direction {
            Direction::Read => {
                self.outstanding_reads -= 1;
                Some(completion.done.0 - start)
            }
            Direction::Write => None,
        };
        self.driven.count(completion, latency);
        if let Some(part) = self.parts.get_mut(index) {
            part.count(completion, latency);
        }
        self.observer.measured(index, completion, latency);
    }

    fn command(&mut self, part: usize, command: &Command) {
        self.observer.command(part, command);
    }
}
