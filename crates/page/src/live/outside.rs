//! Programs of a paged tree that are not paged, and their memory.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use memweir_abi::preload::page::UnpagedPrograms;
use memweir_core::Bytes;
use memweir_linux::unpaged::{Unpaged, UnpagedProcess};
use serde::Serialize;

/// The shortest time between two walks through all processes: a walk takes about a millisecond.
const BETWEEN_WALKS: Duration = Duration::from_millis(100);

/// The processes that ran one program without being paged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnpagedProgram {
    /// Its file.
    pub program: String,
    /// Number of processes.
    pub processes: u64,
    /// The most anonymous memory in DRAM that they had together.
    pub dram_peak_bytes: Bytes,
    /// Processes ended by `--unpaged refuse`, because they had started unseen.
    pub ended: u64,
}

/// Everything that ran without being paged.
#[derive(Debug)]
pub struct Outside {
    processes: Unpaged,
    rule: UnpagedPrograms,
    looked: Option<Duration>,
    record: Record,
}

impl Outside {
    pub(super) fn new(processes: Unpaged, rule: UnpagedPrograms) -> Self {
        Self { processes, rule, looked: None, record: Record::default() }
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
            found.iter().try_for_each(UnpagedProcess::kill)?;
        }
        self.record.add(found.iter().map(|p| (p.process, p.program.clone(), p.anonymous)));
        Ok(())
    }

    /// Returns their anonymous memory in DRAM at the last walk.
    #[must_use]
    pub fn anonymous(&self) -> Bytes {
        self.record.now
    }

    /// Returns the programs, the one with the most memory first.
    #[must_use]
    pub fn programs(&self) -> Vec<UnpagedProgram> {
        self.record.programs(self.rule)
    }
}

/// Findings of the walks.
#[derive(Debug, Default)]
struct Record {
    now: Bytes,
    programs: BTreeMap<PathBuf, Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    processes: std::collections::BTreeSet<u32>,
    most: Bytes,
}

impl Record {
    fn add(&mut self, found: impl Iterator<Item = (u32, PathBuf, Bytes)>) {
        let mut sums: BTreeMap<PathBuf, Bytes> = BTreeMap::new();
        for (process, program, anonymous) in found {
            *sums.entry(program.clone()).or_default() += anonymous;
            self.programs.entry(program).or_default().processes.insert(process);
        }
        self.now = sums.values().copied().sum();
        for (program, sum) in sums {
            let memory = self.programs.entry(program).or_default();
            memory.most = memory.most.max(sum);
        }
    }

    fn programs(&self, rule: UnpagedPrograms) -> Vec<UnpagedProgram> {
        let program = |(program, memory): (&PathBuf, &Memory)| {
            let processes = memory.processes.len() as u64;
            UnpagedProgram {
                program: program.display().to_string(),
                processes,
                dram_peak_bytes: memory.most,
                ended: if rule == UnpagedPrograms::Refuse { processes } else { 0 },
            }
        };
        let mut programs: Vec<UnpagedProgram> = self.programs.iter().map(program).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.dram_peak_bytes));
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_the_most_that_their_processes_had_together() {
        let mut record = Record::default();
        let look = |record: &mut Record, found: &[(u32, &str, u64)]| {
            let found = found.iter().map(|(process, program, mib)| {
                (*process, PathBuf::from(program), Bytes(*mib << 20))
            });
            record.add(found);
        };
        look(&mut record, &[(7, "/a", 5), (8, "/b", 100)]);
        assert_eq!(record.now, Bytes(105 << 20));
        look(&mut record, &[(7, "/a", 60), (9, "/a", 70)]);
        look(&mut record, &[(9, "/a", 75)]);
        assert_eq!(record.now, Bytes(75 << 20));
        look(&mut record, &[]);
        assert_eq!(record.now, Bytes(0));
        let programs = record.programs(UnpagedPrograms::Count);
        let found: Vec<(&str, u64, u64)> = programs
            .iter()
            .map(|p| (p.program.as_str(), p.processes, p.dram_peak_bytes.0 >> 20))
            .collect();
        assert_eq!(found, [("/a", 2, 130), ("/b", 1, 100)]);
        assert_eq!(programs[0].ended, 0);
        assert_eq!(record.programs(UnpagedPrograms::Refuse)[0].ended, 2);
    }
}
