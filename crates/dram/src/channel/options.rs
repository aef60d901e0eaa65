//! Options of a controller as numbers.

use memweir_core::Cycles;

use crate::command::CommandKind;
use crate::config::{MemoryConfig, PagePolicy, RefreshPolicy, Scheduler};
use crate::timer::NEVER;

/// Options of a controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) scheduler: Scheduler,
    pub(super) age_limit: u64,
    pub(super) page: PagePolicy,
    /// Capacity of the read and the write queue, in requests.
    pub(super) capacity: [u32; 2],
    /// Waiting writes at which draining begins, and below which it ends.
    pub(super) high: u32,
    pub(super) low: u32,
    pub(super) per_bank_refresh: bool,
    pub(super) power_down_after: u64,
    pub(super) self_refresh_after: u64,
}

impl Options {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let share = |share: f64| share * f64::from(config.write_queue);
        let after = |after: Option<Cycles>| after.map_or(NEVER, |after| after.0);
        Self {
            scheduler: config.scheduler,
            age_limit: after(config.age_limit),
            page: config.page,
            capacity: [config.read_queue, config.write_queue],
            // Draining begins above the high watermark and ends below the low one.
            high: (share(config.high_watermark).floor() as u32 + 1).min(config.write_queue),
            low: share(config.low_watermark).ceil() as u32,
            per_bank_refresh: config.refresh == RefreshPolicy::PerBank,
            power_down_after: after(config.power.power_down_after),
            self_refresh_after: after(config.power.self_refresh_after),
        }
    }

    /// Returns true if ranks ever enter power-down or self-refresh.
    pub(super) fn sleeps(&self) -> bool {
        self.power_down_after != NEVER || self.self_refresh_after != NEVER
    }

    /// Returns true if a controller with these options ever sends `command`.
    pub(super) fn uses(&self, command: CommandKind) -> bool {
        use CommandKind as C;
        match command {
            C::Activate | C::Precharge | C::Read | C::Write => true,
            C::PrechargeAll => !self.per_bank_refresh || self.sleeps(),
            C::Refresh => !self.per_bank_refresh,
            C::RefreshBank => self.per_bank_refresh,
            C::ReadAutoPrecharge | C::WriteAutoPrecharge => {
                matches!(self.page, PagePolicy::Closed { .. })
            }
            C::PowerDownEnter | C::PowerDownExit => self.power_down_after != NEVER,
            C::SelfRefreshEnter | C::SelfRefreshExit => self.self_refresh_after != NEVER,
        }
    }
}
