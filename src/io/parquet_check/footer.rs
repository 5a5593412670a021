//! Check of the footer of a Parquet file, before the library reads it.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>, `FileMetaData`.

use super::structs::FILE_META_DATA;
use super::thrift::{ThriftReader, ThriftType};
use crate::error::{Error, Result};
use crate::io::pread::PreadFile;

/// Largest number of groups within each other. A list is two groups.
const MAX_DEPTH: usize = 100;
/// Largest size of the metadata. A column of a row group has about a hundred bytes there, and five times that in memory.
const MAX_FOOTER_BYTES: u32 = 64 << 20;

/// Checks the metadata at the end of a Parquet file: that all of it is there, that its fields have the types of the
/// format and its lists fit into its bytes, and that the schema is not nested deeper than the library can walk on any
/// thread.
///
/// Cost: reads the metadata twice.
///
/// # Errors
/// The file is cut short or damaged, its metadata is too large, or its schema is nested too deeply.
pub fn check_footer(file: &PreadFile) -> Result<()> {
    let length = footer_length(file).ok_or_else(damaged)?;
    if length > MAX_FOOTER_BYTES {
        return Err(Error::data(format!("its metadata has {length} bytes, wanted at most {MAX_FOOTER_BYTES}"))
            .hint("write the file with fewer row groups or columns"));
    }
    let footer = footer(file, length).ok_or_else(damaged)?;
    let mut depth = 0;
    let read = ThriftReader::new(&footer).fields(|reader, field, kind| {
        if (field, kind) != (2, ThriftType::List) {
            return Some(false);
        }
        depth = schema_depth(reader)?;
        // The rest of a schema that is too deep is not read.
        (depth <= MAX_DEPTH).then_some(true)
    });
    if depth > MAX_DEPTH {
        return Err(Error::data(format!("its columns are nested more than {MAX_DEPTH} levels deep"))
            .hint("the file is damaged or made to fill the memory"));
    }
    read.and_then(|()| ThriftReader::new(&footer).structure(FILE_META_DATA)).ok_or_else(damaged)
}

fn damaged() -> Error {
    Error::data("the file is cut short or damaged").hint("copy it or create it again")
}

/// Bytes after the metadata: their number, and the name of the format.
const END_BYTES: u64 = 8;

/// Size of the metadata that the end of a file claims; `None` if this is no end of a file, or the file is smaller.
fn footer_length(file: &PreadFile) -> Option<u32> {
    let end = file.size().checked_sub(END_BYTES)?;
    let last = file.read(end, 8).ok()?;
    let length = u32::from_le_bytes(*last.strip_suffix(b"PAR1")?.first_chunk()?);
    (u64::from(length) <= end).then_some(length)
}

/// Metadata at the end of a file.
fn footer(file: &PreadFile, length: u32) -> Option<Vec<u8>> {
    file.read(file.size() - END_BYTES - u64::from(length), usize::try_from(length).ok()?).ok()
}

/// Depth of the schema, a list of nodes in which each group is followed by its children; of one that is too deep, the first
/// depth that is. `None` if the bytes are no such list.
fn schema_depth(reader: &mut ThriftReader<'_>) -> Option<usize> {
    let (nodes, kind) = reader.list()?;
    if nodes > 0 && kind != ThriftType::Struct {
        return None;
    }
    // Children that each open group still waits for.
    let mut open: Vec<usize> = Vec::new();
    let mut deepest = 0;
    for node in 0..nodes {
        let mut children = 0;
        reader.fields(|reader, field, kind| {
            if (field, kind) != (5, ThriftType::Integer) {
                return Some(false);
            }
            children = reader.size()?;
            Some(true)
        })?;
        // The library reserves memory for the children that a group claims.
        if children > nodes - node {
            return None;
        }
        if let Some(waiting) = open.last_mut() {
            *waiting -= 1;
        }
        open.push(children);
        deepest = deepest.max(open.len());
        if deepest > MAX_DEPTH {
            break;
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    Some(deepest)
}
