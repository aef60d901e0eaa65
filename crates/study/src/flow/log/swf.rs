//! The Standard Workload Format of the Parallel Workloads Archive (version 2): 18 numbers per job,
//! -1 for what is not known, and comments after `;`.

use memweir_core::words::counted;

use super::{LeftOut, Line, LoggedJob, Wrong, number};

/// Fields of a line.
const FIELDS: usize = 18;

/// Fields that are read, counted from 0, with their names.
const JOB: usize = 0;
const SUBMIT: (usize, &str) = (1, "submit time");
const RUN_TIME: (usize, &str) = (3, "run time");
const ALLOCATED: (usize, &str) = (4, "allocated processors");
const REQUESTED: (usize, &str) = (7, "requested processors");
const STATUS: (usize, &str) = (10, "status");

/// Status of a job that was cancelled, and of a part of one that was checkpointed.
const CANCELLED: f64 = 5.0;
const PARTS: [f64; 3] = [2.0, 3.0, 4.0];

pub(super) fn line(line: &str) -> Result<Line, Wrong> {
    if line.starts_with(';') {
        return Ok(Line::Nothing);
    }
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.len() != FIELDS {
        let given = counted(fields.len() as u64, "field");
        let reason = format!("has {given}, and a job in the format `swf` {FIELDS}");
        return Err(("line".to_owned(), reason));
    }
    let known = |(place, name): (usize, &str)| number(fields[place], name);
    let (submitted, length) = (known(SUBMIT)?, known(RUN_TIME)?);
    let (allocated, requested) = (known(ALLOCATED)?, known(REQUESTED)?);
    let status = known(STATUS)?;
    let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
    Ok(if status.is_some_and(|status| PARTS.contains(&status)) {
        Line::LeftOut(LeftOut::Part)
    } else if status == Some(CANCELLED) && positive(length).is_none() {
        Line::LeftOut(LeftOut::Cancelled)
    } else {
        match (submitted, positive(length), positive(allocated).or(positive(requested))) {
            (None, ..) => Line::LeftOut(LeftOut::NoSubmission),
            (_, None, _) => Line::LeftOut(LeftOut::NoLength),
            (.., None) => Line::LeftOut(LeftOut::NoCores),
            (Some(submitted), Some(length), Some(cores)) => Line::Job(LoggedJob {
                name: fields[JOB].to_owned(),
                program: None,
                submitted,
                length,
                cores: cores.ceil().min(f64::from(u32::MAX)) as u32,
            }),
        }
    })
}
