//! Compressed traces: xz, gzip and Zstandard, recognized by their first bytes.

use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

const XZ: [u8; 6] = *b"\xfd7zXZ\0";
const GZIP: [u8; 3] = *b"\x1f\x8b\x08";
const ZSTD: [u8; 4] = *b"\x28\xb5\x2f\xfd";

/// Most memory that the decoder of an xz file may use, in bytes: twice that of `xz -9`.
const XZ_MEMORY: u64 = 128 << 20;

/// Endings of compressed files.
const ENDINGS: [&str; 3] = ["xz", "gz", "zst"];

/// A stream of bytes that may have been compressed.
pub(super) struct Opened {
    /// Its bytes, decompressed.
    pub(super) input: Box<dyn Read + Send>,
    /// True if they were compressed.
    pub(super) compressed: bool,
}

/// Returns true if a file that begins so is one of xz, gzip or Zstandard.
#[must_use]
pub fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&XZ) || start.starts_with(&GZIP) || start.starts_with(&ZSTD)
}

/// Decompresses `input` if it is compressed.
pub(super) fn open(mut input: Box<dyn Read + Send>) -> io::Result<Opened> {
    let mut start = Vec::new();
    input.by_ref().take(XZ.len() as u64).read_to_end(&mut start)?;
    let whole = Cursor::new(start.clone()).chain(input);
    let decoder: Box<dyn Read + Send> = if start.starts_with(&XZ) {
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
        Box::new(XzDecoder::new_stream(whole, stream))
    } else if start.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(whole))
    } else if start.starts_with(&ZSTD) {
        Box::new(zstd::stream::read::Decoder::new(whole)?)
    } else {
        return Ok(Opened { input: Box::new(whole), compressed: false });
    };
    Ok(Opened { input: decoder, compressed: true })
}

/// Decompresses `input` if it begins like a file of xz, gzip or Zstandard.
///
/// # Errors
/// If its first bytes cannot be read.
pub fn decompressed(input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    open(input).map(|opened| opened.input)
}

/// Returns true if the ending of `path` is that of a compressed file.
#[must_use]
pub fn has_compressed_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Returns the name of a file without the ending of its compression.
pub(super) fn bare(path: &Path) -> &Path {
    match path.file_stem() {
        Some(stem) if has_compressed_ending(path) => Path::new(stem),
        _ => path,
    }
}
