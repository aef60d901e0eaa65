//! The guardian process: waits for memweir's end, then lets every job run on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, signal};

use super::{Message, READY, home};
use crate::blocker::processes::{self, Identity};
use crate::cgroup::{self, Version};
use crate::files::{Files, KernelFiles};
use crate::nice;
use crate::owner::Owner;
use crate::pidfd::PidFd;
use crate::shared_setting;

/// Shortest and longest time between two looks at what is left.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Rounds of SIGCONT, 10 ms apart: a job that another process keeps stopping is left to it.
const CONTINUE_ROUNDS: u32 = 50;

/// Runs the guardian process. The program given to [`super::start`] calls it: standard input is the
/// pipe from memweir, and standard output reports that it watches.
///
/// Returns when everything in its care is over, or at once after a goodbye; either way its groups
/// are removed.
///
/// # Errors
///
/// Failures of the pipe before it watches. It does not return later ones, and does what it can.
pub fn main() -> io::Result<()> {
    // A signal that a user or a session's shutdown sends to memweir must not end the guardian too.
    for ignored in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGTSTP,
    ] {
        // SAFETY: SigIgn installs no handler.
        unsafe { signal(ignored, SigHandler::SigIgn) }?;
    }
    let stdin = io::stdin();
    fcntl(stdin.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    say_ready()?;
    let mut charge = Charge::default();
    let end = charge.watch(stdin.as_fd());
    charge.finish(end, &KernelFiles);
    Ok(())
}

/// Tells memweir that its messages are read from now on, and releases the pipe to it.
fn say_ready() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(READY)?;
    out.flush()?;
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}

/// The end of memweir.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Goodbye,
    Death,
}

/// Everything in the guardian's care.
#[derive(Debug, Default)]
struct Charge {
    owner: Option<PidFd>,
    homes: Vec<PathBuf>,
    groups: Vec<(Version, PathBuf)>,
    sessions: BTreeSet<Identity>,
    strays: BTreeSet<Identity>,
    settings: Vec<(Owner, PathBuf)>,
    /// Changes of the nice values of jobs.
    raises: BTreeSet<i32>,
    /// Groups below which memweir has enabled the cpu controller.
    controllers: Vec<PathBuf>,
}

impl Charge {
    /// Does what is left to do at memweir's end.
    fn finish(&mut self, end: End, files: &dyn Files) {
        if end == End::Death {
            self.rescue(files);
        }
        // After a goodbye too: memweir can be killed before it removes them.
        self.homes.iter().for_each(|home| home::leave(files, home));
    }

    /// Receives messages until memweir's end.
    fn watch(&mut self, pipe: std::os::fd::BorrowedFd<'_>) -> End {
        let mut buffer = Vec::new();
        loop {
            let open = read_available(pipe, &mut buffer);
            for message in Message::take_from(&mut buffer) {
                if self.hear(message) {
                    return End::Goodbye;
                }
            }
            if !open || !self.wait(pipe) {
                // The last messages before the death may have arrived between reading and noticing
                // it.
                read_available(pipe, &mut buffer);
                let said_goodbye =
                    Message::take_from(&mut buffer).into_iter().any(|message| self.hear(message));
                return if said_goodbye { End::Goodbye } else { End::Death };
            }
        }
    }

    /// Sleeps until there is something to read. Returns false once the owner is dead.
    fn wait(&self, pipe: std::os::fd::BorrowedFd<'_>) -> bool {
        let owner = self.owner.as_ref().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> =
            [PollFd::new(pipe, PollFlags::POLLIN)].into_iter().chain(owner).collect();
        // If interrupted, the caller looks again.
        let _ = poll(&mut fds, PollTimeout::NONE);
        !fds.get(1).is_some_and(|owner| owner.any().unwrap_or(false))
    }

    /// Takes one message in; returns true for a goodbye.
    fn hear(&mut self, message: Message) -> bool {
        match message {
            Message::Owner(pid) => self.owner = open_parent(pid),
            Message::Home(path) => self.homes.push(path),
            Message::Group(version, path) => self.groups.push((version, path)),
            Message::Session(leader) => _ = self.sessions.insert(leader),
            Message::Stray(process) => _ = self.strays.insert(process),
            Message::Setting(owner, ledger) => self.settings.push((owner, ledger)),
            Message::Raise(raise) => _ = self.raises.insert(raise),
            Message::CpuController(place) => self.controllers.push(place),
            Message::Goodbye => return true,
        }
        false
    }

    /// Lets everything run on, and stays until the groups are gone.
    fn rescue(&mut self, files: &dyn Files) {
        // Groups first: thawing takes microseconds, a walk through /proc milliseconds.
        self.thaw_groups(files);
        self.continue_sessions(files);
        for (owner, ledger) in &self.settings {
            // Where it fails, the next memweir that claims the setting drops this claim.
            let _ = shared_setting::release(ledger, owner);
        }
        self.lower_jobs(files);
        let mut wait = FIRST_WAIT;
        loop {
            self.groups.retain(|(_, group)| cgroup::remove_tree(files, group).is_err());
            if self.groups.is_empty() {
                self.controllers.iter().for_each(|place| cgroup::disable_cpu(files, place));
                return;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(LONGEST_WAIT);
            // Again: memweir's last write may have raced with the first thaw.
            self.thaw_groups(files);
            self.weigh_groups(files);
        }
    }

    fn thaw_groups(&self, files: &dyn Files) {
        for (version, group) in &self.groups {
            // Tried again in the next round.
            let _ = cgroup::thaw_owned(files, *version, group);
        }
    }

    /// Returns the processes of the sessions, and the strays.
    fn session_members(&self) -> Vec<processes::Stat> {
        if self.sessions.is_empty() && self.strays.is_empty() {
            return Vec::new();
        }
        let all = processes::all().unwrap_or_default();
        processes::related(&all, &processes::sessions(&all, &self.sessions), &self.strays)
    }

    /// Restores the nice values with which the jobs started.
    fn lower_jobs(&self, files: &dyn Files) {
        if self.raises.is_empty() {
            return;
        }
        let mut pids: Vec<i32> = self.session_members().iter().map(|stat| stat.pid).collect();
        for (_, group) in &self.groups {
            pids.extend(cgroup::pids(files, group).unwrap_or_default());
        }
        // Jobs start with memweir's nice value, as this process does.
        let _ = nice::change(&pids, nice::own(), &self.raises, 0);
    }

    /// Gives groups that memweir has weighed the weight of the remaining jobs.
    fn weigh_groups(&self, files: &dyn Files) {
        for (version, group) in &self.groups {
            if *version == Version::V2 && cgroup::is_weighed(files, group) {
                let lives =
                    |leaf: &PathBuf| cgroup::populated(files, *version, leaf).unwrap_or_default();
                let jobs = files.children(group).unwrap_or_default();
                let jobs = jobs.iter().filter(|leaf| lives(leaf)).count();
                let _ = cgroup::weigh(files, group, u32::try_from(jobs).unwrap_or(u32::MAX));
            }
        }
    }

    fn continue_sessions(&self, files: &dyn Files) {
        for _ in 0..CONTINUE_ROUNDS {
            let mut stopped = self.session_members();
            stopped.retain(processes::Stat::is_stopped);
            if stopped.is_empty() {
                return;
            }
            for process in stopped {
                let _ = files.signal(process.pid, libc::SIGCONT);
            }
            std::thread::sleep(FIRST_WAIT);
        }
    }
}

/// Reads everything that is available. Returns false at the end of the pipe, or on an error.
fn read_available(pipe: std::os::fd::BorrowedFd<'_>, buffer: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 4096];
    loop {
        match nix::unistd::read(pipe, &mut chunk) {
            Ok(0) => return false,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
    }
}

/// Opens a pidfd of the parent; `None` if it is dead already (then the pipe says so), or where the
/// kernel has no pidfds.
fn open_parent(pid: i32) -> Option<PidFd> {
    let parent = PidFd::open(pid).ok()??;
    // Still our parent after the descriptor was made, so it is the parent's.
    (nix::unistd::getppid().as_raw() == pid).then_some(parent)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::files::fake::FakeTree;
    use crate::guardian::message::Message;

    fn pipe_with(messages: &[Message]) -> OwnedFd {
        let (read, write) = nix::unistd::pipe2(OFlag::O_NONBLOCK).unwrap();
        let mut write = File::from(write);
        messages.iter().for_each(|message| write.write_all(&message.encode()).unwrap());
        read
    }

    #[test]
    fn a_closed_pipe_without_goodbye_is_a_death() {
        let group = Message::Group(Version::V2, "/g".into());
        let mut charge = Charge::default();
        assert_eq!(charge.watch(pipe_with(std::slice::from_ref(&group)).as_fd()), End::Death);
        assert_eq!(charge.groups, [(Version::V2, PathBuf::from("/g"))]);
        let mut charge = Charge::default();
        assert_eq!(charge.watch(pipe_with(&[group, Message::Goodbye]).as_fd()), End::Goodbye);
    }

    #[test]
    fn the_death_of_the_owner_is_seen_though_its_pipe_stays_open() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = PidFd::open(child.id() as i32).unwrap();
        let (read, write) = nix::unistd::pipe2(OFlag::O_NONBLOCK).unwrap();
        let mut charge = Charge { owner, ..Charge::default() };
        let killer = std::thread::spawn(move || {
            child.kill().unwrap();
            child.wait().unwrap();
        });
        assert_eq!(charge.watch(read.as_fd()), End::Death);
        killer.join().unwrap();
        drop(write);
    }

    #[test]
    fn rescue_thaws_even_where_writes_fail_at_first_and_removes() {
        let tree = FakeTree::new();
        let parent = tree.group("parent");
        for leaf in ["parent/a", "parent/b"] {
            let leaf = tree.group(leaf);
            tree.write(&leaf.join("cgroup.freeze"), "1").unwrap();
        }
        tree.write(&parent.join("cgroup.freeze"), "1").unwrap();
        tree.fail("write", "parent/a/cgroup.freeze", libc::EINTR, 1);
        // As if processes were left in both for a while.
        tree.fail("remove_dir", "parent/a", libc::EBUSY, 2);
        tree.fail("remove_dir", "parent/b", libc::EBUSY, 3);
        let mut charge =
            Charge { groups: vec![(Version::V2, parent.clone())], ..Charge::default() };
        charge.rescue(&tree);
        assert!(!parent.exists());
        let thawed: Vec<String> = tree.writes_of("0");
        assert!(thawed.iter().any(|path| path.ends_with("parent/cgroup.freeze")), "{thawed:?}");
        assert!(thawed.iter().any(|path| path.ends_with("a/cgroup.freeze")), "{thawed:?}");
    }

    #[test]
    fn its_groups_are_removed_though_memweir_is_killed_after_the_goodbye() {
        let tree = FakeTree::new();
        let home = tree.group("home");
        let home_message = Message::Home(home.clone());
        let mut charge = Charge::default();
        let end = charge.watch(pipe_with(&[home_message, Message::Goodbye]).as_fd());
        charge.finish(end, &tree);
        assert!(!home.exists());
    }
}
