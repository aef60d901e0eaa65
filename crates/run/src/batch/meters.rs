//! Choosing the meter of a batch: `auto` takes the first of `perf`, `resctrl` and `declared` that
//! serves every job.

use std::path::Path;

use memweir_core::cache::CacheHierarchy;
use memweir_core::input::InputError;
use memweir_core::placement::Placement;
use memweir_linux::meter::perf::SampleIps;
use memweir_linux::meter::software::SoftwareMeter;
use memweir_linux::meter::{Choice, NativeOptions, native};
use memweir_linux::topology;
use memweir_linux::{Meter, MeterChoice, MeterKind};
use memweir_policy::PredictorKind;
use memweir_policy::predictor::DEFAULT_THRESHOLD;

use super::RunError;
use super::plan::{Plan, has_limits};
use crate::declared::DeclaredMeter;
use crate::options::{
    self, RunOptions, needs_bandwidth, needs_media, unused_events, unused_placement,
};

/// A meter and the reason for its choice.
pub(super) struct Chosen {
    /// Absent if the policy can do without one and none serves.
    pub(super) meter: Option<Box<dyn Meter>>,
    /// One sentence for the user.
    pub(super) reason: String,
    /// Notices for the user about the meter's blind spots.
    pub(super) notices: Vec<String>,
}

/// Opens the meter that the options ask for. If there are several media and the policy decides by
/// them, the meter must tell them apart.
pub(super) fn choose(plan: &Plan<'_>) -> Result<Chosen, RunError> {
    let mut chosen = first_that_serves(plan)?;
    let kind = chosen.meter.as_ref().map(|meter| meter.kind());
    if plan.placements.iter().any(Option::is_some) {
        chosen.notices.extend(kind.and_then(unused_placement));
    }
    if !has_limits(plan.batch) {
        chosen.notices.extend(unused_events(plan.options.perf_events.as_deref(), kind));
    }
    Ok(chosen)
}

fn first_that_serves(plan: &Plan<'_>) -> Result<Chosen, RunError> {
    let options = plan.options;
    if options.meter == MeterChoice::Only(MeterKind::Software) {
        return software(plan);
    }
    let Choice { meter, mut passed_over } =
        native(options.meter, &native_options(options, &plan.policy))?;
    if let Some(opened) = meter {
        match blindness(plan, opened.meter.as_ref()) {
            Some(blind) if needs_media(&plan.policy) => passed_over.push(blind),
            blind => return Ok(chosen(opened.meter, &opened.description, &passed_over, blind)),
        }
    }
    if options.meter.allows(MeterKind::Declared) {
        match declared(plan) {
            Ok(meter) => match blindness(plan, &meter) {
                Some(blind) if needs_media(&plan.policy) => passed_over.push(blind),
                blind => {
                    let why = "the behavior of every job is known from the jobs file or the store";
                    return Ok(chosen(Box::new(meter), why, &passed_over, blind));
                }
            },
            Err(reason) => passed_over.push(reason),
        }
    }
    without_meter(options, &plan.policy, &passed_over)
}

/// Returns the reason for which a meter cannot tell the machine's media apart; `None` if it can, or
/// if there is only one.
fn blindness(plan: &Plan<'_>, meter: &dyn Meter) -> Option<String> {
    if plan.options.media.len() == 1 || meter.capabilities().media {
        return None;
    }
    let why = match meter.kind() {
        MeterKind::Perf => "no event of this processor that opens here names them",
        MeterKind::Resctrl => "it counts all memory together",
        MeterKind::Declared => {
            "only a `placement` by share, or a recording of the software meter with these media, \
             divides what is declared"
        }
        MeterKind::Software => "its plugin is of another version",
    };
    Some(format!("{}: cannot tell media apart: {why}", meter.kind()))
}

fn chosen(
    meter: Box<dyn Meter>,
    why: &str,
    passed_over: &[String],
    blind: Option<String>,
) -> Chosen {
    let notices = blind.map(|blind| format!("{blind}; all traffic counts as local DRAM's"));
    Chosen {
        reason: reason(why, passed_over),
        meter: Some(meter),
        notices: notices.into_iter().collect(),
    }
}

/// Returns the declared meter, if every job has a profile.
fn declared(plan: &Plan<'_>) -> Result<DeclaredMeter, String> {
    match plan.knowledge.declarations(plan.batch) {
        Ok(declarations) => Ok(DeclaredMeter::new(declarations)),
        Err(job) => {
            let name = &plan.batch.jobs[job.index()].name;
            Err(match &plan.knowledge.jobs[job.index()].outdated {
                Some(reason) => format!("declared: the profile of {name} is not used: {reason}"),
                None => format!("declared: nothing is known of {name} before it runs"),
            })
        }
    }
}

/// Returns the options of a native meter for this policy. It samples instruction pointers only for
/// a predictor that uses them: every sample is an interrupt.
#[must_use]
pub fn native_options(options: &RunOptions, policy: &str) -> NativeOptions {
    let wanted = match options.predictor {
        Some(PredictorKind::Phase { .. }) => true,
        Some(_) => false,
        None => needs_bandwidth(policy) || options.program(policy).is_some(),
    };
    NativeOptions {
        event_file: options.perf_events.clone(),
        sample_ips: if wanted { SampleIps::Yes } else { SampleIps::No },
        media: options.media.clone(),
    }
}

/// Returns the software meter, if it can run every job.
fn software(plan: &Plan<'_>) -> Result<Chosen, RunError> {
    let options = plan.options;
    plan.check_emulation()?;
    let (caches, told) = simulated(options.software.caches.as_deref(), topology::caches())?;
    let placements = plan.placements();
    let unplaced = options.media.len() > 1 && placements.values().all(Placement::is_local);
    let meter = SoftwareMeter::new(caches, &options.software.qemu)?.with_placements(placements);
    let unplaced = unplaced.then(|| {
        "every page of every job lies in local DRAM: no `placement` says otherwise".to_owned()
    });
    Ok(Chosen {
        meter: Some(Box::new(meter)),
        reason: "it was asked for".to_owned(),
        notices: told.into_iter().chain(unplaced).collect(),
    })
}

/// Returns the caches to simulate: those of a file, or those found `here` with the notices about
/// them.
fn simulated(
    file: Option<&Path>,
    here: topology::Caches,
) -> Result<(CacheHierarchy, Vec<String>), InputError> {
    match file {
        Some(path) => Ok((options::caches(path)?, Vec::new())),
        None => Ok((here.hierarchy, here.notice.into_iter().chain(here.shared).collect())),
    }
}

/// Goes without a meter; refuses if the user requested one or the policy needs one.
fn without_meter(
    options: &RunOptions,
    policy: &str,
    passed_over: &[String],
) -> Result<Chosen, RunError> {
    let why = passed_over.join("; ");
    if options.meter != MeterChoice::Auto {
        let refusal = InputError::new("run", why).key("meter");
        let refusal = refusal.help("`memweir doctor` says what this machine offers");
        return Err(RunError::NoMeter(refusal));
    }
    if options.media.len() > 1 && needs_media(policy) {
        let refusal = InputError::new(
            "run",
            format!("`{policy}` needs to know the traffic by medium and no meter tells: {why}"),
        );
        return Err(RunError::NoMeter(refusal.key("meter").help(
            "`--meter software --placement pram=70%` counts by medium on any machine; or give \
             every job a `placement` by share, an `expected_time_s` and a `read_bandwidth`",
        )));
    }
    if needs_bandwidth(policy) {
        let refusal = InputError::new(
            "run",
            format!("`{policy}` needs to know the jobs' bandwidth and no meter serves: {why}"),
        );
        return Err(RunError::NoMeter(refusal.key("meter").help(
            "`--profile-first` profiles unknown programs once; or declare `expected_time_s` \
             and `read_bandwidth` in the jobs file; or choose a policy that needs neither, such \
             as `long-job-first`",
        )));
    }
    // The reasons of each meter would bury the result. A policy of the table that comes here needs
    // no meter; a program may.
    let notice = options
        .program(policy)
        .map(|_| "no meter serves every job; `memweir doctor` says why".to_owned());
    Ok(Chosen { meter: None, reason: String::new(), notices: notice.into_iter().collect() })
}

fn reason(why: &str, passed_over: &[String]) -> String {
    match passed_over {
        [] => why.to_owned(),
        _ => format!("{why}; passed over: {}", passed_over.join("; ")),
    }
}

/// Returns the predictor that makes the most of a meter.
#[must_use]
pub fn default_predictor(meter: Option<&dyn Meter>) -> PredictorKind {
    match meter {
        Some(meter) if meter.kind() == MeterKind::Declared => PredictorKind::Profile,
        Some(meter) if meter.capabilities().instruction_pointers => {
            PredictorKind::Phase { threshold: DEFAULT_THRESHOLD }
        }
        _ => PredictorKind::Last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_are_assumed_or_shared_are_told_unless_a_file_describes_them() {
        let here = || topology::Caches {
            notice: Some("assumed".into()),
            shared: Some("shared".into()),
            ..topology::caches()
        };
        assert_eq!(simulated(None, here()).unwrap().1, ["assumed", "shared"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let table = |name, size| format!("[{name}]\nsize = {size}\nways = 8\nline = 64\n");
        let text = table("l1d", 32 << 10) + &table("l2", 256 << 10) + &table("llc", 2 << 20);
        std::fs::write(file.path(), text).unwrap();
        assert!(simulated(Some(file.path()), here()).unwrap().1.is_empty());
    }
}
