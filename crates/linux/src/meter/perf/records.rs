//! Reading the records that the kernel writes into a ring buffer.
//!
//! Events that sample are opened with IP, TID, TIME and ID and with `sample_id_all`, so every
//! record but a sample ends in process, thread, time and the ID of the event. Records are read by
//! hand: the parser of `perf-event-data` drops that trailer for mappings.

/// Record types of `include/uapi/linux/perf_event.h`.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
/// Set in `misc` of a COMM record that reports an exec.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// Length of the trailer.
const TRAILER: usize = 24;

/// One record of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Time of the record, in nanoseconds of the kernel's perf clock.
    pub(super) time: u64,
    /// ID of the event that it belongs to; that of the original where the event was inherited.
    pub(super) event: u64,
    /// Its kind, with its data.
    pub(super) what: What,
}

/// The kind of a record, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The process was seen at this instruction.
    Sample { pid: u32, ip: u64 },
    /// The process has mapped executable code.
    Mapped { pid: u32, start: u64, length: u64, name: Vec<u8> },
    /// The process runs a new program.
    Executed { pid: u32 },
    /// The process has a new child.
    Forked { parent: u32, pid: u32 },
    /// The process is over.
    Exited { pid: u32 },
    /// This many records did not fit into the buffer.
    Lost { count: u64 },
}

/// Parses one record without its header. Returns `None` if it is of no interest, or damaged.
pub(super) fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
    if kind == SAMPLE {
        let what = What::Sample { pid: u32_at(body, 8)?, ip: u64_at(body, 0)? };
        return Some(Record { time: u64_at(body, 16)?, event: u64_at(body, 24)?, what });
    }
    let (body, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let what = match kind {
        MMAP => What::Mapped {
            pid: u32_at(body, 0)?,
            start: u64_at(body, 8)?,
            length: u64_at(body, 16)?,
            name: body.get(32..)?.iter().copied().take_while(|byte| *byte != 0).collect(),
        },
        COMM if misc & MISC_COMM_EXEC != 0 => What::Executed { pid: u32_at(body, 0)? },
        FORK => {
            let (pid, parent) = (u32_at(body, 0)?, u32_at(body, 4)?);
            // A new thread shares everything already.
            (pid != parent).then_some(What::Forked { parent, pid })?
        }
        EXIT => {
            let (pid, thread) = (u32_at(body, 0)?, u32_at(body, 8)?);
            (pid == thread).then_some(What::Exited { pid })?
        }
        LOST => What::Lost { count: u64_at(body, 8)? },
        LOST_SAMPLES => What::Lost { count: u64_at(body, 0)? },
        _ => return None,
    };
    Some(Record { time: u64_at(trailer, 8)?, event: u64_at(trailer, 16)?, what })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: u64 = 123_456;
    const EVENT: u64 = 77;

    fn bytes(fields: &[u64], rest: &[u8], pid_and_tid: (u32, u32)) -> Vec<u8> {
        let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        bytes.extend(rest);
        bytes.extend(pid_and_tid.0.to_ne_bytes());
        bytes.extend(pid_and_tid.1.to_ne_bytes());
        bytes.extend(TIME.to_ne_bytes());
        bytes.extend(EVENT.to_ne_bytes());
        bytes
    }

    /// Two 32-bit fields, the first at the lower address.
    fn pair(first: u32, second: u32) -> u64 {
        let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }

    fn what(kind: u32, misc: u16, body: &[u8]) -> Option<What> {
        let record = parse(kind, misc, body)?;
        assert_eq!((record.time, record.event), (TIME, EVENT));
        Some(record.what)
    }

    #[test]
    fn reads_samples() {
        let body = bytes(&[0xabc], &[], (5, 6));
        assert_eq!(what(SAMPLE, 2, &body), Some(What::Sample { pid: 5, ip: 0xabc }));
    }

    #[test]
    fn reads_mappings() {
        let body = bytes(&[pair(5, 6), 0x1000, 0x2000, 3], b"/bin/cat\0\0\0\0\0\0\0\0", (5, 6));
        let name = b"/bin/cat".to_vec();
        let expected = What::Mapped { pid: 5, start: 0x1000, length: 0x2000, name };
        assert_eq!(what(MMAP, 0, &body), Some(expected));
    }

    #[test]
    fn an_exec_is_told_from_a_new_name() {
        let body = bytes(&[pair(5, 5)], b"cat\0\0\0\0\0", (5, 5));
        assert_eq!(what(COMM, MISC_COMM_EXEC, &body), Some(What::Executed { pid: 5 }));
        assert_eq!(what(COMM, 0, &body), None);
    }

    #[test]
    fn processes_are_told_from_threads() {
        let fork = |pid, parent| bytes(&[pair(pid, parent), pair(9, 8), TIME], &[], (parent, 8));
        assert_eq!(what(FORK, 0, &fork(9, 5)), Some(What::Forked { parent: 5, pid: 9 }));
        assert_eq!(what(FORK, 0, &fork(5, 5)), None);
        let exit = |thread| bytes(&[pair(5, 1), pair(thread, 1), TIME], &[], (5, thread));
        assert_eq!(what(EXIT, 0, &exit(5)), Some(What::Exited { pid: 5 }));
        assert_eq!(what(EXIT, 0, &exit(6)), None);
    }

    #[test]
    fn reads_losses() {
        let lost = bytes(&[EVENT, 12], &[], (5, 6));
        assert_eq!(what(LOST, 0, &lost), Some(What::Lost { count: 12 }));
        let lost = bytes(&[13], &[], (5, 6));
        assert_eq!(what(LOST_SAMPLES, 0, &lost), Some(What::Lost { count: 13 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_passed_over(
            kind in 0u32..24,
            misc in any::<u16>(),
            body in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = parse(kind, misc, &body);
        }
    }
}
