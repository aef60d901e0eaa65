//! Swap areas on the memory bus: eq. (1) to (5) for DRAM, (13) and (14) for NVM.

use memweir_core::medium::MediumKind;
use memweir_core::{Bytes, Joules, LINE_BYTES, PAGE, Seconds, Watts};

use super::reading::{
    Background, Capacity, DirectReadTimes, InPlace, NvmActive, Reading, RefreshTerm, WriteRecovery,
};
use super::{Activity, Energy};

/// Background power, by state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundPower {
    /// `P_PRE_PDN`: all banks closed, powered down.
    pub precharge_power_down: Watts,
    /// `P_PRE_STBY`: all banks closed.
    pub precharge_standby: Watts,
    /// `P_ACT_PDN`: a row open, powered down.
    pub active_power_down: Watts,
    /// `P_ACT_STBY`: a row open.
    pub active_standby: Watts,
    /// `P_REF`: for refresh, averaged; zero for NVM.
    pub refresh: Watts,
}

/// Power of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatingPower {
    /// `P_ACT`.
    pub activate: Watts,
    /// `P_RD`.
    pub read: Watts,
    /// `P_WR`.
    pub write: Watts,
    /// `P_DQ`: driving the bus.
    pub drive: Watts,
}

/// A memory with an LPDDR2 interface (drswap Table II).
#[derive(Clone, Debug, PartialEq)]
pub struct BusMemory {
    /// Its name.
    pub name: String,
    /// Bytes of the die to which the powers apply.
    pub die: Bytes,
    /// Background power.
    pub background: BackgroundPower,
    /// Operating power.
    pub operating: OperatingPower,
    /// `tCK`.
    pub clock: Seconds,
    /// `tRCD`.
    pub activate_to_access: Seconds,
    /// `tWR`.
    pub write_recovery: Seconds,
    /// `RL` in cycles.
    pub read_latency: f64,
    /// `WL` in cycles.
    pub write_latency: f64,
    /// `BL`, beats of a burst; two are driven in a cycle.
    pub burst_length: f64,
    /// `BW`, bits of the bus.
    pub bus_bits: f64,
    /// Where the figures come from.
    pub source: String,
}

/// Times of eq. (2) to (5).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    read: Seconds,
    write: Seconds,
    active: Seconds,
    drive: Seconds,
}

impl BusMemory {
    /// Returns the energy of a swap area in this memory. `dram` is the memory that lines read in
    /// place would have been read from otherwise; `None` for a swap area of DRAM, whose pages are
    /// all copied.
    #[must_use]
    pub fn energy(&self, activity: &Activity, reading: &Reading, dram: Option<&Self>) -> Energy {
        let times = self.times(activity, reading);
        let power = &self.operating;
        let moving = power.activate * times.active
            + power.read * times.read
            + power.write * times.write
            + power.drive * times.drive;
        let charged = dram.filter(|_| reading.in_place == InPlace::Charged);
        let line = charged.map_or(Joules::ZERO, |dram| self.line_read() - dram.line_read());
        let kind = if dram.is_some() { MediumKind::Nvm } else { MediumKind::Dram };
        Energy {
            background: self.background(activity, reading, times.active, kind),
            moving,
            in_place: line * activity.lines_in_place as f64,
        }
    }

    /// Computes eq. (2) to (5) and (14).
    fn times(&self, activity: &Activity, reading: &Reading) -> Times {
        let (read, write) = (activity.swap_ins as f64, activity.swap_outs as f64);
        let bursts = self.bursts(PAGE.as_f64());
        let beats = self.burst_length / 2.0;
        let recovery = match reading.write_recovery {
            // Seconds over a nanosecond are the printed number, taken as cycles.
            WriteRecovery::CyclesEachBurst => self.clock * (bursts * self.write_recovery.0 / 1e-9),
            WriteRecovery::NanosEachBurst => self.write_recovery * bursts,
            WriteRecovery::NanosEachPage => self.write_recovery,
        };
        let read_page = self.clock * (bursts * beats + self.read_latency);
        let write_page = self.clock * (bursts * beats + self.write_latency) + recovery;
        // Pages that eq. (4) and (5) count: with eq. (14) alone, pages read in place are still
        // among them.
        let seen = match reading.direct_read {
            DirectReadTimes::All => read,
            DirectReadTimes::ReadAlone => read + activity.direct_reads as f64,
        };
        let written = write_page * write;
        Times {
            read: read_page * read,
            write: written,
            active: read_page * seen + written + self.activate_to_access * (seen + write),
            drive: self.clock * ((seen + write) * bursts * beats),
        }
    }

    fn bursts(&self, bytes: f64) -> f64 {
        bytes * 8.0 / (self.burst_length * self.bus_bits)
    }

    fn background(
        &self,
        activity: &Activity,
        reading: &Reading,
        active: Seconds,
        kind: MediumKind,
    ) -> Joules {
        let states = &self.background;
        let dies = activity.size.as_f64() / self.die.as_f64();
        let dies = match reading.capacity {
            Capacity::OneDevice => 1.0,
            Capacity::Dies => dies,
        };
        let standby = match reading.background {
            Background::AllAtOnce => {
                let powered_down = match (kind, reading.nvm_active) {
                    (MediumKind::Nvm, NvmActive::StandbyTwice) => states.active_standby,
                    _ => states.active_power_down,
                };
                let all = states.precharge_power_down
                    + states.precharge_standby
                    + powered_down
                    + states.active_standby;
                all * activity.duration
            }
            Background::OneAtATime => {
                let active = Seconds(active.0.min(activity.duration.0));
                states.active_standby * active
                    + states.precharge_power_down * (activity.duration - active)
            }
        };
        let refresh = match (reading.refresh, kind) {
            (RefreshTerm::Activate, MediumKind::Dram) => self.operating.activate,
            // Refresh is for the part of the memory that is the swap area, however large that is.
            _ => states.refresh * (activity.size.as_f64() / self.die.as_f64()),
        };
        standby * dies + refresh * activity.duration
    }

    /// Returns the energy of copying one page out of it.
    #[must_use]
    pub fn page_in(&self, reading: &Reading) -> Joules {
        self.one_page(1, 0, reading)
    }

    /// Returns the energy of copying one page into it.
    #[must_use]
    pub fn page_out(&self, reading: &Reading) -> Joules {
        self.one_page(0, 1, reading)
    }

    fn one_page(&self, swap_ins: u64, swap_outs: u64, reading: &Reading) -> Joules {
        let activity = Activity {
            duration: Seconds::ZERO,
            size: self.die,
            swap_ins,
            swap_outs,
            direct_reads: 0,
            lines_in_place: 0,
        };
        self.energy(&activity, reading, None).moving
    }

    /// Returns the energy of reading one line that is in no cache, its row opened for it.
    #[must_use]
    pub fn line_read(&self) -> Joules {
        let burst = self.clock * (self.bursts(LINE_BYTES as f64) * self.burst_length / 2.0);
        let open = burst + self.activate_to_access + self.clock * self.read_latency;
        let power = &self.operating;
        (power.read + power.drive) * burst + power.activate * open
    }
}
