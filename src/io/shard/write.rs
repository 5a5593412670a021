//! Writing a shard: the batch as an Arrow file, and the digests of what was written.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use memmap2::Mmap;

use super::{SHARD, SUMS, layout, sums};
use crate::error::{Error, Result};

/// Where buffers start: what Arrow recommends, a line of the processor's cache.
const ALIGNMENT: usize = 64;

/// Bytes of the two files of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The Arrow file.
    pub shard: u64,
    /// The digests.
    pub sums: u64,
}

impl Size {
    /// Bytes of both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.shard + self.sums
    }
}

/// Bytes that [`write()`] will write for `batch`. Cost: none of the values is copied.
///
/// # Errors
/// A column is of a type that shards do not hold.
pub fn size(batch: &RecordBatch) -> Result<Size> {
    struct Count(u64);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    encode(batch, &mut count)?;
    Ok(Size { shard: count.0, sums: sums::size(count.0) })
}

/// Makes both files in `folder` as long as they will be, empty: others see in time how much room is taken.
///
/// # Errors
/// The folder cannot be written.
pub fn reserve(folder: &Path, size: Size) -> Result<()> {
    for (name, length) in [(SHARD, size.shard), (SUMS, size.sums)] {
        let path = folder.join(name);
        create(&path)?.set_len(length).map_err(|error| Error::io("write", &path, &error))?;
    }
    Ok(())
}

/// Writes `batch` as a shard into `folder`, which is there. Its files are read-only after that.
///
/// They are not forced to the disk: what a power cut takes away is found by the digests.
///
/// # Errors
/// A column is of a type that shards do not hold, or the folder cannot be written.
pub fn write(folder: &Path, batch: &RecordBatch) -> Result<()> {
    let path = folder.join(SHARD);
    let failed = |error: io::Error| Error::io("write", &path, &error);
    let file = create(&path)?;
    let wrote = encode(batch, BufWriter::with_capacity(1 << 20, &file));
    wrote.map_err(|error| match error {
        ArrowError::IoError(_, error) => failed(error),
        error => Error::from(error).context(format!("cannot write `{}`", path.display())),
    })?;
    seal(&path, &file)?;
    #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we just wrote")]
    let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &path, &error))?;
    let path = folder.join(SUMS);
    let mut file = create(&path)?;
    file.write_all(&sums::of(&map)).map_err(|error| Error::io("write", &path, &error))?;
    seal(&path, &file)
}

/// `batch` as an Arrow file.
pub(super) fn encode(batch: &RecordBatch, writer: impl Write) -> Result<(), ArrowError> {
    layout::refuse_unknown(&batch.schema())?;
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = FileWriter::try_new_with_options(writer, &batch.schema(), options)?;
    writer.write(batch)?;
    writer.finish()?;
    writer.flush()
}

/// A file for the user alone, as it is if it is there.
fn create(path: &Path) -> Result<File> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    open.map_err(|error| Error::io("make", path, &error))
}

/// Ends the file where it was written to, and makes it read-only.
fn seal(path: &Path, mut file: &File) -> Result<()> {
    let mut seal = || {
        let end = io::Seek::stream_position(&mut file)?;
        file.set_len(end)?;
        file.set_permissions(Permissions::from_mode(0o400))
    };
    seal().map_err(|error| Error::io("write", path, &error))
}
