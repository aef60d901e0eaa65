//! The names of the meters, as users write them.

use std::fmt;
use std::str::FromStr;

use memweir_core::names::suggestion;

/// The meters, in the order in which `auto` tries the native ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MeterKind {
    /// Hardware events through `perf_event_open`.
    Perf,
    /// Memory Bandwidth Monitoring through resctrl.
    Resctrl,
    /// Figures from the jobs file or the profile store.
    Declared,
    /// The job runs under QEMU with the cache model of `plugins/qemu-pmu`.
    Software,
}

impl MeterKind {
    /// Every meter.
    pub const ALL: [Self; 4] = [Self::Perf, Self::Resctrl, Self::Declared, Self::Software];

    /// Returns the name on the command line, in files and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Resctrl => "resctrl",
            Self::Declared => "declared",
            Self::Software => "software",
        }
    }
}

impl fmt::Display for MeterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MeterKind {
    type Err = UnknownMeter;

    fn from_str(given: &str) -> Result<Self, UnknownMeter> {
        let names = Self::ALL.map(Self::name);
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == given)
            .ok_or_else(|| UnknownMeter::new(given, &names))
    }
}

/// A user's choice: a meter by name, or the first that serves every job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MeterChoice {
    /// The first of `perf`, `resctrl` and `declared` that serves every job.
    #[default]
    Auto,
    /// This one or none.
    Only(MeterKind),
}

impl MeterChoice {
    /// Returns true if this choice lets `kind` be tried.
    #[must_use]
    pub fn allows(self, kind: MeterKind) -> bool {
        match self {
            Self::Auto => kind != MeterKind::Software,
            Self::Only(only) => only == kind,
        }
    }
}

impl fmt::Display for MeterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Only(kind) => kind.fmt(f),
        }
    }
}

impl FromStr for MeterChoice {
    type Err = UnknownMeter;

    fn from_str(given: &str) -> Result<Self, UnknownMeter> {
        if given == "auto" {
            return Ok(Self::Auto);
        }
        let [perf, resctrl, declared, software] = MeterKind::ALL.map(MeterKind::name);
        given
            .parse()
            .map(Self::Only)
            .map_err(|_| UnknownMeter::new(given, &["auto", perf, resctrl, declared, software]))
    }
}

/// A meter's name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown meter `{given}`: {help}")]
pub struct UnknownMeter {
    /// The name as given.
    pub given: String,
    /// The nearest valid choice, and all of them.
    pub help: String,
}

impl UnknownMeter {
    fn new(given: &str, names: &[&str]) -> Self {
        Self { given: given.to_owned(), help: suggestion(given, names.iter().copied()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_choice_reads_back() {
        for kind in MeterKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind.to_string().parse(), Ok(MeterChoice::Only(kind)));
        }
        assert_eq!(MeterChoice::Auto.to_string().parse(), Ok(MeterChoice::Auto));
        assert_eq!(
            format!("{:>9}|{:<5}", MeterKind::Resctrl, MeterChoice::Auto),
            "  resctrl|auto "
        );
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        let error = "resctl".parse::<MeterChoice>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown meter `resctl`: did you mean `resctrl`? \
             valid: auto, perf, resctrl, declared, software"
        );
        let error = "auto".parse::<MeterKind>().unwrap_err();
        assert!(error.help.ends_with("valid: perf, resctrl, declared, software"), "{error}");
    }

    #[test]
    fn auto_never_tries_the_slow_meter() {
        let tried: Vec<_> =
            MeterKind::ALL.into_iter().filter(|k| MeterChoice::Auto.allows(*k)).collect();
        assert_eq!(tried, [MeterKind::Perf, MeterKind::Resctrl, MeterKind::Declared]);
        assert!(MeterChoice::Only(MeterKind::Software).allows(MeterKind::Software));
        assert!(!MeterChoice::Only(MeterKind::Perf).allows(MeterKind::Resctrl));
    }
}
