//! drswap: its tables and figures on the page simulator and the energy models, and results from
//! recordings of real programs.

mod delay;
mod energy;
mod killed;
mod programs;
mod sessions;
mod swap_ins;

use std::cell::OnceCell;

use memweir_core::input::InputError;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory, made_once};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use killed::Crowds;
use sessions::Sessions;

pub(crate) const PAPER: File = file!("drswap/paper.toml");

/// In the order of the paper.
pub(crate) const FIGURES: [File; 7] = [
    file!("drswap/figure-02.toml"),
    file!("drswap/figure-03.toml"),
    file!("drswap/table-04.toml"),
    file!("drswap/figure-07.toml"),
    file!("drswap/figure-08.toml"),
    file!("drswap/table-05.toml"),
    file!("drswap/programs.toml"),
];

/// The sessions that several figures show, each run once.
pub(crate) struct Lab {
    effort: Effort,
    parameters: sessions::Parameters,
    crowds: killed::Parameters,
    sessions: OnceCell<Sessions>,
    all: OnceCell<Crowds>,
}

impl Lab {
    /// Reads the parameters of the sessions.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(suite: &Suite, effort: Effort) -> Result<Self, InputError> {
        Ok(Self {
            effort,
            parameters: suite.figure("table4")?.parameters()?,
            crowds: suite.figure("2")?.parameters()?,
            sessions: OnceCell::new(),
            all: OnceCell::new(),
        })
    }

    fn sessions(&self, bench: &Bench<'_>) -> Result<&Sessions, Failed> {
        made_once(&self.sessions, || Sessions::run(&self.parameters, bench))
    }

    fn crowds(&self, bench: &Bench<'_>) -> Result<&Crowds, Failed> {
        made_once(&self.all, || Crowds::run(&self.crowds, bench))
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        let any = |ids: &[&str]| figures.iter().any(|figure| ids.contains(&figure.id.as_str()));
        let mut work = 0;
        if any(&["2", "3"]) {
            work += self.crowds.work(self.effort);
        }
        if any(&["table4", "table5", "7", "8"]) {
            work += self.parameters.work(self.effort);
        }
        if any(&["table4"]) {
            work += self.parameters.shares_work();
        }
        work + u64::from(any(&["programs"])) * programs::WORK
    }

    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        match data.id.as_str() {
            "2" => Ok(killed::figure_2(self.crowds(bench)?)),
            "3" => Ok(killed::figure_3(self.crowds(bench)?)),
            "table4" => swap_ins::table_4(data, self.sessions(bench)?, &self.parameters, bench),
            "7" => Ok(energy::figure_7(self.sessions(bench)?)),
            "8" => Ok(delay::figure_8(self.sessions(bench)?)),
            "table5" => Ok(delay::table_5(self.sessions(bench)?)),
            "programs" => programs::programs(data, bench),
            _ => Err(Failed::no_code_for(data)),
        }
    }

    fn precision(&self) -> String {
        "One repetition instead of five, a tenth of the references; counts move by some percent."
            .to_owned()
    }
}
