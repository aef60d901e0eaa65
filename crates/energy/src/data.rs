//! Media of swap areas as data files (drswap Table II).

use memweir_core::input::{Document, InputError, Refusal, Section, shipped};
use memweir_core::{Bytes, Seconds, Watts};

use super::{BackgroundPower, BusMemory, Flash, OperatingPower};

/// Media that come with memweir: their names and the texts of their files.
pub const MEDIA: [(&str, &str); 3] = [
    ("lpddr2-dram", include_str!("../data/lpddr2-dram.toml")),
    ("lpddr2-pcm", include_str!("../data/lpddr2-pcm.toml")),
    ("emmc-flash", include_str!("../data/emmc-flash.toml")),
];

const MEMORY_KEYS: [&str; 20] = [
    "name",
    "kind",
    "source",
    "die_mb",
    "pre_pdn_mw",
    "pre_stby_mw",
    "act_pdn_mw",
    "act_stby_mw",
    "ref_mw",
    "act_mw",
    "rd_mw",
    "wr_mw",
    "dq_mw",
    "tck_ns",
    "trcd_ns",
    "twr_ns",
    "rl",
    "wl",
    "bl",
    "bw_bits",
];

const FLASH_KEYS: [&str; 13] = [
    "name",
    "kind",
    "source",
    "f_mhz",
    "vdd_v",
    "idd1_ma",
    "idd2_ma",
    "idd3_ma",
    "rl",
    "wl",
    "rd_bl_bytes",
    "wr_bl_bytes",
    "bw_bits",
];

/// Larger than any figure of such a file: more is a mistake in the unit.
const ABSURD: f64 = 1e6;

/// Smaller than any figure but zero, likewise: a die of this many MB has a byte.
const TINY: f64 = 1e-6;

/// The medium of a swap area.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// On the memory bus.
    Memory(BusMemory),
    /// Behind a block device.
    Flash(Flash),
}

impl Medium {
    /// Returns the shipped medium with this name.
    ///
    /// # Errors
    /// If there is none; the message has the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let text = shipped("medium", name, &MEDIA)?;
        Ok(Self::parse(name, text)
            .unwrap_or_else(|error| unreachable!("a shipped medium: {error}")))
    }

    /// Reads the text of a medium's file; `name` stands in messages.
    ///
    /// # Errors
    /// If it says something impossible: with line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        match root.require("kind")?.one_of("kind of medium", &["memory", "flash"])? {
            "memory" => Ok(Self::Memory(memory(root)?)),
            _ => Ok(Self::Flash(flash(root)?)),
        }
    }
}

fn memory(mut file: Section<'_>) -> Result<BusMemory, InputError> {
    file.only(&MEMORY_KEYS)?;
    let name = file.require("name")?.string()?.to_owned();
    let source = file.require("source")?.string()?.to_owned();
    let mut power =
        |key: &str| Ok(Watts::from_milli(file.require(key)?.number_in(0.0..=ABSURD, "power")?));
    let background = BackgroundPower {
        precharge_power_down: power("pre_pdn_mw")?,
        precharge_standby: power("pre_stby_mw")?,
        active_power_down: power("act_pdn_mw")?,
        active_standby: power("act_stby_mw")?,
        refresh: power("ref_mw")?,
    };
    let operating = OperatingPower {
        activate: power("act_mw")?,
        read: power("rd_mw")?,
        write: power("wr_mw")?,
        drive: power("dq_mw")?,
    };
    let mut more = |key: &str, what: &str| positive(&mut file, key, what);
    Ok(BusMemory {
        name,
        source,
        die: Bytes((more("die_mb", "size")? * f64::from(1 << 20)) as u64),
        background,
        operating,
        clock: Seconds::from_nanos(more("tck_ns", "time")?),
        activate_to_access: Seconds::from_nanos(more("trcd_ns", "time")?),
        write_recovery: Seconds::from_nanos(more("twr_ns", "time")?),
        read_latency: more("rl", "number of cycles")?,
        write_latency: more("wl", "number of cycles")?,
        burst_length: more("bl", "burst length")?,
        bus_bits: more("bw_bits", "width")?,
    })
}

fn flash(mut file: Section<'_>) -> Result<Flash, InputError> {
    file.only(&FLASH_KEYS)?;
    let name = file.require("name")?.string()?.to_owned();
    let source = file.require("source")?.string()?.to_owned();
    let mut more = |key: &str, what: &str| positive(&mut file, key, what);
    let volts = more("vdd_v", "voltage")?;
    Ok(Flash {
        name,
        source,
        frequency: more("f_mhz", "frequency")? * 1e6,
        read: Watts::from_milli(volts * more("idd1_ma", "current")?),
        write: Watts::from_milli(volts * more("idd2_ma", "current")?),
        standby: Watts::from_milli(volts * more("idd3_ma", "current")?),
        read_latency: more("rl", "number of cycles")?,
        write_latency: more("wl", "number of cycles")?,
        read_block: more("rd_bl_bytes", "size")?,
        write_block: more("wr_bl_bytes", "size")?,
        bus_bits: more("bw_bits", "width")?,
    })
}

/// Reads a figure that is more than zero.
fn positive(file: &mut Section<'_>, key: &str, what: &str) -> Result<f64, InputError> {
    file.require(key)?.number_in(TINY..=ABSURD, what)
}
