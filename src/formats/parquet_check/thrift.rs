//! Reader of Thrift's compact protocol, of which Parquet's metadata is made, and the structs of that metadata: the numbers
//! and types of their fields.
//!
//! Formats: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>,
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.
//!
//! Bytes that pass are read by the Parquet library too, at the same places. It does not look at the type that a field
//! has, and takes no byte for a boolean in a list that it skips; so a field of another type, and such a list, are refused.

use self::ValueType::{Binary, Bool, Byte, Double, Integer, List, Struct};

/// Largest depth of a value.
const MAX_DEPTH: usize = 32;
/// Most elements of a list of known type. The library reserves memory for as many as a list claims.
const MAX_ELEMENTS: usize = 1 << 20;

/// Type that a field has in the format.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueType {
    Bool,
    Byte,
    Integer,
    Double,
    Binary,
    /// List of elements of a type.
    List(&'static ValueType),
    /// Struct with the numbers and types of its fields.
    Struct(&'static [(i64, ValueType)]),
}

/// Type of a field or an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThriftType {
    True,
    False,
    Byte,
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
}

impl ThriftType {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            // A set is written as a list.
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return None,
        })
    }
}

/// Bytes that are not yet read. Every function returns `None` for bytes that are no Thrift.
#[derive(Debug, Clone)]
pub(super) struct ThriftReader<'c> {
    rest: &'c [u8],
}

impl<'c> ThriftReader<'c> {
    pub(super) fn new(content: &'c [u8]) -> Self {
        Self { rest: content }
    }

    /// Number of bytes that are not yet read.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Reads a signed number of at most 64 bits.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let number = take_varint(&mut self.rest)?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Reads a number of at least 0 and at most 32 bits: the library drops further bits.
    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(i32::try_from(self.integer()?).ok()?).ok()
    }

    /// Reads a text or bytes.
    pub(super) fn binary(&mut self) -> Option<&'c [u8]> {
        let length = usize::try_from(take_varint(&mut self.rest)?).ok()?;
        self.rest.split_off(..length)
    }

    /// Reads the header of a list: its length, which the remaining bytes can hold, and the type of its elements.
    pub(super) fn list(&mut self) -> Option<(usize, ThriftType)> {
        let header = self.byte()?;
        let length = match header >> 4 {
            15 => usize::try_from(take_varint(&mut self.rest)?).ok()?,
            length => usize::from(length),
        };
        let kind = if length == 0 { ThriftType::Byte } else { ThriftType::of(header & 15)? };
        // Every element takes at least a byte.
        (length <= self.rest.len()).then_some((length, kind))
    }

    /// Reads a struct whose fields have these numbers and types. Further fields, in which there may be none, are those of
    /// a later version of the format.
    pub(super) fn structure(&mut self, fields: &[(i64, ValueType)]) -> Option<()> {
        self.structure_within(MAX_DEPTH, fields)
    }

    fn structure_within(&mut self, depth: usize, fields: &[(i64, ValueType)]) -> Option<()> {
        self.fields_within(depth, &mut |reader, field, kind| {
            let Some((_, wanted)) = fields.iter().find(|(number, _)| *number == field) else { return Some(false) };
            reader.value(depth, kind, *wanted).map(|()| true)
        })
    }

    /// Reads a value of a known type.
    fn value(&mut self, depth: usize, kind: ThriftType, wanted: ValueType) -> Option<()> {
        match (wanted, kind) {
            (Bool, ThriftType::True | ThriftType::False)
            | (Byte, ThriftType::Byte)
            | (Integer, ThriftType::Integer)
            | (Double, ThriftType::Double)
            | (Binary, ThriftType::Binary) => self.skip(kind, depth),
            (List(element), ThriftType::List) => {
                let (length, kind) = self.list()?;
                if length > MAX_ELEMENTS {
                    return None;
                }
                (0..length).try_for_each(|_| self.value(depth.checked_sub(1)?, kind, *element))
            }
            (Struct(fields), ThriftType::Struct) => self.structure_within(depth.checked_sub(1)?, fields),
            _ => None,
        }
    }

    /// Reads the fields of a struct, whose numbers increase. `visit` gets each number and type, and returns true if it
    /// read the value.
    pub(super) fn fields(&mut self, mut visit: impl FnMut(&mut Self, i64, ThriftType) -> Option<bool>) -> Option<()> {
        self.fields_within(MAX_DEPTH, &mut visit)
    }

    fn fields_within(
        &mut self,
        depth: usize,
        visit: &mut dyn FnMut(&mut Self, i64, ThriftType) -> Option<bool>,
    ) -> Option<()> {
        let mut field = 0i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            let number = match header >> 4 {
                0 => self.integer()?,
                step => field.checked_add(step.into())?,
            };
            // The library drops further bits of a number, and lets a field replace an earlier one.
            if number <= field || number > i16::MAX.into() {
                return None;
            }
            field = number;
            let kind = ThriftType::of(header & 15)?;
            if !visit(self, field, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    /// Skips a value of a field; a boolean is in the header of its field.
    fn skip(&mut self, kind: ThriftType, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            ThriftType::True | ThriftType::False => {}
            ThriftType::Byte => drop(self.byte()?),
            ThriftType::Integer => drop(take_varint(&mut self.rest)?),
            ThriftType::Double => self.rest = self.rest.get(8..)?,
            ThriftType::Binary => drop(self.binary()?),
            ThriftType::List => {
                let (length, kind) = self.list()?;
                (0..length).try_for_each(|_| self.skip_element(kind, depth))?;
            }
            ThriftType::Map => {
                let length =
                    usize::try_from(take_varint(&mut self.rest)?).ok().filter(|length| *length <= self.rest.len())?;
                if length > 0 {
                    let kinds = self.byte()?;
                    let (key, value) = (ThriftType::of(kinds >> 4)?, ThriftType::of(kinds & 15)?);
                    for _ in 0..length {
                        self.skip_element(key, depth)?;
                        self.skip_element(value, depth)?;
                    }
                }
            }
            ThriftType::Struct => self.fields_within(depth, &mut |_, _, _| Some(false))?,
        }
        Some(())
    }

    /// Skips an element of a list or map, which is no boolean.
    fn skip_element(&mut self, kind: ThriftType, depth: usize) -> Option<()> {
        let is_boolean = matches!(kind, ThriftType::True | ThriftType::False);
        if is_boolean { None } else { self.skip(kind, depth) }
    }
}

/// Takes an unsigned number from the start of `bytes`; `None` for other bytes.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Fields of a struct: numbers and types.
type Fields = &'static [(i64, ValueType)];

/// Struct without fields, or of which the library reads none.
const EMPTY: ValueType = Struct(&[]);
/// List of numbers.
const INTEGERS: ValueType = List(&Integer);
/// List of texts with a key.
const KEY_VALUES: ValueType = List(&Struct(&[(1, Binary), (2, Binary)]));

const STATISTICS: ValueType =
    Struct(&[(1, Binary), (2, Binary), (3, Integer), (4, Integer), (5, Binary), (6, Binary), (7, Bool), (8, Bool)]);

const SIZE_STATISTICS: ValueType = Struct(&[(1, Integer), (2, INTEGERS), (3, INTEGERS)]);

const GEOSPATIAL_STATISTICS: ValueType = Struct(&[
    (
        1,
        Struct(&[
            (1, Double),
            (2, Double),
            (3, Double),
            (4, Double),
            (5, Double),
            (6, Double),
            (7, Double),
            (8, Double),
        ]),
    ),
    (2, INTEGERS),
]);

const TIME: ValueType = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

const LOGICAL_TYPE: ValueType = Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Integer)])),
]);

const SCHEMA_ELEMENT: ValueType = Struct(&[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Binary),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, Integer),
    (9, Integer),
    (10, LOGICAL_TYPE),
]);

const COLUMN_META_DATA: ValueType = Struct(&[
    (1, Integer),
    (2, INTEGERS),
    (3, List(&Binary)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, KEY_VALUES),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))),
    (14, Integer),
    (15, Integer),
    (16, SIZE_STATISTICS),
    (17, GEOSPATIAL_STATISTICS),
]);

/// Keys of the columns of an encrypted file.
const COLUMN_CRYPTO_META_DATA: ValueType = Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))]);

const COLUMN_CHUNK: ValueType = Struct(&[
    (1, Binary),
    (2, Integer),
    (3, COLUMN_META_DATA),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, COLUMN_CRYPTO_META_DATA),
    (9, Binary),
]);

const ROW_GROUP: ValueType = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Bool), (3, Bool)]))),
    (5, Integer),
    (6, Integer),
    (7, Integer),
]);

/// Names in an encrypted file.
const AES: ValueType = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);

/// `FileMetaData`, the footer of a file.
pub(super) const FILE_META_DATA: Fields = &[
    (1, Integer),
    (2, List(&SCHEMA_ELEMENT)),
    (3, Integer),
    (4, List(&ROW_GROUP)),
    (5, KEY_VALUES),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY)]))),
    (8, Struct(&[(1, AES), (2, AES)])),
    (9, Binary),
];

/// `PageHeader`: the header of a page of values (5), of an index (6), of a dictionary (7), or of values of version 2 (8).
pub(super) const PAGE_HEADER: Fields = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Integer),
    (5, Struct(&[(1, Integer), (2, Integer), (3, Integer), (4, Integer), (5, STATISTICS)])),
    (6, EMPTY),
    (7, Struct(&[(1, Integer), (2, Integer), (3, Bool)])),
    (
        8,
        Struct(&[
            (1, Integer),
            (2, Integer),
            (3, Integer),
            (4, Integer),
            (5, Integer),
            (6, Integer),
            (7, Bool),
            (8, STATISTICS),
        ]),
    ),
];
