//! Huge pages whose physical addresses are known, and timed reads of them: the means to observe how
//! the memory controller places addresses.
//!
//! Nothing here decides which addresses are read, or what latencies mean. Opening an arena pins the
//! thread to its processor and, where transparent huge pages cannot be had, raises the pool of huge
//! pages for as long as it takes to fill them; both are put back.

mod huge;
mod pagemap;
mod timing;

use std::io;

use memweir_core::{Bytes, PhysAddr};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::OsError;
use crate::hog::pin_thread;
use huge::HugePages;

/// Bytes of a huge page, the smallest piece of an arena.
pub const HUGE: Bytes = Bytes(2 << 20);
/// Fewest huge pages that a measurement needs.
const FEWEST: usize = 16;

/// Why memory cannot be timed here.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The processor lacks an instruction, or its architecture is not supported.
    #[error("this processor cannot time uncached reads: {0}")]
    Processor(String),
    /// Physical addresses are hidden.
    #[error(
        "physical addresses are hidden: /proc/self/pagemap tells them with CAP_SYS_ADMIN only; run \
         memweir as root, or give it the capability (setcap cap_sys_admin+ep)"
    )]
    Addresses,
    /// Too few huge pages.
    #[error(
        "only {got} huge pages of 2 MiB could be had, {FEWEST} are needed: free memory, allow \
         transparent huge pages (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled), or \
         reserve some (echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)"
    )]
    HugePages {
        /// Number of huge pages obtained.
        got: usize,
    },
    /// The system refused something else.
    #[error(transparent)]
    System(#[from] OsError),
}

/// Huge pages at known physical addresses, on one processor.
#[derive(Debug)]
pub struct Arena {
    pages: HugePages,
    /// Physical start of each contiguous huge page, and its offset in the mapping, ascending.
    places: Vec<(PhysAddr, usize)>,
    timer: timing::Timer,
    affinity: CpuSet,
}

impl Arena {
    /// Opens an arena of at most `bytes` of huge pages; less where the system has less.
    ///
    /// # Errors
    /// If the processor, the privileges or the memory do not suffice; the message has help.
    pub fn open(bytes: Bytes) -> Result<Self, ArenaError> {
        let timer = timing::Timer::new()?;
        let mut got = 0;
        for reserve in [huge::Kind::Transparent, huge::Kind::Reserved] {
            let Ok(pages) = HugePages::new(bytes, reserve) else { continue };
            let places = pagemap::huge_pages(&pages)?;
            got = got.max(places.len());
            if places.len() >= FEWEST {
                let affinity = pin().map_err(OsError::of("pinning to a processor"))?;
                return Ok(Self { pages, places, timer, affinity });
            }
        }
        Err(ArenaError::HugePages { got })
    }

    /// Returns the physical start of each huge page, ascending.
    pub fn pages(&self) -> impl Iterator<Item = PhysAddr> {
        self.places.iter().map(|(start, _)| *start)
    }

    /// Returns the cycles of the time stamp counter that reading both lines once from memory takes:
    /// the median over parts of `rounds` rounds. Returns `None` if an address is not in the arena.
    pub fn time(&self, a: PhysAddr, b: PhysAddr, rounds: u32) -> Option<f64> {
        let (a, b) = (self.line(a)?, self.line(b)?);
        Some(self.timer.pair(a, b, rounds))
    }

    fn line(&self, address: PhysAddr) -> Option<&u8> {
        let next = self.places.partition_point(|(start, _)| *start <= address);
        let (start, place) = self.places[next.checked_sub(1)?];
        let within = address.0 - start.0;
        (within < HUGE.0).then(|| &self.pages.bytes()[place + within as usize])
    }

    /// Returns true if every page is still where it was when the arena was opened.
    ///
    /// # Errors
    /// If physical addresses cannot be read any more.
    pub fn unmoved(&self) -> Result<bool, ArenaError> {
        Ok(pagemap::huge_pages(&self.pages)? == self.places)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // The thread may go on with other work; if this fails it stays where it is, which is legal.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.affinity);
    }
}

/// Pins the thread to the processor that it is on; returns where it could run before.
fn pin() -> io::Result<CpuSet> {
    let before = sched_getaffinity(Pid::from_raw(0))?;
    pin_thread(nix::sched::sched_getcpu()?)?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_timed_where_they_lie() {
        let arena = match Arena::open(Bytes(64 << 20)) {
            Ok(arena) => arena,
            Err(error) => return memweir_test_support::skip!(Privilege, "{error}"),
        };
        let pages: Vec<PhysAddr> = arena.pages().collect();
        assert!(pages.len() >= FEWEST && pages.is_sorted());
        assert!(pages.iter().all(|page| page.0 % HUGE.0 == 0 && page.0 > 0));
        let cycles = arena.time(pages[0], PhysAddr(pages[1].0 + 4096), 96).expect("both are there");
        assert!(cycles > 20.0, "two reads from memory took {cycles} cycles");
        assert_eq!(arena.time(pages[0], PhysAddr(64), 1), None);
        let before = arena.affinity;
        drop(arena);
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).expect("an affinity"), before);
    }
}
