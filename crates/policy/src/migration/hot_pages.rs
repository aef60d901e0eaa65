//! Hot-page migration: moves hot pages to DRAM and cold pages out of it where that pays.

use std::collections::HashMap;

use memweir_core::{Bytes, JobId, Media, MediumId, Nanos};

use super::{Extent, MigrationView, Move, MoveCost, access_time};

/// Moves the hottest memory per byte to the local DRAM and evicts the coldest in its place.
///
/// The *gain* of an extent is the time per second that its accesses would save in DRAM. It weighs
/// reads and writes by the latencies of the extent's medium, so that a written page is worth more
/// on a medium with slow writes. A move is made if, over the time for which present behavior is
/// expected to last,
///
/// ```text
/// (gain of incoming - gain of outgoing) x horizon  >  hysteresis x cost of all moves
/// ```
///
/// so that extents of about equal heat do not keep swapping places. Reads and writes are smoothed
/// over the decisions; a new extent starts with its first samples.
///
/// Memory that leaves DRAM goes to the fastest other medium for its traffic.
#[derive(Clone, Debug, Default)]
pub struct HotPages {
    rules: HotPageRules,
    /// Smoothed lines read and written per second, by job and extent.
    heat: HashMap<(JobId, u32), Heat>,
    decision: u64,
    /// Extents outside DRAM, by descending gain per byte.
    hot: Vec<Ranked>,
    /// Extents in DRAM, by ascending gain per byte.
    cold: Vec<Ranked>,
}

#[derive(Clone, Copy, Debug)]
struct Heat {
    reads: f64,
    writes: f64,
    /// Last decision in which the extent was present.
    seen: u64,
}

/// An extent with its gain from DRAM.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    index: usize,
    size: Bytes,
    /// Nanoseconds saved per second by residing in DRAM.
    gain: f64,
    /// Present medium, or the target medium if the extent leaves DRAM.
    elsewhere: MediumId,
    /// Cost of the move in nanoseconds.
    cost: f64,
}

impl Ranked {
    fn density(&self) -> f64 {
        self.gain / self.size.as_f64()
    }
}

/// Thresholds that decide when [`HotPages`] considers a move worth its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotPageRules {
    /// Time for which present behavior is expected to last.
    pub horizon: Nanos,
    /// Ratio of a move's gain to its cost above which it is made; at least 1.
    pub hysteresis: f64,
    /// Weight of the latest samples, from 0 (never learn) to 1 (forget everything else).
    pub smoothing: f64,
    /// Bytes that may be moved per decision, in both directions.
    pub budget: Bytes,
    /// Cost of moving a page of [`PAGE`](memweir_core::PAGE) bytes besides the copy.
    pub overhead: Nanos,
}

impl Default for HotPageRules {
    /// For about one decision per second: a horizon of ten seconds, and a gain of twice the cost.
    /// The overhead is of the order of what Linux needs for one page; a measured value is better.
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

/// State of a decision in progress.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Free DRAM.
    free: Bytes,
    /// Bytes that may still be moved.
    budget: Bytes,
    /// Number of the coldest extents that have left already.
    cold: usize,
}

impl HotPages {
    /// Creates a policy without history.
    #[must_use]
    pub fn new(rules: HotPageRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Appends the moves to make now, in the order in which to make them: extents leave the local
    /// DRAM before others take their place. `moves` is empty at the call.
    pub fn decide(&mut self, view: &MigrationView<'_>, moves: &mut Vec<Move>) {
        self.rank(view);
        let occupied: u64 = self.cold.iter().map(|extent| extent.size.0).sum();
        let mut room = Room {
            free: view.dram_capacity.saturating_sub(Bytes(occupied)),
            budget: self.rules.budget,
            cold: 0,
        };
        self.clear_excess(Bytes(occupied).saturating_sub(view.dram_capacity), &mut room, moves);
        for hot in &self.hot {
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

    /// Returns the number of further coldest extents that have to leave DRAM for `hot`; `None` if
    /// that does not pay, exceeds the budget, or would take more extents than there are.
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

    /// Evicts the coldest extents until the rest fits the capacity, whatever the gain.
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

    /// Learns the samples, and ranks the extents by their gain from DRAM.
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
            // Without another medium nothing can leave DRAM, and nothing is outside it.
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

    /// Updates and returns the extent's smoothed reads and writes per second.
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

/// Returns the medium other than the local DRAM on which traffic like `heat` takes the least time,
/// the first among equals.
fn fastest_elsewhere(media: &Media, heat: Heat) -> Option<MediumId> {
    // An untouched extent still goes to the medium with the cheapest reads.
    let traffic = (heat.reads.max(f64::MIN_POSITIVE), heat.writes);
    media
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != MediumId::LOCAL_DRAM)
        .min_by(|a, b| access_time(media, *a, traffic).total_cmp(&access_time(media, *b, traffic)))
}
