//! ChampSim's instruction traces: one record of 64 bytes per instruction, little endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0-7 | instruction pointer |
//! | 8, 9 | 1 for a branch; 1 for a branch that is taken |
//! | 10-11, 12-15 | registers written; registers read |
//! | 16-31 | two addresses written |
//! | 32-63 | four addresses read |
//!
//! An address of zero means none.

use std::io::{self, Write};

use memweir_core::Direction;
use memweir_core::input::InputError;

use super::bytes::Bytes;
use super::{Access, ThreadId};

const RECORD: usize = 64;
/// Records that are decoded at once.
const BATCH: usize = 1024;
/// Addresses of a record: those written, then those read.
const ADDRESSES: usize = 6;
/// Addresses that a record can say are written.
const WRITTEN: usize = 2;
/// Instruction pointer of the first record that is written; each further one follows by 4 bytes.
const CODE: u64 = 0x40_0000;

/// Decodes records, and counts the instructions since the last access.
#[derive(Default)]
pub(super) struct Decoder {
    gap: u64,
}

impl Decoder {
    /// Decodes the next accesses; false at the end.
    pub(super) fn decode(
        &mut self,
        bytes: &mut Bytes,
        batch: &mut Vec<Access>,
    ) -> Result<bool, InputError> {
        if !bytes.want(RECORD)? {
            return match bytes.rest().len() {
                0 => Ok(false),
                over => Err(refuse(
                    bytes,
                    0,
                    &format!("ends within a record: {over} of {RECORD} bytes"),
                )),
            };
        }
        let (records, _) = bytes.rest().as_chunks::<RECORD>();
        let count = records.len().min(BATCH);
        let mut wrong = None;
        for (place, record) in records[..count].iter().enumerate() {
            if let Err(reason) = self.record(record, batch) {
                wrong = Some(refuse(bytes, place, &reason));
                break;
            }
        }
        bytes.take(count * RECORD);
        wrong.map_or(Ok(true), Err)
    }

    fn record(&mut self, record: &[u8; RECORD], batch: &mut Vec<Access>) -> Result<(), String> {
        let [is_branch, taken] = [record[8], record[9]];
        if is_branch > 1 || taken > 1 {
            return Err(format!(
                "bytes 8 and 9 are {is_branch} and {taken}, no branch flags: they are 0 or 1"
            ));
        }
        self.gap = self.gap.saturating_add(1);
        let (words, _) = record[16..].as_chunks::<8>();
        let address = |place: usize| u64::from_le_bytes(words[place]);
        // The loads of an instruction precede its stores.
        for place in (WRITTEN..ADDRESSES).chain(0..WRITTEN) {
            if address(place) != 0 {
                let direction = if place < WRITTEN { Direction::Write } else { Direction::Read };
                let gap = std::mem::take(&mut self.gap);
                let thread = ThreadId::default();
                batch.push(Access { address: address(place), gap, thread, direction });
            }
        }
        Ok(())
    }
}

/// Refuses the record `place` records behind the start of the window.
fn refuse(bytes: &Bytes, place: usize, reason: &str) -> InputError {
    let number = bytes.taken() / RECORD as u64 + place as u64 + 1;
    bytes.refuse(reason).key(format!("record {number}"))
}

/// Encodes accesses as instructions. The record of the last access waits for further accesses of
/// the same instruction.
#[derive(Default)]
pub(super) struct Encoder {
    instructions: u64,
    pending: Option<[u64; ADDRESSES]>,
}

impl Encoder {
    /// Appends an access: first the instructions of its gap. A write without a gap belongs to the
    /// instruction before it, as long as that has room.
    pub(super) fn push(&mut self, out: &mut impl Write, access: &Access) -> io::Result<()> {
        if access.address == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "address 0 has no place in the format `champsim`, where it means none",
            ));
        }
        let slots = match access.direction {
            Direction::Write => 0..WRITTEN,
            Direction::Read => WRITTEN..ADDRESSES,
        };
        if access.gap == 0
            && let Some(pending) = &mut self.pending
        {
            // A record's reads precede its writes.
            let in_order =
                access.direction == Direction::Write || pending[..WRITTEN] == [0; WRITTEN];
            let free = pending[slots.clone()].iter_mut().find(|slot| **slot == 0);
            if in_order && let Some(slot) = free {
                *slot = access.address;
                return Ok(());
            }
        }
        self.flush(out)?;
        for _ in 1..access.gap {
            self.write(out, &[0; ADDRESSES])?;
        }
        let mut addresses = [0; ADDRESSES];
        addresses[slots.start] = access.address;
        self.pending = Some(addresses);
        Ok(())
    }

    /// Writes the record that waits.
    pub(super) fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self.pending.take() {
            Some(addresses) => self.write(out, &addresses),
            None => Ok(()),
        }
    }

    fn write(&mut self, out: &mut impl Write, addresses: &[u64; ADDRESSES]) -> io::Result<()> {
        let mut record = [0; RECORD];
        let pointer = CODE + 4 * (self.instructions % (1 << 20));
        record[..8].copy_from_slice(&pointer.to_le_bytes());
        for (place, address) in record[16..].chunks_exact_mut(8).zip(addresses) {
            place.copy_from_slice(&address.to_le_bytes());
        }
        self.instructions += 1;
        out.write_all(&record)
    }
}
