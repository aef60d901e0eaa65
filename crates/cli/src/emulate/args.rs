//! Options of `memweir emulate`, and their meaning as jobs and [`EmulateOptions`].

use std::path::{Path, PathBuf};

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_core::placement::PlacementSpec;
use memweir_emulate::EmulateOptions;
use memweir_emulate::machine::Grain;
use memweir_flow::Hardware;
use memweir_linux::Mechanism;
use memweir_linux::qemu::QemuPaths;
use memweir_linux::tell;
use memweir_run::options::{self, BatchOptions, RunOptions, SoftwareMeterOptions};

use crate::choice::{ChoiceArgs, ProgramArgs};
use crate::shared::batch_args::{Comparing, Ending, JobOutput, JobSource, Plan, Results};
use crate::value::{duration, named, parsed, policy, quantum};

const USAGE: &str = "memweir emulate --machine M [OPTIONS] JOBS.toml
       memweir emulate --machine M [OPTIONS] -- CMD [ARGS] ::: CMD [ARGS] ...
       memweir emulate --machine M [OPTIONS] --from-file FILE";

/// Options of `memweir emulate`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) jobs: JobSource,

    /// The machine: iabw, hmmsched, two-node, cxl-server, or a file that ends in .toml
    #[arg(long, value_name = "NAME|FILE", help_heading = "Machine")]
    machine: String,
    /// Cores that the batch may use [default: all of the machine]; `auto` leaves cores idle while
    /// filling them costs more than it gains, `auto:N` of N
    #[arg(
        long,
        value_name = "N|auto[:N]",
        help_heading = "Machine",
        allow_negative_numbers = true
    )]
    cores: Option<String>,
    /// Which pages lie where: pram, pram=70%, hot=64MiB, 0x1000-0x9000=pram
    #[arg(long, value_name = "WHERE", help_heading = "Machine")]
    #[arg(value_parser = parsed::<PlacementSpec>)]
    placement: Option<PlacementSpec>,
    /// Interval at which contention is computed, in virtual time, 100us to 10ms
    #[arg(long, value_name = "TIME", help_heading = "Machine", default_value = "1ms")]
    #[arg(value_parser = epoch)]
    epoch: Nanos,
    /// The longest turn of a thread: how finely cores interleave in the shared cache
    #[arg(long, value_name = "TIME", help_heading = "Machine", default_value = "100us")]
    #[arg(value_parser = step)]
    step: Nanos,

    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Length of a quantum in virtual time, 10ms to 10s [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Scheduling", value_parser = quantum)]
    quantum: Option<Nanos>,
    /// Seed of everything random, what programs draw too [default: 1]
    #[arg(long, value_name = "N", help_heading = "Scheduling", allow_negative_numbers = true)]
    #[arg(value_parser = crate::value::seed)]
    seed: Option<u64>,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE", help_heading = "Scheduling")]
    store: Option<PathBuf>,

    /// Mechanism by which the host groups a job's processes [default: the first that works]
    #[arg(long, value_name = "NAME", help_heading = "Emulator")]
    #[arg(value_parser = named::<Mechanism>())]
    mechanism: Option<Mechanism>,
    /// The qemu-x86_64 to use [default: from PATH]
    #[arg(long, value_name = "FILE", help_heading = "Emulator")]
    qemu: Option<PathBuf>,
    /// The plugin of the software meter [default: the installed one]
    #[arg(long, value_name = "FILE", help_heading = "Emulator")]
    plugin: Option<PathBuf>,
    /// Emulate the batch twice and fail if anything differs
    #[arg(long, help_heading = "Emulator", conflicts_with = "compare")]
    pub(super) verify: bool,

    #[command(flatten)]
    ending: Ending,

    /// Run the batch under each of these policies; the first is the baseline
    #[arg(long, value_name = "NAME,NAME,...", help_heading = "Comparing", value_delimiter = ',')]
    #[arg(conflicts_with = "policy", value_parser = policy(), hide_possible_values = true)]
    compare: Vec<String>,
    /// Rounds of a comparison, each with another seed [default: 1]
    #[arg(long, value_name = "N", help_heading = "Comparing")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    #[command(flatten)]
    pub(super) comparing: Comparing,

    #[command(flatten)]
    pub(super) results: Results,
    #[command(flatten)]
    output: JobOutput,
}

/// The shortest and the longest epoch.
const EPOCHS: (Nanos, Nanos) = (Nanos(100_000), Nanos::from_millis(10));

/// The shortest turn: below it, handing turns around costs more than they do.
const SHORTEST_STEP: Nanos = Nanos(10_000);

fn epoch(text: &str) -> Result<Nanos, String> {
    let length = duration(text)?;
    match (EPOCHS.0..=EPOCHS.1).contains(&length) {
        true => Ok(length),
        false => Err("an epoch takes from 100us to 10ms".to_owned()),
    }
}

fn step(text: &str) -> Result<Nanos, String> {
    let length = duration(text)?;
    match (SHORTEST_STEP..=EPOCHS.1).contains(&length) {
        true => Ok(length),
        false => Err("a turn takes from 10us to 10ms".to_owned()),
    }
}

impl Args {
    /// Reads machine and jobs and puts the options of the command line over those of the jobs file.
    pub(super) fn plan(&self) -> Result<Plan<EmulateOptions>, InputError> {
        let hardware = Hardware::find(&self.machine, Path::new(""))?;
        let (batch, of_file) = self.jobs.read(hardware.machine.cores(), "memweir emulate")?;
        let base = RunOptions {
            store: self.store.clone(),
            software: SoftwareMeterOptions {
                qemu: QemuPaths { emulator: self.qemu.clone(), plugin: self.plugin.clone() },
                caches: None,
            },
            ..self.results.options(&self.output)
        };
        let cores = |text: &String| options::cores_or_auto(text, hardware.machine.cores());
        let cores = self.cores.as_ref().map(cores).transpose();
        let cores = cores.map_err(|refusal| refusal.written_in("command line").key("--cores"))?;
        let choices = BatchOptions {
            cores: cores.and_then(|cores| cores.limit),
            core_use: cores.map(|cores| cores.core_use),
            ..self.choices()
        };
        let run = choices.over(of_file.over(base));
        let run = self.programs.over(run, &self.choice, &self.compare)?;
        let grain = Grain { epoch: self.epoch, step: self.step.min(self.epoch) };
        let compare = self.comparing.options(&self.compare, self.repeat, 1)?;
        let options = EmulateOptions {
            tell: |text| tell!("{text}"),
            ..EmulateOptions::new(hardware, grain, run)
        };
        Ok(Plan { batch, options, compare })
    }

    fn choices(&self) -> BatchOptions {
        BatchOptions {
            mechanism: self.mechanism,
            quantum: self.quantum,
            on_exit: self.ending.on_exit,
            on_failure: self.ending.on_failure(),
            seed: self.seed,
            placement: self.placement.clone(),
            ..self.choice.options()
        }
    }
}
