//! Programs of a tree that the preload library does not reach, because they do not load it or it
//! cannot do its work in them, with their anonymous memory. The library cannot count them, so they
//! are found in `/proc`.
//!
//! A walk finds the descendants of this process, and everything that once was one, without the
//! helpers of memweir. It misses programs that end between two walks, and children that lose their
//! parent between two walks. The memory of forked children that have not started a program is not
//! counted: they map the library, and most of their pages are their parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::preload::UNREACHED_MARK;
use memweir_core::Bytes;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::MissingFeature;
use crate::blocker::processes::{self, Identity};
use crate::image;
use crate::pidfd::PidFd;

/// A library that the loader maps after all that are to be preloaded.
const LIBC: &[u8] = b"/libc.so.6\n";

/// A process that the library does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedProcess {
    identity: Identity,
    /// The file of its program.
    program: PathBuf,
    /// Its anonymous memory in DRAM.
    anonymous: Bytes,
}

impl UnreachedProcess {
    /// Ends the process by SIGKILL, if it is still the one that was found.
    ///
    /// # Errors
    /// If the kernel refuses it; a process that is gone is no error.
    pub fn kill(&self) -> io::Result<()> {
        let Some(process) = PidFd::open(self.identity.pid)? else { return Ok(()) };
        // The descriptor holds the process id, so this answer stays true.
        if processes::start_time(self.identity.pid).ok() != Some(self.identity.start) {
            return Ok(());
        }
        process.send(Signal::SIGKILL)
    }
}

/// The latest finding about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The program that it was found with; another one has to be looked at anew.
    program: PathBuf,
    /// True if the library has reached it, or was not meant to.
    is_reached: bool,
    /// True if two walks found the same. At the first one, the library may be about to find out
    /// that it cannot do its work.
    is_final: bool,
}

/// The processes that ran one program without the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreachedProgram {
    /// Its file.
    pub program: String,
    /// Number of processes.
    pub processes: u64,
    /// The most anonymous memory in DRAM that they had together.
    pub dram_peak_bytes: Bytes,
}

/// The processes that descend from this one and are not reached.
#[derive(Debug)]
pub struct Unreached {
    library: PathBuf,
    /// The file of this program.
    own: PathBuf,
    itself: Identity,
    /// A variable in the environment of all that are to be reached.
    variable: Option<String>,
    members: BTreeSet<Identity>,
    findings: BTreeMap<Identity, Finding>,
    record: Record,
}

impl Unreached {
    /// Watches the descendants of this process. Those that map `library` are reached.
    ///
    /// # Errors
    /// If `/proc` does not show this process.
    pub fn descendants(library: &Path) -> Result<Self, MissingFeature> {
        let missing = |error: io::Error| {
            MissingFeature::new(format!("/proc: {error}"), "mount the proc file system")
        };
        let pid = std::process::id() as i32;
        let itself = Identity { pid, start: processes::start_time(pid).map_err(missing)? };
        Ok(Self {
            library: library.to_owned(),
            own: fs::read_link("/proc/self/exe").map_err(missing)?,
            itself,
            variable: None,
            members: BTreeSet::from([itself]),
            findings: BTreeMap::new(),
            record: Record::default(),
        })
    }

    /// Looks only for programs that were started with a variable in their environment.
    #[must_use]
    pub fn started_with(self, variable: &str) -> Self {
        Self { variable: Some(format!("{variable}=")), ..self }
    }

    /// Returns their anonymous memory in DRAM at the last walk.
    #[must_use]
    pub fn anonymous(&self) -> Bytes {
        self.record.now
    }

    /// Returns the programs that were found at all walks, the one with the most memory first.
    #[must_use]
    pub fn programs(&self) -> Vec<UnreachedProgram> {
        self.record.programs()
    }

    /// Walks through `/proc` and returns those that run now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<Vec<UnreachedProcess>> {
        let related = processes::related(&processes::all()?, &BTreeSet::new(), &self.members);
        let living = related.iter().filter(|stat| !stat.is_over());
        self.members = living.map(|stat| Identity { pid: stat.pid, start: stat.start }).collect();
        let members = &self.members;
        self.findings.retain(|identity, _| members.contains(identity));
        let others: Vec<Identity> =
            self.members.iter().copied().filter(|member| *member != self.itself).collect();
        let found: Vec<_> = others.into_iter().filter_map(|other| self.look_at(other)).collect();
        self.record.add(&found);
        Ok(found)
    }

    /// Returns the process, unless it is reached, or ends just now.
    fn look_at(&mut self, identity: Identity) -> Option<UnreachedProcess> {
        let directory = PathBuf::from(format!("/proc/{}", identity.pid));
        let program = fs::read_link(directory.join("exe")).ok()?;
        let known = self.findings.get(&identity).filter(|known| known.program == program);
        let is_reached = match known {
            Some(known) if known.is_final => known.is_reached,
            _ => is_reached(&directory, &self.library)? || !self.is_meant(&directory)?,
        };
        let is_final = known.is_some_and(|known| known.is_reached == is_reached);
        self.findings.insert(identity, Finding { program: program.clone(), is_reached, is_final });
        if is_reached || program == self.own {
            return None;
        }
        let anonymous = anonymous(&fs::read_to_string(directory.join("statm")).ok()?)?;
        // A process that ends just now has given up its memory, and its program is not known.
        (anonymous > Bytes(0)).then_some(UnreachedProcess { identity, program, anonymous })
    }

    /// Returns true if a process was to be reached, and `None` if it has ended.
    fn is_meant(&self, directory: &Path) -> Option<bool> {
        let Some(variable) = &self.variable else { return Some(true) };
        let environment = fs::read(directory.join("environ")).ok()?;
        Some(environment.split(|byte| *byte == 0).any(|set| set.starts_with(variable.as_bytes())))
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
    processes: BTreeSet<i32>,
    most: Bytes,
}

impl Record {
    fn add(&mut self, found: &[UnreachedProcess]) {
        let mut sums: BTreeMap<&Path, Bytes> = BTreeMap::new();
        for UnreachedProcess { identity, program, anonymous } in found {
            *sums.entry(program).or_default() += *anonymous;
            self.programs.entry(program.clone()).or_default().processes.insert(identity.pid);
        }
        self.now = sums.values().copied().sum();
        for (program, sum) in sums {
            let memory = self.programs.entry(program.to_owned()).or_default();
            memory.most = memory.most.max(sum);
        }
    }

    fn programs(&self) -> Vec<UnreachedProgram> {
        let program = |(program, memory): (&PathBuf, &Memory)| UnreachedProgram {
            program: program.display().to_string(),
            processes: memory.processes.len() as u64,
            dram_peak_bytes: memory.most,
        };
        let mut programs: Vec<UnreachedProgram> = self.programs.iter().map(program).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.dram_peak_bytes));
        programs
    }
}

/// Returns true if the library has reached a process, and `None` if the process has ended, or is
/// just being started and may still load it.
fn is_reached(directory: &Path, library: &Path) -> Option<bool> {
    let maps = fs::read(directory.join("maps")).ok()?;
    judge(&maps, library, || image::loader(&directory.join("exe")).is_some())
}

fn judge(maps: &[u8], library: &Path, is_dynamic: impl FnOnce() -> bool) -> Option<bool> {
    let has = |name: &[u8]| maps.windows(name.len()).any(|part| part == name);
    if has(library.as_os_str().as_bytes()) {
        Some(!has(UNREACHED_MARK.to_bytes()))
    } else if has(LIBC) || !is_dynamic() {
        Some(false)
    } else {
        None
    }
}

/// Parses the anonymous memory in DRAM of proc_pid_statm(5): resident pages that belong to no file.
fn anonymous(statm: &str) -> Option<Bytes> {
    let mut numbers = statm.split_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, of_files) = (numbers.next()??, numbers.next()??);
    Some(Bytes(resident.saturating_sub(of_files) * PAGE_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_that_is_being_started_may_still_load_the_library() {
        let library = Path::new("/usr/lib/memweir/library.so");
        let line = |name: &str| format!("7f00-7f01 r-xp 00000000 00:01 7 {name}\n");
        let is_reached = |names: &[&str], is_dynamic: bool| {
            let maps: String = names.iter().map(|name| line(name)).collect();
            judge(maps.as_bytes(), library, || is_dynamic)
        };
        let loader = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(is_reached(&["/bin/sh", loader], true), None);
        assert_eq!(
            is_reached(&["/bin/sh", loader, "/usr/lib/memweir/library.so"], true),
            Some(true)
        );
        let marked = [loader, "/usr/lib/memweir/library.so", "/memfd:memweir-unreached (deleted)"];
        assert_eq!(is_reached(&marked, true), Some(false));
        assert_eq!(is_reached(&["/bin/sh", loader, "/lib/libc.so.6"], true), Some(false));
        assert_eq!(is_reached(&["/bin/busybox"], false), Some(false));
    }

    #[test]
    fn memory_of_files_is_not_counted() {
        assert_eq!(anonymous("1000 300 50 10 0 200 0"), Some(Bytes(250 * 4096)));
        assert_eq!(anonymous("1000 30 50 10 0 200 0"), Some(Bytes(0)));
        assert_eq!(anonymous("1000"), None);
    }

    #[test]
    fn a_child_without_the_library_is_found_and_can_be_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut unreached = Unreached::descendants(Path::new("/no/library.so")).unwrap();
        let pid = child.id() as i32;
        let is_child = |process: &UnreachedProcess| process.identity.pid == pid;
        let found = (0..1000).find_map(|_| unreached.look().unwrap().into_iter().find(is_child));
        let found = found.expect("it sleeps for a minute");
        assert!(found.program.ends_with("sleep") || found.program.ends_with("coreutils"));
        assert!(found.anonymous > Bytes(0));
        found.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        found.kill().expect("it is gone already");
        assert!(!unreached.look().unwrap().iter().any(is_child));
    }

    #[test]
    fn programs_have_the_most_that_their_processes_had_together() {
        let mut record = Record::default();
        let look = |record: &mut Record, found: &[(i32, &str, u64)]| {
            let process = |(pid, program, mib): &(i32, &str, u64)| UnreachedProcess {
                identity: Identity { pid: *pid, start: 0 },
                program: program.into(),
                anonymous: Bytes(*mib << 20),
            };
            record.add(&found.iter().map(process).collect::<Vec<_>>());
        };
        look(&mut record, &[(7, "/a", 5), (8, "/b", 100)]);
        assert_eq!(record.now, Bytes(105 << 20));
        look(&mut record, &[(7, "/a", 60), (9, "/a", 70)]);
        look(&mut record, &[(9, "/a", 75)]);
        assert_eq!(record.now, Bytes(75 << 20));
        look(&mut record, &[]);
        assert_eq!(record.now, Bytes(0));
        let programs = record.programs();
        let found: Vec<(&str, u64, u64)> = programs
            .iter()
            .map(|p| (p.program.as_str(), p.processes, p.dram_peak_bytes.0 >> 20))
            .collect();
        assert_eq!(found, [("/a", 2, 130), ("/b", 1, 100)]);
    }
}
