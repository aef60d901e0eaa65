//! Colors that a process really uses, page by page.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{Entry, entry_offset};
use memweir_abi::preload::Order;
use memweir_core::PhysAddr;
use memweir_core::address_map::{Color, ColorSet, Coloring};
use memweir_linux::is_gone;
use serde::Serialize;

use crate::counters::entry_of;
use crate::run::privileged;
use crate::{ColorError, machine};

/// Kind of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Memory from `brk`.
    Heap,
    /// Private memory without a file: large allocations, thread stacks, zeroed data.
    Anonymous,
    /// The stack of the first thread.
    Stack,
    /// Files, their private copies included, and memory that is shared.
    File,
    /// Pages that the preload library holds for the program, not yet its own.
    Pool,
}

/// Present pages of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// All of them.
    pub pages: u64,
    /// Those of the requested colors.
    pub inside: u64,
    /// Pages of each color.
    pub colors: BTreeMap<u32, u64>,
}

/// An audit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// The process.
    pub pid: u32,
    /// Number of colors.
    pub color_count: u32,
    /// The colors that the process should use; all of them if it was given none.
    pub asked: String,
    /// The cache colors that it should use, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_cache: Option<String>,
    /// By kind.
    pub kinds: BTreeMap<Kind, Pages>,
    /// Pages of the program's own memory: heap, anonymous, stack.
    pub own: Pages,
    /// Part of [`own`](Self::own) that is inside, from 0 to 1; 1 if there is none.
    pub inside_share: f64,
}

/// Returns the order that the process was started with, if `memweir color run` started it and still
/// runs: from the entry that the process's library made in the counters. (Programs overwrite their
/// environment.)
#[must_use]
pub fn order_of(pid: u32) -> Option<Order> {
    entry_of(pid).map(|(order, _)| order)
}

/// Audits every present page of process `pid`. If these are the colors that it was started in, its
/// pages should have its cache colors, too.
///
/// # Errors
/// Gives the reason for which the process cannot be audited.
pub fn audit(pid: u32, coloring: &Coloring, asked: &ColorSet) -> Result<Audit, ColorError> {
    privileged()?;
    let unreadable = |error| unreadable(pid, &error);
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(unreadable)?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(unreadable)?;
    let flags = File::open("/proc/kpageflags").ok();
    let (order, pools) = entry_of(pid).unzip();
    let order = order.filter(|order| order.coloring == *coloring && order.colors == *asked);
    let cache = order.and_then(|order| order.cache);
    let count = counting(flags.as_ref(), coloring, asked, cache.as_ref());
    let kinds = kinds(&maps, &pagemap, pools.unwrap_or_default(), count);
    let own = own(&kinds);
    let inside_share = if own.pages == 0 { 1.0 } else { own.inside as f64 / own.pages as f64 };
    let (color_count, asked) = (coloring.colors(), asked.to_string());
    let asked_cache = cache.as_ref().map(|(_, colors)| colors.to_string());
    Ok(Audit { pid, color_count, asked, asked_cache, kinds, own, inside_share })
}

/// Kinds of the program's own memory.
const OWN: [Kind; 3] = [Kind::Heap, Kind::Anonymous, Kind::Stack];

/// Returns what counts a frame by its color, unless it is the shared page of zeros.
fn counting(
    flags: Option<&File>,
    coloring: &Coloring,
    asked: &ColorSet,
    cache: Option<&(Coloring, ColorSet)>,
) -> impl Fn(&mut Pages, u64) {
    move |pages, frame| {
        if is_zero_page(flags, frame) {
            return;
        }
        let address = PhysAddr(frame * PAGE_BYTES as u64);
        let color = coloring.color_of(address);
        let in_cache = cache.is_none_or(|(cache, asked)| asked.contains(cache.color_of(address)));
        // Below its offset a map says nothing.
        let inside = in_cache && asked.contains(color) && address.0 >= coloring.offset();
        pages.count(color, inside);
    }
}

/// Calls `count` for the frame of each present page of the mappings `maps`, with the pages of its
/// kind. The program's own kinds are there even without pages.
fn kinds(
    maps: &str,
    pagemap: &File,
    pools: [u64; 4],
    count: impl Fn(&mut Pages, u64),
) -> BTreeMap<Kind, Pages> {
    let mut kinds = BTreeMap::from(OWN.map(|kind| (kind, Pages::default())));
    for (start, end, mut kind) in maps.lines().filter_map(mapping) {
        if pools.chunks(2).any(|range| range[0] <= start && end <= range[1]) {
            kind = Kind::Pool;
        }
        let pages = kinds.entry(kind).or_default();
        frames(pagemap, start, end, |frame| count(pages, frame));
    }
    kinds
}

/// Returns the pages of the program's own memory.
fn own(kinds: &BTreeMap<Kind, Pages>) -> Pages {
    let mut own = Pages::default();
    OWN.iter().filter_map(|kind| kinds.get(kind)).for_each(|pages| own.join(pages));
    own
}

/// Returns the error for a process whose memory cannot be read.
fn unreadable(pid: u32, error: &io::Error) -> ColorError {
    let exists = Path::new(&format!("/proc/{pid}")).exists();
    if is_gone(error) && !exists {
        machine(format!("there is no process {pid}"), "name a process that runs")
    } else if is_gone(error) {
        machine(
            format!("process {pid} has no memory of its own: it is the kernel's, or has ended"),
            "name a program that runs",
        )
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        machine(
            format!("the kernel does not let memweir look into process {pid}: {error}"),
            "run as root with CAP_SYS_PTRACE, outside of a container that withholds it",
        )
    } else {
        machine(format!("process {pid}: {error}"), "try again")
    }
}

impl Pages {
    fn count(&mut self, color: Color, inside: bool) {
        self.pages += 1;
        self.inside += u64::from(inside);
        *self.colors.entry(color.0).or_default() += 1;
    }

    fn join(&mut self, other: &Self) {
        self.pages += other.pages;
        self.inside += other.inside;
        for (color, pages) in &other.colors {
            *self.colors.entry(*color).or_default() += pages;
        }
    }
}

/// Parses one line of `/proc/PID/maps`: start, end and kind; `None` for the kernel's own pages.
fn mapping(line: &str) -> Option<(u64, u64, Kind)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let flags = fields.next()?;
    let inode = fields.nth(2)?;
    let kind = match (fields.next().unwrap_or(""), flags.ends_with('p') && inode == "0") {
        ("[vvar]" | "[vdso]" | "[vsyscall]" | "[vvar_vclock]" | "[uprobes]", _) => return None,
        (_, false) => Kind::File,
        ("[heap]", _) => Kind::Heap,
        ("[stack]", _) => Kind::Stack,
        _ => Kind::Anonymous,
    };
    Some((number(start)?, number(end)?, kind))
}

/// Calls `each` with the frames of the present pages.
fn frames(pagemap: &File, start: u64, end: u64, mut each: impl FnMut(u64)) {
    let mut buffer = vec![0u8; 1 << 16];
    let [mut at, end] = [start, end].map(|address| entry_offset(address as usize));
    while at < end {
        let want = buffer.len().min((end - at) as usize);
        let Ok(read @ 1..) = pagemap.read_at(&mut buffer[..want], at) else { return };
        Entry::all(&buffer[..read])
            .map(Entry::frame)
            .filter(|frame| *frame != 0)
            .for_each(&mut each);
        at += read as u64;
    }
}

/// Returns true if the frame is the kernel's zero page, which belongs to no process.
fn is_zero_page(flags: Option<&File>, frame: u64) -> bool {
    const ZERO_PAGE: u64 = 1 << 24;
    let mut word = [0; 8];
    let read = flags.map(|file| file.read_exact_at(&mut word, frame * 8));
    matches!(read, Some(Ok(()))) && u64::from_le_bytes(word) & ZERO_PAGE != 0
}

#[cfg(test)]
mod tests {
    use memweir_core::address_map::{Span, XorFunction};
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn the_reason_why_a_process_cannot_be_audited_is_the_true_one() {
        let this = std::process::id();
        let said = |pid, errno: Errno| unreadable(pid, &errno.into()).to_string();
        assert!(said(u32::MAX, Errno::ENOENT).contains("there is no process"));
        assert!(said(this, Errno::ESRCH).contains("has no memory of its own"));
        let denied = said(this, Errno::EACCES);
        assert!(denied.contains("does not let memweir look into"), "{denied}");
        assert!(denied.contains("CAP_SYS_PTRACE") && !denied.contains("that runs"), "{denied}");
    }

    /// Returns a file with these words, each at its place.
    fn file(words: &[(u64, u64)]) -> File {
        let file = tempfile::tempfile().unwrap();
        for (place, word) in words {
            file.write_all_at(&word.to_le_bytes(), place * 8).unwrap();
        }
        file
    }

    fn pages(inside: u64, colors: &[(u32, u64)]) -> Pages {
        let pages = colors.iter().map(|(_, pages)| pages).sum();
        Pages { pages, inside, colors: colors.iter().copied().collect() }
    }

    #[test]
    fn each_present_page_counts_once_for_the_kind_of_its_mapping() {
        // The anonymous memory is longer than one reading of the pagemap. The stack is empty.
        let maps = "1000-4000 rw-p 00000000 00:00 0   [heap]\n\
                    8000-9000 rw-p 00000000 08:01 9   /lib/x.so\n\
                    a000-c000 rw-p 00000000 00:00 0\n\
                    40000000-44000000 rw-p 00000000 00:00 0\n";
        let (present, swapped) = (1 << 63, 1 << 62);
        let pagemap = file(&[
            (0x1, present | 5),
            (0x2, swapped | 6),
            (0x3, present | 7),
            (0x8, present | 8),
            (0xa, present | 3),
            (0x4_0000, present | 2),
            (0x4_2000, present | 9),
            (0x4_3fff, present | 11),
            // Of another mapping.
            (0x4_4000, present | 13),
        ]);
        // Frame 7 is the zero page; frame 5 has other flags.
        let flags = file(&[(5, 1 << 23), (7, 1 << 24), (11, 0)]);
        // The lowest bit of the frame number is the color.
        let coloring = Coloring::of_span(&Span::new([XorFunction(1 << 12)]), 12, 0);
        let asked: ColorSet = "1".parse().unwrap();
        let count = counting(Some(&flags), &coloring, &asked, None);
        let found = kinds(maps, &pagemap, [0, 0, 0x9000, 0xc000], count);
        let expected = [
            (Kind::Heap, pages(1, &[(1, 1)])),
            (Kind::Anonymous, pages(2, &[(0, 1), (1, 2)])),
            (Kind::Stack, pages(0, &[])),
            (Kind::File, pages(0, &[(0, 1)])),
            (Kind::Pool, pages(1, &[(1, 1)])),
        ];
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(own(&found), pages(3, &[(0, 1), (1, 3)]));
        // A mapping that is in part a pool's is the program's.
        let part = kinds(maps, &pagemap, [0x1000, 0x3000, 0x9000, 0xb000], |pages, _| {
            pages.pages += 1;
        });
        assert_eq!((part[&Kind::Heap].pages, part.get(&Kind::Pool)), (2, None));
    }

    #[test]
    fn a_page_is_inside_if_its_cache_color_is_asked_for_too_and_the_map_covers_it() {
        let bit =
            |bit: u32, offset| Coloring::of_span(&Span::new([XorFunction(1 << bit)]), 12, offset);
        let (banks, one): (_, ColorSet) = (bit(12, 0x4000), "1".parse().unwrap());
        let inside = |frame: u64, cache: Option<&(Coloring, ColorSet)>| {
            let mut pages = Pages::default();
            counting(None, &banks, &one, cache)(&mut pages, frame);
            (pages.pages, pages.inside)
        };
        let cache = (bit(13, 0), one.clone());
        // Odd frames have bank color 1, and every other two have cache color 1.
        let counts =
            [3, 4, 5, 7].map(|frame| (inside(frame, None).1, inside(frame, Some(&cache)).1));
        assert_eq!(counts, [(0, 0), (0, 0), (1, 0), (1, 1)]);
        assert_eq!(inside(3, None).0, 1);
    }

    #[test]
    fn tells_mappings_apart() {
        let kind = |line: &str| mapping(line).map(|(_, _, kind)| kind);
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0   [heap]"), Some(Kind::Heap));
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0"), Some(Kind::Anonymous));
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0   [stack]"), Some(Kind::Stack));
        assert_eq!(kind("1000-2000 rw-s 00000000 00:01 7   /dev/zero (deleted)"), Some(Kind::File));
        assert_eq!(kind("1000-2000 r-xp 00000000 00:00 0   [vdso]"), None);
        assert_eq!(kind("1000-2000 rw-p 00000000 08:01 9   /lib/x.so"), Some(Kind::File));
    }
}
