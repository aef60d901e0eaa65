//! Parses device files (their format is described at [`crate::spec`]).

use memweir_core::input::{Document, InputError, Section, Value};
use memweir_core::medium::MediumKind;
use memweir_core::medium::data::{latency, source};
use memweir_core::{BytesPerSec, Cycles, Picos};

use super::currents::with_an_open_bank;
use super::family::{FAMILIES, Family, rules, value_of};
use super::{ArrayEnergy, Constraint, Currents, Link, MemorySpec, Organization, Rail, Timing};

const KEYS: [&str; 11] = [
    "name",
    "family",
    "kind",
    "source",
    "clock_ns",
    "organization",
    "timing",
    "currents",
    "array",
    "link",
    "constraint",
];

impl MemorySpec {
    /// Parses the text of a device file; `name` appears in messages.
    ///
    /// # Errors
    /// If the text is invalid; the error tells line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        let family_value = root.require("family")?;
        let (family_name, family) = family(&family_value)?;
        let clock = latency(&root.require("clock_ns")?)?;
        let organization = organization(root.require("organization")?)?;
        let timing = timing(root.require("timing")?.section()?, &family, clock)?;
        let kind_value = root.require("kind")?;
        let kind = kind_value.named()?;
        let forgotten = ["tRFC", "tREFI"].into_iter().find(|name| timing.get(name).is_none());
        if let (MediumKind::Dram, Some(name)) = (kind, forgotten) {
            let error = kind_value.refuse(format!("DRAM without `{name}`"));
            return Err(error.help("only cells that keep their content do without refresh"));
        }
        let formula = |formula: &super::formula::Formula| {
            let value = formula.value(&value_of(&organization, &timing));
            match value {
                Ok(cycles) if cycles > 0 => Ok(Cycles(cycles as u64)),
                Ok(cycles) => Err(family_value.refuse(format!("a latency of {cycles} cycles"))),
                Err(reason) => Err(family_value.refuse(reason)),
            }
        };
        Ok(Self {
            name: root.require("name")?.string()?.to_owned(),
            family: family_name.to_owned(),
            kind,
            source: source(&mut root)?,
            clock,
            read_latency: formula(&family.read_latency)?,
            write_latency: formula(&family.write_latency)?,
            burst: formula(&family.burst)?,
            bank_refresh: family.bank_refresh,
            constraints: constraints(&mut root, &family, &organization, &timing)?,
            currents: root
                .map("currents", |value| currents(value, organization.banks_of_rank()))?,
            array: root.map("array", array)?,
            link: root.map("link", link)?,
            organization,
            timing,
        })
    }
}

fn family(value: &Value<'_>) -> Result<(&'static str, Family), InputError> {
    let (name, text) = value.choose("family", FAMILIES.iter().map(|file| (file.0, *file)))?;
    let family =
        Family::parse(name, text).unwrap_or_else(|error| unreachable!("a shipped family: {error}"));
    Ok((name, family))
}

fn organization(value: Value<'_>) -> Result<Organization, InputError> {
    let mut section = value.section()?;
    section.only(&[
        "bus_bits",
        "device_bits",
        "sub_channels",
        "ranks",
        "bank_groups",
        "banks",
        "rows",
        "columns",
        "burst_length",
    ])?;
    let organization = Organization {
        bus_bits: count(&section.require("bus_bits")?)?,
        device_bits: count(&section.require("device_bits")?)?,
        sub_channels: section.map("sub_channels", |value| count(&value))?.unwrap_or(1),
        ranks: section.map("ranks", |value| count(&value))?.unwrap_or(1),
        bank_groups: section.map("bank_groups", |value| count(&value))?.unwrap_or(1),
        banks: count(&section.require("banks")?)?,
        rows: count(&section.require("rows")?)?,
        columns: count(&section.require("columns")?)?,
        burst_length: count(&section.require("burst_length")?)?,
    };
    section.checked(organization.validate())?;
    Ok(organization)
}

fn count(value: &Value<'_>) -> Result<u32, InputError> {
    value.whole_in(1..=1 << 24)
}

fn timing(mut section: Section<'_>, family: &Family, clock: Picos) -> Result<Timing, InputError> {
    let all = || family.parameters.iter().chain(&family.optional);
    section.only(&all().map(String::as_str).collect::<Vec<_>>())?;
    let endless = section.refuse_value("tREFI", "refreshes are due faster than they end (`tRFC`)");
    let mut timing = Timing::default();
    for name in all() {
        let value = if family.parameters.contains(name) {
            Some(section.require(name)?)
        } else {
            section.take(name)
        };
        if let Some(value) = value {
            timing.push(name, parameter(value, family, clock)?);
        }
    }
    let refresh = timing.get("tRFC").zip(timing.get("tREFI"));
    match endless {
        Some(error) if refresh.is_some_and(|(takes, interval)| takes >= interval) => {
            Err(error.help("the memory would do nothing else; 7.8 us are `{ ns = 7800 }`"))
        }
        _ => Ok(timing),
    }
}

/// Parses cycles, nanoseconds, or the greater of both.
fn parameter(value: Value<'_>, family: &Family, clock: Picos) -> Result<Cycles, InputError> {
    if !value.is_table() {
        return cycles(&value);
    }
    let mut section = value.section()?;
    section.only(&["ns", "cycles"])?;
    if !section.has("ns") && !section.has("cycles") {
        return Err(section.refuse("says nothing").help("`{ ns = 7.5 }` or a number of cycles"));
    }
    let span = section.map("ns", |value| latency(&value))?;
    let rounded = span.map_or(Cycles::ZERO, |span| family.rounding.cycles(span, clock));
    let least = section.map("cycles", |value| cycles(&value))?.unwrap_or_default();
    Ok(rounded.max(least))
}

fn cycles(value: &Value<'_>) -> Result<Cycles, InputError> {
    value.whole_in(0..=100_000_000).map(Cycles)
}

fn constraints(
    root: &mut Section<'_>,
    family: &Family,
    organization: &Organization,
    timing: &Timing,
) -> Result<Vec<Constraint>, InputError> {
    let own = root.map("constraint", rules)?.unwrap_or_default();
    let mut all = Vec::new();
    for (number, rule) in (0..).zip(family.rules.iter().chain(&own)) {
        let made = rule.constraints(organization, timing, &family.optional, number);
        all.extend(made.map_err(|reason| root.refuse(format!("a constraint: {reason}")))?);
    }
    Ok(all)
}

fn currents(value: Value<'_>, banks: u32) -> Result<Currents, InputError> {
    let mut section = value.section()?;
    section.only(&["bank_share", "rails"])?;
    let share = section.map("bank_share", |value| value.number_in(0.0..=1.0, "share"))?;
    let bank_share = share.unwrap_or(1.0);
    let rails = section.require("rails")?.sections()?.into_iter();
    let rails = rails.map(|section| rail(section, bank_share, banks)).collect::<Result<_, _>>()?;
    Ok(Currents { bank_share, rails })
}

fn rail(mut section: Section<'_>, bank_share: f64, banks: u32) -> Result<Rail, InputError> {
    section.only(&[
        "name", "volts", "idd0", "idd2n", "idd2p", "idd3n", "idd3p", "idd4r", "idd4w", "idd5b",
        "idd6",
    ])?;
    let mut taken = |name: &str| current(&section.require(name)?);
    let (idd2n, idd2p) = (taken("idd2n")?, taken("idd2p")?);
    let (idd3n, idd3p) = (taken("idd3n")?, taken("idd3p")?);
    let (one, _) = with_an_open_bank([idd2n, idd3n], bank_share, banks);
    let few = |value| above(&value, one.max(idd2n), "standby with one open bank or none");
    let all = |value| above(&value, idd3n, "standby with all banks open");
    let (idd0, idd4r) = (few(section.require("idd0")?)?, all(section.require("idd4r")?)?);
    let idd4w = all(section.require("idd4w")?)?;
    let idd5b = section.map("idd5b", |value| match current(&value)? {
        0.0 => Ok(0.0),
        _ => all(value),
    })?;
    let idd6 = section.map("idd6", |value| current(&value))?;
    Ok(Rail {
        name: section.require("name")?.string()?.to_owned(),
        volts: section.require("volts")?.number_in(0.1..=20.0, "voltage")?,
        idd0,
        idd2n,
        idd2p,
        idd3n,
        idd3p,
        idd4r,
        idd4w,
        idd5b: idd5b.unwrap_or_default(),
        idd6: idd6.unwrap_or_default(),
    })
}

fn current(value: &Value<'_>) -> Result<f64, InputError> {
    value.number_in(0.0..=10_000.0, "current in mA")
}

/// Parses the current of a command, of which the model subtracts that of the `background`, known to
/// a rounding error.
fn above(value: &Value<'_>, background: f64, name: &str) -> Result<f64, InputError> {
    let current = current(value)?;
    if current >= background - 1e-9 {
        return Ok(current);
    }
    let reason = format!("{current} mA is less than {name}, {background:.1} mA");
    Err(value.refuse(reason).help("a command would draw negative energy"))
}

fn array(value: Value<'_>) -> Result<ArrayEnergy, InputError> {
    let mut section = value.section()?;
    section.only(&[
        "read_pj_per_bit",
        "write_pj_per_bit",
        "buffer_read_pj_per_bit",
        "buffer_write_pj_per_bit",
    ])?;
    let mut energy = |name: &str| section.require(name)?.number_in(0.0..=1e6, "energy in pJ");
    Ok(ArrayEnergy {
        read_pj_per_bit: energy("read_pj_per_bit")?,
        write_pj_per_bit: energy("write_pj_per_bit")?,
        buffer_read_pj_per_bit: energy("buffer_read_pj_per_bit")?,
        buffer_write_pj_per_bit: energy("buffer_write_pj_per_bit")?,
    })
}

fn link(value: Value<'_>) -> Result<Link, InputError> {
    let mut section = value.section()?;
    section.only(&["latency_ns", "gb_per_s"])?;
    let bandwidth =
        section.require("gb_per_s")?.number_in(0.001..=10_000.0, "bandwidth in GB/s")?;
    Ok(Link {
        latency: latency(&section.require("latency_ns")?)?,
        bandwidth: BytesPerSec::from_gb(bandwidth),
    })
}
