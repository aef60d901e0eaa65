//! This program starts itself again, colored: data that it places in chosen colors must be there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{ENTRY_BYTES, Entry, entry_offset};
use memweir_abi::preload::Shortage;
use memweir_color::{ColorError, Colored, Request};
use memweir_color_api::{ColoredMemory, Error, colors, set_thread_colors};
use memweir_core::address_map::{AddressMap, ColorSet};
use memweir_core::{Bytes, PhysAddr};

const MAP: &str = include_str!("../../../crates/core/data/maps/i7-860.toml");
const PAGE: usize = PAGE_BYTES;
const SIZE: usize = 1 << 20;

fn map() -> AddressMap {
    AddressMap::parse("i7-860.toml", MAP).unwrap()
}

fn set(colors: &str) -> ColorSet {
    colors.parse().unwrap()
}

#[test]
fn without_the_library_it_says_so() {
    assert_eq!(colors(), None);
    assert_eq!(ColoredMemory::new(Bytes(1), &set("0")).map(|_| ()), Err(Error::NotColored));
    assert_eq!(set_thread_colors(None), Err(Error::NotColored));
}

#[test]
fn data_is_where_the_program_wants_it() {
    let request = Request {
        map: map(),
        colors: set("0-7"),
        cache: None,
        shortage: Shortage::Spill,
        delivery: None,
        pool_pages: 256,
        limit_pages: 0,
    };
    let colored = match Colored::prepare(&request, None) {
        Ok(colored) => colored,
        Err(error @ ColorError::Machine { .. }) => {
            return memweir_test_support::skip!(Privilege, "{error}");
        }
        Err(error) => panic!("{error}"),
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "inside", "--nocapture"])
        .envs(colored.environment().iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

/// The colored program.
#[test]
#[ignore = "started by the other test, colored"]
fn inside() {
    assert_eq!(colors(), Some(32));
    let mut memory = ColoredMemory::new(Bytes(SIZE as u64), &set("2-3")).unwrap();
    assert!(memory.len() == SIZE && memory.iter().all(|byte| *byte == 0));
    memory.fill(1);
    assert_all_inside(&memory, "2-3");
    std::thread::spawn(|| {
        set_thread_colors(Some(&set("5"))).unwrap();
        // Large enough to be a mapping of its own, touched by this thread first.
        let own = vec![1u8; SIZE];
        assert_all_inside(&own[PAGE..SIZE - PAGE], "5");
        set_thread_colors(None).unwrap();
    })
    .join()
    .unwrap();
    let beyond = ColoredMemory::new(Bytes(1), &set("7-8")).map(|_| ());
    assert_eq!(beyond, Err(Error::NotGiven("7-8".to_owned())));
    assert_eq!(set_thread_colors(Some(&set("31"))), Err(Error::NotGiven("31".to_owned())));
    let huge = ColoredMemory::new(Bytes(u64::MAX), &set("1")).map(|_| ());
    assert_eq!(huge, Err(Error::NoMemory));
    // Dropped memory can be allocated again, any number of times.
    for _ in 0..3000 {
        drop(ColoredMemory::new(Bytes(1), &set("1")).unwrap());
    }
    let many: Vec<_> = std::iter::repeat_with(|| ColoredMemory::new(Bytes(1), &set("1")))
        .take_while(Result::is_ok)
        .take(2000)
        .collect();
    assert!((1000..1024).contains(&many.len()), "{}", many.len());
}

fn assert_all_inside(memory: &[u8], colors: &str) {
    let (coloring, asked) = (map().coloring(12), set(colors));
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let first = memory.as_ptr() as usize / PAGE;
    for page in first..first + memory.len() / PAGE {
        let mut entry = [0; ENTRY_BYTES];
        pagemap.read_exact_at(&mut entry, entry_offset(page * PAGE)).unwrap();
        let frame = Entry(u64::from_le_bytes(entry)).frame();
        assert!(frame != 0, "page {page:x} has no frame");
        let color = coloring.color_of(PhysAddr(frame * PAGE as u64));
        assert!(asked.contains(color), "page {page:x} has color {color:?}");
    }
}
