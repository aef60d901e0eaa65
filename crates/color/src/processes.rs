//! Whether a process still runs.

use std::fs;

/// Whether process `pid` runs; one that ended and was not waited for does not.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    state(&stat).is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

/// The letter after the name, which may itself hold anything.
fn state(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ended_do_not_live() {
        assert!(lives(std::process::id()));
        assert!(!lives(u32::MAX));
        assert_eq!(state(b"7 (odd) R) Z 1 2 3"), Some(b'Z'));
        assert_eq!(state(b"7 (cut)"), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while lives(child.id()) {
            std::thread::yield_now();
        }
        assert!(child.wait().unwrap().success());
    }
}
