//! The Parquet files that memweir reads, which may be damaged.

mod metadata;

use std::io::{self, Read};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length, SerializedFileReader};

/// Opens a Parquet file of columns side by side, and checks what the Parquet reader takes on trust.
///
/// # Errors
/// If the file is not Parquet, has columns within columns, or is damaged.
pub(crate) fn open<R: ChunkReader + 'static>(
    file: R,
) -> Result<SerializedFileReader<Strict<R>>, ParquetError> {
    let file = Strict(file);
    check_metadata(&file)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
    for column in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let (start, size) = column.byte_range();
        let pages = file.get_bytes(start, size as usize)?;
        let damaged = || ParquetError::EOF("the pages are damaged".to_owned());
        metadata::check_pages(&pages).ok_or_else(damaged)?;
    }
    SerializedFileReader::new(file)
}

/// Refuses damaged metadata, and columns within columns. The end of the file is the size of its
/// metadata and a magic number; where they make no sense, the Parquet reader says why.
fn check_metadata<R: ChunkReader>(file: &R) -> Result<(), ParquetError> {
    const END: u64 = 8;
    let Some(start) = file.len().checked_sub(END) else { return Ok(()) };
    let end = file.get_bytes(start, END as usize)?;
    let size = end.first_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    let Some(start) = start.checked_sub(size.into()) else { return Ok(()) };
    match metadata::is_flat(&file.get_bytes(start, size as usize)?) {
        Some(true) => Ok(()),
        Some(false) => Err(ParquetError::General("it has columns within columns".to_owned())),
        None => Err(ParquetError::EOF("the metadata is damaged".to_owned())),
    }
}

/// A file whose end is an error.
///
/// The Parquet reader skips what it does not know, and takes the end of the file for skipped bytes:
/// of a damaged list it would skip two billion elements one by one.
pub(crate) struct Strict<R>(pub(crate) R);

impl<R: Length> Length for Strict<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Strict<R> {
    type T = Strict<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.0.get_read(start).map(Strict)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

impl<R: Read> Read for Strict<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            size => Ok(size),
        }
    }
}
