//! Costs of instructions and misses on a machine, in progress.
//!
//! ```text
//! progress = instructions * CPI / f
//!          + L1 misses * l2_cycles / f / cache_parallelism
//!          + L2 misses * (llc_cycles - l2_cycles) / f / cache_parallelism
//!          + lines read from memory * read latency / memory_parallelism
//! ```
//!
//! The last term is the stall that contention and slow memories stretch. Write-backs cost nothing
//! here, because no thread waits for them, but they load the memory. If the file gives no
//! `memory_parallelism`, a line costs 64 bytes over `core_peak`: a core whose every access misses
//! then draws exactly the `core_peak` of the file.

use memweir_abi::softpmu::gate::Costs;
use memweir_core::LINE_BYTES;
use memweir_flow::Hardware;

const FEMTOS: f64 = 1e15;

/// Returns the costs of a machine.
#[must_use]
pub fn costs(hardware: &Hardware) -> Costs {
    let core = &hardware.core;
    let cycle = FEMTOS / core.frequency;
    let instruction = match core.cycles_per_instruction {
        Some(cycles) => cycles * cycle,
        None => FEMTOS / hardware.core_instructions,
    };
    let read = match core.memory_parallelism {
        Some(parallelism) => {
            let latency = hardware.machine.memories[0].read_latency;
            latency.0 as f64 * 1e3 / parallelism
        }
        None => LINE_BYTES as f64 / hardware.machine.core_peak.0 * FEMTOS,
    };
    let hit = cycle / core.cache_parallelism;
    Costs {
        instruction: (instruction.round() as u64).max(1),
        l1_miss: (core.l2_cycles * hit).round() as u64,
        l2_miss: ((core.llc_cycles - core.l2_cycles) * hit).round() as u64,
        read: read.round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn machine(core: &str) -> Hardware {
        let text = format!(
            "name = 'm'\nsource = 'test'\ncore_peak = 6.4e9\ncore_instructions = 4e9\n\
             [[nodes]]\ncores = 2\n[[memories]]\nmedium = 'dram'\ncapacity = 10e9\n\
             read_latency_ns = 80\nwrite_latency_ns = 80\n{core}"
        );
        Hardware::parse("m.toml", &text, Path::new(".")).expect("complete")
    }

    #[test]
    fn costs_by_hand() {
        let core = "[core]\nfrequency_ghz = 2\ncycles_per_instruction = 0.5\nl2_cycles = 12\n\
                    llc_cycles = 40\ncache_parallelism = 2\nmemory_parallelism = 4\n";
        // A cycle is 500,000 fs; 12 / 2 and 28 / 2 cycles; 80 ns / 4.
        let expected = Costs {
            instruction: 250_000,
            l1_miss: 3_000_000,
            l2_miss: 7_000_000,
            read: 20_000_000,
        };
        assert_eq!(costs(&machine(core)), expected);
    }

    #[test]
    fn without_figures_of_the_core_those_of_the_machine_count() {
        let costs = costs(&machine(""));
        assert_eq!(costs.instruction, 250_000, "4e9 instructions per second");
        assert_eq!(costs.read, 10_000_000, "64 bytes at 6.4 GB/s");
    }
}
