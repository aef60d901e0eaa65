//! The running kernel, and the capabilities of a process.

use std::path::Path;

/// The right to administer the system; every constant here is a bit of a set, as in
/// linux/capability.h.
pub const CAP_SYS_ADMIN: u64 = 1 << 21;
/// The right to set priorities, real-time ones included.
pub const CAP_SYS_NICE: u64 = 1 << 23;
/// The right to count events of others, since Linux 5.8.
pub const CAP_PERFMON: u64 = 1 << 38;

/// Returns the effective capabilities in the text of a `/proc/PID/status`; none if it has no such
/// line.
#[must_use]
pub fn effective_capabilities(status: &str) -> u64 {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// Returns true if this process has one of these capabilities in effect.
#[must_use]
pub fn has_capability(any: u64) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_capabilities(&status) & any != 0
}

/// Returns the release of the kernel whose `/proc` is below `root`; `None` if it cannot be read.
#[must_use]
pub fn kernel_release(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_in_effect() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"), (1 << 41) - 1);
        assert_eq!(effective_capabilities("CapEff:\t0000004000000000\n"), CAP_PERFMON);
        assert_eq!(effective_capabilities("CapEff:\t0\nCapPrm:\t000001ffffffffff\n"), 0);
        assert_eq!(effective_capabilities("CapEff: what\n"), 0);
        assert_eq!(effective_capabilities(""), 0);
    }
}
