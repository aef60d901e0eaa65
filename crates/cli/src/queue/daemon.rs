//! `memweir daemon`: runs the queue. `memweir daemon-exec` is the supervisor of one job; the daemon
//! starts it and people do not, so no help names it.

use std::path::PathBuf;

use memweir_core::Media;
use memweir_core::input::InputError;
use memweir_daemon::daemon::{self, DaemonError, DaemonOptions, can_limit};
use memweir_daemon::queue::Retention;
use memweir_daemon::uptime::DAY_MS;
use memweir_daemon::{places, supervisor};
use memweir_linux::peer::UserGroup;
use memweir_linux::{MeterChoice, MeterKind, tell};
use memweir_run::observer::{Observer, Silent};
use memweir_run::options::{self, RunOptions};
use memweir_watch::Metrics;

use crate::choice::{ChoiceArgs, LiveArgs};
use crate::export::ExportArgs;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::shared::metrics::BatchMetrics;

/// Options of `memweir daemon`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Socket for clients [default: daemon.sock in your run-time directory; of root
    /// /run/memweir.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Directory of the queue and of the jobs' output [default: memweir in the XDG state
    /// directory; of root /var/lib/memweir]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Ended jobs that the queue keeps, with their logs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keep_jobs: usize,
    /// Days for which it keeps them; days in which the machine is off do not count
    #[arg(long, value_name = "D", default_value_t = 30)]
    keep_days: u32,
    /// Unfinished jobs that one user may have; root and the user of the daemon may have any number
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    user_jobs: u32,
    /// Group whose members may hold, release, cancel and requeue the jobs of others, and drain the
    /// queue; of root's daemon alone
    #[arg(long, value_name = "GROUP", value_parser = group)]
    operators: Option<UserGroup>,

    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    live: LiveArgs,
    /// Cores' worth of jobs that are started and take turns on the cores [default: twice the cores
    /// where a meter counts, otherwise the cores]
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    admit: Option<u32>,

    #[command(flatten)]
    export: ExportArgs,
}

fn group(text: &str) -> Result<UserGroup, String> {
    match UserGroup::find(text) {
        Ok(Some(group)) => Ok(group),
        Ok(None) => Err(format!(
            "there is no group `{text}`; `groupadd --system {text}` makes it, `getent group` lists \
             those that exist"
        )),
        Err(error) => Err(format!("the groups of this machine cannot be read: {error}")),
    }
}

impl Args {
    fn options(&self) -> Result<DaemonOptions, Failure> {
        let no_place = |option: &'static str| {
            move |error: std::io::Error| {
                Failure::Machine(format!("no default place: {error}; name one with {option}"))
            }
        };
        let socket = self.socket.clone().map_or_else(places::socket, Ok);
        let state = self.state.clone().map_or_else(places::state, Ok);
        let state = state.and_then(std::path::absolute);
        let chosen = self.live.over(self.choice.options());
        let run = chosen.over(self.live.files(RunOptions::default()));
        run.check_objective()?;
        if run.policy == options::PINNED {
            let refusal = InputError::new("daemon", "jobs of a queue have no `cpus` to bind to");
            return Err(refusal.key("policy").help("choose another policy").into());
        }
        if let MeterChoice::Only(kind @ (MeterKind::Declared | MeterKind::Software)) = run.meter {
            let reason = format!("`{kind}` does not count jobs of a queue");
            let refusal = InputError::new("daemon", reason).key("meter");
            return Err(refusal.help("choose auto, perf or resctrl").into());
        }
        if let MeterChoice::Only(kind) = run.meter
            && run.perf_events.is_some()
            && !can_limit(&run)
        {
            options::counts_events(kind)
                .map_err(|refusal| refusal.written_in("daemon").key("events"))?;
        }
        Ok(DaemonOptions {
            socket: socket.map_err(no_place("--socket"))?,
            state: state.map_err(no_place("--state"))?,
            admit: self.admit,
            user_jobs: self.user_jobs,
            operators: self.operators.clone(),
            retention: Retention {
                jobs: self.keep_jobs,
                age_ms: u64::from(self.keep_days) * DAY_MS,
            },
            run,
        })
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Run(error) => error.into(),
            other => Self::Machine(other.to_string()),
        }
    }
}

/// Runs the queue until a signal ends the daemon.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let options = args.options()?;
    let claim = daemon::claim(&options)?;
    interrupt::block()?;
    let metrics = Metrics::default();
    let export = args.export.start(&metrics)?;
    let mut observer: Box<dyn Observer> = match args.export.is_wanted() {
        true => Box::new(BatchMetrics::new(metrics, [].into_iter(), &Media::dram_only())),
        false => Box::new(Silent),
    };
    let mut is_ready = false;
    let ran = daemon::run(claim, &options, observer.as_mut(), |_| {
        is_ready = true;
        tell!("the daemon listens at {}", options.socket.display());
    });
    let exported = match is_ready {
        true => export.finish(),
        false => {
            export.withdraw();
            Ok(())
        }
    };
    ran?;
    exported.map(|()| Outcome::Success)
}

/// The argument with which memweir starts itself as the supervisor of a job.
pub(crate) use supervisor::ARGUMENT as SUPERVISOR;

/// Runs one job.
pub(crate) fn supervise() -> Result<Outcome, Failure> {
    let base = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default();
    supervisor::run(base)
        .map_err(|error| Failure::Machine(format!("the supervisor of a job failed: {error}")))?;
    Ok(Outcome::Success)
}
