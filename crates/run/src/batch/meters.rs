//! Choosing the meter of a batch: `auto` takes the first of `perf`, `resctrl` and `declared` that
//! serves every job.

use std::path::PathBuf;

use memweir_core::input::InputError;
use memweir_linux::meter::perf::SampleIps;
use memweir_linux::meter::software::SoftwareMeter;
use memweir_linux::meter::{NativeOptions, native};
use memweir_linux::qemu::{Program, QemuPaths};
use memweir_linux::topology;
use memweir_linux::{Meter, MeterChoice, MeterKind};
use memweir_policy::PredictorKind;
use memweir_policy::predictor::DEFAULT_THRESHOLD;

use super::RunError;
use super::known::Knowledge;
use crate::declared::DeclaredMeter;
use crate::jobs::Batch;
use crate::options::{self, RunOptions, needs_bandwidth};

/// A meter and why it was chosen.
pub(super) struct Chosen {
    /// Absent if the policy can do without one and none serves.
    pub(super) meter: Option<Box<dyn Meter>>,
    /// One sentence for the user.
    pub(super) reason: String,
}

/// Opens the meter that the options ask for.
pub(super) fn choose(
    batch: &Batch,
    options: &RunOptions,
    policy: &str,
    programs: &[PathBuf],
    knowledge: &Knowledge,
) -> Result<Chosen, RunError> {
    if options.meter == MeterChoice::Only(MeterKind::Software) {
        return software(batch, options, programs);
    }
    let native = native(options.meter, &native_options(options, policy))?;
    let mut passed_over: Vec<String> = native.passed_over.iter().map(ToString::to_string).collect();
    if let Some(opened) = native.meter {
        return Ok(Chosen {
            reason: reason(&opened.description, &passed_over),
            meter: Some(opened.meter),
        });
    }
    if options.meter.allows(MeterKind::Declared) {
        match knowledge.declarations(batch) {
            Ok(declarations) => {
                let why = "the behavior of every job is known from the jobs file or the store";
                return Ok(Chosen {
                    meter: Some(Box::new(DeclaredMeter::new(declarations))),
                    reason: reason(why, &passed_over),
                });
            }
            Err(job) => passed_over.push(format!(
                "declared: nothing is known of {} before it runs",
                batch.jobs[job.index()].name
            )),
        }
    }
    without_meter(options, policy, &passed_over)
}

/// Instruction pointers are sampled for the predictor that wants them, and for nobody else: every
/// sample is an interrupt.
fn native_options(options: &RunOptions, policy: &str) -> NativeOptions {
    let wanted = match options.predictor {
        Some(PredictorKind::Phase { .. }) => true,
        Some(_) => false,
        None => needs_bandwidth(policy),
    };
    NativeOptions {
        event_file: options.perf_events.clone(),
        sample_ips: if wanted { SampleIps::Yes } else { SampleIps::No },
    }
}

/// The software meter, if it can run every job.
fn software(batch: &Batch, options: &RunOptions, programs: &[PathBuf]) -> Result<Chosen, RunError> {
    for (job, program) in batch.jobs.iter().zip(programs) {
        let argv: Vec<Vec<u8>> =
            job.command.argv().iter().map(|word| word.as_encoded_bytes().to_vec()).collect();
        Program::inspect(program, &argv)
            .map_err(|error| InputError::new("job", error.to_string()).key(&job.name))?;
    }
    let caches = match &options.software.caches {
        Some(path) => options::caches(path)?,
        None => topology::caches().hierarchy,
    };
    let paths = QemuPaths {
        emulator: options.software.qemu.clone(),
        plugin: options.software.plugin.clone(),
    };
    let meter = SoftwareMeter::new(caches, &paths)?;
    Ok(Chosen { meter: Some(Box::new(meter)), reason: "it was asked for".to_owned() })
}

/// No meter: an error, unless the policy needs none and the user insists on none.
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
    if needs_bandwidth(policy) {
        let refusal = InputError::new(
            "run",
            format!("`{policy}` needs to know the jobs' bandwidth and no meter serves: {why}"),
        );
        return Err(RunError::NoMeter(refusal.key("meter").help(
            "`--profile-first` profiles unknown programs once; or declare `expected_time_s` \
             and `read_bandwidth` in the jobs file",
        )));
    }
    Ok(Chosen { meter: None, reason: format!("no meter serves every job: {why}") })
}

fn reason(why: &str, passed_over: &[String]) -> String {
    match passed_over {
        [] => why.to_owned(),
        _ => format!("{why}; passed over: {}", passed_over.join("; ")),
    }
}

/// The predictor that makes the most of what a meter sees.
pub(super) fn default_predictor(meter: Option<&dyn Meter>) -> PredictorKind {
    match meter {
        Some(meter) if meter.kind() == MeterKind::Declared => PredictorKind::Profile,
        Some(meter) if meter.capabilities().instruction_pointers => {
            PredictorKind::Phase { threshold: DEFAULT_THRESHOLD }
        }
        _ => PredictorKind::Last,
    }
}
