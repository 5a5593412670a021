//! Writing a shard: Arrow file and digests.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use memmap2::Mmap;

use super::{DIGESTS_FILE, SHARD_FILE, chunk_digests, layout};
use pairloom_base::error::{Error, Result};

/// Alignment of buffers that Arrow recommends: a cache line.
const ALIGNMENT: usize = 64;

/// Sizes of the two files of a shard in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSize {
    /// Size of the Arrow file.
    pub shard: u64,
    /// Size of the file of digests.
    pub digests: u64,
}

impl ShardSize {
    /// Size of both files.
    #[must_use]
    pub fn total(self) -> u64 {
        self.shard + self.digests
    }
}

/// Computes the sizes of the files that [`write()`] writes for `batch`, without copying values.
///
/// # Errors
/// A column has an unsupported type.
pub fn size(batch: &RecordBatch) -> Result<ShardSize> {
    struct ByteCounter(u64);
    impl Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    encode(batch, &mut count)?;
    Ok(ShardSize { shard: count.0, digests: chunk_digests::file_size(count.0) })
}

/// Creates both files in `folder` with their final lengths. So other processes see the space that the shard will take.
///
/// # Errors
/// The folder cannot be written.
pub fn reserve(folder: &Path, size: ShardSize) -> Result<()> {
    for (name, length) in [(SHARD_FILE, size.shard), (DIGESTS_FILE, size.digests)] {
        let path = folder.join(name);
        create(&path)?.set_len(length).map_err(|error| Error::io("write", &path, &error))?;
    }
    Ok(())
}

/// Writes `batch` as a shard into `folder`, which must exist, and makes the files read-only.
///
/// The files are not synced to disk. The digests detect data that a power failure lost.
///
/// # Errors
/// A column has an unsupported type, or the folder cannot be written.
pub fn write(folder: &Path, batch: &RecordBatch) -> Result<()> {
    let path = folder.join(SHARD_FILE);
    let failed = |error: io::Error| Error::io("write", &path, &error);
    let file = create(&path)?;
    let wrote = encode(batch, BufWriter::with_capacity(1 << 20, &file));
    wrote.map_err(|error| match error {
        ArrowError::IoError(_, error) => failed(error),
        error => Error::from(error).context(format!("cannot write `{}`", path.display())),
    })?;
    finish_read_only(&path, &file)?;
    #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we just wrote")]
    // SAFETY: nobody changes the file while it is mapped, as the documentation demands.
    let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &path, &error))?;
    let path = folder.join(DIGESTS_FILE);
    let mut file = create(&path)?;
    file.write_all(&chunk_digests::encode(&map)).map_err(|error| Error::io("write", &path, &error))?;
    finish_read_only(&path, &file)
}

/// Encodes `batch` as an Arrow file.
pub(super) fn encode(batch: &RecordBatch, writer: impl Write) -> Result<(), ArrowError> {
    layout::check_column_types(&batch.schema())?;
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = FileWriter::try_new_with_options(writer, &batch.schema(), options)?;
    writer.write(batch)?;
    writer.finish()?;
    writer.flush()
}

/// Opens a file for writing, without truncation. A new file is accessible to the user only.
fn create(path: &Path) -> Result<File> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    open.map_err(|error| Error::io("make", path, &error))
}

/// Truncates the file at the position of the writer, and makes it read-only.
fn finish_read_only(path: &Path, mut file: &File) -> Result<()> {
    let mut seal = || {
        let end = io::Seek::stream_position(&mut file)?;
        file.set_len(end)?;
        file.set_permissions(Permissions::from_mode(0o400))
    };
    seal().map_err(|error| Error::io("write", path, &error))
}
