//! One paged program: its environment, its counters, and the looks at them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use memweir_abi::preload::ORDER_VARIABLE;
use memweir_abi::preload::page::{
    DirectRead, PAGE_ORDER_VARIABLE, PageCounter, PageCounters, PageOrder, PageProcess, Slowdown,
    UnpagedPrograms, WhenFull,
};
use memweir_core::input::Refusal;
use memweir_core::{Bytes, Seconds};
use memweir_linux::MissingFeature;
use memweir_linux::paging::{CountersFile, shared_memory};
use memweir_linux::preload::{self, NotStarted, Unreached};
use memweir_policy::paging::{LearnsBy, VICTIM_POLICIES, VictimEntry};

use super::killer::Killer;
use super::machine::Surroundings;
use super::outside::Outside;
use super::place::Nvm;
use super::timeline::Row;

/// Least DRAM of a program: its stacks, and the pages that are evicted at once.
pub const SMALLEST_DRAM: Bytes = Bytes(1 << 20);

/// Longest wait for a process that has ended to be counted.
const EXIT_COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request for paging.
#[derive(Clone, Debug)]
pub struct Request {
    /// Anonymous memory in DRAM that the program and all that it starts may have together.
    pub dram: Bytes,
    /// The place for evicted pages.
    pub nvm: Nvm,
    /// Effect of a read of such a page.
    pub direct_read: DirectRead,
    /// The policy that chooses victims.
    pub victims: &'static VictimEntry,
    /// The medium that is emulated.
    pub delay: Option<Slowdown>,
    /// Action when there is no room left.
    pub when_full: WhenFull,
    /// Treatment of programs that cannot be paged.
    pub unpaged: UnpagedPrograms,
}

impl Request {
    /// Returns the order for the library, whose counters are at the path `counters`.
    ///
    /// # Errors
    /// Refuses budgets that no program can keep, policies that learn by anything but faults, and
    /// places for evicted pages that this machine does not have.
    pub fn order(
        &self,
        here: &impl Surroundings,
        counters: String,
    ) -> Result<PageOrder, NotStarted> {
        if self.dram < SMALLEST_DRAM {
            let least = SMALLEST_DRAM;
            return Err(Refusal::new(
                format!(
                    "{} of DRAM are less than what must stay there: a program's stacks and the pages \
                     that are moved at once, {least}",
                    self.dram
                ),
                format!("`--dram {}M` is the least", least.0 >> 20),
            )
            .into());
        }
        if self.victims.learns_by != LearnsBy::Faults {
            let usable = VICTIM_POLICIES.iter().filter(|entry| entry.learns_by == LearnsBy::Faults);
            let names: Vec<&str> = usable.map(|entry| entry.name).collect();
            return Err(Refusal::new(
                format!(
                    "`{}` goes by scans for written pages, and the kernel scans no memory that is protected \
                     from writes while pages leave it",
                    self.victims.name
                ),
                format!("for a running program: {}", names.join(", ")),
            )
            .into());
        }
        let (nvm, nvm_size) = self.nvm.check(here)?;
        Ok(PageOrder {
            dram: self.dram,
            nvm,
            nvm_size,
            direct_read: self.direct_read,
            victims: self.victims.name.to_owned(),
            delay: self.delay,
            when_full: self.when_full,
            unpaged: self.unpaged,
            counters,
        })
    }
}

/// A program that can be started paged: put [`environment`](Self::environment) into it, call
/// [`look`](Self::look) while it runs, and keep this until it has ended.
#[derive(Debug)]
pub struct Paged {
    order: PageOrder,
    environment: Vec<(OsString, OsString)>,
    counters: CountersFile,
    begun: Instant,
    killer: Killer,
    outside: Outside,
    seen: Seen,
    /// Processes that have ended and were not counted in the end, because their helper had died.
    uncounted: Vec<u32>,
}

/// Findings of the looks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Time of the last one.
    at: Seconds,
    /// The last in which there were processes.
    last: Option<Row>,
    /// Bytes in NVM times seconds, up to then.
    nvm_seconds: f64,
    /// The most anonymous memory in DRAM of all processes together, paged or not.
    most: Bytes,
    /// The most shared memory in DRAM of one paged process.
    shared: Bytes,
}

/// A look at a program that runs.
#[derive(Clone, Debug)]
pub struct Look {
    /// For the timeline.
    pub row: Row,
    /// Everything.
    pub counters: PageCounters,
    /// A process that was ended because there was no room left.
    pub ended: Option<PageProcess>,
}

impl Paged {
    /// Prepares `request`. The program itself is checked by
    /// [`check_program`](preload::check_program).
    ///
    /// # Errors
    /// Refuses wrong requests, and machines that lack something needed.
    pub fn prepare(request: &Request, here: &impl Surroundings) -> Result<Self, NotStarted> {
        if std::env::var_os(ORDER_VARIABLE).is_some() {
            return Err(Refusal::new(
                "a colored program cannot be paged: both would answer its page faults",
                "start it outside `memweir color run`",
            )
            .into());
        }
        // The outer run takes every program with the library for its own, and would not count it.
        if std::env::var_os(PAGE_ORDER_VARIABLE).is_some() {
            return Err(Refusal::new(
                "a paged program cannot be paged again: it would leave the first budget unseen",
                "start it outside the other `memweir page run`",
            )
            .into());
        }
        let counters = CountersFile::new().map_err(|e| {
            MissingFeature::new(format!("no memory for counters: {e}"), "free memory")
        })?;
        let order = request.order(here, counters.path().display().to_string())?;
        let environment =
            vec![preload::variable()?, (PAGE_ORDER_VARIABLE.into(), order.to_string().into())];
        let processes = Unreached::descendants(&preload::library()?)?;
        let (killer, seen) = (Killer::default(), Seen::default());
        let outside = Outside::new(processes, request.unpaged);
        let (begun, uncounted) = (Instant::now(), Vec::new());
        Ok(Self { order, environment, counters, begun, killer, outside, seen, uncounted })
    }

    /// Returns the variables to set in the program's environment.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Returns the order that the library was given.
    #[must_use]
    pub fn order(&self) -> &PageOrder {
        &self.order
    }

    /// Returns the processes that were ended because there was no room left, in order.
    #[must_use]
    pub fn ended(&self) -> &[u32] {
        self.killer.ended()
    }

    /// Returns the processes whose helper died before them, by the last look.
    #[must_use]
    pub fn uncounted(&self) -> &[u32] {
        &self.uncounted
    }

    /// Returns the programs that were started and not paged.
    #[must_use]
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns the peak of the anonymous memory in DRAM of all processes together. Paged processes
    /// count whenever one of them looked, the others only at the looks from here.
    #[must_use]
    pub fn dram_peak(&self, counters: &PageCounters) -> Bytes {
        self.seen.most.max(Bytes(counters.get(PageCounter::DramPeakBytes)))
    }

    /// Returns the peak of the shared memory in DRAM of one paged process, at the looks. It had at
    /// least so much, since all of its pages in NVM are taken for shared.
    #[must_use]
    pub fn shared_peak(&self) -> Bytes {
        self.seen.shared
    }

    /// Looks at the counters and at programs that are not paged, and ends processes where that was
    /// requested and is necessary.
    ///
    /// # Errors
    /// If the counters, or `/proc`, cannot be read.
    pub fn look(&mut self) -> io::Result<Look> {
        let counters = self.counters.read()?;
        let at = Seconds(self.begun.elapsed().as_secs_f64());
        self.outside.look(self.begun.elapsed())?;
        let row = row(at, &counters, self.outside.anonymous());
        self.seen.most = self.seen.most.max(row.dram_resident_bytes + row.dram_unpaged_bytes);
        let processes: Vec<PageProcess> = counters.processes().collect();
        if !processes.is_empty() {
            self.seen.last = Some(row);
        }
        self.seen.shared = self.seen.shared.max(self.shared(&counters)?);
        self.seen.nvm_seconds += Bytes(counters.relieved()).as_f64() * (at.0 - self.seen.at.0);
        self.seen.at = at;
        let ended = match self.order.when_full {
            WhenFull::Stop => None,
            WhenFull::EndLargest => self.killer.choose(&processes, self.order.dram),
        };
        if let Some(process) = ended {
            // It may have ended by itself meanwhile.
            let _ = self.counters.end(process.process);
        }
        Ok(Look { row, counters, ended })
    }

    /// Returns the most shared memory in DRAM that one process has besides its pages in NVM: where
    /// they are mapped, the kernel counts them as shared memory as well.
    fn shared(&self, counters: &PageCounters) -> io::Result<Bytes> {
        let before = nvm(counters);
        let mapped: Vec<Bytes> = before.keys().map(|process| shared_memory(*process)).collect();
        let after = nvm(&self.counters.read()?);
        // Pages may have come to NVM before the kernel was asked, or left it afterwards: with one
        // reading they would be taken for the program's own.
        let besides = |((process, before), mapped): ((&u32, &Bytes), Bytes)| {
            Some(mapped.saturating_sub(*before.max(after.get(process)?)))
        };
        Ok(before.iter().zip(mapped).filter_map(besides).max().unwrap_or_default())
    }

    /// Takes the last look, when the program has ended, after waiting until the processes that have
    /// ended are counted. Their helpers do that, unless they have died.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn last_look(&mut self) -> io::Result<Look> {
        let begun = Instant::now();
        let is_gone = |process: &PageProcess| {
            let entry = format!("/proc/{}", process.process);
            !std::fs::exists(entry).unwrap_or(false)
        };
        loop {
            let counters = self.counters.read()?;
            let gone = counters.processes().filter(is_gone);
            self.uncounted = gone.map(|process| process.process).collect();
            if self.uncounted.is_empty() || begun.elapsed() >= EXIT_COUNT_TIMEOUT {
                return self.look();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the row of the last look at which the program ran; `None` if it ended before any.
    #[must_use]
    pub fn last_running(&self) -> Option<Row> {
        self.seen.last
    }

    /// Returns the memory by which paging relieved DRAM: in NVM and not in DRAM, averaged over the
    /// run.
    #[must_use]
    pub fn relieved(&self) -> Bytes {
        let span = self.seen.at.0;
        Bytes(if span > 0.0 { (self.seen.nvm_seconds / span) as u64 } else { 0 })
    }
}

/// Returns the bytes in NVM of each process. One that has just started another program has two
/// entries, until the helper of the former program is gone.
fn nvm(counters: &PageCounters) -> BTreeMap<u32, Bytes> {
    counters.processes().fold(BTreeMap::new(), |mut all, entry| {
        *all.entry(entry.process).or_default() += entry.nvm;
        all
    })
}

fn row(t_s: Seconds, counters: &PageCounters, dram_unpaged_bytes: Bytes) -> Row {
    let bytes = |counter| Bytes(counters.get(counter));
    Row {
        t_s,
        evictions: counters.get(PageCounter::Evictions),
        direct_reads: counters.get(PageCounter::DirectReads),
        copies_in: counters.copies_in(),
        copies_avoided: counters.copies_avoided(),
        dram_resident_bytes: bytes(PageCounter::DramResidentBytes),
        nvm_used_bytes: bytes(PageCounter::NvmUsedBytes),
        dram_unpaged_bytes,
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::page::{PAGE_COUNTERS_BYTES, process_word};

    use super::*;

    #[test]
    fn a_row_has_what_was_counted() {
        // Evictions, direct reads, upgrades and straight copies are counters 2, 5, 6 and 7.
        let words = [1u64, 0, 40, 0, 0, 9, 3, 4, 0, 0, 8192, 0, 4096];
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let row = row(Seconds(1.5), &PageCounters::of(&content), Bytes(7));
        let expected = Row {
            t_s: Seconds(1.5),
            evictions: 40,
            direct_reads: 9,
            copies_in: 7,
            copies_avoided: 6,
            dram_resident_bytes: Bytes(4096),
            nvm_used_bytes: Bytes(8192),
            dram_unpaged_bytes: Bytes(7),
        };
        assert_eq!(row, expected);
    }
    #[test]
    fn a_process_of_two_programs_has_the_nvm_of_both() {
        let mut words = vec![0u64; PAGE_COUNTERS_BYTES / 8];
        for (entry, (process, nvm)) in [(7, 4), (8, 2), (7, 1)].into_iter().enumerate() {
            words[process_word(entry)] = process;
            words[process_word(entry) + 2] = nvm;
        }
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = BTreeMap::from([(7, Bytes(5)), (8, Bytes(2))]);
        assert_eq!(nvm(&PageCounters::of(&content)), expected);
    }
}
