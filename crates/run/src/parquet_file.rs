//! The Parquet files that memweir reads, which may be damaged.

mod metadata;

use std::io::{self, Read};

use bytes::Bytes;
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};

/// Opens a Parquet file of columns side by side, and checks what the Parquet reader takes on trust.
///
/// # Errors
/// If the file is not Parquet, has columns within columns, or is damaged.
pub(crate) fn open<R: ChunkReader + 'static>(
    file: R,
) -> Result<SerializedFileReader<Strict<R>>, ParquetError> {
    check_metadata(&file)?;
    let reader = SerializedFileReader::new(Strict(file))?;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for column in 0..group.num_columns() {
            let mut pages = group.get_column_page_reader(column)?;
            while let Some(next) = pages.peek_next_page()? {
                if next.is_dict {
                    check_dictionary(pages.get_next_page()?)?;
                } else {
                    pages.skip_next_page()?;
                }
            }
        }
    }
    Ok(reader)
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

/// Refuses a dictionary of more values than its bytes can hold: the Parquet reader allocates as
/// many as the page claims, which may be billions, before it looks for them.
fn check_dictionary(page: Option<Page>) -> Result<(), ParquetError> {
    match page {
        Some(Page::DictionaryPage { buf, num_values, .. }) if num_values as usize > buf.len() => {
            let size = buf.len();
            let reason = format!("a dictionary of {num_values} values has {size} bytes");
            Err(ParquetError::General(reason))
        }
        _ => Ok(()),
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
