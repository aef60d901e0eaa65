//! Limits on each user of a daemon: the number of connections, the time of requests, and the memory
//! that they take.
//!
//! The requests of a user run one at a time over all connections, except those that wait for jobs.
//! They take at most half of a processor's time in the long run; further requests are delayed. A
//! user has one large line in the daemon at a time, and one large reply. Root and the daemon's own
//! user are exempt from all but the number of connections.
//!
//! A connection may last: its client sends half a request, or a look at the files of a submission
//! waits for a server that does not answer. So a user has at most as many connections as are free
//! for others: each further user finds some.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use memweir_linux::clock;

use crate::service::lock;

/// Most connections of all users together, unless root or the daemon's own user connects.
const MAX_CONNECTIONS: usize = 512;

/// Further connections that are free for root and the daemon's own user.
const MASTERS_ROOM: usize = 64;

/// Most connections of root or the daemon's own user.
pub(super) const MAX_OF_MASTER: usize = 256;

/// Part of a processor's time that the requests of a user may take.
const SHARE: f64 = 0.5;

/// Processor time that a user who has not asked for anything lately may take at once.
const BURST: Duration = Duration::from_secs(1);

/// Time that each request counts for beyond its processor time: the disk may have had to write.
const DISK: Duration = Duration::from_micros(200);

/// Users by number: those with connections, and those whose allowance is not whole.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<BTreeMap<u32, Arc<Guest>>>);

impl Guests {
    /// Admits a connection, which counts until the guest is dropped.
    ///
    /// # Errors
    /// If there are too many; the error is the reason for people.
    pub(super) fn enter(&self, user: u32, standing: Standing) -> Result<Arc<Guest>, String> {
        // One more handle is the map's.
        let connections = |guest: &Arc<Guest>| Arc::strong_count(guest) - 1;
        let mut guests = lock(&self.0);
        guests.retain(|_, guest| connections(guest) > 0 || !guest.is_rested());
        let all: usize = guests.values().map(connections).sum();
        let own = guests.get(&user).map_or(0, connections);
        let most = match standing {
            Standing::Limited => MAX_CONNECTIONS.saturating_sub(all),
            Standing::Master if all < MAX_CONNECTIONS + MASTERS_ROOM => MAX_OF_MASTER,
            Standing::Master => 0,
        };
        match own {
            own if own < most => {}
            0 => return Err("the daemon has too many connections; try again later".to_owned()),
            _ => {
                return Err(format!(
                    "the daemon has too many connections, {own} of yours among them: close some"
                ));
            }
        }
        Ok(Arc::clone(guests.entry(user).or_insert_with(|| Arc::new(Guest::new(standing)))))
    }
}

/// The limits to which a user is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Root or the daemon's own user: the number of connections alone.
    Master,
    /// All of them.
    Limited,
}

/// A user who has asked for something.
#[derive(Debug)]
pub(super) struct Guest {
    standing: Standing,
    /// Locked while a request is carried out, so that others of the user wait.
    allowance: Mutex<Allowance>,
    /// Locked for a large line, until its reply is written.
    large: Mutex<()>,
}

impl Guest {
    fn new(standing: Standing) -> Self {
        Self { standing, allowance: Mutex::default(), large: Mutex::default() }
    }

    /// Does what a request asks for when it is its turn.
    pub(super) fn turn<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.standing == Standing::Master {
            return work();
        }
        let mut allowance = lock(&self.allowance);
        std::thread::sleep(allowance.debt(Instant::now()).div_f64(SHARE));
        let (done, used) = measured(work);
        allowance.charge(Instant::now(), used + DISK);
        done
    }

    /// Does something beside other requests of the user, which may take seconds.
    pub(super) fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, used) = measured(work);
        lock(&self.allowance).charge(Instant::now(), used);
        done
    }

    /// Waits until no other connection of the user has a large line.
    pub(super) fn large(&self) -> Option<MutexGuard<'_, ()>> {
        (self.standing == Standing::Limited).then(|| lock(&self.large))
    }

    /// Returns true if the allowance is whole. A guest whose request is being carried out is not.
    fn is_rested(&self) -> bool {
        let allowance = self.allowance.try_lock();
        allowance.is_ok_and(|mut allowance| allowance.taken(Instant::now()).is_zero())
    }
}

/// Returns what `work` returns, and the processor time that it took.
fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = clock::thread_cpu_time();
    let done = work();
    (done, clock::thread_cpu_time().saturating_sub(before).into())
}

/// Processor time of a user's requests that has not been earned back.
#[derive(Debug, Default)]
struct Allowance {
    taken: Duration,
    /// Time of the last look; absent before the first.
    at: Option<Instant>,
}

impl Allowance {
    /// Returns the time that is not earned back at `now`.
    fn taken(&mut self, now: Instant) -> Duration {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        self.taken = self.taken.saturating_sub(passed.mul_f64(SHARE));
        self.taken
    }

    /// Returns the time by which [`taken`](Self::taken) exceeds the burst at `now`.
    fn debt(&mut self, now: Instant) -> Duration {
        self.taken(now).saturating_sub(BURST)
    }

    fn charge(&mut self, now: Instant, used: Duration) {
        self.taken = self.taken(now) + used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_takes_a_second_at_once_and_half_a_processor_from_then_on() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let seconds = Duration::from_secs_f64;
        let mut allowance = Allowance::default();
        allowance.charge(at(0.0), seconds(1.0));
        assert_eq!(allowance.debt(at(0.0)), Duration::ZERO);
        allowance.charge(at(0.0), seconds(3.0));
        assert_eq!(allowance.debt(at(0.0)), seconds(3.0));
        // Of 4 s taken, 2 are earned back within 4 s.
        assert_eq!(allowance.debt(at(4.0)), seconds(1.0));
        assert_eq!(allowance.taken(at(7.0)), seconds(0.5));
        assert_eq!(allowance.taken(at(100.0)), Duration::ZERO);
    }

    #[test]
    fn no_request_begins_in_debt_and_others_of_the_user_wait_for_it() {
        let guest = Guest::new(Standing::Limited);
        lock(&guest.allowance).charge(Instant::now(), BURST + Duration::from_millis(50));
        guest.turn(|| assert!(guest.allowance.try_lock().is_err(), "others of the user wait"));
        assert!(lock(&guest.allowance).debt(Instant::now()) < Duration::from_millis(50));
        guest.beside(|| guest.turn(|| ()));
        assert!(lock(&guest.allowance).taken(Instant::now()) > Duration::ZERO, "it was charged");
    }

    #[test]
    fn a_user_has_one_large_line_and_a_master_any_number() {
        let guest = Guest::new(Standing::Limited);
        let permit = guest.large();
        assert!(guest.large.try_lock().is_err(), "a second one waits");
        guest.turn(|| ());
        drop(permit);
        assert!(guest.large().is_some());
        let master = Guest::new(Standing::Master);
        assert!(master.large().is_none());
        master.turn(|| master.turn(|| ()));
    }

    #[test]
    fn who_leaves_in_debt_comes_back_in_debt() {
        let guests = Guests::default();
        let guest = guests.enter(1, Standing::Limited).expect("room");
        lock(&guest.allowance).charge(Instant::now(), Duration::from_secs(1000));
        drop(guest);
        let again = guests.enter(1, Standing::Limited).expect("room");
        assert!(lock(&again.allowance).debt(Instant::now()) > Duration::from_secs(900));
        drop(again);
        // Others who have left and owe nothing are forgotten.
        drop(guests.enter(2, Standing::Limited));
        drop(guests.enter(3, Standing::Limited));
        assert_eq!(lock(&guests.0).keys().copied().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn connections_count_until_they_end() {
        let guests = Guests::default();
        let enter = |user, standing| guests.enter(user, standing);
        let mut crowd = Vec::new();
        // Each user gets as many as are free after that.
        for (user, most) in [(1, 256), (2, 128), (3, 64)] {
            crowd.extend((0..most).map(|_| enter(user, Standing::Limited).expect("room")));
            let refusal = enter(user, Standing::Limited).expect_err("enough");
            assert!(refusal.ends_with(&format!("{most} of yours among them: close some")));
        }
        crowd.extend((4..68).map(|user| enter(user, Standing::Limited).expect("room")));
        let refusal = enter(100, Standing::Limited).expect_err("none is free");
        assert_eq!(refusal, "the daemon has too many connections; try again later");
        crowd.pop();
        assert!(enter(100, Standing::Limited).is_ok());
    }

    #[test]
    fn root_finds_room_when_the_users_have_every_connection() {
        let guests = Guests::default();
        let connect = |user| guests.enter(user, Standing::Limited).expect("room");
        let crowd: Vec<_> = (1..=512).map(connect).collect();
        let enter = || guests.enter(0, Standing::Master);
        let mut own: Vec<_> = (0..64).map(|_| enter().expect("room")).collect();
        assert!(enter().is_err());
        drop(crowd);
        own.extend((64..256).map(|_| enter().expect("room")));
        assert!(enter().is_err());
    }
}
