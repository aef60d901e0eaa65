//! Programs that a paged program has started and that do not load the preload library, or cannot be
//! paged by it, with their anonymous memory. The library cannot count them, so they are found in
//! `/proc`.
//!
//! A walk finds the descendants of this process, and everything that once was one. It misses
//! programs that end between two walks, and children that lose their parent between two walks. The
//! memory of forked children that have not started a program is not counted: they map the library,
//! and most of their pages are their parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::preload::page::UNPAGED_MARK;
use memweir_core::Bytes;
use nix::sys::signal::Signal;

use crate::blocker::processes::{self, Identity};
use crate::pidfd::PidFd;
use crate::preload::is_dynamic;

/// A library that the loader maps after all that are to be preloaded.
const LIBC: &[u8] = b"/libc.so.6\n";

/// A process that is not paged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpagedProcess {
    /// Its process id.
    pub process: u32,
    /// The file of its program.
    pub program: PathBuf,
    /// Its anonymous memory in DRAM.
    pub anonymous: Bytes,
    identity: Identity,
}

impl UnpagedProcess {
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
    is_paged: bool,
    /// True if two walks found the same. At the first one, the library may be about to find out
    /// that it cannot page the program.
    is_final: bool,
}

/// The processes that descend from this one and are not paged.
#[derive(Debug)]
pub struct Unpaged {
    library: PathBuf,
    itself: Identity,
    members: BTreeSet<Identity>,
    findings: BTreeMap<Identity, Finding>,
}

impl Unpaged {
    /// Watches the descendants of this process, of which there are none yet. Those that map
    /// `library` are paged.
    ///
    /// # Errors
    /// If `/proc` does not show this process.
    pub fn descendants(library: &Path) -> io::Result<Self> {
        let pid = std::process::id() as i32;
        let itself = Identity { pid, start: processes::start_time(pid)? };
        let (members, findings) = (BTreeSet::from([itself]), BTreeMap::new());
        Ok(Self { library: library.to_owned(), itself, members, findings })
    }

    /// Walks through `/proc` and returns those that are not paged now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<Vec<UnpagedProcess>> {
        let related = processes::related(&processes::all()?, &BTreeSet::new(), &self.members);
        let living = related.iter().filter(|stat| !stat.is_over());
        self.members = living.map(|stat| Identity { pid: stat.pid, start: stat.start }).collect();
        let members = &self.members;
        self.findings.retain(|identity, _| members.contains(identity));
        let others: Vec<Identity> =
            self.members.iter().copied().filter(|member| *member != self.itself).collect();
        Ok(others.into_iter().filter_map(|identity| self.look_at(identity)).collect())
    }

    /// Returns the process, unless it is paged, or ends just now.
    fn look_at(&mut self, identity: Identity) -> Option<UnpagedProcess> {
        let directory = PathBuf::from(format!("/proc/{}", identity.pid));
        let program = fs::read_link(directory.join("exe")).ok()?;
        let known = self.findings.get(&identity).filter(|known| known.program == program);
        let is_paged = match known {
            Some(known) if known.is_final => known.is_paged,
            _ => is_paged(&directory, &self.library)?,
        };
        let is_final = known.is_some_and(|known| known.is_paged == is_paged);
        self.findings.insert(identity, Finding { program: program.clone(), is_paged, is_final });
        if is_paged {
            return None;
        }
        let anonymous = anonymous(&fs::read_to_string(directory.join("statm")).ok()?)?;
        let process = identity.pid as u32;
        // A process that ends just now has given up its memory, and its program is not known.
        (anonymous > Bytes(0)).then_some(UnpagedProcess { process, program, anonymous, identity })
    }
}

/// Returns true if a process has loaded the library and is paged, and `None` if it has ended, or is
/// just being started and may still load it.
fn is_paged(directory: &Path, library: &Path) -> Option<bool> {
    let maps = fs::read(directory.join("maps")).ok()?;
    judge(&maps, library, || is_dynamic(&directory.join("exe")))
}

fn judge(maps: &[u8], library: &Path, is_dynamic: impl FnOnce() -> bool) -> Option<bool> {
    let has = |name: &[u8]| maps.windows(name.len()).any(|part| part == name);
    if has(library.as_os_str().as_bytes()) {
        Some(!has(UNPAGED_MARK.to_bytes()))
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
        let is_paged = |names: &[&str], is_dynamic: bool| {
            let maps: String = names.iter().map(|name| line(name)).collect();
            judge(maps.as_bytes(), library, || is_dynamic)
        };
        let loader = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(is_paged(&["/bin/sh", loader], true), None);
        assert_eq!(is_paged(&["/bin/sh", loader, "/usr/lib/memweir/library.so"], true), Some(true));
        let marked = [loader, "/usr/lib/memweir/library.so", "/memfd:memweir-unpaged (deleted)"];
        assert_eq!(is_paged(&marked, true), Some(false));
        assert_eq!(is_paged(&["/bin/sh", loader, "/lib/libc.so.6"], true), Some(false));
        assert_eq!(is_paged(&["/bin/busybox"], false), Some(false));
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
        let mut unpaged = Unpaged::descendants(Path::new("/no/library.so")).unwrap();
        let found = (0..1000).find_map(|_| {
            let found = unpaged.look().unwrap();
            found.into_iter().find(|process| process.process == child.id())
        });
        let found = found.expect("it sleeps for a minute");
        assert!(found.program.ends_with("sleep") || found.program.ends_with("coreutils"));
        assert!(found.anonymous > Bytes(0));
        found.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        found.kill().expect("it is gone already");
        assert!(unpaged.look().unwrap().iter().all(|process| process.process != child.id()));
    }
}
