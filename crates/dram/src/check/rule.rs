//! The rules, and the report of commands that break them.

use std::collections::BTreeMap;
use std::fmt;

use memweir_core::Cycles;
use memweir_core::words::counted;

use crate::command::{BankAddress, Command, CommandKind};

/// A rule of a standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// tRCD: from an activate to a read or write of the bank.
    TRcd,
    /// tRAS: from an activate to the precharge of the bank.
    TRas,
    /// tRC: from an activate to the next of the bank.
    TRc,
    /// tRP: from a precharge to an activate, a refresh or self-refresh.
    TRp,
    /// tPPD: between precharges of a rank.
    TPpd,
    /// tRTP: from a read to the precharge of the bank.
    TRtp,
    /// tWR: from the last data of a write to the precharge of the bank.
    TWr,
    /// tCCD_S: between reads, or between writes, of a rank.
    TCcdS,
    /// tCCD_L: the same in one bank group.
    TCcdL,
    /// tRRD_S: between activates of a rank.
    TRrdS,
    /// tRRD_L: the same in one bank group.
    TRrdL,
    /// tFAW: from the first to the fifth of any five activates of a rank.
    TFaw,
    /// tWTR_S: from the last data of a write to a read of the rank.
    TWtrS,
    /// tWTR_L: the same in one bank group.
    TWtrL,
    /// From a read to a write of the rank: the data bus changes its direction.
    ReadToWrite,
    /// tRTRS (tCS): between data of different ranks, unless both are written.
    TRtrs,
    /// tRFC: from a refresh of all banks to the next command but power-down.
    TRfc,
    /// tRFCpb, tRFCsb: from a refresh of banks to the next command for these banks, or the next
    /// refresh.
    TRfcPb,
    /// tREFSBRD, tpbR2act, tRRD: from a refresh of banks to an activate of other banks, and back.
    TRefsbrd,
    /// tCKE, tPD: duration of power-down, and from its end to the next.
    TCke,
    /// tXP: from the end of power-down to the next command.
    TXp,
    /// Power-down while data is read or written, or in the cycle of another command.
    PowerDownEntry,
    /// tCKESR: duration of self-refresh.
    TCkesr,
    /// tXS, tXSR: from the end of self-refresh to the next command.
    TXs,
    /// One command at a time on the command bus.
    CommandBus,
    /// One burst at a time on the data bus.
    DataBus,
    /// A read or write of a bank that is closed.
    ClosedBank,
    /// A read or write of a row that is not the open one.
    OtherRow,
    /// An activate of a bank that is open.
    OpenBank,
    /// A refresh, or self-refresh, of a bank that is open.
    RefreshOfOpenBank,
    /// A command for a rank in power-down or self-refresh.
    Asleep,
    /// The end of a power-down or self-refresh that did not begin.
    Awake,
    /// A command that the device does not have.
    NoSuchCommand,
    /// A channel, rank, bank, row or column that does not exist.
    Address,
    /// tREFI: a bank went without refresh for longer than postponing allows.
    TRefi,
    /// A bank is refreshed a second time before all others were.
    RefreshTurn,
    /// A command of a channel that is earlier than the one before it.
    Order,
}

impl Rule {
    /// Returns the name in the standards.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TRcd => "tRCD",
            Self::TRas => "tRAS",
            Self::TRc => "tRC",
            Self::TRp => "tRP",
            Self::TPpd => "tPPD",
            Self::TRtp => "tRTP",
            Self::TWr => "tWR",
            Self::TCcdS => "tCCD_S",
            Self::TCcdL => "tCCD_L",
            Self::TRrdS => "tRRD_S",
            Self::TRrdL => "tRRD_L",
            Self::TFaw => "tFAW",
            Self::TWtrS => "tWTR_S",
            Self::TWtrL => "tWTR_L",
            Self::ReadToWrite => "read to write",
            Self::TRtrs => "tRTRS",
            Self::TRfc => "tRFC",
            Self::TRfcPb => "tRFCpb",
            Self::TRefsbrd => "tREFSBRD",
            Self::TCke => "tCKE",
            Self::TXp => "tXP",
            Self::PowerDownEntry => "power-down entry",
            Self::TCkesr => "tCKESR",
            Self::TXs => "tXS",
            Self::CommandBus => "command bus",
            Self::DataBus => "data bus",
            Self::ClosedBank => "bank is closed",
            Self::OtherRow => "another row is open",
            Self::OpenBank => "bank is open",
            Self::RefreshOfOpenBank => "refresh of an open bank",
            Self::Asleep => "rank is asleep",
            Self::Awake => "rank is awake",
            Self::NoSuchCommand => "no such command",
            Self::Address => "no such place",
            Self::TRefi => "tREFI",
            Self::RefreshTurn => "turn of refresh",
            Self::Order => "order of time",
        }
    }
}

/// A command that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// Address of the second command, or the bank whose refresh never came.
    pub place: BankAddress,
    /// The command after which the second had to wait, or that created the state that forbids it;
    /// `None` if there was none since the start.
    pub first: Option<Command>,
    /// The command that breaks the rule; `None` for a refresh that never came.
    pub second: Option<Command>,
    /// The smallest number of cycles between both (for [`Rule::TRefi`] the largest); zero
    /// for rules that are not about distances.
    pub required: Cycles,
    /// The cycles between both.
    pub actual: Cycles,
}

impl Violation {
    /// Number of violations that a checker keeps.
    pub const KEPT: usize = 100;
}

impl fmt::Display for Violation {
    /// Formats a violation: `cycle 40: read of channel 0 rank 0 group 1 bank 2: tRCD: 16 cycles
    /// after activate at 24, 17 required`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.second {
            Some(second) => write!(f, "cycle {}: {}", second.at.0, Named(second))?,
            None => {
                let BankAddress { channel, rank, group, bank } = self.place;
                write!(f, "at the end: channel {channel} rank {rank} group {group} bank {bank}")?;
            }
        }
        write!(f, ": {}", self.rule.name())?;
        let first = self.first.as_ref();
        if self.required == Cycles::ZERO {
            return match first {
                Some(first) => write!(f, ", after {} at {}", Named(first), first.at.0),
                None => Ok(()),
            };
        }
        let bound = if self.rule == Rule::TRefi { "allowed" } else { "required" };
        write!(f, ": {} after ", counted(self.actual.0, "cycle"))?;
        match first {
            Some(first) => write!(f, "{} at {}", Named(first), first.at.0)?,
            None => write!(f, "the start")?,
        }
        write!(f, ", {} {bound}", self.required.0)
    }
}

/// Displays a command in words, without its time.
struct Named<'a>(&'a Command);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command { kind, to, row, .. } = self.0;
        write!(f, "{} of channel {} rank {}", kind.name(), to.channel, to.rank)?;
        if !kind.is_to_rank() {
            write!(f, " group {} bank {}", to.group, to.bank)?;
        }
        if *kind == CommandKind::Activate {
            write!(f, " row {row}")?;
        }
        Ok(())
    }
}

/// Violations found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// The first of them, at most [`Violation::KEPT`].
    pub(super) kept: Vec<Violation>,
    /// Their number by rule.
    pub(super) counts: BTreeMap<Rule, u64>,
}

impl Report {
    pub(super) fn add(&mut self, violation: Violation) {
        *self.counts.entry(violation.rule).or_default() += 1;
        if self.kept.len() < Violation::KEPT {
            self.kept.push(violation);
        }
    }

    /// Checks that `second` comes at least `required` cycles after `first`.
    #[inline]
    pub(super) fn distance(
        &mut self,
        rule: Rule,
        first: Option<&Command>,
        required: u64,
        second: &Command,
    ) {
        if let Some(first) = first
            && second.at.0 < first.at.0 + required
        {
            self.too_early(rule, first, required, second);
        }
    }

    #[cold]
    fn too_early(&mut self, rule: Rule, first: &Command, required: u64, second: &Command) {
        self.add(Violation {
            rule,
            place: second.to,
            first: Some(*first),
            second: Some(*second),
            required: Cycles(required),
            actual: second.at.saturating_sub(first.at),
        });
    }

    /// Reports that `second` is not allowed in the state that `first` created.
    #[cold]
    pub(super) fn state(&mut self, rule: Rule, first: Option<&Command>, second: &Command) {
        let actual = first.map_or(Cycles::ZERO, |first| second.at.saturating_sub(first.at));
        self.add(Violation {
            rule,
            place: second.to,
            first: first.copied(),
            second: Some(*second),
            required: Cycles::ZERO,
            actual,
        });
    }
}
