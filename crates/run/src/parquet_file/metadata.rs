//! Checks what the metadata of a Parquet file and the headers of its pages claim, which Thrift's
//! compact protocol encodes.
//!
//! The Parquet reader believes them: it allocates room for as many children as an element of the
//! schema claims, and for as many values as a dictionary does, which may be billions; it calls
//! itself for each level of the schema, and passes over lists of billions of truth values without
//! reading a byte. So this reads them first.

mod grammar;

use grammar::{DICTIONARY, ELEMENT, FILE, PAGE, Type, kind};

/// Identifiers of fields in the Thrift definition of Parquet.
const FILE_SCHEMA: u64 = 2;
const ELEMENT_CHILDREN: u64 = 5;
const PAGE_BYTES: u64 = 2;
const PAGE_BYTES_IN_FILE: u64 = 3;
const PAGE_DICTIONARY: u64 = 7;
const DICTIONARY_VALUES: u64 = 1;

/// Returns true if the columns of a file with this metadata lie side by side, below one root;
/// `None` if the metadata is damaged.
pub(super) fn is_flat(metadata: &[u8]) -> Option<bool> {
    let mut input = Compact(metadata);
    let (mut id, mut flat) = (0, false);
    while let Some(kind) = input.field(&mut id)? {
        match (id, kind) {
            (FILE_SCHEMA, kind::LIST) => flat = input.side_by_side()?,
            _ => input.value_in(FILE, id, kind)?,
        }
    }
    Some(flat)
}

/// Reads the headers of a column's pages; `None` if they are damaged, or if a dictionary has more
/// values than bytes.
pub(super) fn check_pages(column: &[u8]) -> Option<()> {
    let mut input = Compact(column);
    while !input.0.is_empty() {
        let (mut id, mut bytes, mut in_file, mut values) = (0, 0, 0, 0);
        while let Some(kind) = input.field(&mut id)? {
            match (id, kind) {
                (PAGE_BYTES, kind::I32) => bytes = input.integer()?,
                (PAGE_BYTES_IN_FILE, kind::I32) => in_file = input.integer()?,
                (PAGE_DICTIONARY, kind::STRUCT) => {
                    values = input.number(DICTIONARY_VALUES, DICTIONARY)?;
                }
                _ => input.value_in(PAGE, id, kind)?,
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
    /// absent at the end of the structure. Fields are in ascending order, so none is there twice.
    fn field(&mut self, id: &mut u64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let before = *id;
        *id = if head >> 4 == 0 { self.integer()? } else { before + u64::from(head >> 4) };
        (before < *id).then_some(Some(head & 0xf))
    }

    /// Reads an integer that no whole file has negative. The Parquet reader drops bits of it that
    /// have no room in 32, and may then find a field or a number here that this would not.
    fn integer(&mut self) -> Option<u64> {
        let value = self.varint()?;
        (value % 2 == 0 && value <= u32::MAX.into()).then_some(value / 2)
    }

    /// Reads the value of a field of a structure with these fields. Another field is refused: a
    /// newer Parquet reader may take it for a value of another kind.
    fn value_in(&mut self, fields: &[Type], id: u64, kind: u8) -> Option<()> {
        self.value(fields.get(id.checked_sub(1)? as usize)?, kind)
    }

    fn value(&mut self, of: &Type, kind: u8) -> Option<()> {
        match of {
            Type::Truth if matches!(kind, kind::TRUE | kind::FALSE) => {}
            Type::Plain(expected) if kind == *expected => self.plain(kind)?,
            Type::List(of) if kind == kind::LIST => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    self.value(of, kind)?;
                }
            }
            Type::Struct(fields) if kind == kind::STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.value_in(fields, id, kind)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn plain(&mut self, kind: u8) -> Option<()> {
        match kind {
            kind::BYTE => drop(self.byte()?),
            kind::BINARY => {
                let size = self.varint()?;
                self.0.split_off(..usize::try_from(size).ok()?)?;
            }
            _ => drop(self.varint()?),
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
        let (count, kind::STRUCT) = self.list()? else { return None };
        let root = self.number(ELEMENT_CHILDREN, ELEMENT)?;
        let mut flat = root + 1 == count;
        for _ in 1..count {
            flat &= self.number(ELEMENT_CHILDREN, ELEMENT)? == 0;
        }
        Some(flat)
    }

    /// Reads a structure, and returns the integer in one of its fields, zero if it has none.
    fn number(&mut self, wanted: u64, fields: &[Type]) -> Option<u64> {
        let (mut id, mut number) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            match kind {
                kind::I32 if id == wanted => number = self.integer()?,
                _ => self.value_in(fields, id, kind)?,
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

    /// A file whose column has this field in place of the logical type.
    fn with_column(field: &[u8]) -> Vec<u8> {
        let whole = metadata(1);
        [&whole[..whole.len() - 9], field, &[0, 0]].concat()
    }

    /// A file with further fields after its schema.
    fn with_fields(fields: &[u8]) -> Vec<u8> {
        let whole = metadata(1);
        [&whole[..whole.len() - 1], fields, &[0]].concat()
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
        assert_eq!(is_flat(&with_column(&[0x05, 10, 0])), Some(true), "no children");
        assert_eq!(is_flat(&with_column(&[0x05, 10, 2])), Some(false), "a child");
        assert_eq!(is_flat(&with_column(&[0x05, 0x8a, 0x80, 0x08, 2])), None, "another field 5");
        assert_eq!(is_flat(&with_column(&[0x05, 10, 1])), None, "minus one child");
        assert_eq!(
            is_flat(&with_column(&[0x05, 10, 0x80, 0x80, 0x80, 0x80, 0x20])),
            None,
            "billions"
        );
    }

    /// To the Parquet reader the precision in field 8 is an integer, and what follows its one byte
    /// other fields.
    #[test]
    fn fields_of_other_kinds_are_damaged() {
        assert_eq!(is_flat(&with_column(&[0x05, 16, 2])), Some(true));
        assert_eq!(is_flat(&with_column(&[0x0c, 16, 0x15, 2, 0])), None);
        // The logical type of integers has a width, which is no name.
        assert_eq!(is_flat(&with_column(&[0x6c, 0xac, 0x13, 64, 0x12, 0, 0])), Some(true));
        assert_eq!(is_flat(&with_column(&[0x6c, 0xac, 0x18, 1, 64, 0, 0])), None);
        assert_eq!(is_flat(&with_fields(&[0x6c, 0x1c, 0, 0])), None, "encryption");
    }

    #[test]
    fn fields_in_another_order_are_damaged() {
        assert_eq!(is_flat(&with_fields(&[0x16, 2])), Some(true), "rows");
        assert_eq!(is_flat(&with_fields(&[0x05, 2, 2])), None, "the version again");
    }

    /// The Parquet reader would take the offset of the column's pages, after a path that is no
    /// list, for something else.
    #[test]
    fn columns_of_row_groups_are_checked_to_the_end() {
        let file = |path: &[u8]| {
            let column = [&[0x15, 4, 0x19, 0x15, 0][..], path, &[0x15, 0, 0x16, 2, 0]].concat();
            let group = [&[0x19, 0x1c, 0x26, 8, 0x1c][..], &column, &[0, 0x16, 2, 0]].concat();
            with_fields(&[&[0x29, 0x1c], &group[..]].concat())
        };
        assert_eq!(is_flat(&file(&[0x19, 0x18, 1, b'c'])), Some(true));
        assert_eq!(is_flat(&file(&[0x18, 1, b'c'])), None, "a name");
        assert_eq!(is_flat(&file(&[0x19, 0x15, 2])), None, "a list of numbers");
        assert_eq!(is_flat(&file(&[0x19, 0x12, 2])), None, "a list of truth values");
    }

    #[test]
    fn what_ends_early_is_no_schema() {
        let whole = metadata(1);
        assert!((0..whole.len()).all(|end| is_flat(&whole[..end]).is_none()));
    }

    #[test]
    fn fields_that_parquet_does_not_have_are_refused() {
        assert_eq!(is_flat(&with_fields(&[0x05, 40, 2])), None, "field 20");
        assert_eq!(is_flat(&with_fields(&[0x05, 0, 2])), None, "field 0");
    }

    #[test]
    fn dictionaries_have_fewer_values_than_bytes() {
        // A dictionary page with its content, and a data page without any.
        let page = |values: u8| {
            let dictionary = [0x15, 4, 0x15, 16, 0x15, 4, 0x4c, 0x15, values * 2, 0, 0];
            [&dictionary[..], &[7, 7], &[0x15, 0, 0x15, 0, 0x15, 0, 0]].concat()
        };
        assert_eq!(check_pages(&page(8)), Some(()));
        assert_eq!(check_pages(&page(9)), None);
        assert!((1..page(8).len()).any(|end| check_pages(&page(8)[..end]).is_none()));
    }
}
