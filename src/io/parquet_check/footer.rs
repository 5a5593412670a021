//! Nesting of the schema in the footer of a Parquet file.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>, `FileMetaData`.

use super::thrift::{ThriftReader, ThriftType};
use crate::error::{Error, Result};
use crate::io::pread::PreadFile;

/// Largest number of groups within each other. A list is two groups.
const MAX_DEPTH: usize = 100;

/// Checks the metadata at the end of a Parquet file: that all of it is there, that its lists fit into its bytes, and
/// that the schema is not nested deeper than the library can walk on any thread.
///
/// # Errors
/// The file is cut short or damaged, or its schema is nested too deeply.
pub fn check_footer(file: &PreadFile) -> Result<()> {
    let footer = footer(file).ok_or_else(damaged)?;
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
    read.ok_or_else(damaged)
}

fn damaged() -> Error {
    Error::data("the file is cut short or damaged").hint("copy it or create it again")
}

/// Metadata at the end of a file.
fn footer(file: &PreadFile) -> Option<Vec<u8>> {
    let end = file.size().checked_sub(8)?;
    let last = file.read(end, 8).ok()?;
    let length = u32::from_le_bytes(*last.strip_suffix(b"PAR1")?.first_chunk()?);
    file.read(end.checked_sub(length.into())?, usize::try_from(length).ok()?).ok()
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
            children = usize::try_from(reader.integer()?).ok()?;
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
