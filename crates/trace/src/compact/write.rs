//! Writes blocks.

use std::collections::HashMap;
use std::io::{self, Write};

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use memweir_core::Direction;

use super::super::{Access, Header, LINE, ThreadId, Totals};
use super::{BLOCK, BlockHead, Kind, MAGIC, TAIL, end_content, header_content, put_varint, zigzag};

/// Compression level at which a core compresses faster than a memory serves the accesses.
const LEVEL: i32 = 3;

pub(crate) struct Encoder {
    compressor: Compressor<'static>,
    content: Vec<u8>,
    accesses: u32,
    /// The index and the last line of each thread of the block.
    threads: HashMap<ThreadId, (u64, u64)>,
    current: Option<ThreadId>,
}

impl Encoder {
    /// Writes the header.
    pub(crate) fn start(out: &mut impl Write, header: &Header) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let mut encoder = Self {
            compressor,
            content: Vec::new(),
            accesses: 0,
            threads: HashMap::new(),
            current: None,
        };
        out.write_all(&MAGIC)?;
        encoder.content = header_content(header);
        encoder.block(out, Kind::Header)?;
        Ok(encoder)
    }

    /// Appends an access.
    pub(crate) fn push(&mut self, out: &mut impl Write, access: &Access) -> io::Result<()> {
        let next = self.threads.len() as u64;
        let (place, last) = self.threads.entry(access.thread).or_insert((next, 0));
        let line = access.address / LINE;
        // Line addresses have 58 bits, so the head has room for its flags at any distance.
        let distance = zigzag(line.wrapping_sub(*last) as i64);
        let changes = self.current != Some(access.thread);
        let write = access.direction == Direction::Write;
        put_varint(&mut self.content, distance << 2 | u64::from(changes) << 1 | u64::from(write));
        if changes {
            put_varint(&mut self.content, *place);
            if *place == next {
                put_varint(&mut self.content, u64::from(access.thread.process));
                put_varint(&mut self.content, u64::from(access.thread.thread));
            }
        }
        put_varint(&mut self.content, access.gap);
        *last = line;
        self.current = Some(access.thread);
        self.accesses += 1;
        if self.accesses as usize == BLOCK {
            self.block(out, Kind::Data).map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Writes the pending accesses and the end, with the sums over the trace.
    pub(crate) fn finish(mut self, out: &mut impl Write, totals: &Totals) -> io::Result<()> {
        if self.accesses > 0 {
            self.block(out, Kind::Data)?;
        }
        self.content = end_content(totals);
        let back = self.block(out, Kind::End)?;
        out.write_all(&(back as u32).to_le_bytes())?;
        out.write_all(&TAIL)
    }

    /// Writes the content as a block and begins the next; returns the number of bytes written.
    fn block(&mut self, out: &mut impl Write, kind: Kind) -> io::Result<usize> {
        let frame = self.compressor.compress(&self.content)?;
        let head = BlockHead {
            kind: kind as u8,
            accesses: self.accesses,
            content: self.content.len() as u32,
            stored: frame.len() as u32,
        };
        let head = head.to_bytes();
        out.write_all(&head)?;
        out.write_all(&frame)?;
        self.content.clear();
        self.accesses = 0;
        self.threads.clear();
        self.current = None;
        Ok(head.len() + frame.len())
    }
}
