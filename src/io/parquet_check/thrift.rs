//! Reader of Thrift's compact protocol, of which Parquet's metadata is made.
//!
//! Format: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use super::varint::take_varint;

/// Largest depth of a value that is skipped.
const MAX_DEPTH: usize = 32;

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

    /// Reads the fields of a struct. `visit` gets each number and type, and returns true if it read the value.
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
            field = match header >> 4 {
                0 => self.integer()?,
                step => field.checked_add(step.into())?,
            };
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
            ThriftType::Binary => {
                let length = usize::try_from(take_varint(&mut self.rest)?).ok()?;
                self.rest = self.rest.get(length..)?;
            }
            ThriftType::List => {
                let (length, kind) = self.list()?;
                for _ in 0..length {
                    self.skip_element(kind, depth)?;
                }
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

    /// Skips an element of a list or map; a boolean is a byte there.
    fn skip_element(&mut self, kind: ThriftType, depth: usize) -> Option<()> {
        match kind {
            ThriftType::True | ThriftType::False => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }
}
