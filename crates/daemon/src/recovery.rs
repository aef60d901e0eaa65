//! Taking over the jobs of a daemon that has ended.
//!
//! For each job that the store says is starting or running, exactly one of these holds:
//!
//! | found | conclusion |
//! |---|---|
//! | an exit file, and a living supervisor | processes in the background go on, and are adopted |
//! | another exit file | the job ended, with that code, or never began for want of room |
//! | no claim | it never began; the claim that is made now keeps its supervisor from beginning |
//! | a claim by a living supervisor | it runs, and is adopted |
//! | a claim by a dead one, and no exit file | its end is lost |
//! | a claim of an earlier boot, and no exit file | it ended with the machine |
//!
//! Only to make a claim must something be written. Where the disk is full, a job without a claim
//! may begin at any time, so that nothing is true of it for long, and no daemon can start.

use std::io;

use memweir_linux::foreign::ForeignProcess;

use crate::attempt::{Attempt, Claim};
use crate::backend::QueueBackend;
use crate::queue::{End, Loss};
use crate::service::Service;

/// State in which a job was found.
#[derive(Debug)]
enum Found {
    Ended(End),
    NeverBegan,
    Running(ForeignProcess),
    /// It may begin yet: the claim that keeps it from that cannot be made.
    Undecided(io::Error),
}

/// Takes over every job that an earlier daemon was about to start or left running.
///
/// # Errors
/// A job may begin at any time, and cannot be kept from that.
pub(crate) fn recover(service: &Service, backend: &mut QueueBackend<'_>) -> io::Result<()> {
    for job in service.started() {
        match find(&service.attempt(&job)) {
            Ok(Found::Ended(end)) => service.over(job.id, end),
            Ok(Found::NeverBegan) => service.never_began(job.id),
            Ok(Found::Running(process)) => {
                service.runs(job.id);
                backend.adopt(&job, process);
            }
            Ok(Found::Undecided(error)) => {
                let told = format!("the start of job {} cannot be revoked: {error}", job.id);
                return Err(io::Error::new(error.kind(), told));
            }
            Err(error) => {
                service.notice(format!("the files of job {} cannot be read: {error}", job.id));
                service.over(job.id, End::Lost(Loss::Files));
            }
        }
    }
    Ok(())
}

fn find(attempt: &Attempt) -> io::Result<Found> {
    let ended = |attempt: &Attempt| -> io::Result<Option<Found>> {
        let exit = attempt.read_end()?;
        Ok(exit.map(|exit| exit.end().map_or(Found::NeverBegan, Found::Ended)))
    };
    if let Some(found) = ended(attempt)? {
        return Ok(background(attempt).map_or(found, Found::Running));
    }
    let claim = match attempt.read_claim()? {
        Some(claim) => claim,
        None => match attempt.claim(&Claim::Revoked) {
            Ok(claim) => claim,
            Err(error) => return Ok(Found::Undecided(error)),
        },
    };
    let Claim::Begun(supervisor) = claim else { return Ok(Found::NeverBegan) };
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

/// Returns the supervisor of an attempt whose first process has ended, if it waits for others.
fn background(attempt: &Attempt) -> Option<ForeignProcess> {
    match attempt.read_claim() {
        Ok(Some(Claim::Begun(supervisor))) => supervisor.open().ok().flatten(),
        _ => None,
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
    fn only_a_claim_that_is_missing_must_be_made() {
        let (directory, attempt) = attempt();
        let begun = Claim::Begun(ProcessName::of_this_process().unwrap());
        attempt.claim(&begun).unwrap();
        // In the place of the draft no file can be written.
        let draft = directory.path().join(format!("runs/1.1.claim-{}", std::process::id()));
        std::fs::create_dir(&draft).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Running(_)));
        attempt.remove();
        assert!(matches!(find(&attempt).unwrap(), Found::Undecided(_)));
        // Its supervisor is not kept from beginning.
        assert_eq!(attempt.claim(&begun).unwrap(), begun);
    }

    #[test]
    fn a_living_supervisor_is_adopted_and_the_end_of_another_counts() {
        let (_directory, attempt) = attempt();
        let living = ProcessName::of_this_process().unwrap();
        attempt.claim(&Claim::Begun(living.clone())).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Running(_)));
        // Another one than the process that has its number now.
        let mut dead = serde_json::to_value(living).unwrap();
        dead["start"] = 1.into();
        let mut earlier = dead.clone();
        earlier["boot"] = "that of yesterday".into();
        let [dead, earlier] =
            [dead, earlier].map(|name| Claim::Begun(serde_json::from_value(name).unwrap()));
        let mut exit = Exit { code: 3, short_of_memory: false, refused: false };
        attempt.end(exit).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Running(_)));
        for (claim, loss) in [(earlier, Loss::Restart), (dead, Loss::Supervisor)] {
            attempt.remove();
            attempt.claim(&claim).unwrap();
            let found = find(&attempt).unwrap();
            assert!(matches!(found, Found::Ended(End::Lost(found)) if found == loss), "{loss:?}");
        }
        attempt.end(exit).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::Ended(End::Exited(3))));
        exit.refused = true;
        attempt.end(exit).unwrap();
        assert!(matches!(find(&attempt).unwrap(), Found::NeverBegan));
    }
}
