//! Reproduction of a paper: the choice of figures, their order, and the observer.

use std::cell::OnceCell;
use std::num::NonZeroUsize;

use memweir_core::input::InputError;
use memweir_core::names::suggestion;
use memweir_flow::SimError;

use crate::report::{Effort, Found, Report, Section};
use crate::source::{FigureData, Suite};
use crate::work::{Bench, Observer, Stop};
use crate::{beyond, bpm, drswap, hmmsched, iabw};

/// A paper that can be reproduced, or what goes beyond all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperName {
    /// Xu, Wu, Yew: bandwidth-aware scheduling.
    Iabw,
    /// Hwang, Park: scheduling on hybrid memory.
    Hmmsched,
    /// Liu et al.: bank-level partitioning by page coloring.
    Bpm,
    /// Zhong et al.: in-memory paging with direct read.
    Drswap,
    /// No paper: all policies on the mixes of the papers and on memweir's own.
    Beyond,
}

memweir_core::named! {
    pub PaperName, "paper":
    Iabw = "iabw",
    Hmmsched = "hmmsched",
    Bpm = "bpm",
    Drswap = "drswap",
    Beyond = "beyond",
}

/// Figures to reproduce, and the effort.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Effort of the runs.
    pub effort: Effort,
    /// Identifiers of the figures; all of them if empty.
    pub figures: Vec<String>,
    /// Threads to compute on; zero counts as one.
    pub threads: usize,
}

/// Error that kept a paper from being reproduced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failed {
    /// There is no such figure, or a data file is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The engine refused an experiment.
    #[error("an experiment was refused: {0}")]
    Sim(#[from] SimError),
    /// The observer stopped it.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl Failed {
    /// Refuses a figure that has a data file but no code.
    pub(crate) fn no_code_for(data: &FigureData) -> Self {
        let reason = format!("no code makes figure `{}`", data.id);
        InputError::new(data.file.0, reason).into()
    }
}

impl PaperName {
    /// Figures and statements of the paper.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub fn suite(self) -> Result<Suite, InputError> {
        match self {
            Self::Iabw => Suite::read(iabw::PAPER, &iabw::FIGURES),
            Self::Hmmsched => Suite::read(hmmsched::PAPER, &hmmsched::FIGURES),
            Self::Bpm => Suite::read(bpm::PAPER, &bpm::FIGURES),
            Self::Drswap => Suite::read(drswap::PAPER, &drswap::FIGURES),
            Self::Beyond => Suite::read(beyond::GOALS, &beyond::FIGURES),
        }
    }
}

/// The code behind the figures of one paper. It keeps results that several figures share.
pub(crate) trait Laboratory {
    /// Work of these figures in simulated core-seconds, for the progress display.
    fn work(&self, figures: &[&FigureData]) -> u64;

    /// Produces one figure.
    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed>;

    /// Describes the parts that a quick run leaves out.
    fn precision(&self) -> String;
}

/// Returns what the cell holds, which is made if nothing has been yet.
pub(crate) fn made_once<T>(
    cell: &OnceCell<T>,
    make: impl FnOnce() -> Result<T, Failed>,
) -> Result<&T, Failed> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

/// Reproduces figures of a paper, in the order of the report.
///
/// # Errors
/// If there is no such figure (with the nearest), or the observer stops it.
pub fn reproduce(
    paper: PaperName,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Report, Failed> {
    let suite = paper.suite()?;
    let chosen = choose(&suite, &options.figures)?;
    let laboratory: Box<dyn Laboratory> = match paper {
        PaperName::Iabw => Box::new(iabw::Lab::new(&suite, options.effort)?),
        PaperName::Hmmsched => Box::new(hmmsched::Lab::new(&suite, options.effort)?),
        PaperName::Bpm => Box::new(bpm::Lab::new(&suite, options.effort)?),
        PaperName::Drswap => Box::new(drswap::Lab::new(&suite, options.effort)?),
        PaperName::Beyond => Box::new(beyond::Lab::new(&suite, options.effort)?),
    };
    let threads = NonZeroUsize::new(options.threads).unwrap_or(NonZeroUsize::MIN);
    let bench = Bench::new(options.effort, threads, observer, laboratory.work(&chosen));
    let ids: Vec<String> = chosen.iter().map(|figure| figure.id.clone()).collect();
    let mut report = Report::new(&suite, options.effort, &ids);
    if options.effort == Effort::Quick {
        report.precision = laboratory.precision();
    }
    observer.starting()?;
    for figure in chosen {
        observer.began(&figure.id);
        let found = laboratory.figure(figure, &bench)?;
        report.add(Section::new(figure, found));
        observer.finished(&report)?;
    }
    Ok(report)
}

/// Returns the requested figures, in the order of the report; all of them if none is named.
///
/// # Errors
/// If there is no such figure, with the nearest.
pub fn choose<'a>(suite: &'a Suite, wanted: &[String]) -> Result<Vec<&'a FigureData>, InputError> {
    let names = suite.figures.iter().map(|figure| figure.id.as_str());
    for name in wanted {
        if !names.clone().any(|known| known == name) {
            let error = InputError::new("command line", format!("unknown figure `{name}`"));
            // Another number is no misspelling.
            let help = match name.parse::<u32>() {
                Ok(_) => format!("valid: {}", names.collect::<Vec<_>>().join(", ")),
                Err(_) => suggestion(name, names),
            };
            return Err(error.key("--figure").help(help));
        }
    }
    let chosen = |figure: &&FigureData| wanted.is_empty() || wanted.contains(&figure.id);
    Ok(suite.figures.iter().filter(chosen).collect())
}
