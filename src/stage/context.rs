//! Interface through which a running stage reads, writes, maps in parallel and reports events.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EarlierPart, FileKeys, PartKey, RowKey, RowKeys, SharedEarlierRows, StageLineage};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{CancelToken, Device, ProcessGroup, Resources, Stalls};
use pairloom_storage::files::files_with_endings;
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;

/// Context of a running stage: a [`StageHost`] with convenience methods.
pub type StageContext<'w> = dyn StageHost + 'w;

/// Services of the engine for a running stage.
///
/// # Errors
/// Every method that can fail does so with [`ErrorCategory::Interrupted`](pairloom_base::error::ErrorCategory) once the run is
/// cancelled, and with an internal error for an input or output that the stage does not declare. Methods that read fail
/// if the producer failed or its output is damaged. Methods that write fail if the store cannot be written.
#[expect(clippy::missing_errors_doc, reason = "the trait documents the errors that its methods share")]
pub trait StageHost {
    /// Reads the next rows of a table input, in order, at most 8,192; `None` at the end of the table. The call after
    /// the end starts again at the first row.
    ///
    /// Waits for the producer, which may still be running: each part can be read once it is committed.
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>>;

    /// Returns the parts of a table input as shards: memory-mapped files in a cache, for random access to rows. Waits
    /// until the producer has finished.
    fn shards(&mut self, input: &str) -> Result<TableShards>;

    /// Reads a file of a files input, such as `model.safetensors` of a model. Waits until the producer has finished.
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes>;

    /// Returns the path of a source input. For a table input, returns the folder that paths in the table are relative
    /// to, if its producer declared one.
    fn path(&self, input: &str) -> Result<Option<PathBuf>>;

    /// Folder of the store, which is no part of a source that contains it; `None` for a store at a URL.
    fn store_folder(&self) -> Option<&Path>;

    /// Opens the objects of a source input at a URL; `None` if it is a file or folder.
    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>>;

    /// Returns the artefacts and sources that the inputs follow from, with their settings.
    fn lineage(&self) -> Result<StageLineage>;

    /// Appends rows to a table output. The engine splits the rows into parts and publishes each part when it is full.
    ///
    /// Fails if the columns are not those of the output.
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()>;

    /// Maps blocks of `size` rows or indices to parts of `output`, in order, on several threads.
    ///
    /// Block `i` starts at row or index `i·size`, independently of the parts of the producer, and becomes part `i` of
    /// the output. After a crash, only blocks whose part is missing are mapped again. Holds a few blocks in memory at a
    /// time.
    ///
    /// In a [process group](StageHost::process_group) each process maps every n-th block. On rank 0 the summary is that of
    /// all blocks; on another rank it counts no rows as left out.
    ///
    /// Fails with the first error of `function`, in the order of the blocks.
    fn map(&mut self, input: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary>;

    /// Returns the rows of `output` in earlier results of the store, whose keys ([`MapOutput::row_keys`]) say what they
    /// were computed from: those of stages of this kind and version that differ in settings and inputs `not_of_rows` only.
    /// These are the names of all settings and inputs that decide which rows there are, and on which no value of a row
    /// with a key depends.
    ///
    /// [`MapOutput::row_keys`]: super::MapOutput::row_keys
    fn earlier_rows(&mut self, output: &str, not_of_rows: &[&str]) -> Result<SharedEarlierRows>;

    /// Returns the keys of the files in the folder that paths in a table input are relative to. The engine knows those of
    /// files that have not changed for some seconds before the run.
    fn file_keys(&mut self, input: &str) -> Result<FileKeys>;

    /// Writes a file of a files output.
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()>;

    /// Returns the rows that [`StageHost::cache`] stored under this name for the same `settings` and the same content
    /// of all inputs; `None` if the cache does not hold them.
    fn cached(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>>;

    /// Stores rows in the shard cache and returns them as a shard. The rows must depend on `settings` and the inputs
    /// only. A resumed run, or another run with the same `settings`, reads them from the cache.
    ///
    /// Fails if the cache cannot be written.
    fn cache(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>>;

    /// Returns the last state that [`StageHost::save_state`] saved for this artefact; `None` on a fresh start.
    ///
    /// A stage that finds a state resumes from it: the rows that it wrote before that save are already committed, so it
    /// writes only the rows after them.
    fn saved_state(&mut self) -> Result<Option<Bytes>>;

    /// Saves `state` and commits everything written so far, also parts that are not full. Call it at positions that
    /// depend on the data only, never on the clock, since it determines where parts end.
    ///
    /// Keeps the `last` most recent states, at least one. If the most recent state is damaged, the stage resumes from
    /// the one before it.
    fn save_state(&mut self, state: Bytes, last: usize) -> Result<()>;

    /// Emits an event for the user, such as a warning or progress.
    fn emit(&mut self, event: StageEvent);

    /// Threads and device that the stage may use, and its cancellation token.
    fn resources(&self) -> &Resources;

    /// Waits for exclusive use of the machine, which ends with the stage. Only stages that call this method wait for
    /// each other. Meant for stages that use all threads or the GPU.
    ///
    /// Call it after all inputs are complete. A stage that waits for a producer while it holds exclusive use would
    /// deadlock if the producer needs it too.
    fn wait_for_exclusive(&mut self) -> Result<()>;

    /// Runs this stage in a group of `world_size` processes. If `world_size` is 1, the group consists of the processes
    /// that the launcher (`torchrun`, SLURM) started; without a launcher this is one process.
    ///
    /// Waits until all inputs are complete. The other processes call the same
    /// [`RunnableStage::run`](super::RunnableStage::run) with the same settings, inputs and state, and get their rank
    /// from this method. Everything that they write, save and emit is discarded, except blocks that they map. Call this method before the first
    /// [`StageHost::save_state`] and before any communication between the processes. Afterwards
    /// [`StageHost::resources`] has this process's share of the threads of its machine.
    ///
    /// If a process ends early, the others are cancelled, and the error says how it ended. Fails if the program was
    /// launched as another number of processes, and if processes cannot be started, do not answer or have other
    /// settings.
    fn process_group(&mut self, world_size: usize) -> Result<ProcessGroup>;

    /// Warns if the work was begun with another number of processes. For stages whose numbers depend on it in their last
    /// bits.
    fn warn_of_other_ranks(&mut self, _group: &ProcessGroup) -> Result<()> {
        Ok(())
    }
}

impl dyn StageHost + '_ {
    /// Reads all rows of a table input as batches. Holds the whole table in memory.
    pub fn read_all(&mut self, input: &str) -> Result<Vec<RecordBatch>> {
        std::iter::from_fn(|| self.read_next(input).transpose()).collect()
    }

    /// Returns the path of a source input.
    ///
    /// # Errors
    /// The stage declares no such source.
    pub fn source(&self, input: &str) -> Result<PathBuf> {
        self.path(input)?.ok_or_else(|| Error::internal(format!("`{input}` is no source")))
    }

    /// Finds the files of a source whose names end in one of `endings`, in lower case, in the order of their names.
    ///
    /// # Errors
    /// There is none, or a folder cannot be read.
    pub fn source_files(&self, input: &str, endings: &[&str]) -> Result<Vec<PathBuf>> {
        files_with_endings(&self.source(input)?, endings, self.store_folder())
    }

    /// Emits a warning.
    pub fn warn(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.emit(StageEvent::Warning(Warning { subject: subject.into(), message: message.into() }));
    }

    /// Emits progress in `unit`, a plural such as `queries`.
    pub fn progress(&mut self, done: u64, total: Option<u64>, unit: &'static str) {
        self.emit(StageEvent::Progress(Progress { done, total, unit }));
    }

    /// Number of threads that the stage may keep busy.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.resources().threads
    }

    /// Device of the tensors.
    #[must_use]
    pub fn device(&self) -> Device {
        self.resources().device
    }

    /// Cancellation token of the stage, for operations that run outside of this context, such as connections between
    /// processes.
    #[must_use]
    pub fn cancel(&self) -> &CancelToken {
        &self.resources().cancel
    }

    /// Fails if the run is cancelled. For long work between calls of other methods.
    pub fn check_cancelled(&self) -> Result<()> {
        self.cancel().check()
    }
}

/// Event of a running stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageEvent {
    /// Warning: shown at the end of the run, stored with the artefact, readable in SQL.
    Warning(Warning),
    /// Progress of the stage. The engine counts the rows that a stage maps or writes without this event.
    Progress(Progress),
    /// Data stalls since the stage started.
    Stalls(Stalls),
    /// Step of a training.
    Trained(TrainedStep),
    /// Validation of a training.
    Validated(ValidationScores),
}

/// Problem that the user should know of and that does not stop the stage, such as an image that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Subject: the name of a file, a row.
    pub subject: String,
    /// Text of the warning.
    pub message: String,
}

/// Progress of a stage, in its own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Total number of units, if known.
    pub total: Option<u64>,
    /// Name of the units, in plural: `steps`, `queries`.
    pub unit: &'static str,
}

/// Optimiser step of a training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrainedStep {
    /// Epoch, from 0 as in the table `history`.
    pub epoch: u64,
    /// Number of epochs of the training.
    pub epochs: u64,
    /// Number of optimiser steps so far.
    pub step: u64,
    /// Value of the objective on the batch before the step.
    pub loss: f64,
}

/// Scores of a training on its validation split, as in the table `validation`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationScores {
    /// Epoch that ended, from 0.
    pub epoch: u64,
    /// Number of optimiser steps so far.
    pub step: u64,
    /// Mean of the batch losses of the epoch.
    pub loss: f64,
    /// Image to text: recalls at 1, 5 and 10, percent.
    pub i2t: [f64; 3],
    /// Text to image: recalls at 1, 5 and 10, percent.
    pub t2i: [f64; 3],
    /// Sum of the six recalls.
    pub rsum: f64,
    /// Name of the measure that selects the best epoch: `rsum`, `t2i`, `ncs`.
    pub selection_metric: &'static str,
    /// Value of that measure.
    pub selection_score: f64,
    /// True if it is above that of every earlier epoch.
    pub best: bool,
}

/// Input of a parallel map.
#[derive(Debug, Clone, Copy)]
pub enum MapInput<'i> {
    /// Rows of this table input.
    Table(&'i str),
    /// Indices `0..n`, for output rows that the stage computes from data in memory.
    Range(usize),
}

/// Block of consecutive rows or indices, which becomes one part of the output.
#[derive(Debug, Clone)]
pub struct MapBlock {
    /// Row numbers in the input, or indices.
    pub range: Range<usize>,
    /// Rows of the input; an empty batch in a map over indices.
    pub rows: RecordBatch,
}

/// Rows of the output for one block.
#[derive(Debug)]
pub enum MappedRows {
    /// Rows in order; may be fewer than the rows of the block.
    New(RecordBatch),
    /// Rows of a part of an earlier result, which has exactly these.
    Earlier(EarlierPart),
}

/// Result of a map for one block.
#[derive(Debug)]
pub struct MapOutput {
    /// Rows of the output.
    pub rows: MappedRows,
    /// Warnings about these rows.
    pub warnings: Vec<Warning>,
    /// Key of each row, by which later results copy it; empty if they compute it again.
    pub row_keys: RowKeys,
    /// Key of the part that the rows become, by which a later result takes it as a whole; `None` if it does not.
    pub part_key: Option<PartKey>,
    /// Number of rows that were copied from earlier results.
    pub copied: u64,
}

impl MapOutput {
    /// Rows without warnings and keys.
    #[must_use]
    pub fn new(batch: RecordBatch) -> Self {
        let rows = MappedRows::New(batch);
        Self { rows, warnings: Vec::new(), row_keys: RowKeys::default(), part_key: None, copied: 0 }
    }

    /// The part of an earlier result with the key `part_key`, whose rows have the keys `row_keys`; `None` if there is none.
    pub fn find_earlier(
        earlier: &SharedEarlierRows,
        part_key: Option<&PartKey>,
        row_keys: impl FnOnce() -> Vec<RowKey>,
    ) -> Result<Option<Self>> {
        let (Some(earlier), Some(part_key)) = (earlier, part_key) else { return Ok(None) };
        Ok(earlier.find_part(part_key)?.map(|part| Self {
            copied: part.rows,
            rows: MappedRows::Earlier(part),
            warnings: Vec::new(),
            row_keys: RowKeys(row_keys()),
            part_key: Some(part_key.clone()),
        }))
    }
}

/// Summary of a parallel map, including the blocks that an earlier run mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapSummary {
    /// Number of input rows, or of indices.
    pub inputs: u64,
    /// Number of output rows.
    pub rows: u64,
    /// First warnings about the rows.
    pub warnings: Vec<Warning>,
}

impl MapSummary {
    /// Maximum number of warnings in a summary.
    pub const WARNINGS: usize = 20;
}

/// Function that maps a block to rows of an output; called from several threads.
pub type MapFn<'f> = dyn Fn(&MapBlock) -> Result<MapOutput> + Sync + 'f;
