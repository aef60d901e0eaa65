//! Jobs as rows.

use memweir_core::{BytesPerSec, JobId, Nanos};
use rusqlite::{Connection, Row, named_params};
use serde::Serialize;

use crate::queue::{End, Job, Loss, Membership, Moment, Source, State};

/// Returns a value as JSON. Every value that is kept has a form in JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the columns of a state: its name, and the exit code where there is one.
fn columns(state: State) -> (&'static str, Option<i32>) {
    match state {
        State::Pending => ("pending", None),
        State::Starting => ("starting", None),
        State::Running => ("running", None),
        State::Ended(End::Exited(code)) => ("exited", Some(code)),
        State::Ended(End::OutOfMemory) => ("out-of-memory", None),
        State::Ended(End::Canceled(code)) => ("canceled", code),
        State::Ended(End::Lost(Loss::Supervisor)) => ("lost", None),
        State::Ended(End::Lost(Loss::Restart)) => ("lost-restart", None),
        State::Ended(End::Lost(Loss::Files)) => ("lost-files", None),
    }
}

fn state(name: &str, exit_code: Option<i32>) -> Option<State> {
    Some(match name {
        "pending" => State::Pending,
        "starting" => State::Starting,
        "running" => State::Running,
        "exited" => State::Ended(End::Exited(exit_code?)),
        "out-of-memory" => State::Ended(End::OutOfMemory),
        "canceled" => State::Ended(End::Canceled(exit_code)),
        "lost" => State::Ended(End::Lost(Loss::Supervisor)),
        "lost-restart" => State::Ended(End::Lost(Loss::Restart)),
        "lost-files" => State::Ended(End::Lost(Loss::Files)),
        _ => return None,
    })
}

/// Returns the column of a source: its name, or the number of the job that was the first run.
fn source_column(source: Source) -> String {
    match source {
        Source::Submission => "submission".to_owned(),
        Source::SubmissionAndStore => "submission+store".to_owned(),
        Source::Store => "store".to_owned(),
        Source::Replaced => "replaced".to_owned(),
        Source::Job(job) => job.to_string(),
    }
}

fn source(text: &str) -> Option<Source> {
    Some(match text {
        "submission" => Source::Submission,
        "submission+store" => Source::SubmissionAndStore,
        "store" => Source::Store,
        "replaced" => Source::Replaced,
        job => Source::Job(JobId(job.parse().ok()?)),
    })
}

/// Adds a job.
pub(super) fn insert(
    connection: &Connection,
    job: &Job,
    group: u32,
    work: &str,
    environment: i64,
) -> rusqlite::Result<()> {
    let (state, exit_code) = columns(job.state);
    let sql = "INSERT INTO jobs VALUES (
        :id, :name, :user, :group, :cores, :priority, :after, :array, :array_index, :array_limit,
        :held_by, :state, :exit_code, :attempt, :canceled, :expected_time, :expected_bandwidth,
        :command, :submitted, :started, :ended, :work, :environment, :expected_from, :program,
        :ended_uptime, :bandwidth_limit)";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":id": job.id.0,
        ":name": job.name,
        ":user": job.user,
        ":group": group,
        ":cores": job.cores,
        ":priority": job.priority,
        ":after": json(&job.after),
        ":array": job.array.map(|array| array.array.0),
        ":array_index": job.array.map(|array| array.index),
        ":array_limit": job.array.and_then(|array| array.limit),
        ":held_by": job.held_by,
        ":state": state,
        ":exit_code": exit_code,
        ":attempt": job.attempt,
        ":canceled": job.canceled,
        ":expected_time": job.expected_time.map(|time| time.0.cast_signed()),
        ":expected_bandwidth": job.expected_bandwidth.map(|rate| rate.0),
        ":command": job.command,
        ":submitted": job.submitted.cast_signed(),
        ":started": job.started.map(u64::cast_signed),
        ":ended": job.ended.map(|ended| ended.wall_ms.cast_signed()),
        ":ended_uptime": job.ended.map(|ended| ended.uptime_ms.cast_signed()),
        ":work": work,
        ":environment": environment,
        ":expected_from": job.expected_from.map(source_column),
        ":program": job.program.as_deref(),
        ":bandwidth_limit": job.bandwidth_limit.map(|rate| rate.0),
    })?;
    Ok(())
}

/// Writes what can change of a job.
pub(super) fn update(connection: &Connection, job: &Job) -> rusqlite::Result<()> {
    let (state, exit_code) = columns(job.state);
    let sql = "UPDATE jobs SET held_by = :held_by, state = :state, exit_code = :exit_code,
        attempt = :attempt, canceled = :canceled, started_ms = :started, ended_ms = :ended,
        ended_uptime_ms = :ended_uptime,
        expected_time_ns = :expected_time, expected_bandwidth = :expected_bandwidth,
        expected_from = :expected_from WHERE id = :id";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":id": job.id.0,
        ":held_by": job.held_by,
        ":state": state,
        ":exit_code": exit_code,
        ":attempt": job.attempt,
        ":canceled": job.canceled,
        ":started": job.started.map(u64::cast_signed),
        ":ended": job.ended.map(|ended| ended.wall_ms.cast_signed()),
        ":ended_uptime": job.ended.map(|ended| ended.uptime_ms.cast_signed()),
        ":expected_time": job.expected_time.map(|time| time.0.cast_signed()),
        ":expected_bandwidth": job.expected_bandwidth.map(|rate| rate.0),
        ":expected_from": job.expected_from.map(source_column),
    })?;
    Ok(())
}

/// Removes a job.
pub(super) fn remove(connection: &Connection, id: JobId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM jobs WHERE id = ?")?.execute([id.0]).map(drop)
}

/// Reads a job; the inner error names the unreadable part.
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Result<Job, (u32, &'static str)>> {
    let id: u32 = row.get("id")?;
    let Some(state) = state(&row.get::<_, String>("state")?, row.get("exit_code")?) else {
        return Ok(Err((id, "its state")));
    };
    let Ok(after) = serde_json::from_str(&row.get::<_, String>("after")?) else {
        return Ok(Err((id, "the list of jobs before it")));
    };
    let expected_from: Option<String> = row.get("expected_from")?;
    let expected_from = match expected_from.map(|text| source(&text)) {
        Some(None) => return Ok(Err((id, "the source of its expected time"))),
        found => found.flatten(),
    };
    let array: Option<u32> = row.get("array")?;
    let index: Option<u32> = row.get("array_index")?;
    let limit = row.get("array_limit")?;
    let millis = |column: &str| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
    };
    let ended_uptime = millis("ended_uptime_ms")?;
    let expected_time: Option<i64> = row.get("expected_time_ns")?;
    let expected_bandwidth: Option<f64> = row.get("expected_bandwidth")?;
    Ok(Ok(Job {
        id: JobId(id),
        name: row.get("name")?,
        user: row.get("user")?,
        cores: row.get("cores")?,
        priority: row.get("priority")?,
        after,
        array: array.zip(index).map(|(array, index)| Membership {
            array: JobId(array),
            index,
            limit,
        }),
        held_by: row.get("held_by")?,
        state,
        attempt: row.get("attempt")?,
        canceled: row.get("canceled")?,
        expected_time: expected_time.map(|time| Nanos(time.cast_unsigned())),
        expected_bandwidth: expected_bandwidth.map(BytesPerSec),
        expected_from,
        bandwidth_limit: row.get::<_, Option<f64>>("bandwidth_limit")?.map(BytesPerSec),
        program: row.get::<_, Option<String>>("program")?.map(Into::into),
        command: row.get("command")?,
        submitted: millis("submitted_ms")?.unwrap_or_default(),
        started: millis("started_ms")?,
        ended: millis("ended_ms")?
            .map(|wall_ms| Moment { wall_ms, uptime_ms: ended_uptime.unwrap_or_default() }),
    }))
}
