//! Hot pages to DRAM, cold ones away, where that pays.

use std::collections::HashMap;

use memweir_core::{Bytes, JobId, Media, MediumId, Nanos};

use super::{Extent, MigrationPolicy, MigrationView, Move, MoveCost, access_time};

/// Brings the hottest memory per byte to the local DRAM and sends the coldest away for it.
///
/// The *gain* of an extent is the time per second that its accesses would save in DRAM, by the
/// latencies of its medium and its reads and writes apart, so that a page that is written is
/// worth more on a medium that is slow to write. A move is made if, over the time for which the
/// present is expected to last,
///
/// ```text
/// (gain of what comes - gain of what leaves for it) x horizon  >  hysteresis x cost of all moves
/// ```
///
/// so that memory of about equal heat does not change places for ever. Reads and writes are
/// smoothed over the decisions; memory that is new is taken as it is first seen.
///
/// What leaves DRAM goes to the medium that is fastest for it of all others.
#[derive(Clone, Debug, Default)]
pub struct HotPages {
    rules: HotPageRules,
    /// Lines read and written per second, smoothed.
    heat: HashMap<(JobId, u32), Heat>,
    decision: u64,
    /// Extents elsewhere, the one that gains most per byte first.
    hot: Vec<Ranked>,
    /// Extents in DRAM, the one that loses least per byte first.
    cold: Vec<Ranked>,
}

#[derive(Clone, Copy, Debug)]
struct Heat {
    reads: f64,
    writes: f64,
    /// The decision in which it was last seen.
    seen: u64,
}

/// An extent with what DRAM is worth to it.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    index: usize,
    size: Bytes,
    /// Nanoseconds per second that DRAM saves.
    gain: f64,
    /// Where it goes if it leaves, or is.
    elsewhere: MediumId,
    /// What the move takes, in nanoseconds.
    cost: f64,
}

impl Ranked {
    fn density(&self) -> f64 {
        self.gain / self.size.as_f64()
    }
}

/// When [`HotPages`] takes a move to be worth its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotPageRules {
    /// For how long the present is expected to last.
    pub horizon: Nanos,
    /// How many times its cost a move must bring in; at least 1.
    pub hysteresis: f64,
    /// Weight of the latest samples, from 0 (never learn) to 1 (forget everything else).
    pub smoothing: f64,
    /// Bytes that may be moved per decision, in both directions.
    pub budget: Bytes,
    /// What moving a page of [`PAGE`](super::PAGE) bytes takes besides the copy.
    pub overhead: Nanos,
}

impl Default for HotPageRules {
    /// Decisions once a second or so: the present lasts for ten seconds, a move pays twice. The
    /// overhead is of the order of what Linux needs for one page; a machine's own is better.
    fn default() -> Self {
        Self {
            horizon: Nanos::from_millis(10_000),
            hysteresis: 2.0,
            smoothing: 0.5,
            budget: Bytes(256 << 20),
            overhead: Nanos(2_000),
        }
    }
}

impl MigrationPolicy for HotPages {
    fn decide(&mut self, view: &MigrationView<'_>, moves: &mut Vec<Move>) {
        self.rank(view);
        let occupied: u64 = self.cold.iter().map(|extent| extent.size.0).sum();
        let mut room = Room {
            free: view.dram_capacity.saturating_sub(Bytes(occupied)),
            budget: self.rules.budget,
            cold: 0,
        };
        self.clear_excess(Bytes(occupied).saturating_sub(view.dram_capacity), &mut room, moves);
        for hot in &self.hot {
            if hot.size.0 > view.dram_capacity.0 {
                continue;
            }
            let Some(leaving) = self.worth_it(hot, &room) else { continue };
            let out = &self.cold[room.cold..room.cold + leaving];
            let freed: Bytes = out.iter().map(|extent| extent.size).sum();
            moves.extend(out.iter().map(|cold| Move { extent: cold.index, to: cold.elsewhere }));
            moves.push(Move { extent: hot.index, to: MediumId::LOCAL_DRAM });
            room.cold += leaving;
            room.free = (room.free + freed).saturating_sub(hot.size);
            room.budget = room.budget.saturating_sub(freed + hot.size);
        }
    }
}

/// What is left while a decision is being made.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// DRAM that nobody occupies.
    free: Bytes,
    /// Bytes that may still be moved.
    budget: Bytes,
    /// How many of the coldest have left.
    cold: usize,
}

impl HotPages {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(rules: HotPageRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// How many of the coldest that are left in DRAM have to leave for `hot`; `None` if that does
    /// not pay, or is more than may be moved.
    fn worth_it(&self, hot: &Ranked, room: &Room) -> Option<usize> {
        let (mut free, mut moved) = (room.free, hot.size);
        let (mut gain, mut cost) = (hot.gain, hot.cost);
        let mut leaving = 0;
        while free < hot.size {
            let cold = self.cold.get(room.cold + leaving)?;
            free += cold.size;
            moved += cold.size;
            gain -= cold.gain;
            cost += cold.cost;
            leaving += 1;
        }
        let pays = gain * self.rules.horizon.as_secs_f64() > self.rules.hysteresis.max(1.0) * cost;
        (pays && moved <= room.budget).then_some(leaving)
    }

    /// Sends the coldest away until what remains fits. That is no question of gain.
    fn clear_excess(&self, mut excess: Bytes, room: &mut Room, moves: &mut Vec<Move>) {
        for cold in &self.cold {
            if excess == Bytes::ZERO {
                break;
            }
            moves.push(Move { extent: cold.index, to: cold.elsewhere });
            room.cold += 1;
            room.free += cold.size.saturating_sub(excess);
            room.budget = room.budget.saturating_sub(cold.size);
            excess = excess.saturating_sub(cold.size);
        }
    }

    /// Learns the samples, and orders the extents by what DRAM is worth to them.
    fn rank(&mut self, view: &MigrationView<'_>) {
        self.decision += 1;
        self.hot.clear();
        self.cold.clear();
        let seconds = view.elapsed.as_secs_f64();
        for (index, extent) in view.extents.iter().enumerate() {
            let heat = self.learn(extent, seconds);
            let in_dram = extent.medium == MediumId::LOCAL_DRAM;
            let elsewhere = match in_dram {
                true => fastest_elsewhere(view.media, heat),
                false => Some(extent.medium),
            };
            // Without another medium nothing can leave, and nothing is elsewhere.
            let Some(elsewhere) = elsewhere else { continue };
            let ranked = self.ranked(index, extent, elsewhere, heat, view.media);
            if in_dram { self.cold.push(ranked) } else { self.hot.push(ranked) }
        }
        let decision = self.decision;
        self.heat.retain(|_, heat| heat.seen == decision);
        let by_density = |a: &Ranked, b: &Ranked| {
            a.density().total_cmp(&b.density()).then(a.index.cmp(&b.index))
        };
        self.cold.sort_unstable_by(by_density);
        self.hot.sort_unstable_by(|a, b| by_density(b, a));
    }

    fn ranked(
        &self,
        index: usize,
        extent: &Extent,
        elsewhere: MediumId,
        heat: Heat,
        media: &Media,
    ) -> Ranked {
        let time = |medium| access_time(media, medium, (heat.reads, heat.writes));
        let to = match extent.medium {
            MediumId::LOCAL_DRAM => elsewhere,
            _ => MediumId::LOCAL_DRAM,
        };
        let cost = MoveCost::new(media, extent.size, extent.medium, to, self.rules.overhead);
        Ranked {
            index,
            size: extent.size,
            gain: time(elsewhere) - time(MediumId::LOCAL_DRAM),
            elsewhere,
            cost: cost.time.as_f64(),
        }
    }

    /// The extent's reads and writes per second, smoothed.
    fn learn(&mut self, extent: &Extent, seconds: f64) -> Heat {
        let rate = |lines: f64| if seconds > 0.0 { lines / seconds } else { 0.0 };
        let now = Heat {
            reads: rate(extent.traffic.reads.as_f64()),
            writes: rate(extent.traffic.writes.as_f64()),
            seen: self.decision,
        };
        let weight = self.rules.smoothing.clamp(0.0, 1.0);
        let smoothed = |old: f64, new: f64| old + weight * (new - old);
        *self
            .heat
            .entry((extent.job, extent.number))
            .and_modify(|heat| {
                *heat = Heat {
                    reads: smoothed(heat.reads, now.reads),
                    writes: smoothed(heat.writes, now.writes),
                    seen: now.seen,
                };
            })
            .or_insert(now)
    }
}

/// The medium beside the local DRAM on which such traffic takes the least time, the first of equals.
fn fastest_elsewhere(media: &Media, heat: Heat) -> Option<MediumId> {
    // Memory that nobody touches should still go where it would be touched at the least cost.
    let traffic = (heat.reads.max(f64::MIN_POSITIVE), heat.writes);
    media
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != MediumId::LOCAL_DRAM)
        .min_by(|a, b| access_time(media, *a, traffic).total_cmp(&access_time(media, *b, traffic)))
}
