//! Inputs of a running stage: the reader of a table, part by part as the producer commits them, and the cache of shards,
//! opened on first use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use az::SaturatingAs;
use bytes::Bytes;

use crate::sources;
use crate::writer::ArtefactFeed;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::FileKeys;
use pairloom_storage::cache::ShardCache;
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::parquet;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::{ShardSource, TableShards};
use pairloom_store::{Artefact, FileEntry, Part, Store};

/// An opened input.
pub(super) enum OpenInput {
    /// A table, and the folder that paths in it are relative to.
    Table(Box<TableReader>, Option<PathBuf>),
    /// Files: name for messages, artefact and output that hold them, and the feed that announces them.
    Files { name: String, artefact: Artefact, output: String, feed: Arc<ArtefactFeed> },
    /// A file or folder outside of the store.
    Source(PathBuf),
}

/// Opened inputs of a stage, by name.
pub(super) struct StageInputs {
    /// Name of the stage, for messages.
    pub stage: String,
    pub inputs: BTreeMap<String, OpenInput>,
}

impl StageInputs {
    /// Finds the reader of a table input.
    pub fn table_reader(&mut self, input: &str) -> Result<&mut TableReader> {
        match self.inputs.get_mut(input) {
            Some(OpenInput::Table(reader, _)) => Ok(reader),
            _ => Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.stage))),
        }
    }

    /// Reads the next rows of a table; `None` at the end, after which the next call starts again at the first row.
    pub fn read_next(&mut self, input: &str, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        let reader = self.table_reader(input)?;
        let next = reader.read_next(waiting)?;
        if next.is_none() {
            reader.rewind();
        }
        Ok(next)
    }

    /// Waits for the producer of a table and returns the table as shards.
    pub fn shards(&mut self, input: &str, cache: &LazyCache<'_>, waiting: OnWait<'_>) -> Result<TableShards> {
        let reader = self.table_reader(input)?;
        reader.shards(reader.wait_for_parts(waiting)?, cache)
    }

    /// Waits for the producer of a files input and reads one of the files.
    pub fn read_file(&self, input: &str, file: &str, cancel: &CancelToken, waiting: OnWait<'_>) -> Result<Bytes> {
        let Some(OpenInput::Files { name, artefact, output, feed }) = self.inputs.get(input) else {
            return Err(Error::internal(format!("stage `{}` declares no files `{input}`", self.stage)));
        };
        let files = feed.wait_for_files(output, cancel, &mut || waiting(name))?;
        let Some(entry) = files.iter().find(|entry| entry.name == file) else {
            let names: Vec<_> = files.iter().map(|entry| format!("`{}`", entry.name)).collect();
            return Err(Error::data(format!("`{name}` has no file `{file}`; it has {}", names.join(", "))));
        };
        artefact.read(&format!("{output}/{file}"), entry.bytes, &entry.digest)
    }

    /// Path of a source, or folder that paths in a table are relative to.
    pub fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        match self.inputs.get(input) {
            Some(OpenInput::Source(path)) => Ok(Some(path.clone())),
            Some(OpenInput::Table(_, root)) => Ok(root.clone()),
            _ => Err(Error::internal(format!("stage `{}` declares no source and no table `{input}`", self.stage))),
        }
    }

    /// Objects of a source at a URL.
    pub fn objects(&self, input: &str, store: &Store) -> Result<Option<ObjectStorage>> {
        match self.path(input)? {
            Some(path) => store.objects_of_source(&path),
            None => Ok(None),
        }
    }

    /// Keys of the files in the folder that paths in a table are relative to.
    pub fn file_keys(&self, input: &str, store: &Store) -> Result<FileKeys> {
        let root = self.path(input)?;
        root.map_or_else(|| Ok(FileKeys::default()), |root| sources::file_keys(store, &root))
    }

    /// Waits for the producers of all inputs and returns the parts and files of these inputs.
    pub fn wait_until_complete(&self, cancel: &CancelToken, waiting: OnWait<'_>) -> Result<CompleteInputs> {
        let mut complete = CompleteInputs::default();
        for (input, port) in &self.inputs {
            match port {
                OpenInput::Table(reader, _) => {
                    complete.parts.insert(input.clone(), reader.wait_for_parts(waiting)?);
                }
                OpenInput::Files { name, output, feed, .. } => {
                    complete.files.insert(input.clone(), feed.wait_for_files(output, cancel, &mut || waiting(name))?);
                }
                OpenInput::Source(_) => {}
            }
        }
        Ok(complete)
    }
}

/// Parts and files of complete inputs, by input.
#[derive(Default)]
pub(super) struct CompleteInputs {
    /// Parts of table inputs.
    pub parts: BTreeMap<String, Vec<Part>>,
    /// Files of files inputs.
    pub files: BTreeMap<String, Vec<FileEntry>>,
}

/// Callback at the start of a wait, with the name of the awaited input or resource.
pub(super) type OnWait<'w> = &'w mut dyn FnMut(&str);

/// Cursor over the rows of a table.
pub(super) struct TableReader {
    /// Name for messages and events: `pairs.images`.
    pub name: String,
    /// Artefact of the producer.
    pub artefact: Artefact,
    /// Name of the table in the artefact.
    pub table: String,
    feed: Arc<ArtefactFeed>,
    /// Cancels waiting and reading.
    pub cancel: CancelToken,
    next_part: usize,
    current: Option<parquet::PartBatches>,
    /// Rows to skip before the next row that is returned.
    rows_to_skip: usize,
}

impl TableReader {
    /// A cursor at the first row.
    pub fn new(name: String, artefact: Artefact, table: String, feed: Arc<ArtefactFeed>, cancel: CancelToken) -> Self {
        Self { name, artefact, table, feed, cancel, next_part: 0, current: None, rows_to_skip: 0 }
    }

    /// Moves the cursor back to the first row.
    pub fn rewind(&mut self) {
        self.next_part = 0;
        self.current = None;
        self.rows_to_skip = 0;
    }

    /// Number of rows of the table, if it is complete.
    pub fn total_rows(&self) -> Option<u64> {
        self.feed.total_rows(&self.table)
    }

    /// Waits until the producer has finished and returns all parts. Calls `waiting` if it has to wait.
    pub fn wait_for_parts(&self, waiting: OnWait<'_>) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        while let Some(part) =
            self.feed.wait_for_part(&self.table, parts.len(), &self.cancel, &mut || waiting(&self.name))?
        {
            parts.push(part);
        }
        Ok(parts)
    }

    /// Returns the table, which has these parts, as shards.
    pub fn shards(&self, parts: Vec<Part>, cache: &LazyCache<'_>) -> Result<TableShards> {
        let rows = |part: &Part| part.rows.saturating_as::<usize>();
        let sources = parts.iter().map(|part| ShardSource { digest: part.digest.clone(), rows: rows(part) }).collect();
        let (artefact, table) = (self.artefact.clone(), self.table.clone());
        let read = move |shard: usize| {
            let part = &parts[shard];
            let name = Artefact::part_name(&table, part.index);
            let content = artefact.read(&name, part.bytes, &part.digest)?;
            parquet::decode_whole(content).map_err(|error| error.context(format!("`{}`", artefact.display_path(&name))))
        };
        let cancel = self.cancel.clone();
        Ok(TableShards::new(self.name.clone(), sources, cache.get()?, Box::new(read), Box::new(move || cancel.check())))
    }

    /// Reads the next rows. Calls `waiting` if it has to wait for the producer.
    pub fn read_next(&mut self, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        loop {
            self.cancel.check()?;
            if let Some(reader) = &mut self.current {
                match reader.next() {
                    Some(batch) => {
                        let batch = batch?;
                        let pass = self.rows_to_skip.min(batch.num_rows());
                        self.rows_to_skip -= pass;
                        if pass < batch.num_rows() {
                            return Ok(Some(batch.slice(pass, batch.num_rows() - pass)));
                        }
                    }
                    None => self.current = None,
                }
                continue;
            }
            let waiting = &mut || waiting(&self.name);
            let Some(part) = self.feed.wait_for_part(&self.table, self.next_part, &self.cancel, waiting)? else {
                return Ok(None);
            };
            self.next_part += 1;
            let rows = part.rows.saturating_as::<usize>();
            if self.rows_to_skip >= rows {
                self.rows_to_skip -= rows;
                continue;
            }
            let name = Artefact::part_name(&self.table, part.index);
            let content = self.artefact.read(&name, part.bytes, &part.digest)?;
            let place = self.artefact.display_path(&name);
            self.current = Some(parquet::decode(content).map_err(|error| error.context(format!("`{place}`")))?);
        }
    }

    /// Skips the next `rows` rows, without reading parts that consist of such rows only.
    pub fn skip(&mut self, rows: usize) {
        self.rows_to_skip += rows;
    }
}

/// Splits the rows of a table into blocks of equal size.
pub(super) struct BlockReader<'r> {
    reader: &'r mut TableReader,
    rows: usize,
    rest: Option<RecordBatch>,
}

impl<'r> BlockReader<'r> {
    /// Blocks of `rows` rows; the last one may be shorter.
    pub fn new(reader: &'r mut TableReader, rows: usize) -> Self {
        Self { reader, rows: rows.max(1), rest: None }
    }

    /// Reads the next block.
    pub fn next(&mut self, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        let mut pieces = Vec::new();
        let mut missing = self.rows;
        while missing > 0 {
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => match self.reader.read_next(waiting)? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let taken = missing.min(batch.num_rows());
            if taken < batch.num_rows() {
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            missing -= taken;
            pieces.push(batch.slice(0, taken));
        }
        match pieces.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            [first, ..] => Ok(Some(arrow::compute::concat_batches(first.schema_ref(), &pieces)?)),
        }
    }

    /// Number of rows of the table, if it is complete.
    pub fn total_rows(&self) -> Option<u64> {
        self.reader.total_rows()
    }
}

/// Memory of the rows of a batch in bytes, without other rows in the same buffers.
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns
        .map(|column| {
            column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()) as u64
        })
        .sum()
}

/// Location and size limit of the cache of shards.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Folder of the cache; `None` if the user has no home folder.
    pub folder: Option<PathBuf>,
    /// Maximum total size of the shards in bytes.
    pub limit: u64,
}

/// A cache that is opened on first use.
pub(super) struct LazyCache<'p> {
    options: &'p CacheOptions,
    cache: Mutex<Option<ShardCache>>,
}

impl<'p> LazyCache<'p> {
    pub fn new(place: &'p CacheOptions) -> Self {
        Self { options: place, cache: Mutex::default() }
    }

    /// Opens the cache on the first call and returns it.
    pub fn get(&self) -> Result<ShardCache> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &*cache {
            return Ok(cache.clone());
        }
        let folder = self.options.folder.as_ref().ok_or_else(|| {
            Error::usage("there is no folder for the cache of shards: this user has no home")
                .hint("name one with `--cache`")
        })?;
        Ok(cache.insert(ShardCache::open(folder, self.options.limit)?).clone())
    }

    /// Looks up rows by name.
    pub fn get_rows(&self, name: &str, cancel: &CancelToken) -> Result<Option<Arc<Shard>>> {
        cancel.check()?;
        self.get()?.get(name)
    }

    /// Stores rows under a name, unless there are some already, and returns the stored ones.
    pub fn insert_rows(&self, name: &str, batch: RecordBatch, cancel: &CancelToken) -> Result<Arc<Shard>> {
        self.get()?.get_or_make(name, || Ok(batch), &|| cancel.check())
    }
}
