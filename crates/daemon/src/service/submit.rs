//! Submissions: their limits, and the jobs that they become.

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_linux::peer::Credentials;
use memweir_run::options;

use super::access::Access;
use super::wall_ms;
use crate::profiles::{Foreknowledge, Profiles};
use crate::protocol::{
    Array, MAX_ARRAY, MAX_NAME, MAX_WAITS, Refusal, RefusalKind, Submission, Text, Work,
};
use crate::queue::{Job, Membership, Source};

/// Most characters of a command that a listing shows.
const SHOWN: usize = 200;

/// Returns what is known of a submission's job.
pub(super) fn known(profiles: Option<&Profiles>, submission: &Submission) -> Foreknowledge {
    let time = submission.expected_time_ns.map(Nanos);
    let bandwidth = submission.expected_bandwidth.map(BytesPerSec);
    match profiles {
        Some(profiles) => {
            let name = submission.name.as_deref().unwrap_or("job");
            profiles.look_up(name, &submission.work, submission.cores, time, bandwidth)
        }
        None => {
            let source = time.is_some() || bandwidth.is_some();
            let source = source.then_some(Source::Submission);
            Foreknowledge { time, bandwidth, source, program: None }
        }
    }
}

/// Refuses a submission of `peer` to a daemon of so many cores that cannot become jobs.
pub(super) fn check(
    access: &Access,
    peer: Credentials,
    submission: &Submission,
    cores: u32,
) -> Result<(), Refusal> {
    if !access.runs_jobs_of(peer) {
        let message = format!("this daemon runs jobs as {} alone", access.owner());
        return Err(Refusal::new(RefusalKind::NotYours, message));
    }
    if submission.cores == 0 || submission.cores > cores {
        return Err(wrong(format!(
            "a job cannot have {} cores: the daemon has from 1 to {cores}",
            submission.cores
        )));
    }
    if submission.priority > 0 && !access.is_master(peer) {
        return Err(wrong("only root may raise a priority above 0; lower ones are free"));
    }
    if let Some(name) = &submission.name {
        check_name(name)?;
    }
    if let Some(time) = submission.expected_time_ns {
        options::expected_time(Nanos(time).as_secs_f64())
            .map_err(|refusal| wrong(refusal.sentence()))?;
    }
    if let Some(rate) = submission.expected_bandwidth {
        options::bandwidth(rate).map_err(|refusal| wrong(refusal.sentence()))?;
    }
    if let Some(Array { first, last, limit }) = submission.array
        && (first > last || last - first >= MAX_ARRAY || limit == Some(0))
    {
        return Err(wrong(format!(
            "an array has from 1 to {MAX_ARRAY} jobs, of which at least 1 may run"
        )));
    }
    check_work(&submission.work)
}

/// Refuses the limit of a submission if it is out of range, or the daemon cannot keep it for the
/// reason `no_limits`.
pub(super) fn check_limit(submission: &Submission, no_limits: Option<&str>) -> Result<(), Refusal> {
    let Some(limit) = submission.bandwidth_limit else { return Ok(()) };
    if let Some(reason) = no_limits {
        let message = format!(
            "this daemon cannot limit the bandwidth of jobs: {reason}; leave the limit out"
        );
        return Err(wrong(message));
    }
    let checked = options::bandwidth(limit).and_then(options::bandwidth_limit);
    match checked.map_err(|refusal| wrong(refusal.sentence()))? {
        Some(_) => Ok(()),
        None => Err(wrong("a limit of bandwidth is a number above 0")),
    }
}

/// Refuses a submission whose jobs wait for `after` others each, if these are too many in all.
pub(super) fn check_waits(submission: &Submission, after: usize) -> Result<(), Refusal> {
    let jobs = number(submission.array) as usize;
    if jobs.saturating_mul(after) <= MAX_WAITS {
        return Ok(());
    }
    Err(wrong(format!(
        "{jobs} jobs cannot wait for {after} others each, only {MAX_WAITS} times in all: let one \
         job (`true`) wait for the others, and these for that job"
    )))
}

/// Returns the number of jobs of an array that was checked, or of one job where there is none.
pub(super) fn number(array: Option<Array>) -> u32 {
    array.map_or(1, |array| array.last - array.first + 1)
}

/// Refuses `more` jobs of a user who has `unfinished` ones already and may have `most`: before they
/// are made, which takes long for a large array.
pub(super) fn check_number(unfinished: u32, more: u32, most: u32) -> Result<(), Refusal> {
    if unfinished.saturating_add(more) <= most {
        return Ok(());
    }
    let message = format!(
        "you have {unfinished} unfinished jobs here, and may have {most}: wait for some, or cancel \
         some"
    );
    Err(Refusal::new(RefusalKind::Busy, message))
}

/// Returns the jobs of a submission, which start after others. The first has the number `first`;
/// `holder` is the name of the user who holds them.
pub(super) fn jobs(
    peer: Credentials,
    submission: &Submission,
    first: JobId,
    after: Vec<JobId>,
    known: Foreknowledge,
    holder: Option<String>,
) -> Result<Vec<Job>, Refusal> {
    let Submission { name, cores, priority, work, .. } = submission;
    let program = work.program.to_path();
    let named = || program.file_name().map(|name| printable(&name.to_string_lossy(), MAX_NAME));
    let name = name.clone().or_else(named).unwrap_or_else(|| "job".to_owned());
    let model = Job {
        cores: *cores,
        priority: *priority,
        after,
        held_by: holder,
        expected_time: known.time,
        expected_bandwidth: known.bandwidth,
        expected_from: known.source,
        bandwidth_limit: submission.bandwidth_limit.map(BytesPerSec),
        program: known.program,
        command: shown(work),
        submitted: wall_ms(),
        ..Job::new(first, name, peer.user)
    };
    members(&model, submission.array)
}

fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Value, message)
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.chars().count() > MAX_NAME {
        return Err(wrong(format!("a job's name has from 1 to {MAX_NAME} characters")));
    }
    match name.chars().any(char::is_control) {
        true => Err(wrong("a job's name cannot have control characters")),
        false => Ok(()),
    }
}

fn check_work(work: &Work) -> Result<(), Refusal> {
    if work.argv.is_empty() {
        return Err(wrong("a job needs a command"));
    }
    let absolute = |path: &Text| path.as_bytes().first() == Some(&b'/');
    if !absolute(&work.program) || !absolute(&work.directory) {
        return Err(wrong("the program and the working directory of a job are absolute paths"));
    }
    let names = work.environment.iter().map(|(name, _)| name);
    let is_odd = |name: &Text| name.as_bytes().is_empty() || name.as_bytes().contains(&b'=');
    if names.into_iter().any(is_odd) {
        return Err(wrong("the name of an environment variable is not empty and has no `=`"));
    }
    let variables = work.environment.iter().flat_map(|(name, value)| [name, value]);
    let texts = [&work.program, &work.directory].into_iter().chain(&work.argv).chain(variables);
    match texts.into_iter().any(|text| text.as_bytes().contains(&0)) {
        true => Err(wrong("no argument, path or variable of a job can have a zero byte")),
        false => Ok(()),
    }
}

/// Returns a command as one line for people.
fn shown(work: &Work) -> String {
    let words = work.argv.iter().map(|word| String::from_utf8_lossy(word.as_bytes()));
    printable(&words.collect::<Vec<_>>().join(" "), SHOWN)
}

/// Returns the first `most` characters of a text, with blanks for those that control a terminal.
fn printable(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// Returns the jobs of an array that was checked, or the one job where there is none.
fn members(model: &Job, array: Option<Array>) -> Result<Vec<Job>, Refusal> {
    let Some(Array { first, last, limit }) = array else { return Ok(vec![model.clone()]) };
    let numbers = model.id.0.checked_add(last - first).map(|end| (model.id.0..=end).map(JobId));
    let numbers = numbers.ok_or_else(|| wrong("the queue has no numbers left"))?;
    let member = |(id, index): (JobId, u32)| Job {
        id,
        name: format!("{}[{index}]", model.name),
        array: Some(Membership { array: model.id, index, limit }),
        ..model.clone()
    };
    Ok(numbers.zip(first..=last).map(member).collect())
}
