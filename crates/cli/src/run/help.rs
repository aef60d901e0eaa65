//! The part of `memweir run --help` that teaches: policies, predictors, meters, examples.

use std::fmt::Write;

use memweir_core::names::Named;
use memweir_linux::MeterKind;

use crate::failure::EXIT_CODES;
use crate::shared::help::section;
use crate::shared::names;

const EXAMPLES: &str = "\
Examples:
  memweir run jobs.toml
      the jobs of a file, under max-weight
  memweir run --policy round-robin --each 2 -- gzip -k a ::: sort b
      two instances of each command; `:::` stands between commands
  memweir run --profile-first jobs.toml
      profiles unknown programs once with the software meter, then runs them at native speed
  memweir run --compare os,ideal-average,max-weight --repeat 5 jobs.toml
      each policy five times, interleaved; prints whether the difference can be told from noise
  memweir run --compare hmmsched,hmmsched:counts,hmmsched:no-classes:alpha=0.2 jobs.toml
      what each rule of a policy brings
  memweir run --json - jobs.toml | jq .turnaround_s
      results for programs; rates are in bytes per second, memory_reads in 64-byte lines
";

/// Everything that stands below the options.
pub(super) fn after() -> String {
    let mut text = String::new();
    section(&mut text, "Policies (--policy, --compare)", names::policies());
    section(&mut text, "Options of policies (NAME:OPTION:...)", names::policy_options());
    section(&mut text, "Predictors (--predictor)", names::predictors());
    section(&mut text, "Meters (--meter)", meters());
    section(&mut text, "Mechanisms (--mechanism)", MECHANISMS);
    let _ = write!(text, "{EXAMPLES}\n{EXIT_CODES}");
    text
}

fn meters() -> Vec<(&'static str, &'static str)> {
    let about = |kind| match kind {
        MeterKind::Perf => "hardware events of the processor, per job",
        MeterKind::Resctrl => "Memory Bandwidth Monitoring through /sys/fs/resctrl",
        MeterKind::Declared => "figures of the jobs file or of recorded profiles",
        MeterKind::Software => "a cache model under qemu-x86_64; slows programs about ten times",
    };
    let auto = ("auto", "the first of perf, resctrl and declared that serves every job");
    let kinds = MeterKind::ALL.iter().map(|kind| (kind.name(), about(*kind)));
    std::iter::once(auto).chain(kinds).collect()
}

const MECHANISMS: [(&str, &str); 4] = [
    ("cgroup-v2", "cgroup.freeze: every process of a job, at once, invisible to its parent"),
    ("sigstop", "SIGSTOP and SIGCONT to the job's session: threads stop late, shells notice"),
    ("cgroup-v1", "the freezer controller of older machines"),
    ("sched-ext", "a scheduler in BPF: no freezer and no signals, but ordinary programs run first"),
];
