//! memweir's own format: compressed blocks, each of which can be decoded without the others.
//!
//! A file consists of [`MAGIC`], a header block, data blocks, an end block, and a tail that leads
//! to the end block. A block consists of its kind (one byte), the number of its accesses, the
//! length of its content, the length of the stored frame (32 bits each, little endian), and the
//! content as a zstd frame with a checksum.
//!
//! Numbers are varints: seven bits per byte, the lowest first, the high bit set in all but the
//! last. An access consists of a *head*, a *thread* if it changes, and a *gap*. The head is the
//! distance in lines from the previous access of the same thread, with the sign in its lowest bit,
//! shifted left by two, plus two if the thread changes, plus one for a write. A thread is its index
//! in the order of first appearance within the block, followed by process and thread number if it
//! is new.

mod read;
mod write;

use std::io::{self, Read, Seek, SeekFrom};

use super::{AddressSpace, Header, Side, ThreadId, Totals};
pub(super) use read::Decoder;
pub(super) use write::Encoder;

/// The first bytes of every file; the last is the version.
pub(super) const MAGIC: [u8; 8] = *b"\x89mwt\r\n\x1a\x01";
/// The last bytes of every complete file, after the offset of the end block.
const TAIL: [u8; 8] = *b"mwt end\n";
/// Accesses per block.
const BLOCK: usize = 16 << 10;
/// Largest content of a block: the longest head, thread and gap for each access.
const MAX_CONTENT: usize = BLOCK * 40;
/// Bytes before a block's frame.
const BLOCK_HEAD: usize = 13;
/// The byte behind the name in the header of a trace of accesses before the caches.
const CORE_SIDE: u8 = 1;
/// Longest name of a trace in a header, in bytes.
const MAX_NAME: usize = 4096;

/// Content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Header = 1,
    Data = 2,
    End = 3,
}

/// The fields before a block's frame.
#[derive(Clone, Copy, Debug)]
struct BlockHead {
    kind: u8,
    accesses: u32,
    content: u32,
    stored: u32,
}

impl BlockHead {
    fn to_bytes(self) -> [u8; BLOCK_HEAD] {
        let mut bytes = [self.kind; BLOCK_HEAD];
        for (place, word) in
            bytes[1..].chunks_exact_mut(4).zip([self.accesses, self.content, self.stored])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEAD] = bytes.first_chunk()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let head = Self { kind: bytes[0], accesses: word(1), content: word(5), stored: word(9) };
        let possible = head.content as usize <= MAX_CONTENT
            && head.stored as usize <= zstd::zstd_safe::compress_bound(MAX_CONTENT)
            && head.accesses as usize <= BLOCK;
        possible.then_some(head)
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Removes a varint of at most 64 bits from the front.
#[inline]
fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (place, byte) in input.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *input = &input[place + 1..];
            // Only the lowest bit of the tenth byte fits.
            return (place < 9 || *byte <= 1).then_some(value);
        }
    }
    None
}

/// Encodes a signed distance with its sign in the lowest bit.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn header_content(header: &Header) -> Vec<u8> {
    let addresses = match header.addresses {
        AddressSpace::Unknown => 0,
        AddressSpace::Physical => 1,
        AddressSpace::Virtual => 2,
    };
    let mut end = header.name.len().min(MAX_NAME);
    while !header.name.is_char_boundary(end) {
        end -= 1;
    }
    let mut content = vec![super::LINE.trailing_zeros() as u8, addresses];
    put_varint(&mut content, end as u64);
    content.extend_from_slice(&header.name.as_bytes()[..end]);
    if header.side == Side::Core {
        content.push(CORE_SIDE);
    }
    content
}

/// Returns the header, or the reason why its content is unusable.
fn read_header(content: &[u8]) -> Result<Header, String> {
    let damaged = || "the header is damaged".to_owned();
    let [line_bits, addresses, rest @ ..] = content else { return Err(damaged()) };
    if u32::from(*line_bits) != super::LINE.trailing_zeros() {
        return Err(format!("lines of 2^{line_bits} bytes; only 64 bytes are supported"));
    }
    let addresses = match addresses {
        0 => AddressSpace::Unknown,
        1 => AddressSpace::Physical,
        2 => AddressSpace::Virtual,
        _ => return Err(damaged()),
    };
    let mut rest = rest;
    let length = take_varint(&mut rest).ok_or_else(damaged)?;
    let (name, rest) = rest.split_at_checked(length as usize).ok_or_else(damaged)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| damaged())?;
    let side = if rest.first() == Some(&CORE_SIDE) { Side::Core } else { Side::Memory };
    Ok(Header { name, addresses, side })
}

fn end_content(totals: &Totals) -> Vec<u8> {
    let mut content = Vec::new();
    for value in [totals.reads, totals.writes, totals.instructions] {
        put_varint(&mut content, value);
    }
    content
}

fn read_end(mut content: &[u8]) -> Option<Totals> {
    let mut next = || take_varint(&mut content);
    Some(Totals { reads: next()?, writes: next()?, instructions: next()? })
}

/// Returns the totals at the end of a complete file; `None` for any other file.
pub(super) fn totals(file: &mut (impl Read + Seek)) -> io::Result<Option<Totals>> {
    let mut magic = [0; MAGIC.len()];
    let size = file.seek(SeekFrom::End(0))?;
    let tail_size = (size_of::<u32>() + TAIL.len()) as u64;
    if size < MAGIC.len() as u64 + tail_size {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut magic)?;
    let mut tail = [0; 12];
    file.seek(SeekFrom::Start(size - tail_size))?;
    file.read_exact(&mut tail)?;
    if magic != MAGIC || tail[4..] != TAIL {
        return Ok(None);
    }
    let back = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if back < BLOCK_HEAD as u64 || back > 1024 || back > size - tail_size {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(size - tail_size - back))?;
    let mut block = vec![0; back as usize];
    file.read_exact(&mut block)?;
    let Some(head) = BlockHead::from_bytes(&block) else { return Ok(None) };
    let content = zstd::bulk::decompress(&block[BLOCK_HEAD..], head.content as usize);
    Ok(content.ok().filter(|_| head.kind == Kind::End as u8).and_then(|c| read_end(&c)))
}

/// The threads of a block in the order of their first appearance, each with its last line.
#[derive(Default)]
struct Threads {
    known: Vec<(ThreadId, u64)>,
    current: usize,
}
