//! Scenario files of the three simulators, with the checks before a run.

use std::path::Path;
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_core::{Counts, Lines, Nanos};
use memweir_study::ScenarioText;
use memweir_study::bank::study::BankStudy;
use memweir_study::flow::Recordings;
use memweir_study::flow::log::{JobLog, LogFormat};
use memweir_study::flow::study::Study;
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Grid;

use crate::Seeds::{Files, Texts};
use crate::files::DIRECTORY;
use crate::lists::options_and_text;
use crate::{Target, text};

/// Every recording that a scenario names is of one steady program.
struct Steady;

impl Recordings for Steady {
    fn profile(&self, _: &Path) -> Result<Arc<Profile>, Refusal> {
        let total = Counts::new(1_000_000, Lines(10_000), Lines(1_000));
        Ok(Arc::new(Profile::steady(Nanos::from_millis(100), total)))
    }
}

fn scenario(data: &[u8], read: impl FnOnce(&ScenarioText)) {
    text(data, |text| read(&ScenarioText::new("fuzz", text, Path::new(DIRECTORY))));
}

pub(crate) static FLOW: Target = Target::new(
    "flow-scenario",
    flow,
    &[
        Files("crates/study/data/example.toml"),
        Texts(&[
            "machine = \"iabw\"\ncores = 2\npolicies = [\"os\", \"ideal-average\"]\nseed = 3\n[mix]\niabw = 5e9\ncount = 6\n",
            "policies = \"os\"\nknowledge = \"nothing\"\noptimum = \"none\"\n[machine]\ncores = 2\n\
         [[tasks]]\nname = \"a\"\nwork_s = 10\nbandwidth = 2e9\ncount = 3\n[overheads]\nquantum_switch_us = 10\n",
            "machine = \"two-node\"\npolicies = [\"os\"]\n[[tasks]]\nprofile = \"a.parquet\"\n",
        ]),
    ],
);

fn flow(data: &[u8]) {
    scenario(data, |text| {
        let _ = text.fidelity(&[]);
        let _ = Study::read(text, &[], Grid::default(), &Steady).map(|study| study.runs());
    });
}

pub(crate) static BANK: Target = Target::new(
    "bank-scenario",
    bank,
    &[
        Files("crates/study/data/bank-level.toml"),
        Files("experiments/bank-level/mix.toml"),
        Files("crates/study/data/bank-machines/i7-860.toml"),
        Texts(&[
            "fidelity = \"bank\"\ninstructions = 1000\nwarm = false\nprograms = [\"milc\", \"gcc\"]\n\
             [machine]\ncores = 2\n[[machine.memory]]\ndevice = \"ddr4-2400\"\nchannels = 2\n",
        ]),
    ],
);

fn bank(data: &[u8]) {
    scenario(data, |text| {
        let _ = BankStudy::read(text, &[], Grid::default()).map(|study| study.runs());
    });
}

pub(crate) static PAGE: Target =
    Target::new("page-scenario", page, &[Files("crates/study/data/page-sim.toml")]);

fn page(data: &[u8]) {
    scenario(data, |text| {
        let _ = PageStudy::read(text, &[], Grid::default()).map(|study| study.runs());
    });
}

/// A scenario behind lines of options, each a `--set` or, after `sweep `, a `--sweep`.
pub(crate) static SWEPT: Target = Target::new(
    "scenario-options",
    swept,
    &[Texts(&[
        "cores=1..3\nmix.iabw=2e9,4e9\n---\nmachine = \"iabw\"\npolicies = [\"os\"]\n[mix]\niabw = 5e9\ncount = 6\n",
        "tasks[0].work_s=2,3\nmachine.cores=4\n---\nmachine = \"iabw\"\npolicies = \"os\"\n\
     [[tasks]]\nname = \"a\"\nwork_s = 10\nbandwidth = 2e9\n",
    ])],
);

fn swept(data: &[u8]) {
    text(data, |text| {
        let Some((grid, text)) = options_and_text(text) else { return };
        // A large grid is read point by point, each as the first.
        if grid.len() <= 16 {
            let text = ScenarioText::new("fuzz", text, Path::new(DIRECTORY));
            let _ = Study::read(&text, &[], grid, &Steady).map(|study| study.runs());
        }
    });
}

/// Job logs of clusters, recognized and forced.
pub(crate) static JOB_LOG: Target = Target::new(
    "job-log",
    job_log,
    &[Texts(&[
        "; Version: 2.2\n1 0 3 60 4 -1 -1 8 -1 -1 1 1 1 -1 1 -1 -1 -1\n2 5 0 0 1 -1 -1 1 -1 -1 5 1 1 -1 1 -1 -1 -1\n",
        "JobID|JobName|Submit|Elapsed|NCPUS|State\n100|lbm|2026-03-01T10:00:00|1-01:02:03|4|COMPLETED\n\
         100.batch|batch|2026-03-01T10:00:05|01:02:03|4|COMPLETED\n102|gcc|Unknown|00:00:00|2|CANCELLED by 7\n",
    ])],
);

fn job_log(data: &[u8]) {
    for format in [None, Some(LogFormat::Swf), Some(LogFormat::Sacct)] {
        if let Ok(log) = JobLog::parse("fuzz", data, format) {
            assert!(log.jobs.iter().all(|job| job.length > 0.0 && job.cores > 0));
        }
    }
}
