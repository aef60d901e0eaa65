//! iabw: its figures and tables on the flow engine.

mod beside;
mod combinations;
mod curves;
mod evaluation;
mod fluctuation;
mod hogs;
mod outcomes;
mod prediction;
mod queueing;
mod segments;
mod targets;
mod tuning;
mod units;
mod work;
mod workloads;

use std::cell::OnceCell;

use memweir_core::input::InputError;
use memweir_flow::Machine;
use memweir_flow::workload::mix::iabw::Set;
use memweir_policy::TargetCurve;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory, made_once};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use combinations::Combination;
use evaluation::{Evaluation, Known};
use tuning::Tuned;
use units::peak;
use workloads::Workloads;

pub(crate) const PAPER: File = file!("iabw/paper.toml");
const WORKLOADS: File = file!("iabw/workloads.toml");

/// In the order of the paper.
pub(crate) const FIGURES: [File; 21] = [
    file!("iabw/figure-01b.toml"),
    file!("iabw/figure-02.toml"),
    file!("iabw/figure-03.toml"),
    file!("iabw/figure-04.toml"),
    file!("iabw/figure-05.toml"),
    file!("iabw/figure-06.toml"),
    file!("iabw/equation-07.toml"),
    file!("iabw/table-01.toml"),
    file!("iabw/table-02.toml"),
    file!("iabw/rsd.toml"),
    file!("iabw/figure-07.toml"),
    file!("iabw/figure-08.toml"),
    file!("iabw/figure-09.toml"),
    file!("iabw/figure-10.toml"),
    file!("iabw/figure-11.toml"),
    file!("iabw/figure-12.toml"),
    file!("iabw/figure-13.toml"),
    file!("iabw/figure-14.toml"),
    file!("iabw/figure-15.toml"),
    file!("iabw/queueing.toml"),
    file!("iabw/idle.toml"),
];

/// The machine, the workloads, and results that several figures share.
pub(crate) struct Lab {
    effort: Effort,
    suite: Suite,
    workloads: Workloads,
    /// The segments of Fig. 6 side by side, which eq. (7) and Fig. 8 use too.
    combinations: OnceCell<Vec<Combination>>,
    /// The runs of the evaluation so far.
    known: Known,
    /// The best target of each training workload, and the curve through them.
    tuned: OnceCell<Tuned>,
}

impl Lab {
    /// The machine of the paper and its workloads' counterparts.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(suite: &Suite, effort: Effort) -> Result<Self, InputError> {
        Ok(Self {
            effort,
            suite: suite.clone(),
            workloads: Workloads::new(effort)?,
            combinations: OnceCell::new(),
            known: Known::default(),
            tuned: OnceCell::new(),
        })
    }

    fn machine(&self) -> &Machine {
        &self.workloads.hardware.machine
    }

    fn combinations(&self, bench: &Bench<'_>) -> Result<&[Combination], Failed> {
        let made = made_once(&self.combinations, || {
            combinations::combinations(self.suite.figure("6")?, &self.workloads, bench)
        });
        made.map(Vec::as_slice)
    }

    /// Returns the result of tuning, on which all later figures build.
    fn tuned(&self, bench: &Bench<'_>) -> Result<&Tuned, Failed> {
        made_once(&self.tuned, || tuning::tune(&self.evaluation(None, bench)))
    }

    fn evaluation<'a>(
        &'a self,
        curve: Option<&'a TargetCurve>,
        bench: &'a Bench<'a>,
    ) -> Evaluation<'a> {
        Evaluation { known: &self.known, workloads: &self.workloads, curve, bench }
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        work::of(figures, &self.workloads, self.effort)
    }

    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        let (workloads, machine) = (&self.workloads, self.machine());
        match data.id.as_str() {
            "1b" => return hogs::figure_1b(data, machine, bench),
            "2" => return hogs::figure_2(data, workloads),
            "3" => {
                return hogs::figure_3(data, self.suite.figure("1b")?, workloads, bench);
            }
            "4" => return fluctuation::figure_4(data, workloads),
            "5" => {
                let segment = fluctuation::leslie(self.suite.figure("4")?, workloads)?;
                return fluctuation::figure_5(data, &segment, machine, bench);
            }
            "6" => return Ok(combinations::figure_6(self.combinations(bench)?, machine)),
            "eq7" => return combinations::equation_7(data, self.combinations(bench)?, machine),
            "table1" => return Ok(workloads::table_1(data, workloads)),
            "15" => return prediction::figure_15(data, workloads, bench),
            _ => {}
        }
        let tuned = self.tuned(bench)?;
        let runs = &self.evaluation(Some(&tuned.curve), bench);
        match data.id.as_str() {
            "table2" => targets::table_2(runs, tuned),
            "rsd" => targets::repetitions(runs, tuned),
            "7" => tuning::figure_7(data, runs, tuned),
            "8" => Ok(tuning::figure_8(tuned, self.combinations(bench)?, peak(machine))),
            "9" => targets::figure_9(runs, tuned),
            "10" => targets::figure_10(data, runs, tuned),
            "11" => targets::figure_11_or_12(runs, Set::Spec),
            "12" => targets::figure_11_or_12(runs, Set::Npb),
            "13" => targets::figure_13_or_14(runs, Set::SpecTraining),
            "14" => targets::figure_13_or_14(runs, Set::Npb),
            "queueing" => queueing::queueing(data, self.suite.figure("6")?, runs),
            "idle" => targets::idle(runs),
            _ => Err(Failed::no_code_for(data)),
        }
    }

    fn precision(&self) -> String {
        format!(
            "{} repetition instead of three (no relative standard deviations), half a minute of \
             each job instead of two, {} targets per workload instead of fifteen, a tenth of the \
             random combinations, and fewer points along curves. Means over workloads move by \
             about a percent.",
            self.workloads.repetitions,
            self.workloads.shares.len()
        )
    }
}
