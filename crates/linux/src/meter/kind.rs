//! The names of the meters, as users write them.

use std::fmt;
use std::str::FromStr;

use memweir_core::input::Refusal;
use memweir_core::names::{Named, choose};

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

memweir_core::named! {
    pub MeterKind, "meter":
    Perf = "perf",
    Resctrl = "resctrl",
    Declared = "declared",
    Software = "software",
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
    type Err = Refusal;

    fn from_str(given: &str) -> Result<Self, Refusal> {
        let kinds = MeterKind::ALL.iter().map(|kind| (kind.name(), Self::Only(*kind)));
        choose(MeterKind::KIND, given, std::iter::once(("auto", Self::Auto)).chain(kinds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_choice_reads_back() {
        for &kind in MeterKind::ALL {
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
        let refusal = "resctl".parse::<MeterChoice>().unwrap_err();
        assert_eq!(refusal.reason, "unknown meter `resctl`");
        assert_eq!(
            refusal.help.unwrap(),
            "did you mean `resctrl`? valid: auto, perf, resctrl, declared, software"
        );
        let help = "auto".parse::<MeterKind>().unwrap_err().help.unwrap();
        assert!(help.ends_with("valid: perf, resctrl, declared, software"), "{help}");
    }

    #[test]
    fn auto_never_tries_the_slow_meter() {
        let tried: Vec<_> =
            MeterKind::ALL.iter().copied().filter(|k| MeterChoice::Auto.allows(*k)).collect();
        assert_eq!(tried, [MeterKind::Perf, MeterKind::Resctrl, MeterKind::Declared]);
        assert!(MeterChoice::Only(MeterKind::Software).allows(MeterKind::Software));
        assert!(!MeterChoice::Only(MeterKind::Perf).allows(MeterKind::Resctrl));
    }
}
