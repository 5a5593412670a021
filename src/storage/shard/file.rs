//! A shard: opened in constant time, verified as it is read.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::FileDecoder;
use memmap2::Mmap;

use super::chunk_digests::{ChunkDigests, DigestMismatch};
use super::layout::{ArrowFileLayout, catch_panic};
use super::{SHARD_FILE, write};
use pairloom_base::error::{Error, Result};

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
    pub(super) bytes: Buffer,
    /// Digests; `None` for a shard in memory.
    digests: Option<ChunkDigests>,
    pub(super) layout: ArrowFileLayout,
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
        write::encode(batch, &mut bytes)?;
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
    pub(super) fn from_bytes(bytes: Buffer, sums: Option<ChunkDigests>, place: PathBuf) -> Result<Self> {
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
    pub(super) fn verify(&self, range: Range<usize>) -> Result<()> {
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
    pub(super) fn with_path(&self, error: Error) -> Error {
        error.context(format!("`{}`", self.place.display()))
    }
}
