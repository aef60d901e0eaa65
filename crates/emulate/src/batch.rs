//! The use case: a batch of real programs on an emulated machine, once or under several policies.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_flow::{Hardware, View};
use memweir_linux::blocker::{self, Opened};
use memweir_linux::gate::{Gate, Listener, Stall};
use memweir_linux::meter::software::SoftwareMeter;
use memweir_linux::{OsError, leftovers};
use memweir_policy::Bus;
use memweir_run::batch::{Frame, Mechanisms, Plan, RunError};
use memweir_run::compare::{CompareOptions, Compared, Comparison, compare_with};
use memweir_run::jobs::Batch;
use memweir_run::observer::Observer;
use memweir_run::options::RunOptions;
use memweir_run::report::BatchReport;
use serde::Serialize;
use serde_json::Value;

use crate::cost::costs;
use crate::machine::{Grain, Machine};
use crate::threads::RealThreads;
use crate::world::{EmulatedBlocker, EmulatedMeter, EmulatedWorld, SharedMachine};

/// Date that programs see: the beginning of 2026. The host's date would make runs differ.
const EPOCH: Nanos = Nanos(1_767_225_600_000_000_000);

/// Options of an emulation.
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// The machine.
    pub hardware: Hardware,
    /// Division of time.
    pub grain: Grain,
    /// The options of a live run; the machine's media replace theirs.
    pub run: RunOptions,
    /// Reports to the user, while it lasts, that an emulation waits in vain for a program.
    pub tell: fn(&str),
}

impl EmulateOptions {
    /// Combines these options, with the media of the machine.
    #[must_use]
    pub fn new(hardware: Hardware, grain: Grain, run: RunOptions) -> Self {
        let media = View::new(&hardware.machine).media().clone();
        Self { run: RunOptions { media, ..run }, hardware, grain, tell: |_| {} }
    }

    /// Returns the number of cores that the batch may use.
    fn cores(&self) -> Result<u32, InputError> {
        let all = self.hardware.machine.cores();
        let cores = self.run.cores.unwrap_or(all);
        memweir_run::options::cores(i64::from(cores), all)
            .map_err(|refusal| refusal.written_in("emulate").key("cores"))
    }

    fn frame(&self) -> Result<Frame, InputError> {
        let machine = &self.hardware.machine;
        let view = View::new(machine);
        let bus = Bus { peak: Some(machine.bus_peak()), ..Bus::default() };
        let (peaks, costs) = (view.peaks(machine), view.line_costs(machine));
        Ok(Frame::elsewhere(self.cores()?, Some(machine.cores()), bus, peaks, costs))
    }
}

/// Version of memweir, for results.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The machine in a report, beside the batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineReport {
    /// Its name.
    pub name: String,
    /// Number of all its cores; the batch may have used fewer.
    pub cores: u32,
    /// Names of its memories.
    pub memories: Vec<String>,
    /// Source of its figures.
    pub source: String,
    /// Length of an epoch in milliseconds.
    pub epoch_ms: f64,
    /// Longest turn in milliseconds.
    pub step_ms: f64,
}

/// The outcome of an emulation: a [`BatchReport`], or the [`Comparison`] of the same batch under
/// several policies. Times are virtual, but the CPU time of memweir itself is that of the host.
#[derive(Clone, Debug, Serialize)]
pub struct Emulated<R> {
    /// Version of memweir.
    pub version: &'static str,
    /// Seed of everything random in it; of a comparison that of the first round, and each further
    /// one counts up.
    pub seed: u64,
    /// The machine.
    pub machine: MachineReport,
    /// The report.
    #[serde(flatten)]
    pub report: R,
}

impl<R> Emulated<R> {
    fn new(options: &EmulateOptions, report: R) -> Self {
        let machine = MachineReport::of(options);
        Self { version: VERSION, seed: options.run.seed, machine, report }
    }
}

impl Emulated<BatchReport> {
    /// Returns the figures in which another run of the same batch differs, by their paths in the
    /// JSON. The comparison ignores figures of the host: the CPU time of memweir, the places of the
    /// logs, and notices, which also report the leftovers of other runs.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let figures = |emulated: &Self| {
            let mut emulated = emulated.clone();
            emulated.report.scheduler_s = 0.0;
            emulated.report.notices.clear();
            for job in &mut emulated.report.jobs {
                (job.stdout, job.stderr) = (None, None);
            }
            serde_json::to_value(&emulated).unwrap_or_default()
        };
        let mut differences = Vec::new();
        compare_values("", &figures(self), &figures(other), &mut differences);
        differences
    }
}

fn compare_values(path: &str, one: &Value, other: &Value, differences: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            // Figures that are absent where there is nothing to say may be those of one run alone.
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let [one, other] = [one, other].map(|map| map.get(key).unwrap_or(&Value::Null));
                compare_values(&format!("{path}.{key}"), one, other, differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (place, (one, other)) in one.iter().zip(other).enumerate() {
                compare_values(&format!("{path}[{place}]"), one, other, differences);
            }
        }
        _ if one != other => differences.push(path.trim_start_matches('.').to_owned()),
        _ => {}
    }
}

impl MachineReport {
    fn of(options: &EmulateOptions) -> Self {
        let machine = &options.hardware.machine;
        Self {
            name: machine.name.clone(),
            cores: machine.cores(),
            memories: machine.memories.iter().map(|memory| memory.name.clone()).collect(),
            source: options.hardware.source.clone(),
            epoch_ms: options.grain.epoch.as_millis_f64(),
            step_ms: options.grain.step.as_millis_f64(),
        }
    }
}

/// Refuses a batch that [`emulate`] would refuse, without starting anything.
///
/// # Errors
/// The first error: of the machine, of an option, or of a program that cannot be emulated.
pub fn check(batch: &Batch, options: &EmulateOptions) -> Result<(), RunError> {
    prepare(batch, options).map(|_| ())
}

fn prepare<'a>(batch: &'a Batch, options: &'a EmulateOptions) -> Result<Plan<'a>, RunError> {
    options
        .hardware
        .machine
        .check()
        .map_err(|error| InputError::new("machine", error.to_string()))?;
    let plan = Plan::elsewhere(batch, &options.run, options.frame()?)?;
    plan.check_emulation()?;
    Ok(plan)
}

/// Runs the jobs of `batch` on the machine of `options` until all are complete or a signal ends the
/// batch; signals are as for [`run_batch`](memweir_run::batch::run_batch).
///
/// # Errors
/// Errors of [`check`]; a missing emulator or plugin; errors of the host.
pub fn emulate(
    batch: &Batch,
    options: &EmulateOptions,
    observer: &mut dyn Observer,
) -> Result<Emulated<BatchReport>, RunError> {
    Ok(Emulated::new(options, run(batch, options, observer)?))
}

/// Runs the batch under each of several policies. Rounds differ in their seeds. Returns the failure
/// of a run after the first one, which ends the comparison, beside the conclusions until then.
///
/// # Errors
/// As [`emulate`].
pub fn emulate_each(
    batch: &Batch,
    options: &EmulateOptions,
    compare: &CompareOptions,
    observer: &mut dyn Observer,
) -> Result<(Emulated<Comparison>, Option<RunError>), RunError> {
    let of_run = |run: &RunOptions| EmulateOptions { run: run.clone(), ..options.clone() };
    let Compared { comparison, failure } = compare_with(
        &options.run,
        compare,
        |run| check(batch, &of_run(run)),
        |run, round, observer| {
            let run = RunOptions { seed: run.seed.wrapping_add(u64::from(round)), ..run.clone() };
            self::run(batch, &of_run(&run), observer)
        },
        observer,
    )?;
    Ok((Emulated::new(options, comparison), failure))
}

/// Returns a listener that reports a stall in words.
fn stall_notice(batch: &Batch, tell: fn(&str)) -> Listener {
    let names: Vec<String> = batch.jobs.iter().map(|job| job.name.clone()).collect();
    Box::new(move |stall| {
        let Stall { job, pid, tid, call, state } = stall;
        let name = names.get(*job as usize).map_or("?", String::as_str);
        tell(&format!(
            "the emulation is stuck: it has waited 10 s for threads that do not compute, now for \
             thread {tid} of process {pid} of job {name}, {state:?} since its system call {call}"
        ));
    })
}

fn run(
    batch: &Batch,
    options: &EmulateOptions,
    observer: &mut dyn Observer,
) -> Result<BatchReport, RunError> {
    let plan = prepare(batch, options)?;
    let run = &options.run;
    let gate = Gate::new(costs(&options.hardware), run.seed, EPOCH)
        .map_err(OsError::of("making the gate of the emulation"))?;
    let gate = Arc::new(gate.telling(stall_notice(batch, options.tell)));
    let meter = SoftwareMeter::new(options.hardware.caches, &run.software.qemu)?
        .with_placements(plan.placements())
        .behind(gate.clone());
    let threads = RealThreads::new(gate, Arc::new(Mutex::new(meter)));
    let shape = &options.hardware.machine;
    let machine = Machine::new(shape, options.cores()?, options.grain, run.seed, threads);
    let machine = SharedMachine::new(machine);
    let mut notices = leftovers::clean();
    let world =
        EmulatedWorld::new(machine.clone()).map_err(OsError::of("preparing to wait for events"))?;
    let Opened { blocker: holder, notices: of_holder } =
        blocker::open(run.mechanism, "emulate", &run.guardian)?;
    notices.extend(of_holder);
    if shape.nodes.len() > 1 {
        notices.push("one last-level cache serves the cores of all nodes".to_owned());
    }
    let variables =
        |job: &memweir_run::jobs::Job| -> BTreeSet<_> { job.env.keys().cloned().collect() };
    let meter = EmulatedMeter::new(machine.clone(), batch.jobs.iter().map(variables).collect());
    let mechanisms = Mechanisms::new(
        Box::new(EmulatedBlocker::new(machine, holder)),
        Some(Box::new(meter)),
        Box::new(world),
        "virtual time".to_owned(),
        notices,
    );
    plan.run(mechanisms, observer)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memweir_core::BytesPerSec;
    use memweir_flow::Memory;
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_know_the_capacity_of_all_dram() {
        let text = "name = 'm'\nsource = 'test'\ncore_peak = 5e9\n[[nodes]]\ncores = 2\n\
                    [[memories]]\nmedium = 'dram'\ncapacity = 10e9\n";
        let mut hardware = Hardware::parse("m", text, Path::new(".")).expect("a machine");
        let machine = &mut hardware.machine;
        machine.memories.push(Memory { name: "more".to_owned(), ..machine.memories[0].clone() });
        let view = View::new(machine);
        let (peaks, costs) = (view.peaks(machine), view.line_costs(machine));
        let bus = Bus { peak: Some(BytesPerSec::from_gb(20.0)), ..Bus::default() };
        let options = EmulateOptions::new(hardware, Grain::default(), RunOptions::default());
        let expected = Frame::elsewhere(2, Some(2), bus, peaks, costs);
        assert_eq!(options.frame().expect("two cores"), expected);
    }

    #[test]
    fn a_figure_that_one_run_alone_has_is_a_difference() {
        let one = json!({"jobs": [1, {"reads": 2}], "quanta": 3});
        let other = json!({"jobs": [1, {"reads": 4}], "lost": ["x"], "quanta": 3});
        for (one, other) in [(&one, &other), (&other, &one)] {
            let mut differences = Vec::new();
            compare_values("", one, other, &mut differences);
            assert_eq!(differences, ["jobs[1].reads", "lost"]);
        }
    }
}
