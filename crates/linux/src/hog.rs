//! Hog (X1): kernels that put a steady, adjustable load on the memory bus.
//!
//! Only the loops that touch memory live here. `memweir-run` interprets a run of them (bandwidth,
//! speedup, segments).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, MmapMut};
use memweir_core::{Bytes, LINE_BYTES, Lines};
use serde::{Deserialize, Serialize};

/// Memory accesses of one step of Hog.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Copies one word per cache line from one array to another, the loop of iabw Fig. 1(a). Three
    /// lines move: the source is read, the destination is read for ownership and written back.
    /// Counters that see fills alone count two.
    #[default]
    Copy,
    /// Reads one word per cache line. One line moves, and every counter agrees on it.
    Read,
    /// Copies whole lines as STREAM's copy does, with ordinary stores: three lines move. Where the
    /// processor detects such streams and skips the read for ownership, two.
    Stream,
}

memweir_core::named! { pub Kernel, "kernel": Copy = "copy", Read = "read", Stream = "stream" }

impl Kernel {
    /// Returns the lines that one step reads from memory, reads for ownership included.
    #[must_use]
    pub fn lines_read(self) -> u64 {
        match self {
            Self::Copy | Self::Stream => 2,
            Self::Read => 1,
        }
    }

    /// Returns the lines that one step eventually writes back to memory.
    #[must_use]
    pub fn lines_written(self) -> u64 {
        match self {
            Self::Copy | Self::Stream => 1,
            Self::Read => 0,
        }
    }
}

/// Lines that are moved in one go, between which a caller can look at the clock: some tens of
/// microseconds without idling.
pub const CHUNK: u64 = 1 << 14;

/// Two arrays and a position in them: the state of one running hog.
#[derive(Debug)]
pub struct Hog {
    kernel: Kernel,
    source: MmapMut,
    target: MmapMut,
    lines: u64,
    position: u64,
}

impl Hog {
    /// Allocates two arrays of `array` bytes each, every page touched. For every access to reach
    /// memory, an array must be about twice as large as the last-level cache (iabw section 2.2).
    /// Setting `stop` leaves the other pages untouched, so that nothing may be measured then.
    ///
    /// # Errors
    /// The system's, and `InvalidInput` for an array of less than one line.
    pub fn new(kernel: Kernel, array: Bytes, stop: &AtomicBool) -> io::Result<Self> {
        let lines = array.0 / LINE_BYTES;
        if lines == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an array of no line"));
        }
        let length = usize::try_from(lines * LINE_BYTES)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let lacking = |error: io::Error| {
            let what = format!("no memory for two arrays of {array}: {error}");
            io::Error::new(error.kind(), what)
        };
        let array = || resident(length, stop).map_err(lacking);
        Ok(Self { kernel, source: array()?, target: array()?, lines, position: 0 })
    }

    /// Continues with another kernel on the same arrays.
    pub fn switch_to(&mut self, kernel: Kernel) {
        self.kernel = kernel;
    }

    /// Does `count` steps, one line each, with `idle` nops after each, from where the last call
    /// left off; wraps around at the end of the arrays.
    pub fn steps(&mut self, count: u64, idle: u32) {
        let mut left = count;
        while left > 0 {
            let run = left.min(self.lines - self.position);
            let offset = (self.position * LINE_BYTES) as usize;
            let bytes = (run * LINE_BYTES) as usize;
            let source = &self.source[offset..offset + bytes];
            let target = &mut self.target[offset..offset + bytes];
            arch::steps(self.kernel, source, target, idle);
            self.position = (self.position + run) % self.lines;
            left -= run;
        }
    }

    /// Returns the lines that `steps` steps move between cache and memory.
    #[must_use]
    pub fn lines_moved(&self, steps: u64) -> Lines {
        Lines(steps * (self.kernel.lines_read() + self.kernel.lines_written()))
    }
}

/// Maps memory with a page of its own behind every address: untouched anonymous pages all map to
/// the one zero page, which fits into any cache.
fn resident(length: usize, stop: &AtomicBool) -> io::Result<MmapMut> {
    let mut memory = MmapMut::map_anon(length)?;
    // Huge pages keep address translation from being the bottleneck. Kernels without them refuse.
    let _ = memory.advise(Advice::HugePage);
    let untouched = memory.iter_mut().step_by(4096);
    // The kernel may take a second for a gigabyte, and far more on a busy machine.
    untouched.take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|byte| *byte = 1);
    Ok(memory)
}

/// Binds the calling thread to one CPU.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?;
    Ok(())
}

/// The loops, in assembly so that their load on the bus does not depend on how memweir was
/// compiled: a table of idle nops stays valid between builds.
#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    use super::{Kernel, LINE_BYTES};

    macro_rules! line_loop {
        ($body:literal, $source:expr, $target:expr, $lines:expr, $idle:expr) => {
            asm!(
                "2:",
                $body,
                "add {source}, 64",
                "add {target}, 64",
                "mov {k:e}, {idle:e}",
                "test {k:e}, {k:e}",
                "jz 4f",
                "3:",
                "nop",
                "dec {k:e}",
                "jnz 3b",
                "4:",
                "dec {lines}",
                "jnz 2b",
                source = inout(reg) $source => _,
                target = inout(reg) $target => _,
                lines = inout(reg) $lines => _,
                idle = in(reg) $idle,
                k = out(reg) _,
                out("rax") _,
                out("xmm0") _,
                out("xmm1") _,
                out("xmm2") _,
                out("xmm3") _,
                options(nostack),
            )
        };
    }

    /// Does a step of the kernel for each line of both slices, which have the same whole lines.
    pub(super) fn steps(kernel: Kernel, source: &[u8], target: &mut [u8], idle: u32) {
        assert!(source.len() == target.len() && source.len().is_multiple_of(LINE_BYTES as usize));
        let lines = source.len() as u64 / LINE_BYTES;
        // The loops count down from it.
        if lines == 0 {
            return;
        }
        let (source, target) = (source.as_ptr(), target.as_mut_ptr());
        // SAFETY: the loops read at most 64 bytes at each of `lines` lines of `source` and write at
        // most as many at each of `lines` lines of `target`; both slices are that long. The moves
        // accept any alignment. All registers used are declared, no stack is.
        unsafe {
            match kernel {
                Kernel::Copy => line_loop!(
                    "mov rax, qword ptr [{source}]\n mov qword ptr [{target}], rax",
                    source,
                    target,
                    lines,
                    idle
                ),
                Kernel::Read => {
                    line_loop!("mov rax, qword ptr [{source}]", source, target, lines, idle)
                }
                Kernel::Stream => line_loop!(
                    "movups xmm0, [{source}]\n movups xmm1, [{source} + 16]\n \
                     movups xmm2, [{source} + 32]\n movups xmm3, [{source} + 48]\n \
                     movups [{target}], xmm0\n movups [{target} + 16], xmm1\n \
                     movups [{target} + 32], xmm2\n movups [{target} + 48], xmm3",
                    source,
                    target,
                    lines,
                    idle
                ),
            }
        }
    }
}

/// The same loops where no assembly is written for the processor.
#[cfg(not(target_arch = "x86_64"))]
mod arch {
    use std::hint::black_box;

    use super::{Kernel, LINE_BYTES};

    pub(super) fn steps(kernel: Kernel, source: &[u8], target: &mut [u8], idle: u32) {
        let line = LINE_BYTES as usize;
        for (from, to) in source.chunks_exact(line).zip(target.chunks_exact_mut(line)) {
            match kernel {
                Kernel::Copy => to[..8].copy_from_slice(black_box(&from[..8])),
                Kernel::Read => _ = black_box(from[0]),
                Kernel::Stream => to.copy_from_slice(black_box(from)),
            }
            black_box(to);
            for k in 0..idle {
                black_box(k);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::names::Named;

    use super::*;

    const LINES: u64 = 100;
    static GO_ON: AtomicBool = AtomicBool::new(false);

    /// A hog whose source holds the number of its line in every byte.
    fn numbered(kernel: Kernel) -> Hog {
        let mut hog = Hog::new(kernel, Bytes(LINES * LINE_BYTES), &GO_ON).unwrap();
        for (number, line) in hog.source.chunks_mut(LINE_BYTES as usize).enumerate() {
            line.fill(number as u8 + 1);
        }
        hog.target.fill(0);
        hog
    }

    fn written(hog: &Hog, bytes: usize) -> Vec<usize> {
        let lines = hog.target.chunks(LINE_BYTES as usize).enumerate();
        lines
            .filter(|(number, line)| {
                let value = *number as u8 + 1;
                line[..bytes].iter().all(|byte| *byte == value)
                    && line[bytes..].iter().all(|byte| *byte == 0)
            })
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn copy_moves_one_word_per_line_and_goes_on_where_it_stopped() {
        for idle in [0, 3] {
            let mut hog = numbered(Kernel::Copy);
            hog.steps(40, idle);
            assert_eq!(written(&hog, 8), (0..40).collect::<Vec<_>>());
            hog.target.fill(0);
            hog.steps(70, idle);
            let expected: Vec<_> = (0..10).chain(40..100).collect();
            assert_eq!(written(&hog, 8), expected);
        }
    }

    #[test]
    fn stream_moves_whole_lines() {
        let mut hog = numbered(Kernel::Stream);
        hog.steps(LINES + 5, 0);
        assert_eq!(&hog.target[..], &hog.source[..]);
    }

    #[test]
    fn read_writes_nothing() {
        let mut hog = numbered(Kernel::Stream);
        hog.switch_to(Kernel::Read);
        hog.steps(3 * LINES + 1, 1);
        assert!(hog.target.iter().all(|byte| *byte == 0));
        assert_eq!(hog.position, 1);
    }

    #[test]
    fn arrays_are_touched_until_a_stop() {
        let touched = |stop: bool| {
            let hog = Hog::new(Kernel::Copy, Bytes(1 << 20), &AtomicBool::new(stop)).unwrap();
            hog.source.iter().chain(&hog.target[..]).filter(|byte| **byte == 1).count()
        };
        assert_eq!((touched(false), touched(true)), (2 * 256, 0));
    }

    #[test]
    fn no_steps_are_no_work() {
        for &kernel in Kernel::ALL {
            let mut hog = numbered(kernel);
            hog.steps(0, 5);
            assert!(hog.target.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn lines_count_the_read_for_ownership_and_the_write_back() {
        let moved = |kernel| Hog::new(kernel, Bytes(64), &GO_ON).unwrap().lines_moved(10);
        assert_eq!(moved(Kernel::Copy), Lines(30));
        assert_eq!(moved(Kernel::Read), Lines(10));
        assert_eq!(moved(Kernel::Stream), Lines(30));
    }

    #[test]
    fn an_array_of_no_line_is_refused() {
        assert!(Hog::new(Kernel::Copy, Bytes(63), &GO_ON).is_err());
    }

    #[test]
    fn a_pinned_thread_stays_on_its_cpu() {
        let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let cpu =
            (0..nix::sched::CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
        let now = std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            nix::sched::sched_getcpu().unwrap()
        });
        assert_eq!(now.join().unwrap(), cpu);
    }
}
