//! Types of the fields of Parquet's metadata and page headers, by its Thrift definition: the field
//! with the identifier 1 comes first. The Parquet reader takes the types for granted, so that after
//! a value of another type it would read other fields than the check. All fields that it knows have
//! to be here.

/// Kinds of values in Thrift's compact protocol.
pub(super) mod kind {
    pub(crate) const TRUE: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const BYTE: u8 = 3;
    pub(crate) const I16: u8 = 4;
    pub(crate) const I32: u8 = 5;
    pub(crate) const I64: u8 = 6;
    pub(crate) const BINARY: u8 = 8;
    pub(crate) const LIST: u8 = 9;
    pub(crate) const STRUCT: u8 = 12;
}

/// Type of a field.
pub(super) enum Type {
    /// True or false, which the kind says already.
    Truth,
    /// A number, bytes or text, of this kind.
    Plain(u8),
    List(&'static Type),
    /// A structure with these fields, or a union of them.
    Struct(&'static [Type]),
    /// In no table of memweir: encryption and geography.
    Refused,
}

use Type::{List, Plain, Refused, Struct, Truth};

const BYTE: Type = Plain(kind::BYTE);
const I16: Type = Plain(kind::I16);
const I32: Type = Plain(kind::I32);
const I64: Type = Plain(kind::I64);
const BINARY: Type = Plain(kind::BINARY);
const EMPTY: Type = Struct(&[]);

/// `FileMetaData`.
pub(super) const FILE: &[Type] = &[
    I32,
    List(&Struct(ELEMENT)),
    I64,
    List(&Struct(ROW_GROUP)),
    List(&KEY_VALUE),
    BINARY,
    List(&Struct(&[EMPTY, EMPTY, EMPTY])),
    Refused,
    Refused,
];

/// `SchemaElement`.
pub(super) const ELEMENT: &[Type] =
    &[I32, I32, I32, BINARY, I32, I32, I32, I32, I32, Struct(LOGICAL_TYPE)];

const TIME_UNIT: Type = Struct(&[EMPTY, EMPTY, EMPTY]);
const LOGICAL_TYPE: &[Type] = &[
    EMPTY,
    EMPTY,
    EMPTY,
    EMPTY,
    Struct(&[I32, I32]),
    EMPTY,
    Struct(&[Truth, TIME_UNIT]),
    Struct(&[Truth, TIME_UNIT]),
    Refused,
    Struct(&[BYTE, Truth]),
    EMPTY,
    EMPTY,
    EMPTY,
    EMPTY,
    EMPTY,
    Struct(&[BYTE]),
    Refused,
    Refused,
];

const KEY_VALUE: Type = Struct(&[BINARY, BINARY]);
const SORTING_COLUMN: Type = Struct(&[I32, Truth, Truth]);
const ROW_GROUP: &[Type] =
    &[List(&Struct(COLUMN_CHUNK)), I64, I64, List(&SORTING_COLUMN), I64, I64, I16];
const COLUMN_CHUNK: &[Type] = &[BINARY, I64, Struct(COLUMN), I64, I32, I64, I32, Refused, Refused];

/// `ColumnMetaData`.
const COLUMN: &[Type] = &[
    I32,
    List(&I32),
    List(&BINARY),
    I32,
    I64,
    I64,
    I64,
    List(&KEY_VALUE),
    I64,
    I64,
    I64,
    STATISTICS,
    List(&Struct(&[I32, I32, I32])),
    I64,
    I32,
    Struct(&[I64, List(&I64), List(&I64)]),
    Refused,
];
const STATISTICS: Type = Struct(&[BINARY, BINARY, I64, I64, BINARY, BINARY, Truth, Truth, I64]);

/// `PageHeader`.
pub(super) const PAGE: &[Type] = &[
    I32,
    I32,
    I32,
    I32,
    Struct(&[I32, I32, I32, I32, STATISTICS]),
    EMPTY,
    Struct(DICTIONARY),
    Struct(&[I32, I32, I32, I32, I32, I32, Truth, STATISTICS]),
];

/// `DictionaryPageHeader`.
pub(super) const DICTIONARY: &[Type] = &[I32, I32, Truth];
