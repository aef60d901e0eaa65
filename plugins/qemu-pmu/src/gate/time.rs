//! Time and random numbers of a program in virtual time.
//!
//! Clocks show virtual time, sleeps end in it, and random bytes come from the seed. All of this is
//! done by writing the program's memory around the system call. So values that a call returns in a
//! register (`time` without a pointer) or that need no system call (`rdtsc`) stay the host's, as do
//! timers that send signals and the timeouts of `poll` and similar calls. A timeout of `futex` that
//! ends by a clock is moved onto the host's, which is far ahead of virtual time.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{MutexGuard, PoisonError};

use memweir_abi::softpmu::gate::{FEMTOS_PER_NANO, ThreadRecord, ThreadState};

use super::host::{Woken, wait, wake};
use super::{Gate, Turn, WATCH};
use crate::memory::{read, write, write_protected};

/// Seconds, then nanoseconds or microseconds.
const TIME_BYTES: usize = 16;

const NANOS: u64 = 1_000_000_000;

/// Lowest bits of the number of a clock that shows the CPU time of a process or thread by its ID,
/// and the next bit if it is that of a thread (`linux/posix-timers.h`).
const CPU_TIME: i32 = 0b10;
const OF_THREAD: i32 = 0b100;

/// A system call in progress.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// Its first arguments.
    pub(super) arguments: [u64; 4],
    /// Number of the call before it.
    pub(super) before: u32,
    /// Memory of the program that was changed for the call, as it was before.
    pub(super) changed: Option<(u64, [u8; TIME_BYTES])>,
}

/// A relative sleep that a signal may interrupt: its arguments, and the virtual time in nanoseconds
/// at which it ends.
pub(super) type Interrupted = ([u64; 4], u64);

/// Result of a call that the emulator begins anew, perhaps after the handler of a signal.
const BEGINS_ANEW: i64 = -512;

/// A deadline in the program's memory that was moved onto the clock of the host.
#[derive(Debug)]
pub(super) struct Moved {
    /// Birth of the thread that waits until then.
    birth: u64,
    address: u64,
    /// The deadline as it was before.
    bytes: [u8; TIME_BYTES],
}

impl Call {
    /// Undoes the changes to the program's memory.
    pub(super) fn restore(&mut self) {
        if let Some((address, bytes)) = self.changed.take() {
            write_protected(address, &bytes);
        }
    }
}

impl Gate {
    /// Returns the virtual time of a thread that has the turn, in nanoseconds. It never decreases,
    /// whichever thread asks.
    fn now(&self, turn: &Turn, record: &ThreadRecord) -> u64 {
        let in_turn = record.used.load(Relaxed).saturating_sub(turn.start) / FEMTOS_PER_NANO;
        let header = self.header();
        let now = header.now.load(Acquire) + in_turn;
        header.told.fetch_max(now, Relaxed).max(now)
    }

    /// Sleeps in virtual time, then makes the system call return at once.
    pub(super) fn sleep(&self, turn: &mut Turn, record: &'static ThreadRecord, number: i64) {
        let [first, flags, third, _] = turn.call.arguments;
        let (clock, absolute, address) = match number {
            libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, false, first),
            _ => (first as i32, flags as i32 & libc::TIMER_ABSTIME != 0, third),
        };
        let mut bytes = [0; TIME_BYTES];
        if !read(address, &mut bytes) {
            return;
        }
        let Some(length) = nanos_of(&bytes) else { return };
        let now = self.now(turn, record);
        let wakes = match (absolute, clock) {
            (false, _) => {
                let interrupted = turn.interrupted.take().filter(|(arguments, _)| {
                    // The emulator begins the call anew once the signal's handler has returned.
                    turn.call.before == libc::SYS_rt_sigreturn as u32
                        && *arguments == turn.call.arguments
                });
                interrupted.map_or(now.saturating_add(length), |(_, wakes)| wakes)
            }
            (true, libc::CLOCK_REALTIME | libc::CLOCK_TAI) => {
                length.saturating_sub(self.header().epoch.load(Relaxed))
            }
            (true, _) => length,
        };
        let whole = wakes <= now || self.wait_until(turn, record, wakes);
        turn.interrupted = (!absolute).then_some((turn.call.arguments, wakes));
        // Until now, other threads could read the time and sleep by it, or set another. Zero has
        // passed on every clock. Before the emulator begins a call anew, it may have written there.
        if !read(address, &mut bytes) {
            return;
        }
        if !whole || write_protected(address, &[0; TIME_BYTES]) {
            turn.call.changed = Some((address, bytes));
        }
    }

    /// Handles the end of a sleep.
    pub(super) fn slept(turn: &mut Turn, result: i64) {
        if result != BEGINS_ANEW {
            turn.interrupted = None;
        }
    }

    /// Moves the deadline of a wait by `futex` onto the clock of the host, by which the kernel ends
    /// the wait, at the same distance. By virtual time, it would have passed there long ago.
    pub(super) fn move_deadline(&self, turn: &Turn, record: &ThreadRecord) {
        let [_, operation, _, address] = turn.call.arguments;
        let Some(clock) = clock_of_deadline(operation as i32) else { return };
        let mut bytes = [0; TIME_BYTES];
        // A wait without a deadline has no address.
        if address == 0 || !read(address, &mut bytes) {
            return;
        }
        let virtual_now = self.clock(turn, record, clock);
        let now = host_clock(clock).zip(virtual_now);
        let Some(((host, now), deadline)) = now.zip(nanos_of(&bytes)) else { return };
        let moved = host.saturating_add(deadline.saturating_sub(now));
        if write_protected(address, &time_bytes(moved, 1)) {
            let birth = record.birth.load(Relaxed);
            self.deadlines().push(Moved { birth, address, bytes });
        }
    }

    /// Puts the moved deadlines of threads of these births back. Before the calling thread got its
    /// turn, the emulator has read those of the others.
    pub(super) fn put_back(&self, of: impl Fn(u64) -> bool) {
        self.deadlines().retain(|Moved { birth, address, bytes }| {
            let is_put_back = of(*birth);
            if is_put_back {
                write_protected(*address, bytes);
            }
            !is_put_back
        });
    }

    fn deadlines(&self) -> MutexGuard<'_, Vec<Moved>> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true once virtual time has reached `wakes`, or false if a signal came first.
    fn wait_until(&self, turn: &mut Turn, record: &'static ThreadRecord, wakes: u64) -> bool {
        record.wake.store(wakes, Relaxed);
        record.place.store(super::Place::Call as u32, Relaxed);
        record.state.store(ThreadState::Asleep as u32, Release);
        wake(&record.state);
        let mut whole = true;
        while record.state() == ThreadState::Asleep {
            match wait(&record.state, ThreadState::Asleep as u32, WATCH) {
                Woken::Changed => {}
                Woken::TimedOut => {
                    if !self.owner_lives() {
                        self.header().abandoned.store(1, Relaxed);
                    }
                }
                Woken::Interrupted => {
                    if record.change(ThreadState::Asleep, ThreadState::Waiting) {
                        whole = false;
                        let _ = self.park(turn, record, super::Place::Call);
                    }
                }
            }
            if self.is_abandoned() {
                return false;
            }
        }
        self.begin(turn, record);
        record.begin_call(turn.calls);
        whole
    }

    /// Replaces the host's results by virtual time and seeded random numbers.
    pub(super) fn fake(&self, turn: &Turn, record: &ThreadRecord, number: i64, result: i64) {
        let [first, second, ..] = turn.call.arguments;
        match number {
            libc::SYS_clock_gettime if result == 0 => {
                if let Some(time) = self.clock(turn, record, first as i32) {
                    write(second, &time_bytes(time, 1));
                }
            }
            libc::SYS_gettimeofday if result == 0 && first != 0 => {
                let time = self.header().epoch.load(Relaxed) + self.now(turn, record);
                write(first, &time_bytes(time, 1000));
            }
            libc::SYS_time if result > 0 && first != 0 => {
                let time = self.header().epoch.load(Relaxed) + self.now(turn, record);
                write(first, &(time / NANOS).to_le_bytes());
            }
            libc::SYS_getrandom if result > 0 => {
                let mut chance = self.chance(record);
                let bytes: Vec<u8> = (0..result).map(|_| (chance.next() >> 56) as u8).collect();
                write(first, &bytes);
            }
            _ => {}
        }
    }

    /// Returns the time that a clock shows; `None` for a clock of the host.
    fn clock(&self, turn: &Turn, record: &ThreadRecord, clock: i32) -> Option<u64> {
        let now = || self.now(turn, record);
        let used = |r: &ThreadRecord| r.used.load(Relaxed) / FEMTOS_PER_NANO;
        let pid = record.pid.load(Relaxed);
        // Threads that end are among those that have ended.
        let lives = |r: &&ThreadRecord| {
            r.pid.load(Relaxed) == pid
                && !matches!(r.state(), ThreadState::Free | ThreadState::Leaving)
        };
        match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => {
                Some(self.header().epoch.load(Relaxed) + now())
            }
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_BOOTTIME => Some(now()),
            libc::CLOCK_THREAD_CPUTIME_ID => Some(used(record)),
            libc::CLOCK_PROCESS_CPUTIME_ID => {
                let living: u64 = self.page.used().iter().filter(lives).map(used).sum();
                Some(living + self.ended.load(Relaxed))
            }
            // As `clock_getcpuclockid` and `pthread_getcpuclockid` make them: the complement of an
            // ID, zero for the caller, above a bit for threads and the number of the clock.
            of_id if of_id < 0 && of_id & 0b11 == CPU_TIME => {
                match (of_id & OF_THREAD, !(of_id >> 3) as u32) {
                    (0, id) if id == 0 || id == pid => {
                        self.clock(turn, record, libc::CLOCK_PROCESS_CPUTIME_ID)
                    }
                    (0, _) => None,
                    (_, 0) => Some(used(record)),
                    (_, tid) => {
                        let mut threads = self.page.used().iter().filter(lives);
                        threads.find(|r| r.tid.load(Relaxed) == tid).map(used)
                    }
                }
            }
            _ => None,
        }
    }

    /// Returns the random numbers for one system call, which are the same in every run of the
    /// batch.
    fn chance(&self, record: &ThreadRecord) -> Chance {
        let drawn = record.draws.fetch_add(1, Relaxed);
        let seed = self.header().seed.load(Relaxed);
        Chance(seed ^ record.birth.load(Relaxed).rotate_left(32) ^ drawn.rotate_left(48))
    }
}

/// Returns the clock of the deadline that a wait by `futex` may have; `None` for an operation
/// without one. The time of a plain wait is relative.
fn clock_of_deadline(operation: i32) -> Option<i32> {
    match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_LOCK_PI => Some(libc::CLOCK_REALTIME),
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI | libc::FUTEX_LOCK_PI2 => {
            let of_date = operation & libc::FUTEX_CLOCK_REALTIME != 0;
            Some(if of_date { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC })
        }
        _ => None,
    }
}

/// Returns the time that a clock of the host shows, in nanoseconds.
fn host_clock(clock: i32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the live `time`.
    let shown = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    shown.then(|| (time.tv_sec as u64).saturating_mul(NANOS).saturating_add(time.tv_nsec as u64))
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Returns the nanoseconds of a `timespec`; `None` for one that the kernel would refuse.
fn nanos_of(bytes: &[u8; TIME_BYTES]) -> Option<u64> {
    let (seconds, nanos) = bytes.split_at(8);
    let number = |bytes: &[u8]| Some(i64::from_le_bytes(bytes.try_into().ok()?));
    let (seconds, nanos) = (number(seconds)?, number(nanos)?);
    if seconds < 0 || !(0..NANOS as i64).contains(&nanos) {
        return None;
    }
    Some((seconds as u64).saturating_mul(NANOS).saturating_add(nanos as u64))
}

/// Encodes a `timespec`, or, with 1000 nanoseconds per `unit`, a `timeval`.
fn time_bytes(nanos: u64, unit: u64) -> [u8; TIME_BYTES] {
    let mut bytes = [0; TIME_BYTES];
    bytes[..8].copy_from_slice(&(nanos / NANOS).to_le_bytes());
    bytes[8..].copy_from_slice(&(nanos % NANOS / unit).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::time::Duration;

    use memweir_abi::softpmu::gate::{GatePage, MAGIC, VERSION};

    use super::*;

    /// Date at which the batches of the tests begin.
    const EPOCH: u64 = 1_000_000_000 * NANOS;

    /// Returns a gate at this virtual time in nanoseconds, to which no coordinator attends.
    fn gate_at(now: u64) -> Gate {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gate");
        let mut page = vec![0; size_of::<GatePage>()];
        page[..8].copy_from_slice(&MAGIC.to_le_bytes());
        page[8..16].copy_from_slice(&VERSION.to_le_bytes());
        std::fs::write(&path, page).unwrap();
        let gate = Gate::open(&CString::new(path.as_os_str().as_bytes()).unwrap(), 0).unwrap();
        gate.header().now.store(now, Relaxed);
        gate.header().epoch.store(EPOCH, Relaxed);
        gate
    }

    /// Returns the turn of thread `number`, which runs, in a call with these arguments.
    fn turn(gate: &Gate, number: usize, arguments: [u64; 4]) -> (Turn, &'static ThreadRecord) {
        let record = &gate.page.threads[number];
        record.state.store(ThreadState::Running as u32, Relaxed);
        let call = Call { arguments, ..Call::default() };
        (Turn { record: Some(record), call, ..Turn::default() }, record)
    }

    #[test]
    fn time_writes_the_virtual_date() {
        let gate = gate_at(5 * NANOS);
        let mut seconds = 0_u64.to_le_bytes();
        let address = seconds.as_mut_ptr() as u64;
        let (turn, record) = turn(&gate, 0, [address, 0, 0, 0]);
        gate.fake(&turn, record, libc::SYS_time, 1_700_000_000);
        let mut copy = [0; 8];
        assert!(read(address, &mut copy));
        assert_eq!(u64::from_le_bytes(copy), EPOCH / NANOS + 5);
    }

    #[test]
    fn every_clock_of_the_date_ends_a_sleep_that_is_over() {
        let gate = gate_at(5 * NANOS);
        let mut until = time_bytes(EPOCH + 4 * NANOS, 1);
        let address = until.as_mut_ptr() as u64;
        let absolute = libc::TIMER_ABSTIME as u64;
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_TAI] {
            let arguments = [clock as u64, absolute, address, 0];
            let (mut turn, record) = turn(&gate, 0, arguments);
            gate.sleep(&mut turn, record, libc::SYS_clock_nanosleep);
            assert_eq!(record.state(), ThreadState::Running, "clock {clock}");
            turn.call.restore();
        }
    }

    /// The host may have been started a moment ago, or have another date.
    #[test]
    fn an_absolute_sleep_that_is_over_does_not_depend_on_the_clocks_of_the_host() {
        let gate = gate_at(NANOS << 32);
        let mut until = time_bytes(NANOS << 32, 1);
        let (address, absolute) = (until.as_mut_ptr() as u64, libc::TIMER_ABSTIME as u64);
        let arguments = [libc::CLOCK_MONOTONIC as u64, absolute, address, 0];
        let (mut turn, record) = turn(&gate, 0, arguments);
        gate.sleep(&mut turn, record, libc::SYS_clock_nanosleep);
        assert_eq!(shown(address), Some(0));
        turn.call.restore();
        assert_eq!(shown(address), Some(NANOS << 32));
    }

    /// Returns the time at an address.
    fn shown(address: u64) -> Option<u64> {
        let mut copy = [0; TIME_BYTES];
        assert!(read(address, &mut copy));
        nanos_of(&copy)
    }

    #[test]
    fn a_sleep_goes_on_to_its_end_after_the_handler_of_a_signal() {
        let gate = gate_at(3 * NANOS);
        let mut length = time_bytes(5 * NANOS, 1);
        let arguments = [length.as_mut_ptr() as u64, 0, 0, 0];
        let (mut turn, _) = turn(&gate, 0, [0; 4]);
        let ends = |result: i64, turn: &mut Turn| {
            // It was to end at 2 s, and a handler has returned.
            turn.interrupted = Some((arguments, 2 * NANOS));
            gate.enter(turn, libc::SYS_rt_sigreturn, [0; 4]);
            gate.leave(turn, libc::SYS_rt_sigreturn, -513);
            gate.enter(turn, libc::SYS_nanosleep, arguments);
            gate.leave(turn, libc::SYS_nanosleep, result);
            turn.interrupted
        };
        assert_eq!(ends(BEGINS_ANEW, &mut turn), Some((arguments, 2 * NANOS)), "once more");
        assert_eq!(ends(0, &mut turn), None);
    }

    #[test]
    fn the_deadline_of_a_wait_is_at_the_same_distance_on_the_clock_of_the_host() {
        const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
        let gate = gate_at(5 * NANOS);
        for (flag, clock, now) in [
            (0, libc::CLOCK_MONOTONIC, 5 * NANOS),
            (libc::FUTEX_CLOCK_REALTIME as u64, libc::CLOCK_REALTIME, EPOCH + 5 * NANOS),
        ] {
            let mut deadline = time_bytes(now + 2 * NANOS, 1);
            let address = deadline.as_mut_ptr() as u64;
            let operation = libc::FUTEX_WAIT_BITSET as u64 | PRIVATE | flag;
            let (mut turn, record) = turn(&gate, 0, [0; 4]);
            let before = host_clock(clock).unwrap();
            gate.enter(&mut turn, libc::SYS_futex, [0, operation, 0, address]);
            let moved = shown(address).unwrap() - 2 * NANOS;
            assert!((before..=host_clock(clock).unwrap()).contains(&moved), "{clock}: {moved}");
            gate.leave(&mut turn, libc::SYS_futex, 0);
            assert_eq!(shown(address), Some(now + 2 * NANOS));
            assert_eq!(record.state(), ThreadState::Running);
        }
    }

    #[test]
    fn others_that_run_during_a_wait_find_its_deadline_as_it_was() {
        let gate = gate_at(0);
        let mut deadline = time_bytes(7, 1);
        let address = deadline.as_mut_ptr() as u64;
        let operation = libc::FUTEX_WAIT_BITSET as u64;
        let (mut waits, record) = turn(&gate, 0, [0; 4]);
        record.birth.store(1, Relaxed);
        gate.enter(&mut waits, libc::SYS_futex, [0, operation, 0, address]);
        assert_ne!(shown(address), Some(7));
        let (mut other, record) = turn(&gate, 1, [0; 4]);
        gate.begin(&mut other, record);
        assert_eq!(shown(address), Some(7));
        // They may set another one.
        assert!(write(address, &time_bytes(8, 1)));
        gate.leave(&mut waits, libc::SYS_futex, 0);
        assert_eq!(shown(address), Some(8));
    }

    #[test]
    fn times_that_are_relative_or_missing_stay_as_they_are() {
        let gate = gate_at(0);
        let mut time = time_bytes(7, 1);
        let address = time.as_mut_ptr() as u64;
        for (operation, address) in [
            (libc::FUTEX_WAIT, address),
            (libc::FUTEX_WAKE, address),
            (libc::FUTEX_REQUEUE, address),
            (libc::FUTEX_WAIT_BITSET, 0),
        ] {
            let (mut turn, _) = turn(&gate, 0, [0; 4]);
            gate.enter(&mut turn, libc::SYS_futex, [0, operation as u64, 0, address]);
            gate.leave(&mut turn, libc::SYS_futex, 0);
        }
        assert_eq!(shown(address), Some(7));
    }

    #[test]
    fn the_length_of_a_sleep_changes_for_the_system_call_alone() {
        const LENGTH: u64 = 5_123_456_789;
        let gate = gate_at(0);
        // 5 s and 0x75bcd15 ns, in memory that the program may only read.
        let length = b"\x05\0\0\0\0\0\0\0\x15\xcd\x5b\x07\0\0\0\0";
        let address = length.as_ptr() as u64;
        let (mut turn, record) = turn(&gate, 0, [address, 0, 0, 0]);
        let length = || {
            let mut copy = [0; TIME_BYTES];
            assert!(read(address, &mut copy));
            nanos_of(&copy)
        };
        let during = std::thread::scope(|scope| {
            let coordinator = scope.spawn(|| {
                let asleep = (0..2000).any(|_| {
                    std::thread::sleep(Duration::from_millis(1));
                    record.state() == ThreadState::Asleep
                });
                let during = (asleep, record.wake.load(Relaxed), length());
                record.change(ThreadState::Asleep, ThreadState::Running);
                wake(&record.state);
                during
            });
            gate.sleep(&mut turn, record, libc::SYS_nanosleep);
            coordinator.join().unwrap()
        });
        assert_eq!(during, (true, LENGTH, Some(LENGTH)));
        assert_eq!(length(), Some(0));
        turn.call.restore();
        assert_eq!(length(), Some(LENGTH));
    }

    #[test]
    fn the_cpu_time_of_a_process_keeps_that_of_threads_that_have_ended() {
        let gate = gate_at(0);
        let [(caller, record), (mut worker, ended)] =
            [0, 1].map(|number| turn(&gate, number, [0; 4]));
        gate.header().threads_used.store(2, Relaxed);
        record.used.store(3 * FEMTOS_PER_NANO, Relaxed);
        ended.used.store(4 * FEMTOS_PER_NANO, Relaxed);
        let cpu_time = || gate.clock(&caller, record, libc::CLOCK_PROCESS_CPUTIME_ID);
        assert_eq!(cpu_time(), Some(7));
        gate.enter(&mut worker, libc::SYS_exit, [0; 4]);
        assert_eq!((ended.state(), cpu_time()), (ThreadState::Leaving, Some(7)));
        // The kernel has forgotten it.
        assert!(ended.change(ThreadState::Leaving, ThreadState::Free));
        assert_eq!(cpu_time(), Some(7));
    }

    #[test]
    fn clocks_of_ids_show_the_virtual_cpu_time_of_this_process() {
        let gate = gate_at(0);
        let [(caller, record), (_, other)] = [0, 1].map(|number| turn(&gate, number, [0; 4]));
        gate.header().threads_used.store(2, Relaxed);
        for (record, tid, nanos) in [(record, 70, 3), (other, 71, 4)] {
            record.pid.store(70, Relaxed);
            record.tid.store(tid, Relaxed);
            record.used.store(nanos * FEMTOS_PER_NANO, Relaxed);
        }
        let shown = |id: i32, kind: i32| gate.clock(&caller, record, !id << 3 | kind);
        // 2 is the CPU time of a process, 6 that of a thread.
        assert_eq!([0, 70, 71].map(|id| shown(id, 2)), [Some(7), Some(7), None]);
        assert_eq!([0, 70, 71, 72].map(|id| shown(id, 6)), [Some(3), Some(3), Some(4), None]);
        assert_eq!(shown(0, 1), None, "user time");
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for nanos in [0, 1, 999_999_999, 1_000_000_000, 12_345_678_901_234] {
            assert_eq!(nanos_of(&time_bytes(nanos, 1)), Some(nanos));
        }
        assert_eq!(time_bytes(2_000_005_000, 1000)[8], 5, "microseconds");
        let negative = [0xff; TIME_BYTES];
        assert_eq!(nanos_of(&negative), None);
        let mut too_many = [0; TIME_BYTES];
        too_many[8..].copy_from_slice(&NANOS.to_le_bytes());
        assert_eq!(nanos_of(&too_many), None);
    }

    #[test]
    fn chance_is_the_published_sequence() {
        // The first outputs of SplitMix64 with the seed 1234567.
        let mut chance = Chance(1_234_567);
        assert_eq!(chance.next(), 6_457_827_717_110_365_317);
        assert_eq!(chance.next(), 3_203_168_211_198_807_973);
    }
}
