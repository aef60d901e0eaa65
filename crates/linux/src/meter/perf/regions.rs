//! Where in the code a sample lies: the code regions of iabw section 4.2.
//!
//! The paper divides the executable code evenly into R regions and compares histograms of samples
//! over them. Programs of today run much of their time in shared libraries and are loaded at
//! random addresses, and a job may be several programs. So, of [`REGIONS`]:
//!
//! * the first [`PROGRAM_REGIONS`] are the program's own text, divided evenly;
//! * the next [`LIBRARY_REGIONS`] are everything else that is mapped executable (libraries, the
//!   vDSO, code made at run time), each mapping divided evenly into [`LIBRARY_SLICES`], which are
//!   folded onto the regions from a place that the file's name gives;
//! * the last one has the samples in no known mapping.
//!
//! A program's regions are rotated by its name likewise, so that two programs of one job do not
//! look alike. All of it depends on names and offsets alone: the same run gives the same regions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The number of regions, R.
pub(super) const REGIONS: usize = 64;
/// Regions of the program's own text.
const PROGRAM_REGIONS: u64 = 32;
/// Regions of libraries and other mapped code.
const LIBRARY_REGIONS: u64 = 31;
/// Parts into which one library is divided.
const LIBRARY_SLICES: u64 = 8;
/// The region of samples in no known mapping.
const ELSEWHERE: usize = REGIONS - 1;

/// More mappings than this per process are not followed: a program that makes code without end
/// must not take our memory.
const MOST_MAPPINGS: usize = 4096;

/// A part of an executable mapping that is still in place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    end: u64,
    /// The whole mapping, of which this may be the rest.
    first: u64,
    length: u64,
    /// Hash of the file's name.
    file: u64,
}

/// The executable mappings of one process since its last exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AddressSpace {
    /// Pieces by start address; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// The file that was mapped first after exec: the program itself.
    program: Option<u64>,
}

impl AddressSpace {
    fn map(&mut self, start: u64, length: u64, name: &[u8]) {
        let Some(end) = start.checked_add(length).filter(|end| *end > start) else { return };
        self.cut(start, end);
        if self.pieces.len() < MOST_MAPPINGS {
            let file = hash(name);
            self.program.get_or_insert(file);
            self.pieces.insert(start, Piece { end, first: start, length, file });
        }
    }

    /// Removes the mappings between `start` and `end`.
    fn cut(&mut self, start: u64, end: u64) {
        let overlapping: Vec<u64> = self
            .pieces
            .range(..end)
            .rev()
            .take_while(|(_, piece)| piece.end > start)
            .map(|(at, _)| *at)
            .collect();
        for at in overlapping {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            if piece.end > end {
                self.pieces.insert(end, piece.clone());
            }
            if at < start {
                self.pieces.insert(at, Piece { end: start, ..piece });
            }
        }
    }

    fn region(&self, ip: u64) -> usize {
        let piece = self.pieces.range(..=ip).next_back().map(|(_, piece)| piece);
        let Some(piece) = piece.filter(|piece| ip < piece.end) else { return ELSEWHERE };
        let part = |parts: u64| {
            let part = u128::from(ip - piece.first) * u128::from(parts) / u128::from(piece.length);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let region = if self.program == Some(piece.file) {
            (part(PROGRAM_REGIONS) + piece.file % PROGRAM_REGIONS) % PROGRAM_REGIONS
        } else {
            let slice = part(LIBRARY_SLICES) + piece.file % LIBRARY_REGIONS;
            PROGRAM_REGIONS + slice % LIBRARY_REGIONS
        };
        region as usize
    }
}

/// FNV-1a: the standard library's hashes may change from release to release.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The processes of one job and the histogram of its samples.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeRegions {
    /// By process ID. Children share their parent's until one of them changes it.
    spaces: HashMap<u32, Arc<AddressSpace>>,
    histogram: Vec<u32>,
}

impl CodeRegions {
    /// Records that process `pid` has mapped `length` bytes of executable code from the file
    /// `name`.
    pub(super) fn mapped(&mut self, pid: u32, start: u64, length: u64, name: &[u8]) {
        Arc::make_mut(self.spaces.entry(pid).or_default()).map(start, length, name);
    }

    /// Records that process `pid` runs a new program.
    pub(super) fn executed(&mut self, pid: u32) {
        self.spaces.insert(pid, Arc::default());
    }

    /// Records that process `parent` has made process `pid`. A new thread (`pid` equal to `parent`)
    /// changes nothing.
    pub(super) fn forked(&mut self, parent: u32, pid: u32) {
        if let Some(space) = self.spaces.get(&parent).cloned() {
            self.spaces.insert(pid, space);
        }
    }

    /// Records that process `pid` is over.
    pub(super) fn exited(&mut self, pid: u32) {
        self.spaces.remove(&pid);
    }

    /// Counts a sample of process `pid` at `ip`.
    pub(super) fn sampled(&mut self, pid: u32, ip: u64) {
        let region = self.spaces.get(&pid).map_or(ELSEWHERE, |space| space.region(ip));
        self.histogram.resize(REGIONS, 0);
        self.histogram[region] = self.histogram[region].saturating_add(1);
    }

    /// Takes the histogram since the last call: [`REGIONS`] numbers.
    pub(super) fn take(&mut self) -> Vec<u32> {
        self.histogram.resize(REGIONS, 0);
        std::mem::take(&mut self.histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The only region with samples.
    fn region_of(regions: &mut CodeRegions, pid: u32, ip: u64) -> usize {
        regions.sampled(pid, ip);
        let histogram = regions.take();
        assert_eq!(histogram.len(), REGIONS);
        assert_eq!(histogram.iter().sum::<u32>(), 1);
        histogram.iter().position(|count| *count == 1).unwrap()
    }

    fn program() -> CodeRegions {
        let mut regions = CodeRegions::default();
        regions.executed(1);
        regions.mapped(1, 0x1000, 0x20_000, b"/bin/program");
        regions.mapped(1, 0x7f00_0000, 0x8000, b"/lib/libc.so.6");
        regions
    }

    #[test]
    fn the_programs_text_is_divided_evenly() {
        let mut regions = program();
        // 0x20000 bytes in 32 regions: 4 KiB each, in rotated order.
        let first = region_of(&mut regions, 1, 0x1000);
        for page in 0..32u64 {
            let expected = (first + page as usize) % PROGRAM_REGIONS as usize;
            assert_eq!(region_of(&mut regions, 1, 0x1000 + page * 0x1000), expected);
            assert_eq!(region_of(&mut regions, 1, 0x1fff + page * 0x1000), expected);
        }
    }

    #[test]
    fn libraries_have_regions_of_their_own() {
        let mut regions = program();
        let slices: Vec<_> =
            (0..8).map(|slice| region_of(&mut regions, 1, 0x7f00_0000 + slice * 0x1000)).collect();
        let apart: std::collections::BTreeSet<_> = slices.iter().collect();
        assert_eq!(apart.len(), 8);
        assert!(slices.iter().all(|r| (32..63).contains(r)), "{slices:?}");
    }

    #[test]
    fn unmapped_code_is_elsewhere() {
        let mut regions = program();
        for ip in [0, 0xfff, 0x21_000, 0x7f00_8000, u64::MAX] {
            assert_eq!(region_of(&mut regions, 1, ip), ELSEWHERE, "{ip:#x}");
        }
        assert_eq!(region_of(&mut regions, 99, 0x1000), ELSEWHERE, "a process never heard of");
    }

    #[test]
    fn regions_do_not_depend_on_load_addresses() {
        let mut moved = CodeRegions::default();
        moved.executed(5);
        moved.mapped(5, 0x5555_0000, 0x20_000, b"/bin/program");
        let mut regions = program();
        for offset in [0, 0x4321, 0x1_ffff] {
            assert_eq!(
                region_of(&mut regions, 1, 0x1000 + offset),
                region_of(&mut moved, 5, 0x5555_0000 + offset)
            );
        }
    }

    #[test]
    fn children_keep_the_code_until_they_exec() {
        let mut regions = program();
        let home = region_of(&mut regions, 1, 0x1000);
        regions.forked(1, 2);
        assert_eq!(region_of(&mut regions, 2, 0x1000), home);
        regions.executed(2);
        assert_eq!(region_of(&mut regions, 2, 0x1000), ELSEWHERE);
        regions.mapped(2, 0x1000, 0x1000, b"/bin/other");
        assert_ne!(region_of(&mut regions, 2, 0x1000), ELSEWHERE);
        assert_eq!(region_of(&mut regions, 1, 0x1000), home, "the parent is as it was");
        regions.exited(1);
        assert_eq!(region_of(&mut regions, 1, 0x1000), ELSEWHERE);
    }

    #[test]
    fn a_mapping_over_another_replaces_just_what_it_covers() {
        let mut regions = program();
        let (low, high) = (0x1000, 0x20_fff);
        let before = (region_of(&mut regions, 1, low), region_of(&mut regions, 1, high));
        regions.mapped(1, 0x10_000, 0x1000, b"//anon");
        assert!(region_of(&mut regions, 1, 0x10_800) >= 32);
        let after = (region_of(&mut regions, 1, low), region_of(&mut regions, 1, high));
        assert_eq!(before, after);
    }

    proptest! {
        #[test]
        fn every_sample_lands_in_one_region(
            maps in prop::collection::vec((0u64..0x100, 0u64..0x40, 0u8..4), 0..30),
            ips in prop::collection::vec(0u64..0x140, 1..30),
        ) {
            let mut regions = CodeRegions::default();
            // The newest mapping of each address wins.
            let mut owner = [None; 0x140];
            for (start, length, file) in maps {
                regions.mapped(1, start, length, &[file]);
                owner[start as usize..(start + length) as usize].fill(Some(file));
            }
            for ip in &ips {
                let known = region_of(&mut regions, 1, *ip) != ELSEWHERE;
                prop_assert_eq!(known, owner[*ip as usize].is_some());
            }
        }

        #[test]
        fn extreme_mappings_are_harmless(start: u64, length: u64, ip: u64) {
            let mut regions = CodeRegions::default();
            regions.mapped(1, start, length, b"x");
            regions.sampled(1, ip);
            prop_assert_eq!(regions.take().iter().sum::<u32>(), 1);
        }
    }
}
