//! Converts counts and cycles into picojoules, for one device.

use crate::spec::{Currents, MemorySpec, Rail, with_an_open_bank};

use super::rank::Counts;
use super::report::{EnergyKind, EnergyReport};

/// Times of a device in nanoseconds, and its organization.
struct Device<'a> {
    clock_ns: f64,
    spec: &'a MemorySpec,
    banks: u32,
}

impl Device<'_> {
    fn span(&self, name: &str) -> f64 {
        self.spec.timing.get(name).map_or(0.0, |cycles| cycles.as_f64() * self.clock_ns)
    }
}

/// Adds the energy that `counts` of a rank of `spec` drew to `report`.
pub(super) fn draw(spec: &MemorySpec, counts: &Counts, report: &mut EnergyReport) {
    let device = Device {
        clock_ns: spec.clock.as_f64() / 1e3,
        spec,
        banks: spec.organization.banks_of_rank(),
    };
    let devices = f64::from(spec.organization.devices());
    if let Some(currents) = &spec.currents {
        for rail in &currents.rails {
            background(&device, currents, rail, counts, devices * rail.volts, report);
            if spec.array.is_none() {
                commands(&device, currents, rail, counts, devices * rail.volts, report);
            }
        }
    }
    array(spec, counts, report);
}

/// Returns the current with one open bank, and the part of it that all open banks share.
fn active(device: &Device<'_>, currents: &Currents, rail: &Rail) -> (f64, f64) {
    with_an_open_bank([rail.idd2n, rail.idd3n], currents.bank_share, device.banks)
}

/// Adds background energies. `scale` is volts times devices; V mA ns are pJ.
fn background(
    device: &Device<'_>,
    currents: &Currents,
    rail: &Rail,
    counts: &Counts,
    scale: f64,
    report: &mut EnergyReport,
) {
    let ns = |cycles: u64| cycles as f64 * device.clock_ns * scale;
    let (one, shared) = active(device, currents, rail);
    let standby = shared * ns(counts.active) + (one - shared) * ns(counts.active_banks);
    report.add(EnergyKind::ActiveStandby, standby);
    report.add(EnergyKind::PrechargeStandby, rail.idd2n * ns(counts.precharged));
    report.add(EnergyKind::ActivePowerDown, rail.idd3p * ns(counts.active_power_down));
    report.add(EnergyKind::PrechargePowerDown, rail.idd2p * ns(counts.precharged_power_down));
    report.add(EnergyKind::SelfRefresh, rail.idd6 * ns(counts.self_refresh));
    let refresh = scale * (rail.idd5b - rail.idd3n).max(0.0) * device.span("tRFC");
    let of_bank = counts.bank_refreshes as f64 * share_of_bank_refresh(device);
    report.add(EnergyKind::Refresh, refresh * (counts.refreshes as f64 + of_bank));
}

fn commands(
    device: &Device<'_>,
    currents: &Currents,
    rail: &Rail,
    counts: &Counts,
    scale: f64,
    report: &mut EnergyReport,
) {
    let (one, _) = active(device, currents, rail);
    let burst = f64::from(device.spec.organization.burst_length) / 2.0 * device.clock_ns;
    let each = [
        (EnergyKind::Activate, counts.activates, (rail.idd0 - one) * device.span("tRAS")),
        (EnergyKind::Precharge, counts.precharges, (rail.idd0 - rail.idd2n) * device.span("tRP")),
        (EnergyKind::Read, counts.reads, (rail.idd4r - rail.idd3n) * burst),
        (EnergyKind::Write, counts.writes, (rail.idd4w - rail.idd3n) * burst),
    ];
    for (kind, count, energy) in each {
        report.add(kind, count as f64 * energy * scale);
    }
}

/// Returns the share of the rows that a bank refresh covers, relative to a refresh of all banks:
/// the ratio of their intervals.
fn share_of_bank_refresh(device: &Device<'_>) -> f64 {
    let all = device.spec.refresh_interval();
    let (Some(all), Some(one)) = (all, device.spec.bank_refresh_interval()) else { return 0.0 };
    one.as_f64() / all.as_f64()
}

fn array(spec: &MemorySpec, counts: &Counts, report: &mut EnergyReport) {
    let Some(array) = &spec.array else { return };
    let row = (spec.organization.row_bytes().0 * 8) as f64;
    let line = row / f64::from(spec.organization.lines_of_row());
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
