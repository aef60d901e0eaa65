//! Synthetic programs: a mean bandwidth, phases of hundreds of milliseconds to seconds, and
//! fluctuation at one millisecond within them, as iabw Fig. 2 shows both.
//!
//! A program is a cycle: a task repeats it until its work is done. `file` reads one from a file,
//! `rates` draws its rates.

mod file;
mod rates;

use memweir_core::input::Refusal;
use memweir_core::{ABSURD_BANDWIDTH, BytesPerSec, MAX_MEDIA, Nanos};

use crate::program::{Demand, Flow, Program, Span};
use rates::{Step, steps};

/// The fine interval within which a program is as steady as a Hog (iabw section 2.3).
pub const FINE: Nanos = Nanos::MILLI;

/// Longest cycle: an hour at one millisecond.
pub const LONGEST: Nanos = Nanos::from_millis(3_600_000);

/// Coarse phases, each with its own bandwidth and part of the code. They take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// Number of kinds; at least one.
    pub kinds: u32,
    /// Mean length of a phase.
    pub length: Nanos,
    /// Spread of their bandwidths: the standard deviation over the mean, zero or more. Bandwidths
    /// are cut at zero, so the programs with the widest spread have less.
    pub spread: f64,
}

/// Fluctuation within a phase, by the three aspects of iabw section 2.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fluctuation {
    /// *Degree*: the standard deviation over the mean; 0 is as steady as a Hog. Rates are cut at
    /// zero and at the ceiling, which makes degrees beyond 1 come out lower.
    pub degree: f64,
    /// *Period*: the mean time between two crossings of the mean; at least [`FINE`].
    pub period: Nanos,
    /// *Regularity*: 1 alternates between two rates, each for one period; 0 has runs of any length
    /// and height; values in between mix both.
    pub regularity: f64,
}

/// Share of its time that a program waits for memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stall {
    /// The share of a core that draws its peak when it does nothing else: rate over ceiling.
    FromCeiling,
    /// This share of the whole time, in every millisecond in proportion to its traffic; above 0, at
    /// most 1.
    Share(f64),
}

/// Parameters of a program to be drawn. Equal parameters give equal programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Name of the program.
    pub name: String,
    /// Length of the cycle.
    pub length: Nanos,
    /// Mean bandwidth of the cycle, both directions; met exactly.
    pub bandwidth: BytesPerSec,
    /// Share of the lines that are written, from 0 to 1.
    pub write_share: f64,
    /// Share of its time that it waits for memory.
    pub stall: Stall,
    /// Peak of one core: no rate is above it.
    pub ceiling: BytesPerSec,
    /// Instructions per second while it does not wait; zero if unknown.
    pub instructions: f64,
    /// Coarse phases.
    pub phases: Phases,
    /// Fluctuation within them.
    pub fluctuation: Fluctuation,
    /// Share of the traffic that goes to each memory; the shares add up to 1. Programs that leave
    /// the placement to the [`Placement`](crate::Placement) of their task direct everything to the
    /// first memory.
    pub memories: [f64; MAX_MEDIA],
    /// Seed of everything random.
    pub seed: u64,
}

impl Synthetic {
    /// Creates a program as steady as a Hog: one rate, all reads to the first memory, the stall
    /// that follows from the ceiling.
    #[must_use]
    pub fn steady(name: impl Into<String>, bandwidth: BytesPerSec, ceiling: BytesPerSec) -> Self {
        let mut memories = [0.0; MAX_MEDIA];
        memories[0] = 1.0;
        Self {
            name: name.into(),
            length: Nanos::from_millis(1000),
            bandwidth,
            write_share: 0.0,
            stall: Stall::FromCeiling,
            ceiling,
            instructions: 0.0,
            phases: Phases { kinds: 1, length: Nanos::from_millis(1000), spread: 0.0 },
            fluctuation: Fluctuation { degree: 0.0, period: FINE, regularity: 1.0 },
            memories,
            seed: 0,
        }
    }

    /// Draws the program.
    ///
    /// # Errors
    /// If a figure is out of its range, or the mean cannot be reached below the ceiling.
    pub fn program(&self) -> Result<Program, Refusal> {
        self.check()?;
        let mut spans: Vec<Span> = Vec::new();
        for step in steps(self) {
            let demand = self.demand(step);
            match spans.last_mut() {
                Some(last) if last.demand == demand => last.length += step.length,
                _ => spans.push(Span { length: step.length, demand }),
            }
        }
        Ok(Program { name: self.name.clone(), spans })
    }

    /// Returns the rate at which it would only wait.
    fn waiting_rate(&self) -> BytesPerSec {
        match self.stall {
            Stall::FromCeiling => self.ceiling,
            Stall::Share(share) => self.bandwidth / share,
        }
    }

    /// Returns the highest rate that it can demand.
    fn highest(&self) -> BytesPerSec {
        self.ceiling.min(self.waiting_rate())
    }

    fn demand(&self, step: Step) -> Demand {
        let waiting = self.waiting_rate().0;
        let stall = if waiting > 0.0 { (step.rate.0 / waiting).min(1.0) } else { 0.0 };
        let mut flows = [Flow::default(); MAX_MEDIA];
        for (flow, share) in flows.iter_mut().zip(self.memories) {
            flow.reads = step.rate * ((1.0 - self.write_share) * share);
            flow.writes = step.rate * (self.write_share * share);
        }
        Demand {
            instructions: self.instructions * (1.0 - stall),
            flows,
            stall,
            code: 1 + step.kind,
        }
    }

    /// Checks that every figure is in its range.
    ///
    /// # Errors
    /// Names the first figure that is not.
    pub fn check(&self) -> Result<(), Refusal> {
        let share = |name: &str, value: f64| in_range(name, value, 0.0, 1.0);
        if self.length < FINE || self.length > LONGEST {
            return Err(Refusal::new("the length is out of range", "from 1 ms to an hour"));
        }
        in_range("bandwidth", self.bandwidth.0, 0.0, ABSURD_BANDWIDTH)?;
        in_range("ceiling", self.ceiling.0, 1.0, ABSURD_BANDWIDTH)?;
        in_range("rate of instructions", self.instructions, 0.0, 1e14)?;
        share("write share", self.write_share)?;
        share("regularity", self.fluctuation.regularity)?;
        in_range("degree", self.fluctuation.degree, 0.0, 10.0)?;
        in_range("spread", self.phases.spread, 0.0, 10.0)?;
        if self.fluctuation.period < FINE || self.phases.length < FINE {
            return Err(Refusal::new("a period or phase is too short", "1 ms and more"));
        }
        if !(1..=64).contains(&self.phases.kinds) {
            return Err(Refusal::new("the number of phases is out of range", "from 1 to 64"));
        }
        for memory in self.memories {
            share("share of a memory", memory)?;
        }
        let sum: f64 = self.memories.iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            let reason = "the shares of the memories do not add up to 1";
            return Err(Refusal::new(reason, format!("they add up to {sum}")));
        }
        if let Stall::Share(stall) = self.stall {
            in_range("stall", stall, f64::MIN_POSITIVE, 1.0)?;
        }
        if self.bandwidth > self.highest() {
            return Err(Refusal::new(
                format!("a mean of {} is above what a core draws", self.bandwidth),
                format!("at most {}", self.highest()),
            ));
        }
        Ok(())
    }
}

fn in_range(name: &str, value: f64, from: f64, to: f64) -> Result<(), Refusal> {
    if (from..=to).contains(&value) {
        return Ok(());
    }
    Err(Refusal::new(
        format!("a {name} of {value} is out of range"),
        format!("from {from} to {to}"),
    ))
}

#[cfg(test)]
mod tests;
