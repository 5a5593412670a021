//! One shard: opened in microseconds whatever its size, checked as it is read.

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

use super::layout::{Layout, distrusted};
use super::sums::{Damage, Sums};
use super::{SHARD, write};
use crate::error::{Error, Result};

/// What is done when a shard turns out to be damaged.
type OnDamage = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A table of one record batch, in a file or in memory. Columns are read through [`Shard::vectors`], [`Shard::ids`],
/// [`Shard::texts`] and [`Shard::numbers`].
pub struct Shard {
    /// For messages.
    place: PathBuf,
    /// The whole Arrow file.
    pub(super) bytes: Buffer,
    /// None for what was never on a disk.
    sums: Option<Sums>,
    pub(super) layout: Layout,
    on_damage: Option<OnDamage>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("place", &self.place).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// A map and its file: a lock on the file is held as long as any row.
struct Mapped {
    map: Mmap,
    file: File,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A process that another thread starts at this moment has a copy of the file for an instant. Closing ours would
        // leave the lock to it. A file that was not locked is not minded.
        let _ = self.file.unlock();
    }
}

impl Shard {
    /// Opens the shard in `folder`. Cost: its metadata, a few tens of microseconds.
    ///
    /// # Errors
    /// A file is missing, cut short, damaged in its metadata, or no Arrow file as [`write()`] makes them.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SHARD);
        let file = File::open(&path).map_err(|error| Error::io("open the shard", &path, &error))?;
        Self::of_file(file, folder)
    }

    /// Opens the shard in `folder` through the Arrow file that is open already. The file stays open as long as any row
    /// is held, and so does a lock on it.
    pub(in crate::io) fn of_file(file: File, folder: &Path) -> Result<Self> {
        let place = folder.join(SHARD);
        let length = file.metadata().map_err(|error| Error::io("look at", &place, &error))?.len();
        let sums = Sums::open(folder, length)?;
        #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", &place, &error))?;
        let mapped = Arc::new(Mapped { map, file });
        let start = NonNull::from(&mapped.map[..]).cast();
        let length = mapped.map.len();
        #[expect(unsafe_code, reason = "the buffer owns the map and is as long as it")]
        let bytes = unsafe { Buffer::from_custom_allocation(start, length, mapped) };
        Self::of_bytes(bytes, Some(sums), place)
    }

    /// A shard in memory, which holds a copy of `batch`.
    ///
    /// # Errors
    /// The batch has a column of a type that shards do not hold.
    pub fn of_batch(batch: &RecordBatch) -> Result<Self> {
        let mut bytes = Vec::new();
        write::encode(batch, &mut bytes)?;
        Self::of_bytes(Buffer::from_slice_ref(&bytes), None, PathBuf::from("shard in memory"))
    }

    /// The shard whose Arrow file has these bytes.
    pub(super) fn of_bytes(bytes: Buffer, sums: Option<Sums>, place: PathBuf) -> Result<Self> {
        let check = |range| match &sums {
            Some(sums) => sums.check(&bytes, range).map_err(|damage| damage.error()),
            None => Ok(()),
        };
        let layout = Layout::of(&bytes, check)
            .map_err(|error| error.context(format!("`{}`", place.display())).hint("remove it: it is made anew"))?;
        Ok(Self { place, bytes, sums, layout, on_damage: None })
    }

    /// Calls `act` whenever damage is found: it removes the shard, or says why it cannot.
    pub(in crate::io) fn when_damaged(&mut self, act: OnDamage) {
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

    /// Bytes of the Arrow file.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Where the shard lies, for messages.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Reads and checks every byte once, so that later reads find the file in memory and need no more checks.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn check_all(&self) -> Result<()> {
        self.check(0..self.bytes.len())
    }

    /// The whole table, without copying; for tables that are small, since all of it is checked.
    ///
    /// # Errors
    /// The file is damaged, or its columns contradict one another.
    pub fn batch(&self) -> Result<RecordBatch> {
        self.check_all()?;
        let Layout { schema, version, block, message, .. } = &self.layout;
        let content = self.bytes.slice_with_length(message.start, message.len());
        let decoder = FileDecoder::new(schema.clone(), *version);
        let read = distrusted(|| decoder.read_record_batch(block, &content)).and_then(|read| read.map_err(Error::from));
        read.and_then(|batch| batch.ok_or_else(|| Error::data("no record batch"))).map_err(|error| self.wrong(error))
    }

    /// That these bytes of the file are what was written. Cost when they were checked before: a load for each 16 KiB.
    #[inline]
    pub(super) fn check(&self, range: Range<usize>) -> Result<()> {
        match &self.sums {
            Some(sums) => sums.check(&self.bytes, range).map_err(|damage| self.damaged(&damage)),
            None => Ok(()),
        }
    }

    #[cold]
    fn damaged(&self, damage: &Damage) -> Error {
        let error = self.wrong(damage.error());
        match self.on_damage.as_ref().map(|act| act()) {
            Some(Ok(())) => error.hint("the shard is removed: run the same command again, which makes it anew"),
            Some(Err(problem)) => error.hint(format!("remove its folder and run the same command again ({problem})")),
            None => error.hint("make the shard anew"),
        }
    }

    /// An error of this file.
    #[cold]
    pub(super) fn wrong(&self, error: Error) -> Error {
        error.context(format!("`{}`", self.place.display()))
    }
}
