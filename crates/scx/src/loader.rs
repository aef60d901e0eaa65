//! Loading the scheduler with libbpf.

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::Mutex;

use libbpf_rs::{
    Link, MapCore, MapFlags, Object, ObjectBuilder, PerfEventOpts, PrintLevel, ProgramInput,
    ProgramMut,
};
use memmap2::{MmapOptions, MmapRaw};

use crate::budgets::Account;
use crate::host;
use crate::selection::Shared;
use crate::slots::Slots;
use crate::{Budgets, Counter, Ended, LoadError, SLOTS, Scheduler, Slot, Usage};

/// The compiled program, at an address that an ELF file may have.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static PROGRAM: &Aligned<[u8]> = &Aligned(*include_bytes!("../bpf/memweir.bpf.o"));

/// Lines of libbpf's messages that an error quotes.
const QUOTED_LINES: usize = 12;

/// Messages of libbpf since the last load began.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Programs that are loaded with [`Budgets::On`] alone.
const BUDGET_PROGRAMS: [&str; 2] = ["charge", "start_periods"];

/// A scheduler in the kernel. The fields are dropped in this order: first the link, upon which the
/// kernel ends the scheduler.
pub(crate) struct Loaded {
    _link: Link,
    /// The counters of each slot with a budget.
    charging: BTreeMap<Slot, Vec<Charging>>,
    /// True once the timer of the periods runs.
    has_periods: bool,
    memory: Memory<Shared>,
    accounts: Memory<[Account; SLOTS]>,
    budgets: Budgets,
    slots: Slots,
    object: Object,
}

/// A counter that charges a budget until it is dropped.
struct Charging {
    /// Closes the event.
    _link: Link,
    event: RawFd,
}

impl Charging {
    fn event(&self) -> BorrowedFd<'_> {
        // SAFETY: only the link closes the event, when both are dropped.
        unsafe { BorrowedFd::borrow_raw(self.event) }
    }
}

impl Loaded {
    /// Loads the program and makes it the scheduler of its class.
    pub(crate) fn load(budgets: Budgets) -> Result<Self, LoadError> {
        MESSAGES.lock().expect("no panic while it is locked").clear();
        let printed_before = libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
        let loaded = Self::try_load(budgets);
        libbpf_rs::set_print(printed_before);
        loaded.map_err(|error| LoadError::Refused(explain(&error)))
    }

    fn try_load(budgets: Budgets) -> Result<Self, libbpf_rs::Error> {
        let mut open = ObjectBuilder::default().open_memory(&PROGRAM.0)?;
        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
        for mut map in open.maps_mut() {
            if map.name() == "running_slots" {
                map.set_max_entries(cpus)?;
            }
        }
        for mut program in open.progs_mut() {
            if BUDGET_PROGRAMS.iter().any(|name| program.name() == *name) {
                program.set_autoload(budgets == Budgets::On);
            }
        }
        let mut object = open.load()?;
        let memory = Memory::map(&find(&object, "shared")?)?;
        let accounts = Memory::map(&find(&object, "budgets")?)?;
        let mut operations = object
            .maps_mut()
            .find(|map| map.name() == "scheduler")
            .ok_or_else(|| missing("scheduler"))?;
        let link = operations.attach_struct_ops()?;
        Ok(Self {
            _link: link,
            charging: BTreeMap::new(),
            has_periods: false,
            memory,
            accounts,
            budgets,
            slots: Slots::default(),
            object,
        })
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>, libbpf_rs::Error> {
        let mut programs = self.object.progs_mut();
        programs.find(|program| program.name() == name).ok_or_else(|| missing(name))
    }

    /// Runs a program that is a system call.
    fn run(&self, name: &str) -> Result<(), libbpf_rs::Error> {
        let output = self.program(name)?.test_run(ProgramInput::default())?;
        match i32::from_ne_bytes(output.return_value.to_ne_bytes()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error).into()),
        }
    }

    /// Lets a counter charge the budget of a slot.
    fn charge(&self, slot: Slot, counter: Counter) -> Result<Charging, libbpf_rs::Error> {
        let cookie = u64::from(counter.lines) << 32 | u64::from(slot.number());
        let options = PerfEventOpts { cookie, ..PerfEventOpts::default() };
        let event = counter.event.as_raw_fd();
        let link = self.program("charge")?.attach_perf_event_with_opts(event, options)?;
        // The link closes it.
        Ok(Charging { _link: link, event: counter.event.into_raw_fd() })
    }

    fn account(&self, slot: Slot) -> &Account {
        &self.accounts.content()[slot.index()]
    }
}

impl Scheduler for Loaded {
    fn admit(&mut self, group: u64) -> io::Result<Slot> {
        let slot = self.slots.take().ok_or_else(|| {
            io::Error::other(format!("the scheduler has room for {SLOTS} jobs at once"))
        })?;
        let number = u32::from(slot.number()).to_ne_bytes();
        let jobs = find(&self.object, "jobs").map_err(io::Error::other)?;
        if let Err(error) = jobs.update(&group.to_ne_bytes(), &number, MapFlags::ANY) {
            self.slots.give_back(slot);
            return Err(io::Error::other(error));
        }
        Ok(slot)
    }

    fn dismiss(&mut self, group: u64, slot: Slot) -> io::Result<()> {
        let jobs = find(&self.object, "jobs").map_err(io::Error::other)?;
        jobs.delete(&group.to_ne_bytes()).map_err(io::Error::other)?;
        self.charging.remove(&slot);
        self.account(slot).clear();
        self.slots.give_back(slot);
        Ok(())
    }

    fn select(&mut self, slots: &[Slot]) -> io::Result<()> {
        self.memory.content().select(slots);
        self.run("kick").map_err(io::Error::other)
    }

    fn limit(&mut self, slot: Slot, lines: u32, counters: Vec<Counter>) -> io::Result<()> {
        if self.budgets == Budgets::Off {
            return Err(io::Error::other("the scheduler was loaded without budgets"));
        }
        if !self.has_periods {
            self.run("start_periods").map_err(io::Error::other)?;
            self.has_periods = true;
        }
        let charging: Result<Vec<Charging>, _> =
            counters.into_iter().map(|counter| self.charge(slot, counter)).collect();
        self.charging.insert(slot, charging.map_err(io::Error::other)?);
        self.account(slot).limit(lines);
        Ok(())
    }

    fn usage(&self, slot: Slot) -> Usage {
        self.account(slot).usage()
    }

    fn events(&self, slot: Slot) -> Vec<BorrowedFd<'_>> {
        self.charging.get(&slot).into_iter().flatten().map(Charging::event).collect()
    }

    fn hotplugs(&self) -> u64 {
        host::hotplugs()
    }

    fn ended(&self) -> Option<Ended> {
        self.memory.content().ended()
    }
}

/// The mapped memory of a map whose content is a `T`.
struct Memory<T>(MmapRaw, PhantomData<T>);

impl<T: Atomics> Memory<T> {
    fn map(map: &libbpf_rs::Map<'_>) -> Result<Self, libbpf_rs::Error> {
        let size = std::mem::size_of::<T>();
        if (map.value_size() as usize) * (map.max_entries() as usize) < size {
            return Err(missing(&map.name().to_string_lossy()));
        }
        Ok(Self(MmapOptions::new().len(size).map_raw(&map.as_fd())?, PhantomData))
    }

    fn content(&self) -> &T {
        // SAFETY: the mapping is page-aligned, zeroed at first, as long as `T`, and lives as long
        // as `self`. `T` consists of atomics alone, so the kernel may write to it, too, and every
        // content is valid.
        unsafe { &*self.0.as_ptr().cast::<T>() }
    }
}

/// Content of a map that both sides may write at any time.
///
/// # Safety
/// The type consists of atomics alone, in the layout of the program's.
unsafe trait Atomics {}
// SAFETY: tests compare both with the program's source.
unsafe impl Atomics for Shared {}
// SAFETY: likewise.
unsafe impl Atomics for [Account; SLOTS] {}

fn find<'object>(
    object: &'object Object,
    name: &str,
) -> Result<libbpf_rs::Map<'object>, libbpf_rs::Error> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> libbpf_rs::Error {
    io::Error::other(format!("the program has no `{name}` of this layout")).into()
}

fn remember(_level: PrintLevel, message: String) {
    MESSAGES.lock().expect("no panic while it is locked").push(message);
}

/// The error with the last of libbpf's messages, which name the refused instruction or symbol.
fn explain(error: &libbpf_rs::Error) -> String {
    let messages = MESSAGES.lock().expect("no panic while it is locked").join("");
    let lines: Vec<&str> = messages.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    if last.is_empty() { format!("{error:#}") } else { format!("{error:#}\n{}", last.join("\n")) }
}
