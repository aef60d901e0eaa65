//! Writes traces in any format.

use std::io::{self, Write};

use memweir_core::Direction;

use super::{Access, Format, Header, Totals, binary, champsim, compact};

/// A trace that is being written. Unless it is [finished](Self::finish), it has no end.
pub struct Writer<W> {
    out: W,
    encoder: Encoder,
    totals: Totals,
}

enum Encoder {
    Compact(Box<compact::Encoder>),
    Plain(Format),
    SimpleO3(SimpleO3),
    ChampSim(champsim::Encoder),
}

impl<W: Write> Writer<W> {
    /// Begins a trace; formats with a header store `header`.
    ///
    /// # Errors
    /// If it cannot be written, or the format is one that is only read.
    pub fn start(mut out: W, format: Format, header: &Header) -> io::Result<Self> {
        let encoder = match format {
            Format::Memweir => {
                Encoder::Compact(Box::new(compact::Encoder::start(&mut out, header)?))
            }
            Format::SimpleO3 => Encoder::SimpleO3(SimpleO3::default()),
            Format::ChampSim => Encoder::ChampSim(champsim::Encoder::default()),
            tool @ (Format::Lackey | Format::Drmemtrace) => {
                let reason = format!("the format `{}` is read and not written", tool.name());
                return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
            }
            plain => Encoder::Plain(plain),
        };
        Ok(Self { out, encoder, totals: Totals::default() })
    }

    /// Appends an access. Formats other than memweir's lose its thread, and all but `simple-o3` and
    /// `champsim` its gap.
    ///
    /// # Errors
    /// If it cannot be written, or the format cannot express it.
    pub fn push(&mut self, access: &Access) -> io::Result<()> {
        let cycle = self.totals.accesses();
        self.totals.add(access);
        let (address, write) = (access.address, access.direction == Direction::Write);
        match &mut self.encoder {
            Encoder::Compact(encoder) => encoder.push(&mut self.out, access),
            Encoder::SimpleO3(encoder) => encoder.push(&mut self.out, access),
            Encoder::ChampSim(encoder) => encoder.push(&mut self.out, access),
            Encoder::Plain(Format::Binary) => self.out.write_all(&binary::word(access)),
            Encoder::Plain(Format::Ramulator2) => {
                writeln!(self.out, "{} {address:#x}", if write { "ST" } else { "LD" })
            }
            Encoder::Plain(Format::Ramulator1) => {
                writeln!(self.out, "{address:#x} {}", if write { "W" } else { "R" })
            }
            Encoder::Plain(_) => {
                let operation = if write { "WRITE" } else { "READ" };
                writeln!(self.out, "{address:#x} {operation} {cycle}")
            }
        }
    }

    /// Writes the end and returns the output with the sums over the trace.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Totals)> {
        match self.encoder {
            Encoder::Compact(encoder) => encoder.finish(&mut self.out, &self.totals)?,
            Encoder::SimpleO3(SimpleO3 { read: Some(read), .. }) => {
                line_o3(&mut self.out, &read, None)?;
            }
            Encoder::ChampSim(mut encoder) => encoder.flush(&mut self.out)?,
            Encoder::SimpleO3(_) | Encoder::Plain(_) => {}
        }
        self.out.flush()?;
        Ok((self.out, self.totals))
    }
}

/// Encodes accesses as lines, each of which holds a read and at most one write after it.
#[derive(Default)]
struct SimpleO3 {
    /// The read that waits for the write of its line.
    read: Option<Access>,
    /// Instructions of the writes since then, which come before the next read: the format has no
    /// instructions between a read and its write.
    passed: u64,
}

impl SimpleO3 {
    fn push(&mut self, out: &mut impl Write, access: &Access) -> io::Result<()> {
        match access.direction {
            Direction::Read => {
                let passed = std::mem::take(&mut self.passed);
                let gap = access.gap.saturating_add(passed);
                match self.read.replace(Access { gap, ..*access }) {
                    Some(read) => line_o3(out, &read, None),
                    None => Ok(()),
                }
            }
            Direction::Write => match self.read.take() {
                Some(read) => {
                    self.passed = access.gap;
                    line_o3(out, &read, Some(access))
                }
                None => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a write without a read before it has no place in the format `simple-o3`",
                )),
            },
        }
    }
}

/// Ramulator takes a hexadecimal number for its digits before the `x`.
fn line_o3(out: &mut impl Write, read: &Access, write: Option<&Access>) -> io::Result<()> {
    let bubbles = read.gap.saturating_sub(1);
    match write {
        Some(write) => writeln!(out, "{bubbles} {} {}", read.address, write.address),
        None => writeln!(out, "{bubbles} {}", read.address),
    }
}
