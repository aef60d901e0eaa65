//! Checks that the schema of a Parquet file is that of a table: a root, and columns below it.
//!
//! The Parquet reader allocates room for as many children as an element of the schema claims, which
//! may be billions, and calls itself for each level of them. So this looks at the elements first,
//! which Thrift's compact protocol encodes at the start of the file's metadata.

/// Kinds of fields in Thrift's compact protocol.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I64: u8 = 6;
    pub(super) const BINARY: u8 = 8;
    pub(super) const STRUCT: u8 = 12;
}

/// Identifiers of fields in the Thrift definition of Parquet.
const FILE_SCHEMA: u64 = 2;
const ELEMENT_CHILDREN: u64 = 5;

/// Deepest nesting of structures within an element: a logical type with a unit has three levels.
const DEPTH: u32 = 8;

/// Returns whether the columns of a file with this metadata lie side by side; `None` if the
/// metadata ends before its schema does, or is no Thrift.
pub(super) fn is_flat(metadata: &[u8]) -> Option<bool> {
    let mut input = Compact(metadata);
    let mut id = 0;
    while let Some(kind) = input.field(&mut id)? {
        if id != FILE_SCHEMA {
            input.skip(kind, DEPTH)?;
            continue;
        }
        let size = input.byte()?;
        let count = if size >> 4 == 15 { input.varint()? } else { u64::from(size >> 4) };
        let root = input.children()?;
        for _ in 1..count {
            if input.children()? != 0 {
                return Some(false);
            }
        }
        return Some(root + 1 == count);
    }
    None
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
        *id = if head >> 4 == 0 { self.varint()? / 2 } else { *id + u64::from(head >> 4) };
        Some(Some(head & 0xf))
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

    /// Reads an element of the schema, and returns how many children it claims.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            match id {
                // Not negative in a whole file; in a damaged one, many.
                ELEMENT_CHILDREN => children = self.varint()? / 2,
                _ => self.skip(kind, DEPTH)?,
            }
        }
        Some(children)
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

    #[test]
    fn what_ends_early_is_no_schema() {
        let whole = metadata(1);
        assert!((0..whole.len() - 1).all(|end| is_flat(&whole[..end]).is_none()));
    }
}
