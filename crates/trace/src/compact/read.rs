//! Reads blocks.

use memweir_core::Direction;
use memweir_core::input::InputError;
use zstd::bulk::Decompressor;

use super::super::bytes::Bytes;
use super::super::{Access, Header, LINE, Loss, ThreadId, Totals, Truncation};
use super::{
    BLOCK_HEAD, BlockHead, Kind, MAGIC, MAX_CONTENT, TAIL, Threads, read_end, read_header,
    take_varint, unzigzag,
};

pub(crate) struct Decoder {
    decompressor: Decompressor<'static>,
    content: Vec<u8>,
    read: Totals,
    end: End,
}

/// The end of a file, as far as it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The end block is ahead.
    Ahead,
    /// The end block was read.
    Read,
    /// The file ended before the end block was complete.
    Cut(Loss),
}

/// A block with its decompressed content, or the end of the file in its place.
enum Block {
    Whole(BlockHead),
    /// The first byte of the block tells which accesses are lost.
    Cut(Loss),
}

impl Block {
    /// Returns the loss if the file ends within the block that begins with `rest`.
    fn cut(rest: &[u8]) -> Self {
        Self::Cut(match rest.first() {
            Some(kind) if *kind == Kind::End as u8 => Loss::None,
            Some(_) => Loss::Certain,
            None => Loss::Possible,
        })
    }
}

impl Decoder {
    /// Reads the header.
    pub(crate) fn start(bytes: &mut Bytes) -> Result<(Self, Header), InputError> {
        if !bytes.want(MAGIC.len())? || bytes.rest()[..MAGIC.len()] != MAGIC {
            return Err(bytes.refuse("is no trace of memweir, or one of another version"));
        }
        bytes.take(MAGIC.len());
        let decompressor = Decompressor::new().map_err(|error| bytes.refuse(error.to_string()))?;
        let content = Vec::with_capacity(MAX_CONTENT);
        let mut decoder = Self { decompressor, content, read: Totals::default(), end: End::Ahead };
        match decoder.block(bytes)? {
            Block::Whole(head) if head.kind == Kind::Header as u8 => {
                let header =
                    read_header(&decoder.content).map_err(|reason| bytes.refuse(reason))?;
                Ok((decoder, header))
            }
            Block::Whole(_) => Err(bytes.refuse("has no header")),
            Block::Cut(_) => Err(bytes.refuse("ends within its header")),
        }
    }

    /// Decodes the next block; false at the end of the trace.
    pub(crate) fn decode(
        &mut self,
        bytes: &mut Bytes,
        batch: &mut Vec<Access>,
    ) -> Result<bool, InputError> {
        let at = bytes.taken();
        let head = match self.block(bytes)? {
            Block::Whole(head) => head,
            Block::Cut(loss) => {
                self.end = End::Cut(loss);
                return Ok(false);
            }
        };
        let damaged =
            |what: &str| bytes.refuse(format!("the block at byte {at} is damaged: {what}"));
        match head.kind {
            kind if kind == Kind::Data as u8 => {
                if accesses(&self.content, head.accesses, batch).is_none() {
                    batch.clear();
                    return Err(damaged("its accesses cannot be read"));
                }
                batch.iter().for_each(|access| self.read.add(access));
                Ok(true)
            }
            kind if kind == Kind::End as u8 => {
                let totals = read_end(&self.content).ok_or_else(|| damaged("no totals"))?;
                if totals != self.read {
                    return Err(damaged("its totals are not those of the accesses before it"));
                }
                self.end = End::Read;
                self.tail(bytes)?;
                Ok(false)
            }
            kind => Err(damaged(&format!("unknown kind {kind}"))),
        }
    }

    fn tail(&self, bytes: &mut Bytes) -> Result<(), InputError> {
        // A cut tail loses no accesses.
        if bytes.want(4 + TAIL.len() + 1)? {
            return Err(bytes.refuse(format!("goes on behind its end at byte {}", bytes.taken())));
        }
        Ok(())
    }

    /// Reads and decompresses the next block.
    fn block(&mut self, bytes: &mut Bytes) -> Result<Block, InputError> {
        let at = bytes.taken();
        if !bytes.want(BLOCK_HEAD)? {
            return Ok(Block::cut(bytes.rest()));
        }
        let damaged =
            |bytes: &Bytes, what: &str| bytes.refuse(format!("the block at byte {at} {what}"));
        let head = BlockHead::from_bytes(bytes.rest())
            .ok_or_else(|| damaged(bytes, "is damaged: its length is impossible"))?;
        let end = BLOCK_HEAD + head.stored as usize;
        if !bytes.want(end)? {
            return Ok(Block::cut(bytes.rest()));
        }
        self.content.clear();
        let frame = &bytes.rest()[BLOCK_HEAD..end];
        let result = self.decompressor.decompress_to_buffer(frame, &mut self.content);
        match result {
            Ok(length) if length == head.content as usize => {}
            Ok(_) => return Err(damaged(bytes, "is damaged: its length is wrong")),
            Err(error) => return Err(damaged(bytes, &format!("is damaged: {error}"))),
        }
        bytes.take(end);
        Ok(Block::Whole(head))
    }

    /// Returns the truncation of a file that ended before its end block.
    pub(crate) fn truncation(&self) -> Option<Truncation> {
        match self.end {
            End::Cut(loss) => Some(Truncation { accesses: self.read.accesses(), loss }),
            End::Ahead | End::Read => None,
        }
    }
}

/// Decodes the accesses of a block; `None` if its content is impossible.
fn accesses(mut content: &[u8], count: u32, batch: &mut Vec<Access>) -> Option<()> {
    let mut threads = Threads::default();
    batch.reserve(count as usize);
    for _ in 0..count {
        let head = take_varint(&mut content)?;
        if head & 2 != 0 {
            threads.change(&mut content)?;
        }
        let (thread, last) = threads.known.get_mut(threads.current)?;
        let gap = take_varint(&mut content)?;
        *last = last.wrapping_add_signed(unzigzag(head >> 2)) & (u64::MAX / LINE);
        let direction = if head & 1 == 1 { Direction::Write } else { Direction::Read };
        batch.push(Access { address: *last * LINE, gap, thread: *thread, direction });
    }
    content.is_empty().then_some(())
}

impl Threads {
    fn change(&mut self, content: &mut &[u8]) -> Option<()> {
        let index = take_varint(content)? as usize;
        if index > self.known.len() {
            return None;
        }
        if index == self.known.len() {
            let process = u32::try_from(take_varint(content)?).ok()?;
            let thread = u32::try_from(take_varint(content)?).ok()?;
            self.known.push((ThreadId { process, thread }, 0));
        }
        self.current = index;
        Some(())
    }
}
