//! Processes as `/proc` shows them: the members of a job, and the CPU time that it has used.
//!
//! For mechanisms without a control group. [`Members`] lists the limits of such a walk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

use memweir_abi::kernel::stat::StatLine;
use memweir_core::Nanos;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The needed fields of one line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    pub(crate) state: u8,
    /// In clock ticks since boot: tells apart processes that had the same pid.
    pub(crate) start: u64,
    /// CPU time of its own threads.
    own: Nanos,
    /// CPU time of the children that it has waited for.
    children: Nanos,
}

impl Stat {
    /// Returns true if a signal has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Returns true if it has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Clock ticks per second in `/proc`, fixed at 100 by the kernel's interface on every platform
/// that memweir supports.
pub(crate) const NANOS_PER_TICK: u64 = 10_000_000;

/// Parses a line of proc_pid_stat(5).
pub(crate) fn parse(text: &str) -> Option<Stat> {
    let (pid, _) = text.split_once(' ')?;
    let line = StatLine::of(text.as_bytes())?;
    let nanos = |ticks: u64| Nanos(ticks.saturating_mul(NANOS_PER_TICK));
    let time = |user: usize, system: usize| -> Option<Nanos> {
        Some(nanos(line.number::<u64>(user)?.saturating_add(line.number(system)?)))
    };
    Some(Stat {
        pid: pid.parse().ok()?,
        state: *line.field(3)?.first()?,
        parent: line.number(4)?,
        session: line.number(6)?,
        own: time(14, 15)?,
        children: time(16, 17)?,
        start: line.start()?,
    })
}

/// Reads the state of one process.
pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    let bytes = fs::read(format!("/proc/{pid}/stat"))?;
    parse(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat")))
}

/// Returns the start time of a process, in clock ticks since boot.
pub(crate) fn start_time(pid: i32) -> io::Result<u64> {
    stat(pid).map(|stat| stat.start)
}

/// Returns the name of a process, for messages.
pub(crate) fn name(pid: i32) -> io::Result<String> {
    let bytes = fs::read(format!("/proc/{pid}/comm"))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Returns every process that is visible now.
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Processes may end during the walk.
        all.extend(stat(pid));
    }
    Ok(all)
}

/// Returns the threads of a process.
pub(crate) fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the CPU time of a process's threads, with nanosecond resolution.
fn cpu_clock(pid: i32) -> Option<Nanos> {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(ClockId::now).ok()?;
    Some(Nanos::from(Duration::from(time)))
}

/// A process that cannot be confused with a later one of the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

/// Returns the sessions of these leaders. A session outlives its leader; once it is over, too, its
/// number may be given to a process of others, which has another start time.
pub(crate) fn sessions<'a>(
    all: &[Stat],
    leaders: impl IntoIterator<Item = &'a Identity>,
) -> BTreeSet<i32> {
    let is_taken = |leader: &Identity| {
        all.iter().any(|stat| stat.pid == leader.pid && stat.start != leader.start)
    };
    let leaders = leaders.into_iter().filter(|leader| !is_taken(leader));
    leaders.map(|leader| leader.pid).collect()
}

/// Returns the processes of `all` that belong together: every process of a session in `sessions`,
/// every process in `known`, and their descendants.
pub(crate) fn related(
    all: &[Stat],
    sessions: &BTreeSet<i32>,
    known: &BTreeSet<Identity>,
) -> Vec<Stat> {
    let mut children: BTreeMap<i32, Vec<&Stat>> = BTreeMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let is_root = |stat: &&Stat| {
        sessions.contains(&stat.session)
            || known.contains(&Identity { pid: stat.pid, start: stat.start })
    };
    let mut queue: Vec<&Stat> = all.iter().filter(is_root).collect();
    let mut found = BTreeMap::new();
    while let Some(stat) = queue.pop() {
        if found.insert(stat.pid, *stat).is_none() {
            queue.extend(children.get(&stat.pid).into_iter().flatten());
        }
    }
    found.into_values().collect()
}

/// The processes of one job, remembered from walk to walk.
///
/// A process that leaves the session is found through its parent, and once seen it is remembered
/// when its parent dies. One that leaves the session *and* loses its parent between two walks is
/// missed: it is neither blocked nor accounted. The CPU time of processes that ended between two
/// walks without being waited for is missed too.
#[derive(Debug, Default)]
pub(crate) struct Members {
    known: BTreeMap<Identity, Member>,
    /// CPU time of members that are gone and that no living member has waited for.
    carried: Nanos,
    reported: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    parent: i32,
    cpu_time: Nanos,
}

impl Members {
    /// Returns the members found by the last walk.
    pub(crate) fn identities(&self) -> BTreeSet<Identity> {
        self.known.keys().copied().collect()
    }

    /// Updates the members from the processes that a walk has found.
    pub(crate) fn update(&mut self, found: &[Stat]) {
        self.update_with(found, cpu_clock);
    }

    fn update_with(&mut self, found: &[Stat], clock: impl Fn(i32) -> Option<Nanos>) {
        let now: BTreeMap<Identity, Member> = found
            .iter()
            .map(|stat| {
                let own = clock(stat.pid).unwrap_or(stat.own);
                let member = Member { parent: stat.parent, cpu_time: own + stat.children };
                (Identity { pid: stat.pid, start: stat.start }, member)
            })
            .collect();
        let living: BTreeSet<i32> = found.iter().map(|stat| stat.pid).collect();
        for (identity, member) in &self.known {
            // A living parent has the time of a child that it has waited for among its own.
            if !now.contains_key(identity) && !living.contains(&member.parent) {
                self.carried += member.cpu_time;
            }
        }
        self.known = now;
    }

    /// Returns the CPU time of the job so far; never less than the last value returned.
    pub(crate) fn cpu_time(&mut self) -> Nanos {
        let living: Nanos = self.known.values().map(|member| member.cpu_time).sum();
        self.reported = self.reported.max(self.carried + living);
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(pid: i32, parent: i32, session: i32) -> Stat {
        let start = u64::from(pid.unsigned_abs()) * 10;
        Stat { pid, parent, session, state: b'R', start, own: Nanos(0), children: Nanos(0) }
    }

    fn pids(found: &[Stat]) -> Vec<i32> {
        found.iter().map(|stat| stat.pid).collect()
    }

    #[test]
    fn a_name_full_of_parentheses_is_skipped() {
        let line = "42 (a) R (b)) S 7 42 41 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 9876 1 2";
        let stat = parse(line).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.session, stat.state), (42, 7, 41, b'S'));
        assert_eq!(stat.start, 9876);
        assert_eq!(stat.own, Nanos::from_millis(2000));
        assert_eq!(stat.children, Nanos::from_millis(500));
    }

    #[test]
    fn reads_this_process() {
        let pid = std::process::id() as i32;
        let mine = stat(pid).unwrap();
        assert_eq!(mine.pid, pid);
        assert_eq!(mine.parent, std::os::unix::process::parent_id() as i32);
        assert!(all().unwrap().iter().any(|stat| stat.pid == pid));
        assert!(threads(pid).unwrap().contains(&pid));
        assert!(threads(i32::MAX).is_err());
        assert!(cpu_clock(pid).unwrap() > Nanos(0));
        assert_eq!(cpu_clock(1 << 22), None);
    }

    #[test]
    fn descendants_that_left_the_session_are_found() {
        let all = [
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(13, 12, 13),
            process(20, 1, 20),
        ];
        let found = related(&all, &BTreeSet::from([10]), &BTreeSet::new());
        assert_eq!(pids(&found), [10, 11, 12, 13]);
    }

    #[test]
    fn a_daemon_seen_once_is_remembered_and_a_reused_pid_is_not() {
        let daemon = process(12, 1, 12);
        let known = BTreeSet::from([Identity { pid: 12, start: daemon.start }]);
        assert_eq!(pids(&related(&[daemon], &BTreeSet::from([10]), &known)), [12]);
        let reused = Stat { start: 999, ..daemon };
        assert!(related(&[reused], &BTreeSet::from([10]), &known).is_empty());
    }

    #[test]
    fn a_session_outlives_its_leader_and_is_not_that_of_a_later_process() {
        let leaders = [Identity { pid: 10, start: 100 }, Identity { pid: 20, start: 5 }];
        // The first leader has ended, and the number of the second is that of another process.
        let all = [process(11, 1, 10), process(20, 1, 20)];
        assert_eq!(sessions(&all, &leaders), BTreeSet::from([10]));
    }

    #[test]
    fn time_of_the_dead_is_counted_once() {
        let clock = |pid| Some(Nanos(if pid == 10 { 100 } else { 40 }));
        let mut members = Members::default();
        members.update_with(&[process(10, 1, 10), process(11, 10, 10)], clock);
        assert_eq!(members.cpu_time(), Nanos(140));
        // 11 ended and 10 waited for it: its time is now in 10's `children`, a tick short.
        let waited = Stat { children: Nanos(30), ..process(10, 1, 10) };
        members.update_with(&[waited], clock);
        assert_eq!(members.cpu_time(), Nanos(140), "never goes back");
        // 10 ended, and a process outside of the job waited for it.
        members.update_with(&[], clock);
        assert_eq!(members.cpu_time(), Nanos(140));
        members.update_with(&[process(12, 1, 10)], clock);
        assert_eq!(members.cpu_time(), Nanos(130 + 40));
    }

    proptest! {
        #[test]
        fn never_panics(text: String, fields in "[0-9]{1,3} \\([a-z) ]{0,5}\\) [A-Z]( -?[0-9]{1,21}){0,30}") {
            let _ = (parse(&text), parse(&fields));
        }

        #[test]
        fn everything_related_is_a_member_or_a_child_of_one(
            edges in proptest::collection::vec((2..40i32, 1..40i32, 1..40i32), 0..40),
        ) {
            let edges = edges.into_iter();
            let all: Vec<Stat> =
                edges.map(|(pid, parent, session)| process(pid, parent, session)).collect();
            let sessions = BTreeSet::from([5]);
            let found = related(&all, &sessions, &BTreeSet::new());
            let found_pids = pids(&found);
            for stat in &found {
                prop_assert!(stat.session == 5 || found_pids.contains(&stat.parent));
            }
            let is_found = |stat: &Stat| stat.session != 5 || found_pids.contains(&stat.pid);
            prop_assert!(all.iter().all(is_found));
        }
    }
}
