//! The output of Slurm's `sacct --parsable2`: a line of names, then a job per line, with `|`
//! between the fields. Steps of jobs (`123.batch`) are skipped.

use jiff::civil::DateTime;
use memweir_core::words::counted;

use super::{LeftOut, Line, LoggedJob, Wrong, number};

/// Columns that are read: the names that each may have, by preference.
const JOB: &[&str] = &["JobID", "JobIDRaw"];
const SUBMIT: &[&str] = &["Submit"];
const ELAPSED: &[&str] = &["ElapsedRaw", "Elapsed"];
const CORES: &[&str] = &["AllocCPUS", "NCPUS", "ReqCPUS"];
const STATE: &[&str] = &["State"];
const NAME: &[&str] = &["JobName"];

/// States of jobs that have not ended.
const UNFINISHED: [&str; 7] =
    ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING", "CONFIGURING"];

/// Places of the columns.
pub(super) struct Columns {
    count: usize,
    job: usize,
    submit: usize,
    elapsed: (usize, &'static str),
    cores: usize,
    state: Option<usize>,
    name: Option<usize>,
}

impl Columns {
    /// Finds the columns in the line of names.
    pub(super) fn of(line: &str) -> Result<Self, Wrong> {
        let names: Vec<&str> = line.split('|').map(str::trim).collect();
        let find = |wanted: &'static [&'static str]| {
            let place = |name: &&str| names.iter().position(|other| other == name);
            wanted.iter().find_map(|name| Some((place(name)?, *name)))
        };
        let require = |wanted: &'static [&'static str]| {
            find(wanted).ok_or_else(|| {
                let reason = format!(
                    "there is no column `{}`: use `sacct --parsable2 --format \
                     JobID,JobName,Submit,ElapsedRaw,AllocCPUS,State`",
                    wanted[0]
                );
                ("line of names".to_owned(), reason)
            })
        };
        Ok(Self {
            count: names.len(),
            job: require(JOB)?.0,
            submit: require(SUBMIT)?.0,
            elapsed: require(ELAPSED)?,
            cores: require(CORES)?.0,
            state: find(STATE).map(|(place, _)| place),
            name: find(NAME).map(|(place, _)| place),
        })
    }
}

pub(super) fn line(line: &str, columns: &Columns) -> Result<Line, Wrong> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    if fields.len() != columns.count {
        let given = counted(fields.len() as u64, "field");
        let reason = format!("has {given}; the line of names has {}", columns.count);
        return Err(("line".to_owned(), reason));
    }
    let job = fields[columns.job];
    if job.contains('.') {
        return Ok(Line::Nothing);
    }
    // A cancelled job names who cancelled it: `CANCELLED by 1000`.
    let state = columns.state.and_then(|state| fields[state].split(' ').next()).unwrap_or("");
    if UNFINISHED.contains(&state) {
        return Ok(Line::LeftOut(LeftOut::Unfinished));
    }
    let submitted = time(fields[columns.submit])?;
    let length = elapsed(fields[columns.elapsed.0], columns.elapsed.1)?;
    let cores = match fields[columns.cores] {
        "" => None,
        text => number(text, "cores")?,
    };
    Ok(match (submitted, length, cores.filter(|cores| *cores > 0.0)) {
        (_, None, _) if state == "CANCELLED" => Line::LeftOut(LeftOut::Cancelled),
        (_, None, _) => Line::LeftOut(LeftOut::NoLength),
        (None, ..) => Line::LeftOut(LeftOut::NoSubmission),
        (.., None) => Line::LeftOut(LeftOut::NoCores),
        (Some(submitted), Some(length), Some(cores)) => Line::Job(LoggedJob {
            name: job.to_owned(),
            program: columns.name.map(|name| fields[name].to_owned()),
            submitted,
            length,
            cores: cores.ceil().min(f64::from(u32::MAX)) as u32,
        }),
    })
}

/// Parses a time such as `2026-03-29T01:59:58`, in seconds of its calendar.
fn time(text: &str) -> Result<Option<f64>, Wrong> {
    if matches!(text, "" | "Unknown" | "None") {
        return Ok(None);
    }
    let origin = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    match text.parse::<DateTime>() {
        Ok(time) => Ok(Some(time.duration_since(origin).as_secs_f64())),
        Err(_) => {
            let reason = format!("`{text}` is no time such as 2026-03-29T01:59:58");
            Err(("Submit".to_owned(), reason))
        }
    }
}

/// Parses `ElapsedRaw` (seconds) or `Elapsed` (`[DAYS-[HOURS:]]MINUTES:SECONDS`); zero is unknown.
fn elapsed(text: &str, column: &str) -> Result<Option<f64>, Wrong> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || (column.to_owned(), format!("`{text}` is no length such as 1-02:03:04"));
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let days = number(days, column)?.ok_or_else(wrong)?;
    let mut seconds = 0.0;
    let parts: Vec<&str> = clock.split(':').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    for part in parts {
        seconds = 60.0 * seconds + number(part, column)?.ok_or_else(wrong)?;
    }
    Ok(Some(86_400.0 * days + seconds).filter(|seconds| *seconds > 0.0))
}
