//! Programs of a paged tree that are not paged, and their memory.

use std::io;
use std::time::Duration;

use memweir_abi::preload::page::UnpagedPrograms;
use memweir_core::Bytes;
use memweir_linux::preload::{Unreached, UnreachedProcess, UnreachedProgram};
use serde::Serialize;

/// The shortest time between two walks through all processes: a walk takes about a millisecond.
const BETWEEN_WALKS: Duration = Duration::from_millis(100);

/// The processes that ran one program without being paged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnpagedProgram {
    /// The program, and its memory.
    #[serde(flatten)]
    pub ran: UnreachedProgram,
    /// Processes ended by `--unpaged refuse`, because they had started unseen.
    pub ended: u64,
}

/// Everything that ran without being paged.
#[derive(Debug)]
pub struct Outside {
    processes: Unreached,
    rule: UnpagedPrograms,
    looked: Option<Duration>,
}

impl Outside {
    pub(super) fn new(processes: Unreached, rule: UnpagedPrograms) -> Self {
        Self { processes, rule, looked: None }
    }

    /// Walks through the processes unless the last walk was just before, and ends those that must
    /// not run. `now` is the time since the start of the program.
    pub(super) fn look(&mut self, now: Duration) -> io::Result<()> {
        if self.looked.is_some_and(|last| now < last + BETWEEN_WALKS) {
            return Ok(());
        }
        self.looked = Some(now);
        let found = self.processes.look()?;
        if self.rule == UnpagedPrograms::Refuse {
            found.iter().try_for_each(UnreachedProcess::kill)?;
        }
        Ok(())
    }

    /// Returns their anonymous memory in DRAM at the last walk.
    #[must_use]
    pub fn anonymous(&self) -> Bytes {
        self.processes.anonymous()
    }

    /// Returns the programs, the one with the most memory first.
    #[must_use]
    pub fn programs(&self) -> Vec<UnpagedProgram> {
        let ended = |processes| if self.rule == UnpagedPrograms::Refuse { processes } else { 0 };
        let unpaged = |ran: UnreachedProgram| UnpagedProgram { ended: ended(ran.processes), ran };
        self.processes.programs().into_iter().map(unpaged).collect()
    }
}
