//! Loading the scheduler with libbpf.

use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, ProgramInput};
use memmap2::{MmapOptions, MmapRaw};

use crate::selection::Shared;
use crate::slots::Slots;
use crate::{Ended, LoadError, SLOTS, Scheduler, Slot};

/// The compiled program, at an address that an ELF file may have.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static PROGRAM: &Aligned<[u8]> = &Aligned(*include_bytes!("../bpf/memweir.bpf.o"));

/// Lines of libbpf's messages that an error quotes.
const QUOTED_LINES: usize = 12;

/// Messages of libbpf since the last load began.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A scheduler in the kernel. The fields are dropped in this order: first the link, upon which the
/// kernel ends the scheduler.
pub(crate) struct Loaded {
    _link: Link,
    memory: Memory,
    slots: Slots,
    object: Object,
}

impl Loaded {
    /// Loads the program and makes it the scheduler of its class.
    pub(crate) fn load() -> Result<Self, LoadError> {
        MESSAGES.lock().expect("no panic while it is locked").clear();
        let printed_before = libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
        let loaded = Self::try_load();
        libbpf_rs::set_print(printed_before);
        loaded.map_err(|error| LoadError::Refused(explain(&error)))
    }

    fn try_load() -> Result<Self, libbpf_rs::Error> {
        let mut open = ObjectBuilder::default().open_memory(&PROGRAM.0)?;
        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
        for mut map in open.maps_mut() {
            if map.name() == "running_slots" {
                map.set_max_entries(cpus)?;
            }
        }
        let mut object = open.load()?;
        let memory = Memory::map(&find(&object, "shared")?)?;
        let mut operations = object
            .maps_mut()
            .find(|map| map.name() == "scheduler")
            .ok_or_else(|| missing("scheduler"))?;
        let link = operations.attach_struct_ops()?;
        Ok(Self { _link: link, memory, slots: Slots::default(), object })
    }

    /// Runs the program that makes CPUs follow the selection.
    fn kick(&self) -> Result<(), libbpf_rs::Error> {
        let mut programs = self.object.progs_mut();
        let kick = programs.find(|program| program.name() == "kick");
        kick.ok_or_else(|| missing("kick"))?.test_run(ProgramInput::default()).map(drop)
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
        self.slots.give_back(slot);
        Ok(())
    }

    fn select(&mut self, slots: &[Slot]) -> io::Result<()> {
        self.memory.shared().select(slots);
        self.kick().map_err(io::Error::other)
    }

    fn ended(&self) -> Option<Ended> {
        self.memory.shared().ended()
    }
}

/// The mapped memory of the map `shared`.
struct Memory(MmapRaw);

impl Memory {
    fn map(map: &libbpf_rs::Map<'_>) -> Result<Self, libbpf_rs::Error> {
        let size = std::mem::size_of::<Shared>();
        if (map.value_size() as usize) < size {
            return Err(missing("shared"));
        }
        Ok(Self(MmapOptions::new().len(size).map_raw(&map.as_fd())?))
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is page-aligned, zeroed at first, as long as `Shared`, and lives as
        // long as `self`. `Shared` consists of atomics alone, so the kernel may write to it, too,
        // and every content is valid.
        unsafe { &*self.0.as_ptr().cast::<Shared>() }
    }
}

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
