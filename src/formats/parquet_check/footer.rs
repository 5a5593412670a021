//! Check of the footer of a Parquet file, before the library reads it.
//!
//! Format: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>, `FileMetaData`.

use super::thrift::FILE_META_DATA;
use super::thrift::{ThriftReader, ThriftType};
use pairloom_base::error::{Error, Result};
use pairloom_storage::pread::PreadFile;

/// Largest number of groups within each other. A list is two groups.
const MAX_DEPTH: usize = 100;
/// Most columns, those in groups each by itself. The time of the library grows with the square of their number.
const MAX_COLUMNS: usize = 20_000;
/// Largest size of the paths of all columns together. The library has the whole path of each.
const MAX_PATH_BYTES: usize = 16 << 20;
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
    let length = footer_length(file)?;
    if length > MAX_FOOTER_BYTES {
        return Err(Error::data(format!("its metadata has {length} bytes, wanted at most {MAX_FOOTER_BYTES}"))
            .hint("write the file with fewer row groups or columns"));
    }
    let footer = footer(file, length).ok_or_else(damaged)?;
    let (mut schema, mut is_encrypted) = (Schema::default(), false);
    let read = ThriftReader::new(&footer).fields(|reader, field, kind| match (field, kind) {
        (2, ThriftType::List) => {
            schema.read(reader)?;
            // The rest of a schema that is too large is not read.
            schema.excess().is_none().then_some(true)
        }
        (8, _) => {
            is_encrypted = true;
            Some(false)
        }
        _ => Some(false),
    });
    if let Some(excess) = schema.excess() {
        return Err(Error::data(excess).hint("the file is damaged or made to fill the memory"));
    }
    read.and_then(|()| ThriftReader::new(&footer).structure(FILE_META_DATA)).ok_or_else(damaged)?;
    if is_encrypted { Err(encrypted()) } else { Ok(()) }
}

fn encrypted() -> Error {
    Error::data("the file is encrypted").hint("write it without encryption")
}

fn damaged() -> Error {
    Error::data("the file is cut short or damaged").hint("copy it or create it again")
}

/// Bytes after the metadata: their number, and the name of the format.
const END_BYTES: u64 = 8;

/// Size of the metadata that the end of a file claims.
fn footer_length(file: &PreadFile) -> Result<u32> {
    let end = file.size().checked_sub(END_BYTES).ok_or_else(damaged)?;
    let last = file.read(end, 8).map_err(|_| damaged())?;
    if last.ends_with(b"PARE") {
        return Err(encrypted());
    }
    let length = last.strip_suffix(b"PAR1").and_then(|length| length.first_chunk()).ok_or_else(damaged)?;
    let length = u32::from_le_bytes(*length);
    if u64::from(length) <= end { Ok(length) } else { Err(damaged()) }
}

/// Metadata at the end of a file.
fn footer(file: &PreadFile, length: u32) -> Option<Vec<u8>> {
    file.read(file.size() - END_BYTES - u64::from(length), usize::try_from(length).ok()?).ok()
}

/// Sizes of a schema.
#[derive(Debug, Default)]
struct Schema {
    depth: usize,
    columns: usize,
    /// Bytes of the paths of all columns.
    path_bytes: usize,
}

impl Schema {
    /// Text about the first size that is too large.
    fn excess(&self) -> Option<String> {
        let Self { depth, columns, path_bytes } = *self;
        if depth > MAX_DEPTH {
            return Some(format!("its columns are nested more than {MAX_DEPTH} levels deep"));
        }
        if columns > MAX_COLUMNS {
            return Some(format!("it has more than {MAX_COLUMNS} columns"));
        }
        let is_long = path_bytes > MAX_PATH_BYTES;
        is_long.then(|| format!("the names of its columns, with their groups, have more than {MAX_PATH_BYTES} bytes"))
    }

    /// Reads a list of nodes in which each group is followed by its children; of one that is too large, until it is.
    /// `None` if the bytes are no such list.
    fn read(&mut self, reader: &mut ThriftReader<'_>) -> Option<()> {
        let (nodes, kind) = reader.list()?;
        if nodes > 0 && kind != ThriftType::Struct {
            return None;
        }
        // Children that each open group still waits for, and the size of the path to it.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for node in 0..nodes {
            let (mut children, mut name) = (0, 0);
            reader.fields(|reader, field, kind| {
                match (field, kind) {
                    (4, ThriftType::Binary) => name = reader.binary()?.len(),
                    (5, ThriftType::Integer) => children = reader.size()?,
                    _ => return Some(false),
                }
                Some(true)
            })?;
            // The library reserves memory for the children that a group claims.
            if children > nodes - node {
                return None;
            }
            let path = open.last().map_or(0, |(_, path)| *path) + name;
            if let Some((waiting, _)) = open.last_mut() {
                *waiting -= 1;
            }
            if children == 0 {
                self.columns += 1;
                self.path_bytes = self.path_bytes.saturating_add(path);
            }
            open.push((children, path));
            self.depth = self.depth.max(open.len());
            if self.excess().is_some() {
                break;
            }
            while open.last().is_some_and(|(waiting, _)| *waiting == 0) {
                open.pop();
            }
        }
        Some(())
    }
}
