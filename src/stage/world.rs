//! The world of a running stage.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use super::{MapFn, Over, Progress, StageEvent, Warning};
use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::runtime::{Cancel, Device, Ranks, Resources};

/// All that a running stage sees: a [`World`], and what follows from it.
pub type Cx<'w> = dyn World + 'w;

/// World of a running stage: all that the engine does for it.
///
/// # Errors
/// Every method that can fail does so with [`Kind::Interrupted`](crate::error::Kind) once the run is cancelled, and with an
/// internal error for an input or output that the stage does not declare. Those that read fail if the producer failed or
/// what it wrote is damaged, those that write if the store cannot be written.
#[expect(clippy::missing_errors_doc, reason = "errors that all methods share are told once, and others with each")]
pub trait World {
    /// The next rows of a table input, in order, at most 8,192; `None` at the end. The call after that begins at the first
    /// row again.
    ///
    /// Waits for the producer, which may still be running: parts arrive as they are committed.
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>>;

    /// The parts of a table input as shards: memory-mapped files in a cache, for reading rows in any order. Waits until the
    /// producer has ended.
    fn shards(&mut self, input: &str) -> Result<Shards>;

    /// A file of a files input, such as `model.safetensors` of a model. Waits until the producer has ended.
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes>;

    /// The place of a source input, or the folder that paths in a table input are relative to, if its producer named one.
    fn path(&self, input: &str) -> Result<Option<PathBuf>>;

    /// Appends rows to a table output. The engine cuts parts and publishes each as it fills.
    ///
    /// Fails if the columns are not those of the output.
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()>;

    /// Maps blocks of `size` units to parts of `output`, in order, on several threads.
    ///
    /// Block `i` holds units `i·size ..`, whatever the parts of a producer are, and becomes part `i` of the output. After a
    /// crash only blocks whose part is missing are mapped again. Memory: a few blocks at a time.
    ///
    /// Fails with the first error of `function`, in block order.
    fn map(&mut self, over: Over<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<()>;

    /// Writes a file of a files output.
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()>;

    /// Rows that [`World::keep`] kept under this name for the same `settings` and the same content of all inputs; `None` if
    /// there is no such thing, or no more.
    fn kept(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>>;

    /// Keeps rows that follow from `settings` and the inputs in the cache of shards, so that they need not be made again: by
    /// a run that goes on, or by another one with the same of these settings. Gives them as a shard.
    ///
    /// Fails if the cache cannot take them.
    fn keep(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>>;

    /// The last state that [`World::save`] saved of this artefact; `None` on a fresh start.
    ///
    /// A stage that finds a state goes on from it: what it wrote before that save is already committed, and it writes what
    /// comes after.
    fn state(&mut self) -> Result<Option<Bytes>>;

    /// Saves `state` and commits everything written so far, shorter parts included; so call it at places that depend on
    /// the data alone, never on the clock.
    ///
    /// The `last` states are kept, at least one: should the last one turn out damaged, the stage goes on from the one before
    /// it.
    fn save(&mut self, state: Bytes, last: usize) -> Result<()>;

    /// Tells people of the stage.
    fn emit(&mut self, event: StageEvent);

    /// Threads and device that the stage may use, and whether it is cancelled.
    fn resources(&self) -> &Resources;

    /// Waits until no other stage of the run that asked for this is under way: for stages that want all threads, or the
    /// device, for themselves. The turn ends with the stage.
    fn turn(&mut self) -> Result<()>;

    /// Has this stage run by `wanted` processes; if that is 1, by as many as the program was started as (`torchrun`, SLURM),
    /// which is usually one.
    ///
    /// Waits until all inputs are complete. In the other processes the same [`Run::run`](super::Run::run) begins with the
    /// same settings, inputs and state, and this call tells them their number; what they write, save and emit is dropped. So
    /// the call comes before the first [`World::save`], and all that happens between processes comes after it. From then on
    /// [`World::resources`] has the share of this process of the threads of its machine.
    ///
    /// When one of them ends before its time, the others are cancelled, and the error says what became of it. Fails for
    /// other processes than the program was started with, and for processes that cannot be started, do not answer or have
    /// other settings.
    fn ranks(&mut self, wanted: usize) -> Result<Ranks>;
}

impl dyn World + '_ {
    /// All rows of a table input as batches. Holds the whole table in memory.
    ///
    /// # Errors
    /// As [`World::next`].
    pub fn read_all(&mut self, input: &str) -> Result<Vec<RecordBatch>> {
        std::iter::from_fn(|| self.next(input).transpose()).collect()
    }

    /// The place of a source input.
    ///
    /// # Errors
    /// The stage declares no such source.
    pub fn source(&self, input: &str) -> Result<PathBuf> {
        self.path(input)?.ok_or_else(|| Error::internal(format!("`{input}` is no source")))
    }

    /// Emits a warning.
    pub fn warn(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.emit(StageEvent::Warning(Warning { subject: subject.into(), message: message.into() }));
    }

    /// Emits progress.
    pub fn progress(&mut self, done: u64, total: Option<u64>) {
        self.emit(StageEvent::Progress(Progress { done, total }));
    }

    /// Threads that the stage may keep busy.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.resources().threads
    }

    /// Where tensors live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.resources().device
    }

    /// The flag that ends the stage, for what works beside it, such as a connection to other processes.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.resources().cancel
    }

    /// Fails once the run is cancelled. For long work between other calls.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn proceed(&self) -> Result<()> {
        self.cancel().proceed()
    }
}
