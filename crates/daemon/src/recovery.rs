//! Taking over the jobs of a daemon that has ended.
//!
//! For each job that the store says is starting or running, exactly one of these holds:
//!
//! | found | conclusion |
//! |---|---|
//! | an exit file | the job ended, with that code |
//! | no claim | it never began; the claim that is made now keeps its supervisor from beginning |
//! | a claim by a living supervisor | it runs, and is adopted |
//! | a claim by a dead one, and no exit file | its end is lost |
//! | a claim of an earlier boot, and no exit file | it ended with the machine |

use std::io;

use memweir_linux::foreign::ForeignProcess;

use crate::attempt::{Attempt, Claim};
use crate::backend::QueueBackend;
use crate::queue::{End, Job, Loss};
use crate::service::Service;

/// State in which a job was found.
#[derive(Debug)]
enum Found {
    Ended(End),
    NeverBegan,
    Running(ForeignProcess),
}

/// Takes over every job that an earlier daemon was about to start or left running.
pub(crate) fn recover(service: &Service, backend: &mut QueueBackend<'_>) {
    for job in service.started() {
        match find(&service.attempt(&job)) {
            Ok(Found::Ended(end)) => service.over(job.id, end),
            Ok(Found::NeverBegan) => again(service, &job),
            Ok(Found::Running(process)) => {
                service.runs(job.id);
                backend.adopt(&job, process);
            }
            Err(error) => {
                service.notice(format!("the files of job {} cannot be read: {error}", job.id));
                service.over(job.id, End::Lost(Loss::Files));
            }
        }
    }
}

/// Queues a job that never began, or cancels it if a client has asked for that.
fn again(service: &Service, job: &Job) {
    if job.canceled {
        service.canceled_unbegun(job.id);
    } else {
        service.never_began(job.id);
    }
}

fn find(attempt: &Attempt) -> io::Result<Found> {
    let ended = |attempt: &Attempt| -> io::Result<Option<Found>> {
        Ok(attempt.read_end()?.map(|exit| Found::Ended(exit.end())))
    };
    if let Some(found) = ended(attempt)? {
        return Ok(found);
    }
    let Claim::Begun(supervisor) = attempt.claim(&Claim::Revoked)? else {
        return Ok(Found::NeverBegan);
    };
    match supervisor.open()? {
        Some(process) => Ok(Found::Running(process)),
        None => {
            let is_restarted = supervisor.is_of_earlier_boot()?;
            let loss = if is_restarted { Loss::Restart } else { Loss::Supervisor };
            // It may have ended between the two looks.
            Ok(ended(attempt)?.unwrap_or(Found::Ended(End::Lost(loss))))
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::JobId;
    use memweir_linux::foreign::ProcessName;

    use super::*;
    use crate::attempt::{Attempts, Exit};

    fn attempt() -> (tempfile::TempDir, Attempt) {
        let directory = tempfile::tempdir().unwrap();
        let attempts = Attempts::new(directory.path());
        attempts.create().unwrap();
        (directory, attempts.of(JobId(1), 1))
    }

    #[test]
    fn an_attempt_without_a_claim_never_begins() {
        let (_directory, attempt) = attempt();
        assert!(matches!(find(&attempt).unwrap(), Found::NeverBegan));
        // Its supervisor comes too late, and a second look says the same.
        let late = Claim::Begun(ProcessName::of_this_process().unwrap());
        assert_eq!(attempt.claim(&late).unwrap(), Claim::Revoked);
        assert!(matches!(find(&attempt).unwrap(), Found::NeverBegan));
    }

    #[test]
    fn a_living_supervisor_is_adopted_and_an_end_counts_more() {
        let (_directory, attempt) = attempt();
        attempt.claim(&Claim::Begun(ProcessName::of_this_process().unwrap())).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Running(_)));
        attempt.end(Exit { code: 3, short_of_memory: false }).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Ended(End::Exited(3))));
    }
}
