//! Options by which `run`, `emulate` and `daemon` choose the jobs of each quantum.

use std::path::PathBuf;
use std::time::Duration;

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_linux::Mechanism;
use memweir_linux::meter::MeterChoice;
use memweir_policy::PredictorKind;
use memweir_policy::policies::Objective;
use memweir_run::options::{BatchOptions, Cores, RunOptions};
use memweir_run::policy_program::{DECISION_TIMEOUT, PolicyProgram};

use crate::failure::refusal_of;
use crate::value::{cores_or_auto, duration, meter, named, parsed, policy, predictor, quantum};

/// Policy, objective and predictor.
#[derive(Debug, clap::Args)]
pub(crate) struct ChoiceArgs {
    /// Policy that selects the jobs of each quantum [default: max-weight]
    #[arg(long, value_name = "NAME", help_heading = "Scheduling")]
    #[arg(value_parser = policy(), hide_possible_values = true)]
    policy: Option<String>,
    /// Quantity that max-weight minimizes: the turnaround, the mean completion time, or the largest
    /// slowdown [default: turnaround; of a daemon, slowdown]
    #[arg(long, value_name = "turnaround|completion|slowdown", help_heading = "Scheduling")]
    #[arg(value_parser = named::<Objective>(), hide_possible_values = true)]
    objective: Option<Objective>,
    /// Predictor of a job's bandwidth in the next quantum
    #[arg(long, value_name = "NAME", help_heading = "Scheduling")]
    #[arg(value_parser = predictor(), hide_possible_values = true)]
    predictor: Option<PredictorKind>,
}

impl ChoiceArgs {
    /// Returns the options of a batch with these choices and no others.
    pub(crate) fn options(&self) -> BatchOptions {
        BatchOptions {
            policy: self.policy.clone(),
            objective: self.objective,
            predictor: self.predictor,
            ..BatchOptions::default()
        }
    }
}

/// Options of jobs that run in real time: how they are blocked and measured.
#[derive(Debug, clap::Args)]
pub(crate) struct LiveArgs {
    /// Length of a quantum, 10ms to 10s [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Scheduling", value_parser = quantum)]
    quantum: Option<Nanos>,
    /// Cores that jobs may occupy at the same time [default: all within a CPU quota]; `auto` leaves
    /// cores idle while filling them costs more than it gains, `auto:N` of N
    #[arg(long, value_name = "N|auto[:N]", help_heading = "Scheduling")]
    #[arg(value_parser = cores_or_auto, allow_negative_numbers = true)]
    cores: Option<Cores>,
    /// Mechanism that blocks jobs [default: the first that works]
    #[arg(long, value_name = "NAME", help_heading = "Scheduling")]
    #[arg(value_parser = named::<Mechanism>())]
    mechanism: Option<Mechanism>,
    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N", help_heading = "Scheduling", allow_negative_numbers = true)]
    #[arg(value_parser = crate::value::seed)]
    seed: Option<u64>,
    /// Meter that counts memory traffic [default: auto]
    #[arg(long, value_name = "NAME", help_heading = "Measuring")]
    #[arg(value_parser = meter())]
    meter: Option<MeterChoice>,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    store: Option<PathBuf>,
    /// The calibration, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    platform: Option<PathBuf>,
    /// Perf events, instead of the built-in table
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    events: Option<PathBuf>,
}

impl LiveArgs {
    /// Returns these choices and `others`.
    pub(crate) fn over(&self, others: BatchOptions) -> BatchOptions {
        BatchOptions {
            meter: self.meter,
            mechanism: self.mechanism,
            quantum: self.quantum,
            cores: self.cores.and_then(|cores| cores.limit),
            core_use: self.cores.map(|cores| cores.core_use),
            seed: self.seed,
            ..others
        }
    }

    /// Returns options with the files that these name.
    pub(crate) fn files(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            store: self.store.clone(),
            platform: self.platform.clone(),
            perf_events: self.events.clone(),
            ..options
        }
    }
}

/// Policies in other processes.
#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArgs {
    /// Ask a program for each decision, in lines of JSON. --policy and --compare know it as NAME,
    /// or else as `program`; alone it is the policy
    #[arg(long, value_name = "[NAME=]CMD", help_heading = "Scheduling")]
    #[arg(value_parser = parsed::<PolicyProgram>)]
    policy_program: Vec<PolicyProgram>,
    /// Time limit of each of its answers [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Scheduling", requires = "policy_program")]
    #[arg(value_parser = duration)]
    policy_timeout: Option<Nanos>,
}

impl ProgramArgs {
    /// Adds the programs to the options of a run, under the policies of `compare` if it names any.
    ///
    /// # Errors
    /// If a policy is unknown or has no such objective, or a program has no name of its own or is
    /// not asked.
    pub(crate) fn over(
        &self,
        run: RunOptions,
        choice: &ChoiceArgs,
        compare: &[String],
    ) -> Result<RunOptions, InputError> {
        let programs = self.policy_program.clone();
        let policy = match programs.as_slice() {
            [only] if choice.policy.is_none() && compare.is_empty() => only.name.clone(),
            _ => run.policy,
        };
        let timeout = self.policy_timeout.map_or(DECISION_TIMEOUT, Duration::from);
        let run = RunOptions { policy, programs, decision_timeout: timeout, ..run };
        check_programs(&run.programs)?;
        let chosen = std::slice::from_ref(&run.policy);
        let (key, chosen) =
            if compare.is_empty() { ("policy", chosen) } else { ("compare", compare) };
        for policy in chosen {
            run.check_policy(policy)
                .map_err(|refusal| refusal.written_in("command line").key(key))?;
        }
        match run.programs.iter().find(|program| !chosen.contains(&program.name)) {
            Some(unused) => {
                let reason = format!("`{}` is not among the policies", unused.name);
                let help = format!("add it to --{key}, or leave the program out");
                Err(refusal_of("policy-program", reason).help(help))
            }
            None => {
                if compare.is_empty() {
                    run.check_objective()?;
                }
                Ok(run)
            }
        }
    }
}

/// Checks the programs of a command line.
///
/// # Errors
/// If one has no name of its own.
pub(crate) fn check_programs(programs: &[PolicyProgram]) -> Result<(), InputError> {
    PolicyProgram::check_all(programs)
        .map_err(|refusal| refusal.written_in("command line").key("policy-program"))
}
