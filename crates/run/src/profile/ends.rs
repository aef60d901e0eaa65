//! The ends of a profile's runs: runs that end alike make a profile.

use memweir_linux::launch::{Ending, Exit};
use memweir_linux::signals;
use serde::{Deserialize, Serialize};

use super::workspace::Isolation;

/// The ends of the native and the emulated run where they differ, as exit codes; 128 + signal if a
/// signal ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferentEnd {
    /// Of the native run.
    pub native: i32,
    /// Of the emulated run.
    pub emulated: i32,
}

impl DifferentEnd {
    /// The first of the emulated runs that ended otherwise than the native one.
    pub(super) fn between(native: &Exit, emulated: &[Exit]) -> Option<Self> {
        let native = native.code();
        let mut codes = emulated.iter().map(Exit::code);
        codes.find(|code| *code != native).map(|emulated| Self { native, emulated })
    }
}

/// The runs of a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    pub(super) native: &'a Exit,
    pub(super) emulated: &'a [Exit],
    pub(super) isolation: Isolation,
    /// True if the private directories of the native run ran full.
    pub(super) full: bool,
    /// True if the native run was counted in part alone, because the meter failed.
    pub(super) cut_short: bool,
    /// Number of programs that the emulated runs could not count.
    pub(super) uncounted: u64,
}

impl Runs<'_> {
    /// Returns the reason for which the runs make no profile of the program's work; `None` if they
    /// do.
    pub(super) fn unusable(&self) -> Option<String> {
        let code = self.native.code();
        if let Some(different) = DifferentEnd::between(self.native, self.emulated) {
            return Some(self.different(different));
        }
        if let Ending::Signal(number) = self.native.ending {
            return Some(format!("{} ended the program", signals::name(number)));
        }
        if self.full {
            return Some(
                "the program's files outgrew the memory for private directories; \
                 `--isolation none` lets it write in place"
                    .to_owned(),
            );
        }
        if self.cut_short {
            return Some("the meter failed before the program's end".to_owned());
        }
        if self.uncounted > 0 {
            return Some(
                "a program that it started was not counted; `--meter perf` counts all of them \
                 where the machine has counters"
                    .to_owned(),
            );
        }
        (self.isolation == Isolation::Copy && code != 0).then(|| {
            format!(
                "in a copy of its directory the program ended with exit code {code}; it may have \
                 missed files there"
            )
        })
    }

    fn different(&self, DifferentEnd { native, emulated }: DifferentEnd) -> String {
        let why = match (self.isolation, emulated - 128) {
            (_, number @ (4 | 11)) => {
                format!(
                    "; {} often means an instruction that the emulator lacks",
                    signals::name(number)
                )
            }
            (Isolation::None, _) => {
                "; the runs share their files, and the second meets those of the first".to_owned()
            }
            _ => String::new(),
        };
        format!("natively the program ended with {native}, under the emulator with {emulated}{why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::Nanos;

    fn exit(ending: Ending) -> Exit {
        Exit { ending, cpu_time: Nanos::MILLI }
    }

    fn unusable(native: Ending, emulated: Ending, isolation: Isolation) -> Option<String> {
        let (native, emulated) = (exit(native), [exit(emulated)]);
        Runs { emulated: &emulated, isolation, ..alone(&native) }.unusable()
    }

    /// A native run without trouble.
    fn alone(native: &Exit) -> Runs<'_> {
        Runs {
            native,
            emulated: &[],
            isolation: Isolation::Overlay,
            full: false,
            cut_short: false,
            uncounted: 0,
        }
    }

    #[test]
    fn equal_exit_codes_make_a_profile_whatever_they_are() {
        for code in [0, 26] {
            let ending = Ending::Code(code);
            assert_eq!(unusable(ending, ending, Isolation::Overlay), None);
        }
    }

    #[test]
    fn different_ends_do_not_and_the_reason_says_which() {
        let ends = (Ending::Code(0), Ending::Code(2));
        let reason = unusable(ends.0, ends.1, Isolation::None).unwrap();
        assert!(reason.contains("with 0, under the emulator with 2; the runs share"), "{reason}");
        let reason = unusable(ends.0, ends.1, Isolation::Overlay).unwrap();
        assert!(reason.ends_with("with 2"), "{reason}");
        let died = unusable(Ending::Code(0), Ending::Signal(4), Isolation::Overlay).unwrap();
        assert!(died.contains("with 132; SIGILL"), "{died}");
        // The run of a check counts too.
        let (native, emulated) = (exit(ends.0), [exit(ends.0), exit(ends.1)]);
        let different = DifferentEnd::between(&native, &emulated).unwrap();
        assert_eq!((different.native, different.emulated), (0, 2));
    }

    #[test]
    fn a_program_that_was_killed_has_no_profile() {
        let killed = Ending::Signal(9);
        let reason = unusable(killed, killed, Isolation::Overlay).unwrap();
        assert_eq!(reason, "SIGKILL ended the program");
    }

    #[test]
    fn a_full_directory_a_failure_in_a_copy_and_what_is_not_counted_spoil_a_profile() {
        let native = exit(Ending::Code(1));
        let runs = alone(&native);
        assert_eq!(runs.unusable(), None);
        let reason = |runs: Runs<'_>| runs.unusable().unwrap();
        assert!(reason(Runs { isolation: Isolation::Copy, ..runs }).contains("in a copy"));
        assert!(reason(Runs { uncounted: 1, ..runs }).contains("was not counted"));
        assert!(reason(Runs { cut_short: true, ..runs }).contains("the meter failed"));
        assert!(reason(Runs { full: true, ..runs }).contains("outgrew"));
    }
}
