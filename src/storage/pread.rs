//! File that is read at any place without a memory map, so that a file that is cut while it is read is an error and does
//! not end the process.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use az::SaturatingAs;
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::bounded;
use pairloom_base::error::{Error, Result};

/// Open regular file of a known size.
#[derive(Debug, Clone)]
pub struct PreadFile {
    file: Arc<File>,
    bytes: u64,
}

impl PreadFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The file is missing or not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = bounded::open(path)?;
        let bytes = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Size of the file when it was opened.
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// Reads `length` bytes from `start` on.
    ///
    /// # Errors
    /// The file ends before, or cannot be read.
    pub fn read(&self, start: u64, length: usize) -> io::Result<Vec<u8>> {
        // A length that the file claims is not reserved before it is known to be there.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut content = vec![0; length];
        self.file.read_exact_at(&mut content, start)?;
        Ok(content)
    }
}

impl Length for PreadFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

/// Bytes of a file from a place on.
pub struct PreadCursor {
    file: Arc<File>,
    at: u64,
}

impl Read for PreadCursor {
    fn read(&mut self, content: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(content, self.at)?;
        self.at = self.at.saturating_add(read.saturating_as::<u64>());
        Ok(read)
    }
}

impl ChunkReader for PreadFile {
    type T = BufReader<PreadCursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(PreadCursor { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.read(start, length)?.into())
    }
}
