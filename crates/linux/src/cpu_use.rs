//! Time that processors were busy, with any program, as `/proc/stat` tells it.

use std::io;
use std::path::Path;

use memweir_core::Nanos;

use crate::blocker::processes::NANOS_PER_TICK;
use crate::files::{Files, KernelFiles};

/// Columns of a processor in `/proc/stat` in which it is busy: user, nice, system, irq, softirq and
/// steal. In the fourth and fifth it is idle, and the two behind are part of user and nice.
const BUSY: [usize; 6] = [0, 1, 2, 5, 6, 7];

/// Returns the time since boot that these processors were busy, or that the host of this virtual
/// machine kept from them.
///
/// # Errors
/// If `/proc/stat` cannot be read.
pub fn busy(cpus: &[usize]) -> io::Result<Nanos> {
    let text = KernelFiles.read(Path::new("/proc/stat"))?;
    Ok(Nanos(ticks(&text, cpus).saturating_mul(NANOS_PER_TICK)))
}

fn ticks(text: &str, cpus: &[usize]) -> u64 {
    let of_line = |line: &str| -> Option<u64> {
        let mut fields = line.split_ascii_whitespace();
        let cpu: usize = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        let times: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let busy = BUSY.iter().filter_map(|column| times.get(*column)).sum();
        cpus.contains(&cpu).then_some(busy)
    };
    text.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_columns_of_the_named_processors_are_summed() {
        let text = "cpu  111 0 0 0 0 0 0 0 0 0\n\
                    cpu0 1 2 3 4000 5000 6 7 8 1 2\n\
                    cpu1 10 20 30 4000 5000 60 70 80 10 20\n\
                    cpu2 100 0 0 0 0 0 0 0 0 0\n\
                    intr 99 1 2\n";
        assert_eq!(ticks(text, &[0]), 27);
        assert_eq!(ticks(text, &[0, 1]), 297);
        assert_eq!(ticks(text, &[7]), 0);
        assert_eq!(ticks("cpu0 1 nonsense", &[0]), 1);
    }

    #[test]
    fn time_passes_on_a_processor_that_works() {
        let cpus = crate::topology::allowed_cpus().unwrap();
        let before = busy(&cpus).unwrap();
        let until = crate::clock::thread_cpu_time() + Nanos::from_millis(100);
        while crate::clock::thread_cpu_time() < until {
            std::hint::spin_loop();
        }
        // The kernel may count by the ticks of its timer.
        assert!(busy(&cpus).unwrap() >= before + Nanos::from_millis(50));
    }
}
