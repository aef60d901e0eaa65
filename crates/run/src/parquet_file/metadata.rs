//! Checks what the metadata of a Parquet file and the headers of its pages claim, which Thrift's
//! compact protocol encodes.
//!
//! The Parquet reader believes them: it allocates room for as many children as an element of the
//! schema claims, and for as many values as a dictionary does, which may be billions; it calls
//! itself for each level of the schema, and passes over lists of billions of truth values without
//! reading a byte. So this reads them first.

/// Kinds of fields in Thrift's compact protocol.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

use kind::{BINARY, I32, I64, LIST, STRUCT};

/// Identifiers of fields in the Thrift definition of Parquet.
const FILE_SCHEMA: u64 = 2;
const ELEMENT_CHILDREN: u64 = 5;
const PAGE_BYTES: u64 = 2;
const PAGE_BYTES_IN_FILE: u64 = 3;
const PAGE_DICTIONARY: u64 = 7;
const DICTIONARY_VALUES: u64 = 1;

/// Kinds of the fields from 1 on of the file's metadata, of an element of its schema, and of the
/// headers of a page and of a dictionary. The Parquet reader takes them for granted, so after a
/// field of another kind it would read other fields than this.
const FILE: [u8; 9] = [I32, LIST, I64, LIST, LIST, BINARY, LIST, STRUCT, BINARY];
const ELEMENT: [u8; 10] = [I32, I32, I32, BINARY, I32, I32, I32, I32, I32, STRUCT];
const PAGE: [u8; 8] = [I32, I32, I32, I32, STRUCT, STRUCT, STRUCT, STRUCT];
const DICTIONARY: [u8; 2] = [I32, I32];

/// Deepest nesting of structures and lists. Files have about eight levels.
const DEPTH: u32 = 16;

/// Returns true if the columns of a file with this metadata lie side by side, below one root;
/// `None` if the metadata is damaged.
pub(super) fn is_flat(metadata: &[u8]) -> Option<bool> {
    let mut input = Compact(metadata);
    let (mut id, mut flat) = (0, false);
    while let Some(kind) = input.field(&mut id)? {
        expect(&FILE, id, kind)?;
        match id {
            FILE_SCHEMA => flat = input.side_by_side()?,
            _ => input.skip(kind, DEPTH)?,
        }
    }
    Some(flat)
}

/// Returns `None` if the field is not of the kind that it should be.
fn expect(kinds: &[u8], id: u64, kind: u8) -> Option<()> {
    let expected = id.checked_sub(1).and_then(|place| kinds.get(place as usize));
    expected.is_none_or(|expected| *expected == kind).then_some(())
}

/// Reads the headers of a column's pages; `None` if they are damaged, or if a dictionary has more
/// values than bytes.
pub(super) fn check_pages(column: &[u8]) -> Option<()> {
    let mut input = Compact(column);
    while !input.0.is_empty() {
        let (mut id, mut bytes, mut in_file, mut values) = (0, 0, 0, 0);
        while let Some(kind) = input.field(&mut id)? {
            expect(&PAGE, id, kind)?;
            match id {
                PAGE_BYTES => bytes = input.integer()?,
                PAGE_BYTES_IN_FILE => in_file = input.integer()?,
                PAGE_DICTIONARY => values = input.number(DICTIONARY_VALUES, &DICTIONARY)?,
                _ => input.skip(kind, DEPTH)?,
            }
        }
        if values > bytes {
            return None;
        }
        input.0.split_off(..usize::try_from(in_file).ok()?)?;
    }
    Some(())
}

/// The rest of an encoded structure.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads the head of a field: advances `id` to its identifier, and returns its kind, which is
    /// absent at the end of the structure.
    fn field(&mut self, id: &mut u64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *id = if head >> 4 == 0 { self.integer()? } else { *id + u64::from(head >> 4) };
        (*id <= i16::MAX as u64).then_some(Some(head & 0xf))
    }

    /// Reads an integer that no whole file has negative. The Parquet reader drops bits of it that
    /// have no room in 32, and may then find a field or a number here that this would not.
    fn integer(&mut self) -> Option<u64> {
        let value = self.varint()?;
        (value % 2 == 0 && value <= u32::MAX.into()).then_some(value / 2)
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => drop(self.byte()?),
            kind::I16..=kind::I64 => drop(self.varint()?),
            kind::BINARY => {
                let size = self.varint()?;
                self.0.split_off(..usize::try_from(size).ok()?)?;
            }
            kind::LIST | kind::SET if depth > 0 => {
                let (count, kind) = self.list()?;
                // These are in no list of Parquet's metadata.
                if matches!(kind, kind::TRUE | kind::FALSE) {
                    return None;
                }
                for _ in 0..count {
                    self.skip(kind, depth - 1)?;
                }
            }
            kind::STRUCT if depth > 0 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth - 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads the head of a list: the number of its elements and their kind.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((count, head & 0xf))
    }

    /// Reads the schema, and returns true if it has a root, and columns without columns below it.
    fn side_by_side(&mut self) -> Option<bool> {
        let (count, _) = self.list()?;
        let root = self.number(ELEMENT_CHILDREN, &ELEMENT)?;
        let mut flat = root + 1 == count;
        for _ in 1..count {
            flat &= self.number(ELEMENT_CHILDREN, &ELEMENT)? == 0;
        }
        Some(flat)
    }

    /// Reads a structure, and returns the integer in one of its fields, zero if it has none.
    fn number(&mut self, wanted: u64, kinds: &[u8]) -> Option<u64> {
        let (mut id, mut number) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            expect(kinds, id, kind)?;
            match id {
                _ if id == wanted => number = self.integer()?,
                _ => self.skip(kind, DEPTH)?,
            }
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with the name `r` that claims some children, and one column `c` of 64-bit integers
    /// without a sign, which is a logical type.
    fn metadata(children: u8) -> Vec<u8> {
        let root = [0x48, 1, b'r', 0x15, children * 2, 0];
        let column = [0x15, 4, 0x25, 0, 0x18, 1, b'c', 0x6c, 0xac, 0x13, 64, 0x12, 0, 0, 0];
        [&[0x15, 2, 0x19, 0x2c][..], &root, &column, &[0]].concat()
    }

    #[test]
    fn columns_side_by_side_are_flat() {
        assert_eq!(is_flat(&metadata(1)), Some(true));
        assert_eq!(is_flat(&metadata(2)), Some(false), "a child that is not there");
        assert_eq!(is_flat(&metadata(0)), Some(false), "a column beside the root");
    }

    /// The Parquet reader takes 5 + 65,536 for the field 5, the children, and minus one for
    /// billions of them.
    #[test]
    fn numbers_that_do_not_fit_are_damaged() {
        let whole = metadata(1);
        let column = |field: &[u8]| [&whole[..whole.len() - 2], field, &[0, 0]].concat();
        assert_eq!(is_flat(&column(&[0x05, 10, 0])), Some(true), "no children");
        assert_eq!(is_flat(&column(&[0x05, 10, 2])), Some(false), "a child");
        assert_eq!(is_flat(&column(&[0x05, 0x8a, 0x80, 0x08, 2])), None, "another field 5");
        assert_eq!(is_flat(&column(&[0x05, 10, 1])), None, "minus one child");
        assert_eq!(is_flat(&column(&[0x05, 10, 0x80, 0x80, 0x80, 0x80, 0x20])), None, "billions");
    }

    /// To the Parquet reader the precision in field 8 is an integer, and what follows its one byte
    /// other fields.
    #[test]
    fn fields_of_other_kinds_are_damaged() {
        let whole = metadata(1);
        let column = |field: &[u8]| [&whole[..whole.len() - 2], field, &[0, 0]].concat();
        assert_eq!(is_flat(&column(&[0x05, 16, 2])), Some(true));
        assert_eq!(is_flat(&column(&[0x0c, 16, 0x15, 2, 0])), None);
        assert_eq!(is_flat(&[&whole[..whole.len() - 1], &[0x0c, 2, 0, 0]].concat()), None);
    }

    #[test]
    fn what_ends_early_is_no_schema() {
        let whole = metadata(1);
        assert!((0..whole.len()).all(|end| is_flat(&whole[..end]).is_none()));
    }

    #[test]
    fn lists_of_truth_values_are_refused() {
        let whole = metadata(1);
        // In the field 20, which Parquet does not have.
        let list = |kind| [&whole[..whole.len() - 1], &[0x09, 40, 0x20 | kind, 2, 2, 0]].concat();
        assert_eq!(is_flat(&list(kind::I16)), Some(true));
        assert_eq!(is_flat(&list(kind::TRUE)), None);
    }

    #[test]
    fn dictionaries_have_fewer_values_than_bytes() {
        // A dictionary page, a data page without content, and what a damaged file claims.
        let page = |values: u8, truths: u8| {
            let dictionary =
                [0x15, 4, 0x15, 16, 0x15, 4, 0x4c, 0x15, values * 2, 0x09, 40, truths, 2];
            [&dictionary[..], &[0, 0, 7, 7], &[0x15, 0, 0x15, 0, 0x15, 0, 0]].concat()
        };
        assert_eq!(check_pages(&page(8, 0x15)), Some(()));
        assert_eq!(check_pages(&page(9, 0x15)), None);
        assert_eq!(check_pages(&page(8, 0x11)), None, "a list of truth values");
        assert!((1..page(8, 0x15).len()).any(|end| check_pages(&page(8, 0x15)[..end]).is_none()));
    }
}
