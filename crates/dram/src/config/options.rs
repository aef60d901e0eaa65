//! Options of memory controllers.

use std::fmt;
use std::str::FromStr;

use memweir_core::Cycles;
use memweir_core::input::Refusal;
use memweir_core::names::suggestion;

use crate::command::CommandKind;
use crate::spec::MemorySpec;

/// Order in which requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Among the commands that can issue first, the one for the oldest request (first ready, first
    /// come).
    FrFcfs,
    /// Like `FrFcfs`, but a row stays open as long as requests for it wait.
    FrFcfsHit,
    /// Each bank has its own queues, and banks are served in turn; within a bank as `FrFcfsHit`.
    PerBank,
    /// Requests strictly one after the other.
    Fcfs,
}

memweir_core::named! {
    pub Scheduler, "scheduler":
    FrFcfs = "fr-fcfs",
    FrFcfsHit = "fr-fcfs-hit",
    PerBank = "per-bank",
    Fcfs = "fcfs",
}

/// Rule that decides when rows are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PagePolicy {
    /// When a request needs another row of the bank.
    Open,
    /// With the n-th access after the activate (by automatic precharge); n is at least 1.
    Closed {
        /// Accesses after which the row is closed: n.
        accesses: u32,
    },
    /// After an idle time that each bank learns. It is doubled when the next activate opens the row
    /// that was just closed, and halved when a request needs another row while one is open.
    Adaptive {
        /// Initial idle time; at least 1.
        timeout: Cycles,
    },
}

/// Initial idle time of adaptive controllers: about twice the row cycle of DDR4.
const TIMEOUT: Cycles = Cycles(128);

impl PagePolicy {
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

    /// Parses `open`, `closed`, `closed:4`, `adaptive` or `adaptive:200`.
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
                    suggestion(name, ["open", "closed", "adaptive"]),
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

/// Refresh of DRAM. Media without a refresh interval are not refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefreshPolicy {
    /// All banks of a rank at once, all ranks at the same time.
    AllBank,
    /// All banks of a rank at once, the ranks one after another, spread over the interval.
    Staggered,
    /// One bank (LPDDR) or one bank of each group (DDR5) after another.
    PerBank,
    /// No refresh, to measure its cost.
    Off,
}

memweir_core::named! {
    pub RefreshPolicy, "refresh policy":
    AllBank = "all-bank",
    Staggered = "staggered",
    PerBank = "per-bank",
    Off = "off",
}

/// A setting of a memory and its controllers, by the name of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The devices.
    Devices,
    /// The number of ranks.
    Ranks,
    /// The number of channels.
    Channels,
    /// The address map.
    Map,
    /// The sizes of the queues.
    Queue,
    /// The watermarks of the write queue.
    Watermarks,
    /// The page policy.
    Page,
    /// The refresh policy.
    Refresh,
    /// The idle time before power-down.
    PowerDown,
    /// The idle time before self-refresh.
    SelfRefresh,
}

memweir_core::named! {
    pub Setting, "setting":
    Devices = "memory",
    Ranks = "ranks",
    Channels = "channels",
    Map = "map",
    Queue = "queue",
    Watermarks = "watermarks",
    Page = "page",
    Refresh = "refresh",
    PowerDown = "power-down",
    SelfRefresh = "self-refresh",
}

/// Idle times after which ranks without waiting requests are put to sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerPolicy {
    /// Idle time before power-down; `None` for never.
    pub power_down_after: Option<Cycles>,
    /// Idle time before self-refresh (banks are closed for it); `None` for never.
    pub self_refresh_after: Option<Cycles>,
}

impl PowerPolicy {
    pub(super) fn validate(&self, spec: &MemorySpec) -> Result<(), (Setting, Refusal)> {
        use CommandKind as C;
        let wanted = [
            (self.power_down_after, [C::PowerDownEnter, C::PowerDownExit], Setting::PowerDown),
            (
                self.self_refresh_after,
                [C::SelfRefreshEnter, C::SelfRefreshExit],
                Setting::SelfRefresh,
            ),
        ];
        for (after, [enter, exit], setting) in wanted {
            let has_rule =
                |from: C, to: C| spec.constraints.iter().any(|c| (c.from, c.to) == (from, to));
            if after.is_some() && !(has_rule(enter, exit) && has_rule(exit, C::Activate)) {
                let reason = format!("`{}` has no rules for {setting}", spec.name);
                return Err((setting, Refusal::new(reason, "its timing needs tCKE, tXP and tXS")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_needs_rules_for_falling_asleep_and_waking() {
        let (idle, nvm) = (Some(Cycles(9)), MemorySpec::shipped("nvm-2400").unwrap());
        let light = PowerPolicy { power_down_after: idle, self_refresh_after: None };
        assert!(light.validate(&nvm).is_ok());
        // It has no tXS, and nothing to refresh.
        let deep = PowerPolicy { self_refresh_after: idle, ..light };
        let (setting, refusal) = deep.validate(&nvm).unwrap_err();
        assert_eq!(setting, Setting::SelfRefresh);
        assert!(refusal.reason.ends_with("has no rules for self-refresh"), "{refusal:?}");
        assert!(deep.validate(&MemorySpec::shipped("ddr4-2400").unwrap()).is_ok());
    }

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
