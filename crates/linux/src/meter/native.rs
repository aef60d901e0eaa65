//! Choosing a meter that runs jobs at their native speed from what the machine offers.
//!
//! The `declared` meter, which comes after these in `auto`, needs no machine and is added by the
//! run itself.

use std::path::PathBuf;

use memweir_core::Media;
use memweir_core::input::InputError;

use super::perf::{PerfMeter, PerfOpenError, SampleIps};
use super::resctrl::ResctrlMeter;
use super::{Meter, MeterChoice, MeterKind};
use crate::probe::Probe;

/// Options of meters besides the choice.
#[derive(Clone, Debug, Default)]
pub struct NativeOptions {
    /// An event file in the place of the shipped ones.
    pub event_file: Option<PathBuf>,
    /// Sampling of instruction pointers.
    pub sample_ips: SampleIps,
    /// The media to count apart, where a meter can.
    pub media: Media,
}

/// The outcome of a choice.
pub struct Choice<M: ?Sized> {
    /// The meter, if one of those allowed works here.
    pub meter: Option<OpenedMeter<M>>,
    /// Those that were tried before it and why they do not serve, for people: `perf: this virtual
    /// machine has no PMU (remedy: ...)`.
    pub passed_over: Vec<String>,
}

/// A meter that serves.
pub struct OpenedMeter<M: ?Sized = dyn Meter> {
    /// The meter.
    pub meter: Box<M>,
    /// The counted quantities and their sources, as one sentence for people.
    pub description: String,
}

/// Opens the first of `perf` and `resctrl` that `choice` allows and that works here.
///
/// # Errors
/// The event file was refused: that is wrong input and never a reason to try another meter.
pub fn native(
    choice: MeterChoice,
    options: &NativeOptions,
) -> Result<Choice<dyn Meter>, InputError> {
    let NativeOptions { event_file, sample_ips, media } = options;
    let perf = || {
        let meter = PerfMeter::open(event_file.as_deref(), media, *sample_ips)?;
        Ok(OpenedMeter { description: meter.describe(), meter: Box::new(meter) as Box<dyn Meter> })
    };
    let resctrl = || {
        let meter = ResctrlMeter::open()?;
        Ok(OpenedMeter { description: meter.describe(), meter: Box::new(meter) as Box<dyn Meter> })
    };
    first(choice, perf, resctrl)
}

/// Opens the first of `perf` and `resctrl` that `choice` allows and that works here.
pub(super) fn first<M: ?Sized>(
    choice: MeterChoice,
    perf: impl FnOnce() -> Result<OpenedMeter<M>, PerfOpenError>,
    resctrl: impl FnOnce() -> Result<OpenedMeter<M>, Probe>,
) -> Result<Choice<M>, InputError> {
    let (mut meter, mut passed_over) = (None, Vec::new());
    let told = |kind, probe: Probe| format!("{kind}: {probe}");
    if choice.allows(MeterKind::Perf) {
        match perf() {
            Ok(opened) => meter = Some(opened),
            Err(PerfOpenError::Input(error)) => return Err(error),
            Err(PerfOpenError::Unavailable(probe)) => {
                passed_over.push(told(MeterKind::Perf, probe));
            }
        }
    }
    if meter.is_none() && choice.allows(MeterKind::Resctrl) {
        match resctrl() {
            Ok(opened) => meter = Some(opened),
            Err(probe) => passed_over.push(told(MeterKind::Resctrl, probe)),
        }
    }
    Ok(Choice { meter, passed_over })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn test_events() -> NativeOptions {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/software-events.toml");
        NativeOptions { event_file: Some(file), ..NativeOptions::default() }
    }

    #[test]
    fn every_meter_is_opened_or_passed_over_with_a_reason() {
        let native = native(MeterChoice::Auto, &NativeOptions::default()).unwrap();
        let tried: Vec<_> =
            native.passed_over.iter().filter_map(|passed| passed.split_once(": ")).collect();
        let kinds: Vec<_> = tried.iter().map(|(kind, _)| *kind).collect();
        match native.meter.as_ref().map(|opened| opened.meter.kind()) {
            Some(MeterKind::Perf) => assert!(kinds.is_empty(), "{kinds:?}"),
            Some(MeterKind::Resctrl) => assert_eq!(kinds, ["perf"]),
            other => {
                assert_eq!(other, None);
                assert_eq!(kinds, ["perf", "resctrl"]);
            }
        }
        assert!(tried.iter().all(|(_, reason)| reason.len() > 10), "{tried:?}");
    }

    #[test]
    fn an_event_file_that_works_gives_a_perf_meter() {
        let native = native(MeterChoice::Auto, &test_events()).unwrap();
        match native.meter {
            Some(OpenedMeter { meter, description }) => {
                assert_eq!(meter.kind(), MeterKind::Perf);
                assert_eq!(
                    description,
                    "any machine, software events: reads by minor-faults + major-faults, \
                     writes by context-switches"
                );
            }
            None => memweir_test_support::skip!(Kernel, "{}", native.passed_over[0]),
        }
    }

    #[test]
    fn meters_that_were_not_asked_for_are_not_tried() {
        for kind in [MeterKind::Declared, MeterKind::Software] {
            let native = native(MeterChoice::Only(kind), &test_events()).unwrap();
            assert!(native.meter.is_none() && native.passed_over.is_empty());
        }
        let native = native(MeterChoice::Only(MeterKind::Resctrl), &test_events()).unwrap();
        assert!(native.passed_over.iter().all(|passed| passed.starts_with("resctrl: ")));
    }

    #[test]
    fn a_refused_event_file_ends_the_choice() {
        let options = NativeOptions { event_file: Some("/nonexistent".into()), ..test_events() };
        assert!(native(MeterChoice::Auto, &options).is_err());
        assert!(native(MeterChoice::Only(MeterKind::Resctrl), &options).is_ok());
    }
}
