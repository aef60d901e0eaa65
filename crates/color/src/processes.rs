//! Running processes, told apart by their start times: process ids are used again.

use std::fs;

use memweir_abi::kernel::stat::StatLine;

/// Returns the start of process `pid`, in clock ticks since boot; `None` if there is none, or if it
/// has ended and its parent has not waited for it.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let line = StatLine::of(&stat)?;
    let ended = matches!(line.field(3)?.first(), Some(b'Z' | b'X'));
    if ended { None } else { line.start() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_have_ended_have_no_start() {
        let this = start_of(std::process::id());
        assert!(this.is_some_and(|start| start > 0));
        assert_eq!(start_of(u32::MAX), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while start_of(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(child.wait().unwrap().success());
    }
}
