//! The simplest format: eight bytes per access, little endian, the byte address with the lowest bit
//! set for a write.

use memweir_core::Direction;
use memweir_core::input::InputError;

use super::bytes::Bytes;
use super::{Access, ThreadId};

const WORD: usize = 8;
const BATCH: usize = 4096;

/// Decodes the next accesses; false at the end.
pub(super) fn decode(bytes: &mut Bytes, batch: &mut Vec<Access>) -> Result<bool, InputError> {
    if !bytes.want(WORD)? {
        return match bytes.rest().len() {
            0 => Ok(false),
            over => Err(bytes
                .refuse(format!("ends within an access: {over} of {WORD} bytes"))
                .key(format!("access {}", bytes.taken() / WORD as u64 + 1))),
        };
    }
    let (words, _) = bytes.rest().as_chunks::<WORD>();
    let words = &words[..words.len().min(BATCH)];
    batch.extend(words.iter().map(|word| access(u64::from_le_bytes(*word))));
    let taken = words.len() * WORD;
    bytes.take(taken);
    Ok(true)
}

fn access(word: u64) -> Access {
    let direction = if word & 1 == 1 { Direction::Write } else { Direction::Read };
    Access { address: word & !1, gap: 0, thread: ThreadId::default(), direction }
}

/// Encodes an access.
pub(super) fn word(access: &Access) -> [u8; WORD] {
    (access.address & !1 | u64::from(access.direction == Direction::Write)).to_le_bytes()
}
