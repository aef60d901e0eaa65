//! Options of `memweir run`, and their meaning as jobs and [`RunOptions`].

use std::path::{Path, PathBuf};

use memweir_abi::softpmu::Sampling;
use memweir_core::BytesPerSec;
use memweir_core::input::InputError;
use memweir_core::placement::PlacementSpec;
use memweir_linux::{MeterChoice, MeterKind};
use memweir_run::options::{self, BatchOptions, PINNED, Pinning, RunOptions, SoftwareMeterOptions};

use super::help;
use crate::choice::{ChoiceArgs, LiveArgs, ProgramArgs};
use crate::export::ExportArgs;
use crate::failure::refusal_of;
use crate::shared::batch_args::{Comparing, Ending, JobOutput, JobSource, Plan, Results};
use crate::shared::profiling::QemuArgs;
use crate::value::{allowed_cores, limit, parsed, policy};

const USAGE: &str = "memweir run [OPTIONS] JOBS.toml
       memweir run [OPTIONS] -- CMD [ARGS] ::: CMD [ARGS] ...
       memweir run [OPTIONS] --from-file FILE";

/// Options of `memweir run`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_long_help = help::after())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) jobs: JobSource,

    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// The machine's address map, for jobs that have `colors`
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    pub(super) map: Option<PathBuf>,
    /// Bind each chosen job to a core of its own
    #[arg(long, help_heading = "Scheduling")]
    pin: bool,
    /// Limit the bandwidth of a job, and of all instances of it, in every millisecond, such as
    /// `4GB/s`; 0 is no limit. Needs `--mechanism sched-ext`
    #[arg(long = "limit", value_name = "JOB=RATE", help_heading = "Scheduling")]
    #[arg(value_parser = limit)]
    limits: Vec<(String, Option<BytesPerSec>)>,

    /// Profile programs that the store does not know before the batch starts
    #[arg(long, help_heading = "Measuring")]
    pub(super) profile_first: bool,
    /// Media beside DRAM, by name or file, with commas: pram, stt-ram, cxl, FILE.toml
    #[arg(long, value_name = "NAME|FILE", help_heading = "Measuring")]
    media: Option<String>,
    /// Which pages lie where: pram, pram=70%, hot=64MiB, 0x1000-0x9000=pram
    #[arg(long, value_name = "WHERE", help_heading = "Measuring")]
    #[arg(value_parser = parsed::<PlacementSpec>)]
    placement: Option<PlacementSpec>,
    /// Share of each program that --profile-first simulates: all, or a share such as 10%
    #[arg(long, value_name = "SHARE", help_heading = "Measuring", default_value = "10%")]
    #[arg(requires = "profile_first")]
    pub(super) sample: Sampling,
    /// Caches that the software meter models, instead of this machine's; needs --meter software or
    /// --profile-first
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    caches: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Measuring")]
    qemu: QemuArgs,

    #[command(flatten)]
    ending: Ending,

    /// Run the batch under each of these policies, interleaved; the first is the baseline
    #[arg(long, value_name = "NAME,NAME,...", help_heading = "Comparing", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["policy", "timeline"], value_parser = policy())]
    #[arg(hide_possible_values = true)]
    compare: Vec<String>,
    /// Rounds of a comparison [default: 3]
    #[arg(long, value_name = "N", help_heading = "Comparing")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    #[command(flatten)]
    pub(super) comparing: Comparing,

    #[command(flatten)]
    pub(super) results: Results,
    #[command(flatten)]
    pub(super) export: ExportArgs,
    #[command(flatten)]
    output: JobOutput,
}

impl Args {
    /// Reads the jobs and puts the options of the command line over those of the jobs file.
    pub(super) fn plan(&self) -> Result<Plan<RunOptions>, InputError> {
        let (mut batch, of_file) = self.jobs.read(allowed_cores(), "memweir run")?;
        for (name, rate) in &self.limits {
            batch.limit(name, *rate)?;
        }
        let base = RunOptions {
            software: SoftwareMeterOptions { qemu: self.qemu.paths(), caches: self.caches.clone() },
            ..self.live.files(self.results.options(&self.output))
        };
        let options = self.choices()?.over(of_file.over(base));
        let options = self.programs.over(options, &self.choice, &self.compare)?;
        self.check_used(&options)?;
        let compare = self.comparing.options(&self.compare, self.repeat, 3)?;
        Ok(Plan { batch, options, compare })
    }

    /// Refuses options of the software meter where it counts nothing, and `--pin` beside a binding
    /// by hand.
    fn check_used(&self, run: &RunOptions) -> Result<(), InputError> {
        let software = MeterChoice::Only(MeterKind::Software);
        let paths = self.qemu.paths();
        let given = [
            ("--caches", self.caches.is_some()),
            ("--qemu", paths.emulator.is_some()),
            ("--plugin", paths.plugin.is_some()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        if let Some((option, _)) = given.filter(|_| !self.profile_first && run.meter != software) {
            let reason = format!("only the software meter uses it, and the meter is {}", run.meter);
            let help = "add `--meter software` or `--profile-first`, or leave it out";
            return Err(refusal_of(option, reason).help(help));
        }
        if self.pin && run.policy == PINNED && self.compare.is_empty() {
            let refusal = refusal_of("--pin", format!("`{PINNED}` binds jobs to their `cpus`"));
            return Err(refusal.help("leave it out, or choose another policy"));
        }
        Ok(())
    }

    fn choices(&self) -> Result<BatchOptions, InputError> {
        let media = self.media.as_deref().map(|list| options::media(list, Path::new(".")));
        Ok(BatchOptions {
            pinning: self.pin.then_some(Pinning::OneJobPerCore),
            on_exit: self.ending.on_exit,
            on_failure: self.ending.on_failure(),
            media: media.transpose()?,
            placement: self.placement.clone(),
            ..self.live.over(self.choice.options())
        })
    }
}
