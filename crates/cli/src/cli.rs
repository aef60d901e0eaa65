//! The command line as a whole: the subcommands and the help that teaches them.

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::EXIT_CODES;
use crate::{
    calibrate, color, completions, doctor, dram, emulate, fit, hog, hogsim, man, map, page,
    profile, queue, replay, reproduce, run, sim, store, sweep, top, value, watch,
};

/// memweir's command line.
#[derive(Debug, Parser)]
#[command(name = "memweir", version, about, long_about = LONG_ABOUT, after_long_help = AFTER)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const LONG_ABOUT: &str = "\
memweir runs a batch of jobs so that those which share the memory bus fit beside each other. \
It measures (or looks up) the memory bandwidth of every job, and each quantum of 100 ms it \
decides which of them run next to each other and blocks the rest. It also finds the address \
bits that choose a DRAM bank, gives programs banks of their own, and simulates all of it.";

const AFTER: &str = "\
Examples:
  memweir doctor                                    what this machine offers
  memweir run --profile-first -- gzip -k a ::: xz -k b ::: sort c   three jobs, one batch
  memweir run --compare os,max-weight --repeat 5 --profile-first jobs.toml
  memweir watch --top 10                            who moves how much over the memory bus
  memweir daemon &  memweir submit -- gzip -k a     jobs that come at any time
  memweir profile --svg gzip.svg -- gzip -c big     memory behavior of one program
  memweir sim --example > s.toml; memweir sim s.toml    the policies on another machine
  memweir map detect -o map.toml                    which address bits choose a DRAM bank
  memweir color run --map map.toml --colors 0-7 -- CMD  a program in banks of its own
  memweir page run --dram 64M --nvm memfd:1G -- CMD     a program with less DRAM than it wants

The manual: `memweir help COMMAND`, and docs/ in the sources.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a batch of jobs under a bandwidth-aware scheduler
    Run(Box<run::Args>),
    /// Show the memory traffic of cgroups, systemd units, Slurm steps and containers
    Watch(watch::Args),
    /// Watch the jobs of the daemon, what others run, or a recorded batch, in the terminal
    Top(Box<top::Args>),
    /// Run a queue of jobs that come at any time, under a bandwidth-aware scheduler
    Daemon(Box<queue::daemon::Args>),
    /// Give the daemon a job
    Submit(Box<queue::submit::Args>),
    /// List the jobs of the daemon, and why they wait
    Queue(queue::list::QueueArgs),
    /// Print the output of a job of the daemon
    Log(queue::log::Args),
    /// Wait for the end of jobs of the daemon, and exit as they did
    #[command(after_long_help = queue::WAIT_EXIT_CODES)]
    Wait(queue::verbs::Args),
    /// Keep pending jobs of the daemon from starting
    Hold(queue::verbs::Args),
    /// Let held jobs of the daemon start
    Release(queue::verbs::Args),
    /// End jobs of the daemon
    Cancel(queue::verbs::Args),
    /// Run jobs of the daemon again that have ended
    Requeue(queue::verbs::Args),
    /// Let the daemon start no further job
    Drain(queue::verbs::DrainArgs),
    /// Show the daemon's policy, meter and number of jobs
    Status(queue::list::StatusArgs),
    /// Try policies on a machine that you do not have
    Sim(Box<sim::Args>),
    /// Run real programs on a machine that you do not have, in virtual time
    Emulate(Box<emulate::Args>),
    /// Find out how many copies of a command pay off on this machine
    Fit(fit::Args),
    /// Re-run the recorded scheduling decisions of a batch, under its policy or another
    Replay(replay::Args),
    /// Record a program's memory traffic along its execution
    Profile(profile::Args),
    /// List, show and remove recorded profiles
    Store(store::Args),
    /// Put a steady load on the memory bus
    Hog(hog::Args),
    /// Replay a bandwidth segment on the memory bus
    Hogsim(hogsim::Args),
    /// Measure this machine's memory bus
    Calibrate(calibrate::Args),
    /// Show and convert address maps: which bits of an address choose a bank
    #[command(subcommand)]
    Map(map::Action),
    /// Run programs in DRAM banks of their own, and audit where their pages are
    #[command(subcommand)]
    Color(color::Action),
    /// Run programs with less DRAM than they want, and compute the energy of paging
    #[command(subcommand)]
    Page(page::Action),
    /// Drive memories at bank level with traces
    #[command(subcommand)]
    Dram(dram::Action),
    /// Merge the results of sweeps that ran in shards
    #[command(subcommand)]
    Sweep(sweep::Action),
    /// Repeat the figures of a paper in simulation, beside the paper's values
    Reproduce(reproduce::Args),
    /// Show what this machine offers, and what would enable the rest
    Doctor(doctor::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
    /// Thaw the jobs if memweir dies. memweir calls itself so; a subcommand of clap's would show up
    /// in completions.
    #[command(skip)]
    Guardian,
    /// Run one job of the daemon, which calls itself so.
    #[command(skip)]
    Supervisor,
}

/// The command line with the help and the checks that all commands share.
#[must_use]
pub fn command() -> clap::Command {
    with_exit_codes(json_endings(Cli::command()))
}

/// Adds the exit codes to the help of commands that have nothing behind their options.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let command = match (command.get_after_help(), command.get_after_long_help()) {
        (None, None) => command.after_long_help(EXIT_CODES),
        _ => command,
    };
    command.mut_subcommands(with_exit_codes)
}

/// Makes every `--json` refuse the ending of another format.
fn json_endings(command: clap::Command) -> clap::Command {
    let json = |arg: clap::Arg| match arg.get_long() {
        Some("json") => arg.value_parser(value::json),
        _ => arg,
    };
    command.mut_args(json).mut_subcommands(json_endings)
}
