//! Limits on each user of a daemon: the number of connections and the time of requests.
//!
//! The requests of a user run one at a time over all connections, except those that wait for jobs.
//! They take at most half of a processor's time in the long run; further requests are delayed. Root
//! and the daemon's own user are exempt from the limit on time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memweir_linux::clock;

use crate::protocol::{Reply, Request};
use crate::service::lock;

/// Most connections of all users together, and of one user.
pub(super) const MAX_CONNECTIONS: usize = 512;
pub(super) const MAX_OF_USER: usize = 256;

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
    /// Admits a connection, which counts until the guest is dropped; `None` if there are too many.
    pub(super) fn enter(&self, user: u32) -> Option<Arc<Guest>> {
        // One more handle is the map's.
        let connections = |guest: &Arc<Guest>| Arc::strong_count(guest) - 1;
        let mut guests = lock(&self.0);
        guests.retain(|_, guest| connections(guest) > 0 || !guest.is_rested());
        let all: usize = guests.values().map(connections).sum();
        if all >= MAX_CONNECTIONS || guests.get(&user).map_or(0, connections) >= MAX_OF_USER {
            return None;
        }
        Some(Arc::clone(guests.entry(user).or_default()))
    }
}

/// A user who has asked for something.
#[derive(Debug, Default)]
pub(super) struct Guest {
    /// Locked while a request is carried out, so that others of the user wait.
    allowance: Mutex<Allowance>,
}

impl Guest {
    /// Carries out a request when it is its turn.
    pub(super) fn ask(&self, request: Request, handle: impl FnOnce(Request) -> Reply) -> Reply {
        let before = clock::thread_cpu_time();
        let used = || Duration::from(clock::thread_cpu_time().saturating_sub(before)) + DISK;
        let mut allowance = lock(&self.allowance);
        std::thread::sleep(allowance.debt(Instant::now()).div_f64(SHARE));
        // Waiting for jobs takes seconds, in which the user may ask for other things.
        if matches!(request, Request::Wait { .. }) {
            drop(allowance);
            let reply = handle(request);
            lock(&self.allowance).charge(Instant::now(), used());
            return reply;
        }
        let reply = handle(request);
        allowance.charge(Instant::now(), used());
        reply
    }

    /// Returns true if the allowance is whole. A guest whose request is being carried out is not.
    fn is_rested(&self) -> bool {
        let allowance = self.allowance.try_lock();
        allowance.is_ok_and(|mut allowance| allowance.taken(Instant::now()).is_zero())
    }
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
    fn no_request_begins_in_debt_and_a_wait_lets_others_begin() {
        let guest = Guest::default();
        lock(&guest.allowance).charge(Instant::now(), BURST + Duration::from_millis(50));
        let wait = Request::Wait { ids: Vec::new(), timeout_ms: 0 };
        guest.ask(wait, |_| {
            assert_eq!(lock(&guest.allowance).debt(Instant::now()), Duration::ZERO);
            guest.ask(Request::Status {}, |_| Reply::Done {})
        });
        guest.ask(Request::Status {}, |_| {
            assert!(guest.allowance.try_lock().is_err(), "others of the user wait");
            Reply::Done {}
        });
        assert!(lock(&guest.allowance).taken(Instant::now()) > Duration::ZERO, "it was charged");
    }

    #[test]
    fn who_leaves_in_debt_comes_back_in_debt() {
        let guests = Guests::default();
        let guest = guests.enter(1).expect("room");
        lock(&guest.allowance).charge(Instant::now(), Duration::from_secs(1000));
        drop(guest);
        let again = guests.enter(1).expect("room");
        assert!(lock(&again.allowance).debt(Instant::now()) > Duration::from_secs(900));
        drop(again);
        // Others who have left and owe nothing are forgotten.
        drop(guests.enter(2));
        drop(guests.enter(3));
        assert_eq!(lock(&guests.0).keys().copied().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn connections_count_until_they_end() {
        let guests = Guests::default();
        let mut crowd: Vec<_> = (0..MAX_OF_USER).map(|_| guests.enter(1).expect("room")).collect();
        assert!(guests.enter(1).is_none());
        crowd.extend((0..MAX_CONNECTIONS - MAX_OF_USER).map(|_| guests.enter(2).expect("room")));
        assert!(guests.enter(3).is_none());
        crowd.pop();
        assert!(guests.enter(3).is_some());
    }
}
