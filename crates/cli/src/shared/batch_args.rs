//! Groups of options that every command with a batch of jobs has: the source of the jobs, the end
//! of the batch, and its results.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_run::compare::CompareOptions;
use memweir_run::files;
use memweir_run::jobs::{Batch, JobsFile};
use memweir_run::options::{BatchOptions, OnExit, OnFailure, RunOptions};

use crate::failure::Failure;
use crate::output;
use crate::value::{json_lines, named};

/// Where the jobs come from.
#[derive(Debug, clap::Args)]
pub(crate) struct JobSource {
    /// A jobs file; what it says for the whole batch, options here override
    #[arg(value_name = "JOBS.toml", help_heading = "Jobs")]
    jobs_file: Option<PathBuf>,
    /// Commands, with `:::` between them
    #[arg(last = true, value_name = "CMD", help_heading = "Jobs")]
    command: Vec<OsString>,
    /// A file with one shell command per line; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    from_file: Option<PathBuf>,
    /// Run N instances of each job
    #[arg(long, value_name = "N", help_heading = "Jobs", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    each: u32,
}

impl JobSource {
    /// Returns the file that names the jobs, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.jobs_file.as_deref().or(self.from_file.as_deref())
    }

    /// Returns the name of the place that names the jobs, for messages.
    pub(crate) fn name(&self) -> String {
        self.file().map_or_else(|| "command line".to_owned(), |path| path.display().to_string())
    }

    /// Returns the jobs, from the one place that names them, and the options of a jobs file for all
    /// of them. `cores` is the number of cores, and `command` the one whose help tells more.
    pub(crate) fn read(
        &self,
        cores: u32,
        command: &str,
    ) -> Result<(Batch, BatchOptions), InputError> {
        let nothing = BatchOptions::default();
        let (batch, options) = match (&self.jobs_file, &self.from_file, self.command.as_slice()) {
            (Some(path), None, []) => {
                let file = JobsFile::read(path, cores).map_err(|error| other_forms(path, error))?;
                (file.batch, file.options)
            }
            (None, Some(path), []) => (from_file(path)?, nothing),
            (None, None, commands @ [_, ..]) => (Batch::from_arguments(commands)?, nothing),
            (None, None, []) => {
                return Err(InputError::new("command line", "there are no jobs").help(format!(
                    "name a jobs file, or write commands after `--`; see `{command} --help`"
                )));
            }
            _ => {
                return Err(InputError::new("command line", "jobs are named in more than one way")
                    .help("use a jobs file, --from-file, or commands after `--`"));
            }
        };
        Ok((batch.repeated(self.each), options))
    }
}

/// The jobs of a file, or of standard input, with one command per line.
fn from_file(path: &Path) -> Result<Batch, InputError> {
    if path == Path::new("-") {
        return Batch::from_lines(files::STANDARD_INPUT, &files::standard_input()?);
    }
    Batch::from_lines(&path.display().to_string(), &files::text(path)?)
}

/// Adds the two other forms of a batch to an error, if `path` does not look like a jobs file: it
/// may be a program or a list of commands.
fn other_forms(path: &Path, error: InputError) -> InputError {
    if error.help.is_some() || path.extension().is_some_and(|ending| ending == "toml") {
        return error;
    }
    error.help("a command follows `--`, a file of commands `--from-file`; a jobs file is TOML")
}

/// A batch, and the options with which a command runs it.
#[derive(Debug)]
pub(crate) struct Plan<O> {
    pub(crate) batch: Batch,
    pub(crate) options: O,
    /// Policies to run in turn, for a comparison.
    pub(crate) compare: Option<CompareOptions>,
}

/// The end of a batch before its jobs end.
#[derive(Debug, clap::Args)]
pub(crate) struct Ending {
    /// Fate of the jobs on Ctrl-C [default: kill]
    #[arg(long, value_name = "WHAT", help_heading = "Ending")]
    #[arg(value_parser = named::<OnExit>())]
    pub(crate) on_exit: Option<OnExit>,
    /// End the batch when a job fails
    #[arg(long, help_heading = "Ending")]
    fail_fast: bool,
}

impl Ending {
    /// Returns the effect of a failing job on the others, if the command line sets it.
    pub(crate) fn on_failure(&self) -> Option<OnFailure> {
        self.fail_fast.then_some(OnFailure::FailFast)
    }
}

/// Options of a comparison that mean the same to every command that compares.
#[derive(Debug, clap::Args)]
pub(crate) struct Comparing {
    /// Level of the confidence intervals [default: 0.95]
    #[arg(long, value_name = "LEVEL", help_heading = "Comparing")]
    #[arg(value_parser = confidence)]
    confidence: Option<f64>,
    /// Append each run of a comparison to a file as it ends, one JSON object per line
    #[arg(long, value_name = "FILE.jsonl", value_parser = json_lines, help_heading = "Comparing")]
    pub(crate) results: Option<PathBuf>,
}

impl Comparing {
    /// Returns the comparison of these policies, if there are any, over `repeat` rounds, by default
    /// `rounds`.
    ///
    /// # Errors
    /// An option for comparisons without a policy to compare. This is no `requires` of clap, which
    /// does not hold beside options that conflict with `--compare`.
    pub(crate) fn options(
        &self,
        policies: &[String],
        repeat: Option<u32>,
        rounds: u32,
    ) -> Result<Option<CompareOptions>, InputError> {
        if !policies.is_empty() {
            return Ok(Some(CompareOptions {
                variants: policies.to_vec(),
                rounds: repeat.unwrap_or(rounds),
                confidence: self.confidence.unwrap_or(0.95),
                results: self.results.clone(),
            }));
        }
        let given = [
            ("repeat", repeat.is_some()),
            ("confidence", self.confidence.is_some()),
            ("results", self.results.is_some()),
        ];
        let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(None) };
        let reason = format!("--{name} is an option of comparisons, and there is none");
        Err(InputError::new("command line", reason)
            .help("name two or more policies: `--compare os,max-weight`"))
    }
}

/// The results of a batch.
#[derive(Debug, clap::Args)]
pub(crate) struct Results {
    /// Write the report as JSON (`-`: to standard output instead of the tables)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    #[arg(help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write one row per job and quantum, as Parquet or CSV by the ending
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    timeline: Option<PathBuf>,
    /// Write every decision as it is made, for `memweir replay`
    #[arg(long, value_name = "FILE.jsonl", value_parser = json_lines, help_heading = "Output")]
    #[arg(conflicts_with = "compare")]
    record: Option<PathBuf>,
    /// Draw bandwidth and who ran when
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg, help_heading = "Output")]
    pub(crate) plot: Option<PathBuf>,
}

/// The output of a batch's jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct JobOutput {
    /// Directory for the jobs' output
    #[arg(long, value_name = "DIR", help_heading = "Output", default_value = "memweir-logs")]
    logs: PathBuf,
}

impl Results {
    /// Checks that each of these files, and of `further`, can be written and is no other's.
    pub(crate) fn check(&self, further: &Comparing, jobs: &JobSource) -> Result<(), Failure> {
        let files = [&self.json, &self.plot, &further.results, &self.record, &self.timeline];
        output::check(files, jobs.file())
    }

    /// Returns default options with the files that a run writes, and the directory of its logs.
    pub(crate) fn options(&self, output: &JobOutput) -> RunOptions {
        RunOptions {
            logs: output.logs.clone(),
            timeline: self.timeline.clone(),
            record: self.record.clone(),
            ..RunOptions::default()
        }
    }
}

/// A level of confidence.
fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("a level lies between 0 and 1, for example 0.95".to_owned()),
    }
}
