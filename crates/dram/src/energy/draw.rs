//! Converts counts and cycles into picojoules, for one device.

use crate::spec::{ArrayEnergy, MemorySpec, Rail, with_an_open_bank};

use super::rank::Counts;
use super::report::{EnergyKind, EnergyReport};

/// The devices of a rank, and what they did.
struct Devices<'a> {
    spec: &'a MemorySpec,
    counts: &'a Counts,
    clock_ns: f64,
}

/// Adds the energy that `counts` of a rank of `spec` drew to `report`.
pub(super) fn draw(spec: &MemorySpec, counts: &Counts, report: &mut EnergyReport) {
    let rank = Devices { spec, counts, clock_ns: spec.clock.as_f64() / 1e3 };
    let banks = spec.organization.banks_of_rank();
    if let Some(currents) = &spec.currents {
        for rail in &currents.rails {
            let active = with_an_open_bank([rail.idd2n, rail.idd3n], currents.bank_share, banks);
            let scale = f64::from(spec.organization.devices()) * rail.volts;
            rank.background(rail, active, scale, report);
            if spec.array.is_none() {
                rank.commands(rail, active, scale, report);
            }
        }
    }
    if let Some(array) = &spec.array {
        rank.array(array, report);
    }
}

/// The energies of a rail follow from its current with one open bank, and the part of it that all
/// open banks share. `scale` is volts times devices; V mA ns are pJ.
impl Devices<'_> {
    /// Returns the nanoseconds of a timing parameter.
    fn span(&self, name: &str) -> f64 {
        self.spec.timing.get(name).map_or(0.0, |cycles| cycles.as_f64() * self.clock_ns)
    }

    fn background(
        &self,
        rail: &Rail,
        (one, shared): (f64, f64),
        scale: f64,
        report: &mut EnergyReport,
    ) {
        let counts = self.counts;
        let ns = |cycles: u64| cycles as f64 * self.clock_ns * scale;
        let standby = shared * ns(counts.active) + (one - shared) * ns(counts.active_banks);
        report.add(EnergyKind::ActiveStandby, standby);
        report.add(EnergyKind::PrechargeStandby, rail.idd2n * ns(counts.precharged));
        report.add(EnergyKind::ActivePowerDown, rail.idd3p * ns(counts.active_power_down));
        report.add(EnergyKind::PrechargePowerDown, rail.idd2p * ns(counts.precharged_power_down));
        report.add(EnergyKind::SelfRefresh, rail.idd6 * ns(counts.self_refresh));
        let refresh = scale * (rail.idd5b - rail.idd3n).max(0.0) * self.span("tRFC");
        let of_bank = counts.bank_refreshes as f64 * self.share_of_bank_refresh();
        report.add(EnergyKind::Refresh, refresh * (counts.refreshes as f64 + of_bank));
    }

    fn commands(&self, rail: &Rail, (one, _): (f64, f64), scale: f64, report: &mut EnergyReport) {
        let counts = self.counts;
        let burst = f64::from(self.spec.organization.burst_length) / 2.0 * self.clock_ns;
        let each = [
            (EnergyKind::Activate, counts.activates, (rail.idd0 - one) * self.span("tRAS")),
            (EnergyKind::Precharge, counts.precharges, (rail.idd0 - rail.idd2n) * self.span("tRP")),
            (EnergyKind::Read, counts.reads, (rail.idd4r - rail.idd3n) * burst),
            (EnergyKind::Write, counts.writes, (rail.idd4w - rail.idd3n) * burst),
        ];
        for (kind, count, energy) in each {
            report.add(kind, count as f64 * energy * scale);
        }
    }

    /// Returns the share of the rows that a bank refresh covers, relative to a refresh of all
    /// banks: the ratio of their intervals.
    fn share_of_bank_refresh(&self) -> f64 {
        let intervals = (self.spec.refresh_interval(), self.spec.bank_refresh_interval());
        let (Some(all), Some(one)) = intervals else { return 0.0 };
        one.as_f64() / all.as_f64()
    }

    fn array(&self, array: &ArrayEnergy, report: &mut EnergyReport) {
        let (counts, organization) = (self.counts, &self.spec.organization);
        let row = (organization.row_bytes().0 * 8) as f64;
        let line = row / f64::from(organization.lines_of_row());
        let each = [
            (EnergyKind::ArrayRead, counts.activates, row * array.read_pj_per_bit),
            (EnergyKind::ArrayWrite, counts.written_back, line * array.write_pj_per_bit),
            (EnergyKind::BufferRead, counts.reads, line * array.buffer_read_pj_per_bit),
            (EnergyKind::BufferWrite, counts.writes, line * array.buffer_write_pj_per_bit),
        ];
        for (kind, count, energy) in each {
            report.add(kind, count as f64 * energy);
        }
    }
}
