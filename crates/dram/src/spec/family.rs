//! Families of memories: the timing parameters of their devices, and the minimum distances between
//! commands that follow from them.
//!
//! ```toml
//! name = "DDR4"
//! source = "DDR4, beside gem5 and Ramulator 2.1"
//! rounding = "ddr4"               # how nanoseconds become cycles: up, ddr4, ddr5
//! parameters = ["CL", "CWL", "tRCD"]  # that every device gives
//! optional = ["tREFI"]            # that it may give; constraints that use them fall away without
//! read_latency = "CL"             # from the command to the first data beat
//! write_latency = "CWL"
//! burst = "BL / 2"                # data cycles; BL is the burst length of the device
//! bank_refresh = "none"           # one-bank (LPDDR), same-bank (DDR5)
//! constraint = [
//!     { level = "bank", from = "activate", to = ["read", "write"], wait = "tRCD" },
//!     { level = "rank", from = "activate", to = "activate", wait = "tFAW", window = 4 },
//!     { level = "rank", scope = "others", from = "read", to = "write", wait = "BL / 2 + tRTRS" },
//! ]
//! ```
//!
//! *Levels* are `channel`, `rank`, `bank-group` and `bank`; scope `others` binds the other ranks of
//! the channel. A window of n counts from the n-th command back, over all commands that `from`
//! names. Commands: `activate`, `precharge`, `precharge-all`, `read`, `read-auto`, `write`,
//! `write-auto` (with automatic precharge), `refresh`, `refresh-bank`, `power-down`, `power-up`,
//! `self-refresh`, `self-refresh-exit`. Formulas may use the parameters, `BL`, `+ - * / max( , )`
//! and brackets. Division rounds up, and a negative result means no constraint. A device may add
//! constraints of its own under the same key.
//!
//! A column command with automatic precharge closes its bank at once as far as the state of the
//! bank is concerned; the constraints from it to `activate`, `refresh` and `self-refresh` include
//! the time that this takes. As the precharge does not begin before `tRAS`, those from `activate`
//! to the same commands matter, too.

use memweir_core::Cycles;
use memweir_core::input::{Document, InputError, Section, Value};

use super::constraint::{Constraint, Level, Scope};
use super::formula::Formula;
use super::timing::{Rounding, Timing};
use super::{BankRefresh, Organization};
use crate::command::CommandKind;

/// Shipped families: their names and the texts of their files.
pub const FAMILIES: &[(&str, &str)] = &[
    ("ddr3", include_str!("../../data/families/ddr3.toml")),
    ("ddr4", include_str!("../../data/families/ddr4.toml")),
    ("ddr5", include_str!("../../data/families/ddr5.toml")),
    ("lpddr2", include_str!("../../data/families/lpddr2.toml")),
    ("lpddr4", include_str!("../../data/families/lpddr4.toml")),
];

const KEYS: [&str; 10] = [
    "name",
    "source",
    "rounding",
    "parameters",
    "optional",
    "read_latency",
    "write_latency",
    "burst",
    "bank_refresh",
    "constraint",
];

/// A family as read from its file.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) rounding: Rounding,
    pub(super) parameters: Vec<String>,
    pub(super) optional: Vec<String>,
    pub(super) bank_refresh: BankRefresh,
    pub(super) read_latency: Formula,
    pub(super) write_latency: Formula,
    pub(super) burst: Formula,
    pub(super) rules: Vec<Rule>,
}

/// A line of the table of constraints.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    level: Level,
    scope: Scope,
    from: Vec<CommandKind>,
    to: Vec<CommandKind>,
    wait: Formula,
    text: String,
    window: u8,
}

impl Family {
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut root = Document { name, text }.parse()?;
        root.only(&KEYS)?;
        root.require("name")?.string()?;
        memweir_core::medium::data::source(&mut root)?;
        Ok(Self {
            rounding: root.require("rounding")?.named()?,
            parameters: names(&root.require("parameters")?)?,
            optional: root.map("optional", |value| names(&value))?.unwrap_or_default(),
            bank_refresh: root.require("bank_refresh")?.choose(
                "kind of bank refresh",
                [
                    ("none", BankRefresh::None),
                    ("one-bank", BankRefresh::One),
                    ("same-bank", BankRefresh::SameNumber),
                ],
            )?,
            read_latency: formula(&root.require("read_latency")?)?,
            write_latency: formula(&root.require("write_latency")?)?,
            burst: formula(&root.require("burst")?)?,
            rules: rules(root.require("constraint")?)?,
        })
    }
}

impl Rule {
    /// Returns the constraints that this line, the `number`th, makes for a device; none if it uses
    /// optional parameters that the device lacks. The error is a sentence.
    pub(super) fn constraints(
        &self,
        organization: &Organization,
        timing: &Timing,
        optional: &[String],
        number: u16,
    ) -> Result<Vec<Constraint>, String> {
        let lacking = std::cell::Cell::new(false);
        let known = value_of(organization, timing);
        let value = self.wait.value(&|name| {
            known(name).or_else(|| {
                let lacks = optional.iter().any(|optional| optional == name);
                lacking.set(lacking.get() || lacks);
                lacks.then_some(0)
            })
        });
        let wait = value.map_err(|reason| format!("`{}`: {reason}", self.text))?;
        if lacking.get() || wait <= 0 {
            return Ok(Vec::new());
        }
        let pair = |from: CommandKind, to: CommandKind| Constraint {
            level: self.level,
            scope: self.scope,
            from,
            to,
            wait: Cycles(wait as u64),
            window: self.window,
            rule: number,
        };
        let pairs = self.from.iter().flat_map(|from| self.to.iter().map(move |to| (*from, *to)));
        Ok(pairs.map(|(from, to)| pair(from, to)).collect())
    }
}

/// Returns the function that resolves names in formulas.
pub(super) fn value_of<'a>(
    organization: &'a Organization,
    timing: &'a Timing,
) -> impl Fn(&str) -> Option<i64> + 'a {
    |name| match name {
        "BL" => Some(i64::from(organization.burst_length)),
        _ => timing.get(name).map(|cycles| cycles.0 as i64),
    }
}

pub(super) fn rules(value: Value<'_>) -> Result<Vec<Rule>, InputError> {
    value.sections()?.into_iter().map(rule).collect()
}

fn rule(mut section: Section<'_>) -> Result<Rule, InputError> {
    section.only(&["level", "scope", "from", "to", "wait", "window"])?;
    let level = section.require("level")?.named()?;
    let scopes = [("same", Scope::Same), ("others", Scope::Others)];
    let scope = section.map("scope", |value| value.choose("scope", scopes))?.unwrap_or(Scope::Same);
    if scope == Scope::Others && level != Level::Rank {
        return Err(section.refuse("only ranks are bound by what goes to others"));
    }
    let wait = section.require("wait")?;
    Ok(Rule {
        level,
        scope,
        from: commands(&section.require("from")?)?,
        to: commands(&section.require("to")?)?,
        wait: formula(&wait)?,
        text: wait.string()?.to_owned(),
        window: section.map("window", |value| value.whole_in(1..=16))?.unwrap_or(1),
    })
}

/// Parses one command or an array of commands.
fn commands(value: &Value<'_>) -> Result<Vec<CommandKind>, InputError> {
    if !value.is_array() {
        return Ok(vec![value.named()?]);
    }
    let several = value.array("a command or an array of commands")?;
    several.iter().map(Value::named).collect()
}

fn formula(value: &Value<'_>) -> Result<Formula, InputError> {
    Formula::parse(value.string()?)
        .map_err(|reason| value.refuse(reason).help("for example `CWL + BL / 2 + tWTR_S`"))
}

fn names(value: &Value<'_>) -> Result<Vec<String>, InputError> {
    let names = value.array("an array of names")?;
    names.iter().map(|name| Ok(name.string()?.to_owned())).collect()
}
