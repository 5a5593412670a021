//! Shards: tables for random access, as memory-mapped Arrow files of one record batch with a digest per chunk.
//!
//! ```text
//! <folder>/shard.arrow   Arrow IPC file: one record batch, uncompressed, buffers at multiples of 64 bytes
//! <folder>/sums          digests of its chunks of 16 KiB
//! ```
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>. Any Arrow reader opens such a file.
//!
//! Reading a row decodes nothing: it is a slice of the map. The file must not change while it is open; truncating it
//! would end the process (SIGBUS), so the cache makes its files read-only, in a folder that only the user can access.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use memmap2::Mmap;

use self::chunk_digests::{ChunkDigests, DigestMismatch};
use self::layout::ArrowFileLayout;
use pairloom_base::error::{Error, Result};

pub use columns::{ShardIds, ShardIntLists, ShardTexts, ShardVectors};
pub use layout::catch_panic;

mod columns;
mod layout;
mod chunk_digests;
#[cfg(test)]
mod tests;

/// Name of the Arrow file in the folder of a shard.
pub const SHARD_FILE: &str = "shard.arrow";
/// Name of the file of digests in the folder of a shard.
pub const DIGESTS_FILE: &str = "sums";

/// Bytes that are verified between two checks for the end of a run.
const PIECE_BYTES: usize = 64 << 20;

/// Callback for damage in a shard.
type DamageHandler = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// Table of one record batch, in a file or in memory. Columns are read through [`Shard::vectors`], [`Shard::ids`],
/// [`Shard::texts`] and [`Shard::int32_lists`].
pub struct Shard {
    /// Path for messages.
    place: PathBuf,
    /// Bytes of the Arrow file.
    bytes: Buffer,
    /// Digests; `None` for a shard in memory.
    digests: Option<ChunkDigests>,
    layout: ArrowFileLayout,
    on_damage: Option<DamageHandler>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("place", &self.place).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Memory map with its file, so that a lock on the file is held as long as any row is in use.
struct MappedShardFile {
    map: Mmap,
    file: File,
}

impl Drop for MappedShardFile {
    fn drop(&mut self) {
        // A child process that another thread forks at this moment has a copy of the file descriptor until it calls
        // `exec`, so closing ours might not release the lock. Unlocking an unlocked file does no harm.
        let _ = self.file.unlock();
    }
}

impl Shard {
    /// Opens the shard in `folder`. Cost: its metadata, a few tens of microseconds.
    ///
    /// # Errors
    /// A file is missing, truncated, damaged in its metadata, or not an Arrow file as [`write()`] writes it.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SHARD_FILE);
        let file = File::open(&path).map_err(|error| Error::io("open the shard", &path, &error))?;
        Self::from_file(file, folder)
    }

    /// Opens the shard in `folder` from its open Arrow file. The file, and with it a lock on it, stays open as long as
    /// any row is in use.
    pub fn from_file(file: File, folder: &Path) -> Result<Self> {
        let place = folder.join(SHARD_FILE);
        let length = file.metadata().map_err(|error| Error::io("look at", &place, &error))?.len();
        let sums = ChunkDigests::open(folder, length)?;
        #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
        // SAFETY: nobody changes the file while it is mapped, as the documentation demands.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &place, &error))?;
        let mapped = Arc::new(MappedShardFile { map, file });
        let start = NonNull::from(&mapped.map[..]).cast();
        let length = mapped.map.len();
        #[expect(unsafe_code, reason = "the buffer owns the map and is as long as it")]
        // SAFETY: the buffer owns the map, which has this start and length.
        let bytes = unsafe { Buffer::from_custom_allocation(start, length, mapped) };
        Self::from_bytes(bytes, Some(sums), place)
    }

    /// Creates a shard in memory with a copy of `batch`.
    ///
    /// # Errors
    /// The batch has a column of an unsupported type.
    pub fn from_batch(batch: &RecordBatch) -> Result<Self> {
        let mut bytes = Vec::new();
        encode(batch, &mut bytes)?;
        Self::from_bytes(Buffer::from_slice_ref(&bytes), None, PathBuf::from("shard in memory"))
    }

    /// Shard of bytes from outside, without digests, for fuzzing.
    ///
    /// # Errors
    /// Bytes that are not an Arrow file as [`write()`] writes it.
    pub fn of_outside_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_bytes(Buffer::from_slice_ref(bytes), None, PathBuf::from("a"))
    }

    /// Creates a shard from the bytes of an Arrow file.
    fn from_bytes(bytes: Buffer, sums: Option<ChunkDigests>, place: PathBuf) -> Result<Self> {
        let check = |range| match &sums {
            Some(sums) => sums.verify(&bytes, range).map_err(|damage| damage.error()),
            None => Ok(()),
        };
        let layout = ArrowFileLayout::parse(&bytes, check).map_err(|error| {
            error.context(format!("`{}`", place.display())).hint("remove it: it is built again when needed")
        })?;
        Ok(Self { place, bytes, digests: sums, layout, on_damage: None })
    }

    /// Sets the callback for damage, which removes the shard or returns an error.
    pub fn set_damage_handler(&mut self, act: DamageHandler) {
        self.on_damage = Some(act);
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Names and types of the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// Length of the Arrow file in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Path of the shard's Arrow file, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Reads and verifies the whole file, so that later reads find it in memory and need no verification.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn verify_all(&self) -> Result<()> {
        self.verify(0..self.bytes.len())
    }

    /// Verifies the whole file as [`Shard::verify_all`], and calls `check` every 64 MiB. Its error ends the reading.
    pub fn verify_while(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        (0..self.bytes.len()).step_by(PIECE_BYTES).try_for_each(|start| {
            check()?;
            self.verify(start..self.bytes.len().min(start + PIECE_BYTES))
        })
    }

    /// Returns the whole table without copying. For small tables, since the whole file is verified.
    ///
    /// # Errors
    /// The file is damaged, or its columns are inconsistent.
    pub fn batch(&self) -> Result<RecordBatch> {
        self.verify_all()?;
        let ArrowFileLayout { schema, version, block, message, .. } = &self.layout;
        let content = self.bytes.slice_with_length(message.start, message.len());
        let decoder = FileDecoder::new(schema.clone(), *version);
        let read =
            catch_panic(|| decoder.read_record_batch(block, &content)).and_then(|read| read.map_err(Error::from));
        read.and_then(|batch| batch.ok_or_else(|| Error::data("no record batch")))
            .map_err(|error| self.with_path(error))
    }

    /// Verifies a range of bytes of the file. Cost if it was verified before: one atomic load per 16 KiB.
    #[inline]
    fn verify(&self, range: Range<usize>) -> Result<()> {
        match &self.digests {
            Some(sums) => sums.verify(&self.bytes, range).map_err(|damage| self.damaged(&damage)),
            None => Ok(()),
        }
    }

    #[cold]
    fn damaged(&self, damage: &DigestMismatch) -> Error {
        let error = self.with_path(damage.error());
        match self.on_damage.as_ref().map(|act| act()) {
            Some(Ok(())) => error.hint("the shard was removed: run the same command again, which builds it again"),
            Some(Err(problem)) => error.hint(format!("remove its folder and run the same command again ({problem})")),
            None => error.hint("build the shard again"),
        }
    }

    /// Adds the path of the file to an error.
    #[cold]
    fn with_path(&self, error: Error) -> Error {
        error.context(format!("`{}`", self.place.display()))
    }
}

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
fn encode(batch: &RecordBatch, writer: impl Write) -> Result<(), ArrowError> {
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
