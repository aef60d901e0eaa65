//! What controllers can be told to do.

use std::fmt;
use std::str::FromStr;

use memweir_core::Cycles;
use memweir_core::input::Refusal;
use memweir_core::names::suggestion;

use crate::command::CommandKind;
use crate::spec::MemorySpec;

/// In which order requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Of the commands that can issue first, that of the oldest request (first ready, first come).
    FrFcfs,
    /// The same, but a row stays open as long as requests for it wait.
    FrFcfsHit,
    /// Each bank has queues of its own, served in turn; within a bank as `FrFcfsHit`.
    PerBank,
    /// Strictly one after the other.
    Fcfs,
}

impl Scheduler {
    /// Every scheduler and its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("fr-fcfs", Self::FrFcfs),
        ("fr-fcfs-hit", Self::FrFcfsHit),
        ("per-bank", Self::PerBank),
        ("fcfs", Self::Fcfs),
    ];
}

/// When rows are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PagePolicy {
    /// When another row of the bank is wanted.
    Open,
    /// Together with the n-th access after they were opened (by automatic precharge); at least 1.
    Closed {
        /// That n.
        accesses: u32,
    },
    /// After a time without access that each bank learns: it is doubled when the row that was closed
    /// is the next to be opened, and halved when another row is wanted while one is open.
    Adaptive {
        /// The time to begin with; from 1.
        timeout: Cycles,
    },
}

/// The time after which adaptive controllers close rows before they have learned a better one:
/// about twice the row cycle of DDR4.
const TIMEOUT: Cycles = Cycles(128);

impl PagePolicy {
    /// The words with which policies begin.
    pub const NAMES: [&'static str; 3] = ["open", "closed", "adaptive"];

    pub(super) fn validate(self) -> Result<(), Refusal> {
        match self {
            Self::Closed { accesses: 0 } => {
                Err(Refusal::new("rows closed after no access", "`closed`, or `closed:4`"))
            }
            Self::Adaptive { timeout: Cycles(0) } => {
                Err(Refusal::new("rows closed after no time", "`adaptive`, or `adaptive:200`"))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for PagePolicy {
    type Err = Refusal;

    /// `open`, `closed`, `closed:4`, `adaptive`, `adaptive:200`.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let number = number.map(|number| {
            number.parse::<u32>().map_err(|_| {
                Refusal::new(
                    format!("`{number}` is no whole number"),
                    "`closed:ACCESSES` or `adaptive:CYCLES`",
                )
            })
        });
        let policy = match (name, number.transpose()?) {
            ("open", None) => Self::Open,
            ("closed", accesses) => Self::Closed { accesses: accesses.unwrap_or(1) },
            ("adaptive", cycles) => {
                Self::Adaptive { timeout: cycles.map_or(TIMEOUT, |cycles| Cycles(cycles.into())) }
            }
            ("open", Some(_)) => {
                return Err(Refusal::new("`open` takes no number", "`open` alone"));
            }
            _ => {
                return Err(Refusal::new(
                    format!("unknown page policy `{name}`"),
                    suggestion(name, Self::NAMES),
                ));
            }
        };
        policy.validate()?;
        Ok(policy)
    }
}

impl fmt::Display for PagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed { accesses } => write!(f, "closed:{accesses}"),
            Self::Adaptive { timeout } => write!(f, "adaptive:{}", timeout.0),
        }
    }
}

/// How DRAM is refreshed. Media without a refresh interval are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefreshPolicy {
    /// All banks of a rank at once, all ranks at the same time.
    AllBank,
    /// The same, the ranks one after another, spread over the interval.
    Staggered,
    /// One bank (LPDDR) or one bank of each group (DDR5) after another.
    PerBank,
    /// Not at all: to see what refresh costs.
    Off,
}

impl RefreshPolicy {
    /// Every policy and its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("all-bank", Self::AllBank),
        ("staggered", Self::Staggered),
        ("per-bank", Self::PerBank),
        ("off", Self::Off),
    ];
}

/// When ranks for which no request waits are put to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerPolicy {
    /// Idle time before power-down; `None` for never.
    pub power_down_after: Option<Cycles>,
    /// Idle time before self-refresh (banks are closed for it); `None` for never.
    pub self_refresh_after: Option<Cycles>,
}

impl PowerPolicy {
    pub(super) fn validate(&self, spec: &MemorySpec) -> Result<(), Refusal> {
        let wanted = [
            (self.power_down_after, CommandKind::PowerDownEnter, "power-down"),
            (self.self_refresh_after, CommandKind::SelfRefreshEnter, "self-refresh"),
        ];
        for (after, command, name) in wanted {
            if after.is_some() && !spec.constraints.iter().any(|c| c.from == command) {
                return Err(Refusal::new(
                    format!("`{}` has no rules for {name}", spec.name),
                    "its timing needs tCKE, tXP and tXS",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_policies_read_as_they_are_written() {
        for text in ["open", "closed:1", "closed:4", "adaptive:200"] {
            assert_eq!(text.parse::<PagePolicy>().unwrap().to_string(), text);
        }
        assert_eq!("closed".parse(), Ok(PagePolicy::Closed { accesses: 1 }));
        for text in ["opn", "open:1", "closed:0", "closed:x", "adaptive:0", ""] {
            assert!(text.parse::<PagePolicy>().is_err(), "{text}");
        }
    }
}
