//! Time and random numbers of a program in virtual time.
//!
//! Clocks show virtual time, sleeps end in it, and random bytes come from the seed. All of this is
//! done by writing the program's memory around the system call. So values that a call returns in a
//! register (`time` without a pointer) or that need no system call (`rdtsc`) stay the host's, as do
//! timers that send signals and the timeouts of `poll` and similar calls.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

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
    /// Memory of the program that was changed for the call, as it was before.
    pub(super) changed: Option<(u64, [u8; TIME_BYTES])>,
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
            (false, _) => now.saturating_add(length),
            (true, libc::CLOCK_REALTIME | libc::CLOCK_TAI) => {
                length.saturating_sub(self.header().epoch.load(Relaxed))
            }
            (true, _) => length,
        };
        if wakes > now && !self.wait_until(turn, record, wakes) {
            return;
        }
        // Until now, other threads could read the length, and sleep by it too. For an absolute
        // sleep, a clock of the host that is ahead of virtual time ends the call anyway.
        if !absolute && write_protected(address, &[0; TIME_BYTES]) {
            turn.call.changed = Some((address, bytes));
        }
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
        turn.start = record.used.load(Relaxed);
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
        let call = Call { arguments, changed: None };
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
        let until = time_bytes(EPOCH + 4 * NANOS, 1);
        let absolute = libc::TIMER_ABSTIME as u64;
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_TAI] {
            let arguments = [clock as u64, absolute, until.as_ptr() as u64, 0];
            let (mut turn, record) = turn(&gate, 0, arguments);
            gate.sleep(&mut turn, record, libc::SYS_clock_nanosleep);
            assert_eq!(record.state(), ThreadState::Running, "clock {clock}");
        }
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
