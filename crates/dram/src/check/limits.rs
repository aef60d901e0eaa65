//! The rules of a standard as numbers, for one device.
//!
//! Each distance is written out from the section of the standard that states it. Formulas differ
//! between standards; if one does not name a parameter (DDR3 has no bank groups), the value is that
//! of its nearest relative.

use memweir_core::input::Refusal;
use memweir_core::medium::MediumKind;

use crate::command::CommandKind;
use crate::config::RefreshPolicy;
use crate::spec::{BankRefresh, MemorySpec};

/// The standard that a family follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standard {
    /// DDR3 and DDR4, and NVM behind such an interface.
    Ddr,
    /// DDR5.
    Ddr5,
    /// LPDDR2, and NVM behind such an interface.
    Lpddr2,
    /// LPDDR4.
    Lpddr4,
}

impl Standard {
    fn of(spec: &MemorySpec) -> Result<Self, Refusal> {
        match spec.family.as_str() {
            "ddr3" | "ddr4" => Ok(Self::Ddr),
            "ddr5" => Ok(Self::Ddr5),
            "lpddr2" => Ok(Self::Lpddr2),
            "lpddr4" => Ok(Self::Lpddr4),
            other => Err(Refusal::new(
                format!("the rules of the family `{other}` are not known to the checker"),
                "it knows ddr3, ddr4, ddr5, lpddr2 and lpddr4",
            )),
        }
    }
}

/// Minimum distances in cycles of the memory clock, from command to command, and sizes of the
/// device.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    standard: Standard,
    pub(super) groups: u16,
    pub(super) banks: u16,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) read_latency: u64,
    pub(super) write_latency: u64,
    pub(super) burst: u64,
    pub(super) activate_to_column: u64,
    pub(super) row_active: u64,
    pub(super) row_cycle: u64,
    pub(super) precharge: u64,
    pub(super) precharge_all: u64,
    pub(super) precharge_to_precharge: u64,
    pub(super) read_to_precharge: u64,
    pub(super) write_to_precharge: u64,
    pub(super) read_to_read: u64,
    pub(super) read_to_read_in_group: u64,
    pub(super) write_to_write: u64,
    pub(super) write_to_write_in_group: u64,
    pub(super) write_to_read: u64,
    pub(super) write_to_read_in_group: u64,
    pub(super) read_to_write: u64,
    pub(super) row_to_row: u64,
    pub(super) row_to_row_in_group: u64,
    pub(super) four_activates: u64,
    pub(super) rank_switch: u64,
    pub(super) refresh: Option<Refresh>,
    pub(super) sleep: Option<Sleep>,
    /// Time from a read to power-down, and below it from a write.
    pub(super) read_to_power_down: u64,
    pub(super) write_to_power_down: u64,
}

/// Limits of refresh.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    /// tRFC.
    pub(super) all: u64,
    /// Limits of the refresh of single banks.
    pub(super) bank: Option<BankLimits>,
    /// Interval between refreshes of all banks (tREFI); `None` if refresh is off.
    pub(super) interval: Option<u64>,
    /// Refreshes that may be postponed.
    pub(super) postponed: u64,
}

/// Limits of the refresh of single banks.
#[derive(Clone, Debug)]
pub(super) struct BankLimits {
    pub(super) kind: BankRefresh,
    pub(super) busy: u64,
    /// Time from a bank refresh to an activate of another bank, and back.
    pub(super) to_row: u64,
    pub(super) from_row: u64,
    /// Interval between refreshes of one bank.
    pub(super) interval: u64,
    /// "No more than 4 banks may be activated (or refreshed, in the case of REFpb) in a rolling
    /// tFAW window": JESD209-5B, section 8.1, as public notes quote it; LPDDR2 and LPDDR4 are taken
    /// to share it.
    pub(super) counts_as_activate: bool,
}

/// Limits of power-down and self-refresh.
#[derive(Clone, Debug)]
pub(super) struct Sleep {
    pub(super) least: u64,
    pub(super) exit: u64,
    pub(super) self_refresh: u64,
    pub(super) self_refresh_exit: u64,
}

/// Returns the cycles of a timing parameter.
fn maybe(spec: &MemorySpec, name: &str) -> Option<u64> {
    spec.timing.get(name).map(|cycles| cycles.0)
}

/// Returns the cycles of a timing parameter that every device has.
fn need(spec: &MemorySpec, name: &str) -> Result<u64, Refusal> {
    maybe(spec, name).ok_or_else(|| {
        Refusal::new(format!("`{}` has no `{name}`", spec.name), "the rule checker needs it")
    })
}

impl Limits {
    /// Returns the limits of `spec`. Refresh intervals are not checked if the policy is
    /// [`RefreshPolicy::Off`].
    pub(super) fn of(spec: &MemorySpec, policy: RefreshPolicy) -> Result<Self, Refusal> {
        let standard = Standard::of(spec)?;
        let maybe = |name: &str| maybe(spec, name);
        let need = |name: &str| need(spec, name);
        let of_two = |short: &str, long: &str, plain: &str| -> Result<(u64, u64), Refusal> {
            match (maybe(short), maybe(long)) {
                (Some(short), Some(long)) => Ok((short, long.max(short))),
                _ => need(plain).map(|both| (both, both)),
            }
        };
        let organization = &spec.organization;
        // LPDDR: data arrives tDQSCK after the read latency.
        let latencies = (need("CL")? + maybe("tDQSCK").unwrap_or(0), need("CWL")?);
        let burst = u64::from(organization.burst_length) / 2;
        let (ccd, ccd_long) = of_two("tCCD_S", "tCCD_L", "tCCD")?;
        let (rrd, rrd_long) = of_two("tRRD_S", "tRRD_L", "tRRD")?;
        let (wtr, wtr_long) = of_two("tWTR_S", "tWTR_L", "tWTR")?;
        let data = Data { standard, latencies, burst };
        let (ras, rp) = (need("tRAS")?, need("tRP")?);
        let write_to_precharge = data.after_write() + need("tWR")?;
        let write_to_write = maybe("tCCD_L_WR").unwrap_or(ccd_long);
        Ok(Self {
            standard,
            groups: organization.bank_groups as u16,
            banks: organization.banks as u16,
            rows: organization.rows,
            columns: organization.lines_of_row(),
            read_latency: latencies.0,
            write_latency: latencies.1,
            burst,
            activate_to_column: need("tRCD")?,
            row_active: ras,
            row_cycle: maybe("tRC").unwrap_or(0),
            precharge: rp,
            precharge_all: maybe("tRPab").unwrap_or(rp),
            read_to_precharge: data.read_to_precharge(need("tRTP")?),
            write_to_precharge,
            read_to_read: ccd,
            read_to_read_in_group: ccd_long,
            write_to_write: ccd,
            write_to_write_in_group: write_to_write,
            write_to_read: data.after_write() + wtr,
            write_to_read_in_group: data.after_write() + wtr_long,
            read_to_write: data.read_to_write(),
            precharge_to_precharge: maybe("tPPD").unwrap_or(0),
            row_to_row: rrd,
            row_to_row_in_group: rrd_long,
            four_activates: maybe("tFAW").unwrap_or(0),
            rank_switch: maybe("tRTRS").unwrap_or(0),
            refresh: refresh(spec, policy, (rrd, rrd_long))?,
            sleep: sleep(spec),
            read_to_power_down: latencies.0 + burst + 1,
            write_to_power_down: write_to_precharge,
        })
    }

    /// Returns the cycles for which `kind` occupies the command bus. DDR5 and LPDDR4 spread some
    /// commands over several; power-down is signaled by CKE or CS elsewhere.
    pub(super) fn command_cycles(&self, kind: CommandKind) -> u64 {
        use CommandKind as K;
        let told_by_cke = matches!(kind, K::PowerDownEnter | K::PowerDownExit | K::SelfRefreshExit);
        let with_address = kind == K::Activate || kind.direction().is_some();
        match self.standard {
            _ if told_by_cke => 0,
            Standard::Ddr | Standard::Lpddr2 => 1,
            Standard::Ddr5 if with_address => 2,
            Standard::Ddr5 => 1,
            Standard::Lpddr4 if with_address => 4,
            Standard::Lpddr4 => 2,
        }
    }

    /// Returns the limits of bank refreshes, if the device has them.
    pub(super) fn bank_limits(&self) -> Option<&BankLimits> {
        self.refresh.as_ref().and_then(|refresh| refresh.bank.as_ref())
    }
}

/// Distances that follow from the times at which data is on the bus.
struct Data {
    standard: Standard,
    latencies: (u64, u64),
    burst: u64,
}

impl Data {
    /// Returns the time from a write to the start of its recovery: WL + BL/2, in LPDDR one cycle
    /// more.
    fn after_write(&self) -> u64 {
        let late = matches!(self.standard, Standard::Lpddr2 | Standard::Lpddr4);
        self.latencies.1 + self.burst + u64::from(late)
    }

    /// Returns the time from a read to a precharge: tRTP, which LPDDR counts from the last prefetch
    /// of the burst: 4 beats (LPDDR2) or 16 (LPDDR4).
    fn read_to_precharge(&self, rtp: u64) -> u64 {
        match self.standard {
            Standard::Ddr | Standard::Ddr5 => rtp,
            Standard::Lpddr2 => self.burst + rtp.max(2) - 2,
            Standard::Lpddr4 => self.burst + rtp.max(8) - 8,
        }
    }

    /// Returns the time from a read to a write. The write's data follows the read's after the
    /// turnaround of the bus: 2 cycles (DDR3, DDR4), 4 (DDR5 with a write preamble of 2), 1
    /// (LPDDR2), or the write preamble of 2 (LPDDR4).
    fn read_to_write(&self) -> u64 {
        let turn = match self.standard {
            Standard::Ddr | Standard::Lpddr4 => 2,
            Standard::Ddr5 => 4,
            Standard::Lpddr2 => 1,
        };
        let (read, write) = self.latencies;
        (read + self.burst + turn).saturating_sub(write)
    }
}

fn refresh(
    spec: &MemorySpec,
    policy: RefreshPolicy,
    (rrd, rrd_long): (u64, u64),
) -> Result<Option<Refresh>, Refusal> {
    let maybe = |name: &str| maybe(spec, name);
    let interval = maybe("tREFI");
    if spec.kind == MediumKind::Nvm && interval.is_none() && maybe("tRFC").is_none() {
        return Ok(None);
    }
    let all = need(spec, "tRFC")?;
    let checked = interval.filter(|_| policy != RefreshPolicy::Off);
    let turns = match spec.bank_refresh {
        BankRefresh::None => 0,
        BankRefresh::One => u64::from(spec.organization.banks_of_rank()),
        BankRefresh::SameNumber => u64::from(spec.organization.banks),
    };
    let bank = maybe("tRFCpb").or_else(|| maybe("tRFCsb")).filter(|_| turns > 0);
    let lpddr = matches!(Standard::of(spec)?, Standard::Lpddr2 | Standard::Lpddr4);
    let bank = bank.map(|busy| BankLimits {
        kind: spec.bank_refresh,
        busy,
        to_row: maybe("tREFSBRD").unwrap_or(rrd),
        from_row: rrd_long,
        interval: maybe("tREFI_B").map_or(interval.unwrap_or(0), |one| one * turns),
        counts_as_activate: lpddr,
    });
    // Eight in all families but DDR5.
    let postponed = if spec.family == "ddr5" { 4 } else { 8 };
    Ok(Some(Refresh { all, bank, interval: checked, postponed }))
}

fn sleep(spec: &MemorySpec) -> Option<Sleep> {
    let (least, exit) = (maybe(spec, "tCKE")?, maybe(spec, "tXP")?);
    Some(Sleep {
        least,
        exit,
        self_refresh: maybe(spec, "tCKESR").unwrap_or(least + 1),
        self_refresh_exit: maybe(spec, "tXS").unwrap_or(exit),
    })
}
