//! Configuration of a memory system: devices, and options of its controllers. `docs/dram-model.md`
//! describes the options.

mod map;
mod options;

pub use map::MapLayout;
pub use options::{PagePolicy, PowerPolicy, RefreshPolicy, Scheduler, Setting};

use std::sync::Arc;

use memweir_core::address_map::AddressMap;
use memweir_core::input::Refusal;
use memweir_core::{Bytes, Cycles};

use crate::spec::{MemorySpec, Organization};

/// A memory system: channels that are alike, each with its own controller (or one per sub-channel).
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// The device of each rank of a channel: all with the same organization and clock.
    pub ranks: Vec<Arc<MemorySpec>>,
    /// Channels, not counting sub-channels.
    pub channels: u32,
    /// Address map. If rows and columns are missing, they follow from the organization.
    pub map: AddressMap,
    /// Order in which requests are served.
    pub scheduler: Scheduler,
    /// No younger row-buffer hit goes before a request that has waited for longer at its bank, and
    /// no waiting request of the channel once a row is open for it. Drains that last longer are
    /// interrupted for the reads that wait. With [`Scheduler::PerBank`], such a request also goes
    /// before those of other banks. `None` for no limit.
    pub age_limit: Option<Cycles>,
    /// Rule that decides when rows are closed.
    pub page: PagePolicy,
    /// Reads that a channel can hold, not counting those for which a row has been opened; with
    /// [`Scheduler::PerBank`], that each bank can hold.
    pub read_queue: u32,
    /// Writes that a channel can hold, not counting those for which a row has been opened.
    pub write_queue: u32,
    /// Share of the write queue below which draining ends, if reads wait; from 0 to 1.
    pub low_watermark: f64,
    /// Share of the write queue above which draining begins; from 0 to 1.
    pub high_watermark: f64,
    /// Refresh of DRAM.
    pub refresh: RefreshPolicy,
    /// Power-down and self-refresh of idle ranks.
    pub power: PowerPolicy,
}

/// The most channels, counting sub-channels.
const MAX_CHANNELS: u32 = 64;

/// The most reads that a channel can hold if each bank has its own queue.
const MAX_READS: u32 = 32_768;

/// Default number of cycles after which a request has waited for too long.
const AGE_LIMIT: Cycles = Cycles(10_000);

impl MemoryConfig {
    /// Builds one channel of `spec` with FR-FCFS, open page, queues of 32 with watermarks of 0.2
    /// and 0.8, all-bank refresh, no power-down, and the [default layout](MapLayout::default_for).
    #[must_use]
    pub fn new(spec: MemorySpec) -> Self {
        Self::with_channels(spec, 1)
    }

    /// Builds the same with `channels` channels, a power of two.
    #[must_use]
    pub fn with_channels(spec: MemorySpec, channels: u32) -> Self {
        let spec = Arc::new(spec);
        let ranks = vec![Arc::clone(&spec); spec.organization.ranks as usize];
        Self::of_ranks(ranks, channels)
    }

    /// Builds the same with the given device in each rank.
    ///
    /// # Panics
    /// If there is no rank.
    #[must_use]
    pub fn of_ranks(ranks: Vec<Arc<MemorySpec>>, channels: u32) -> Self {
        // A number of channels that is refused later has no map.
        let mapped = channels.clamp(1, MAX_CHANNELS);
        let map = MapLayout::default_for(&ranks[0]).map(&ranks[0], ranks.len() as u32, mapped);
        Self {
            ranks,
            channels,
            map,
            scheduler: Scheduler::FrFcfs,
            age_limit: Some(AGE_LIMIT),
            page: PagePolicy::Open,
            read_queue: 32,
            write_queue: 32,
            low_watermark: 0.2,
            high_watermark: 0.8,
            refresh: RefreshPolicy::AllBank,
            power: PowerPolicy::default(),
        }
    }

    /// Returns the device of the first rank, whose organization and clock all ranks share.
    #[must_use]
    pub fn spec(&self) -> &MemorySpec {
        &self.ranks[0]
    }

    /// Returns the number of channels, counting sub-channels.
    #[must_use]
    pub fn controllers(&self) -> u32 {
        self.channels.saturating_mul(self.spec().organization.sub_channels)
    }

    /// Returns the bytes of the whole system. Addresses beyond it wrap around.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        let rank = self.spec().organization.rank_bytes().0;
        let channel = rank.saturating_mul(self.ranks.len() as u64);
        Bytes(channel.saturating_mul(u64::from(self.controllers())))
    }

    /// Returns the refresh that takes place: none of media that need none.
    #[must_use]
    pub fn effective_refresh(&self) -> RefreshPolicy {
        let needed = self.ranks.iter().any(|rank| rank.refresh_interval().is_some());
        if needed { self.refresh } else { RefreshPolicy::Off }
    }

    /// Refuses configurations that cannot work.
    ///
    /// # Errors
    /// Names the problem, with help.
    pub fn validate(&self) -> Result<(), Refusal> {
        self.check().map_err(|(_, refusal)| refusal)
    }

    /// Checks as [`validate`](Self::validate) does, and names the setting that is refused.
    ///
    /// # Errors
    /// The first such setting, and the reason.
    pub fn check(&self) -> Result<(), (Setting, Refusal)> {
        self.check_ranks()?;
        self.check_queues()?;
        self.check_commands()?;
        self.wanted().map_err(|refusal| (Setting::Channels, refusal))?;
        self.complete_map().map(drop).map_err(|refusal| (Setting::Map, refusal))
    }

    fn check_ranks(&self) -> Result<(), (Setting, Refusal)> {
        let Some((first, others)) = self.ranks.split_first() else {
            return Err((Setting::Ranks, Refusal::new("a channel without ranks", "at least one")));
        };
        Organization::check_ranks(self.ranks.len() as u64)
            .map_err(|refusal| (Setting::Ranks, refusal))?;
        let built = |spec: &MemorySpec| Organization { ranks: 1, ..spec.organization };
        let unlike = others.iter().find(|other| {
            built(other) != built(first) || other.clock != first.clock || other.burst != first.burst
        });
        if let Some(other) = unlike {
            let refusal = Refusal::new(
                format!("`{}` and `{}` on one channel", first.name, other.name),
                "ranks of a channel share its clock and organization; put them on channels of their own",
            );
            return Err((Setting::Devices, refusal));
        }
        if !(1..=MAX_CHANNELS).contains(&self.controllers()) {
            let reason = format!("{} channels", self.controllers());
            let help = format!("from 1 to {MAX_CHANNELS}, halves counted");
            return Err((Setting::Channels, Refusal::new(reason, help)));
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), (Setting, Refusal)> {
        for (name, size) in [("read", self.read_queue), ("write", self.write_queue)] {
            if !(1..=4096).contains(&size) {
                let reason = format!("a {name} queue of {size}");
                return Err((Setting::Queue, Refusal::new(reason, "from 1 to 4096 requests")));
            }
        }
        let banks = self.spec().organization.banks_of_rank() * self.ranks.len() as u32;
        if self.scheduler == Scheduler::PerBank && self.read_queue * banks > MAX_READS {
            let refusal = Refusal::new(
                format!("{banks} banks with read queues of {}", self.read_queue),
                format!("at most {MAX_READS} reads in all"),
            );
            return Err((Setting::Queue, refusal));
        }
        let (low, high) = (self.low_watermark, self.high_watermark);
        if !(0.0..=1.0).contains(&low) || !(low..=1.0).contains(&high) {
            let refusal = Refusal::new(
                format!("watermarks {low} and {high}"),
                "shares of the write queue, the low one first",
            );
            return Err((Setting::Watermarks, refusal));
        }
        self.page.validate().map_err(|refusal| (Setting::Page, refusal))
    }

    fn check_commands(&self) -> Result<(), (Setting, Refusal)> {
        let by_bank = self.refresh == RefreshPolicy::PerBank;
        for spec in self.ranks.iter().filter(|spec| by_bank && spec.refresh_interval().is_some()) {
            check_bank_refresh(spec).map_err(|reason| {
                (Setting::Refresh, Refusal::new(reason, "choose all-bank refresh"))
            })?;
        }
        for spec in &self.ranks {
            self.power.validate(spec)?;
        }
        Ok(())
    }
}

/// Refuses refreshes of single banks that the device does not have, or that would keep it from
/// anything else. The error is a sentence.
fn check_bank_refresh(spec: &MemorySpec) -> Result<(), String> {
    match (spec.bank_refresh_time(), spec.bank_refresh_interval()) {
        (_, None) => Err(format!("`{}` cannot refresh single banks", spec.family)),
        (None, _) => Err(format!("`{}` does not say how long a bank's refresh takes", spec.name)),
        (Some(takes), Some(interval)) if takes >= interval => {
            Err(format!("`{}` would refresh banks without pause", spec.name))
        }
        _ => Ok(()),
    }
}
