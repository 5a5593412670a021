//! The contract between stages and the engine. Nothing else is shared between them.
//!
//! A stage is its settings: plain data that came out of a pipeline file ([`Stage`]). What it does is a second trait
//! ([`Run`]), so that planning, checking and querying need not link what running needs (libtorch).
//! While it runs, a stage sees one thing of the world: its [`Cx`].
//!
//! # What a stage promises
//! - The same settings and inputs give the same rows, in the same order, on every run: the engine may start `run` again
//!   after a crash and then drops the rows that are already committed.
//! - It reads through [`Cx`], writes through [`Cx`], and does nothing else to the world.
//! - It calls [`Cx`] often enough to be cancelled: every call fails with [`Kind::Interrupted`](crate::error::Kind) after
//!   a cancellation, and the error is simply passed on.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::loader::Stalls;

/// The settings of a stage: what it is, what it reads and what it writes.
pub trait Stage: Debug + Send + Sync {
    /// The verb used in pipeline files, in the store, in events and in messages: `embed`.
    fn kind(&self) -> &'static str;

    /// Raised whenever the same settings and inputs would give other bytes than before.
    fn version(&self) -> u32;

    /// The settings that enter the key, as JSON. References to tables and sources serialise as null: what they name
    /// enters the key by content, so renaming a stage or moving a folder keeps results.
    fn settings(&self) -> serde_json::Value;

    /// Tables and sources read.
    fn inputs(&self) -> Vec<Input>;

    /// Tables and files written.
    fn outputs(&self) -> Vec<Output>;

    /// Everything wrong with the settings that can be known without data.
    fn check(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// What a stage does.
pub trait Run: Stage {
    /// Reads through `cx`, writes through `cx`, and does nothing else to the world.
    ///
    /// # Errors
    /// Whatever the stage meets; the first error ends the stage, and the run.
    fn run(&self, cx: &mut Cx<'_>) -> Result<()>;
}

impl<S: Stage + ?Sized> Stage for Box<S> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }
    fn version(&self) -> u32 {
        (**self).version()
    }
    fn settings(&self) -> serde_json::Value {
        (**self).settings()
    }
    fn inputs(&self) -> Vec<Input> {
        (**self).inputs()
    }
    fn outputs(&self) -> Vec<Output> {
        (**self).outputs()
    }
    fn check(&self) -> Vec<Problem> {
        (**self).check()
    }
}

impl<S: Run + ?Sized> Run for Box<S> {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        (**self).run(cx)
    }
}

/// A table of another stage, written `stage.table` in a pipeline file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TableRef(String);

impl JsonSchema for TableRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TableRef".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_]+$",
            "description": "A table of another stage: `stage.table`.",
        })
    }
}

impl TableRef {
    /// The stage that writes the table.
    #[must_use]
    pub fn stage(&self) -> &str {
        self.0.split_once('.').map_or("", |(stage, _)| stage)
    }

    /// The table, as the stage calls it.
    #[must_use]
    pub fn table(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, table)| table)
    }
}

impl TryFrom<String> for TableRef {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        match text.split_once('.') {
            Some((stage, table)) if !stage.is_empty() && !table.is_empty() && !table.contains('.') => Ok(Self(text)),
            _ => Err(format!("`{text}` does not name a table: wanted `stage.table`")),
        }
    }
}

impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// References leave no trace in the key's settings.
impl Serialize for TableRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// A file or folder outside of the store, such as a folder of photographs.
///
/// In a pipeline file it is a path, relative to that file, in which `${NAME}` stands for an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Source(PathBuf);

impl JsonSchema for Source {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Source".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "minLength": 1,
            "description": "A file or folder, relative to the pipeline file; `${NAME}` stands for an environment variable.",
        })
    }
}

impl Source {
    /// A source at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// References leave no trace in the key's settings.
impl Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// Where an input comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A table of another stage, which must have at least these columns. Lists of width 0 stand for any width.
    Table {
        /// The table.
        from: TableRef,
        /// Columns that it must have.
        wanted: SchemaRef,
    },
    /// Files of another stage, such as a model.
    Files {
        /// The files output.
        from: TableRef,
    },
    /// A file or folder outside of the store; its content enters the key.
    Source(Source),
}

/// One thing that a stage reads.
#[derive(Debug, Clone)]
pub struct Input {
    /// The setting that names it, dotted when nested: `features`, `karpathy.json`.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl Input {
    /// A table of another stage with at least the columns of `wanted`.
    pub fn table(name: impl Into<String>, from: &TableRef, wanted: SchemaRef) -> Self {
        Self { name: name.into(), origin: Origin::Table { from: from.clone(), wanted } }
    }

    /// Files of another stage.
    pub fn files(name: impl Into<String>, from: &TableRef) -> Self {
        Self { name: name.into(), origin: Origin::Files { from: from.clone() } }
    }

    /// A file or folder outside of the store.
    pub fn source(name: impl Into<String>, source: &Source) -> Self {
        Self { name: name.into(), origin: Origin::Source(source.clone()) }
    }
}

/// One thing that a stage writes.
#[derive(Debug, Clone)]
pub struct Output {
    /// What other stages call it after the dot: `features`.
    pub name: &'static str,
    /// What it is.
    pub form: Form,
}

/// What an output is.
#[derive(Debug, Clone)]
pub enum Form {
    /// A table: Parquet parts of `part_rows` rows each (the last one shorter), with these columns.
    /// Lists of width 0 stand for any one width.
    Table {
        /// Columns.
        schema: SchemaRef,
        /// Rows of a part: the unit of work, of visibility downstream and of loss in a crash.
        part_rows: usize,
        /// The source that paths in this table are relative to, by input name.
        root: Option<String>,
    },
    /// A handful of files that are published together, such as `model.safetensors` and `model.json`.
    Files,
}

impl Output {
    /// A table in parts of `part_rows` rows.
    #[must_use]
    pub fn table(name: &'static str, schema: SchemaRef, part_rows: usize) -> Self {
        Self { name, form: Form::Table { schema, part_rows, root: None } }
    }

    /// Says that paths in this table are relative to the source `input`.
    #[must_use]
    pub fn relative_to(mut self, input: impl Into<String>) -> Self {
        if let Form::Table { root, .. } = &mut self.form {
            *root = Some(input.into());
        }
        self
    }

    /// Files that are published together.
    #[must_use]
    pub fn files(name: &'static str) -> Self {
        Self { name, form: Form::Files }
    }
}

/// Something wrong with the settings of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The setting at fault, dotted when nested; empty for the stage as a whole.
    pub setting: String,
    /// What was got and what was wanted.
    pub message: String,
    /// What to try.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: None }
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Something that a person should know of and that does not stop the stage: a picture that was skipped, say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is about: the name of a file, a row.
    pub subject: String,
    /// What happened.
    pub message: String,
}

/// Where tensors live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// The processes that run a stage together, and which of them this one is. [`crate::model::collective`] connects them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranks {
    /// This process. Rank 0 is the one whose results count.
    pub rank: usize,
    /// All processes.
    pub of: usize,
    /// Its number among those on its machine, which chooses its GPU.
    pub local: usize,
    /// Where they meet; nowhere if this one is alone.
    pub meeting: Option<Meeting>,
}

impl Ranks {
    /// One process that runs a stage by itself.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, of: 1, local: 0, meeting: None }
    }
}

/// Where the processes of a stage meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// Name or address of the machine with the store of keys.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What tells this meeting from others at the same store.
    pub name: String,
    /// How long one waits for another before it counts as gone.
    pub patience: Duration,
}

/// What one call of a mapped function gives back.
#[derive(Debug)]
pub struct Mapped {
    /// Rows of the output, in order. May be fewer than those of the input.
    pub batch: RecordBatch,
    /// What a person should know of these rows.
    pub warnings: Vec<Warning>,
}

/// A function from rows of an input to rows of an output, called from several threads.
pub type MapFn<'f> = dyn Fn(&RecordBatch) -> Result<Mapped> + Sync + 'f;

/// A function from a range of numbers to rows of an output, called from several threads.
pub type ProduceFn<'f> = dyn Fn(Range<usize>) -> Result<Mapped> + Sync + 'f;

/// How far a stage has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, when known.
    pub total: Option<u64>,
}

/// Fails once the run is cancelled: [`Cx::proceed`] for what works beside the stage and knows no [`Cx`].
pub type Cancellation = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// What the engine does for a running stage. Stages see it through [`Cx`] only.
///
/// Every method fails with an interruption once the run is cancelled.
#[expect(clippy::missing_errors_doc, reason = "they are those of the methods of the same name of `Cx`")]
pub trait World {
    /// The next rows of a table input, in order, at most 8,192; waits for the producer; `None` at the end.
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>>;
    /// Starts a table input from its first row again.
    fn rewind(&mut self, input: &str) -> Result<()>;
    /// The parts of a table input as mapped shards; waits for the producer to end.
    fn shards(&mut self, input: &str) -> Result<Shards>;
    /// What [`World::keep`] kept under this name for these settings and inputs.
    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>>;
    /// Keeps what follows from some settings and the inputs, in the shard cache.
    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>>;
    /// Appends rows to a table output.
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()>;
    /// Maps blocks of `rows` rows of an input to parts of an output, in order, on several threads.
    fn map(&mut self, input: &str, output: &str, rows: usize, function: &MapFn<'_>) -> Result<()>;
    /// Maps blocks of `size` of the numbers `0..count` to parts of an output, in order, on several threads.
    fn produce(&mut self, output: &str, count: usize, size: usize, function: &ProduceFn<'_>) -> Result<()>;
    /// A file of a files input.
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes>;
    /// Writes a file of a files output.
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()>;
    /// Where a source input lies.
    fn source(&self, input: &str) -> Result<PathBuf>;
    /// The folder that paths in a table input are relative to, if its producer named one.
    fn root(&self, input: &str) -> Result<Option<PathBuf>>;
    /// What the last [`World::save`] kept.
    fn state(&mut self) -> Result<Option<Bytes>>;
    /// Keeps `state`, together with everything written so far, and the `last` - 1 states before it.
    fn save(&mut self, state: Bytes, last: usize) -> Result<()>;
    /// Fails once the run is cancelled.
    fn proceed(&self) -> Result<()>;
    /// [`World::proceed`] as a function.
    fn cancellation(&self) -> Cancellation;
    /// Tells a person something.
    fn warn(&mut self, warning: Warning);
    /// Tells how far the stage has come, in its own units.
    fn progress(&mut self, progress: Progress);
    /// Tells what the stage waited for since it began.
    fn stalled(&mut self, stalls: Stalls);
    /// Threads that the stage may keep busy.
    fn threads(&self) -> usize;
    /// Where tensors live.
    fn device(&self) -> Device;
    /// The processes that run this stage together.
    fn ranks(&mut self, wanted: usize) -> Result<Ranks>;
    /// Waits until no other stage of the run that asked for this is under way.
    fn turn(&mut self) -> Result<()>;
}

/// All that a running stage sees.
pub struct Cx<'a> {
    world: &'a mut dyn World,
}

impl<'a> Cx<'a> {
    /// A view of `world`.
    pub fn new(world: &'a mut dyn World) -> Self {
        Self { world }
    }

    /// The next rows of a table input, in order, at most 8,192; `None` at the end.
    ///
    /// Waits for the producer, which may still be running: parts arrive as they are committed.
    ///
    /// # Errors
    /// The producer failed, a part is damaged, or the run was cancelled.
    pub fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.world.next(input)
    }

    /// Starts a table input from its first row again.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn rewind(&mut self, input: &str) -> Result<()> {
        self.world.rewind(input)
    }

    /// All rows of a table input as batches. Holds the whole table in memory.
    ///
    /// # Errors
    /// As [`Cx::next`].
    pub fn read_all(&mut self, input: &str) -> Result<Vec<RecordBatch>> {
        self.world.rewind(input)?;
        let mut batches = Vec::new();
        while let Some(batch) = self.world.next(input)? {
            batches.push(batch);
        }
        Ok(batches)
    }

    /// The parts of a table input as shards: memory-mapped files in a cache, for reading rows in any order. Waits until the
    /// producer has ended.
    ///
    /// # Errors
    /// The producer failed, or the run was cancelled.
    pub fn shards(&mut self, input: &str) -> Result<Shards> {
        self.world.shards(input)
    }

    /// What [`Cx::keep`] kept under this name for the same `settings` and the same content of all inputs; `None` if there
    /// is no such thing, or no more.
    ///
    /// # Errors
    /// The cache cannot be read, or the run was cancelled.
    pub fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        self.world.kept(name, settings)
    }

    /// Keeps rows that follow from `settings` and the inputs in the cache of shards, so that they need not be made again: by
    /// a run that goes on, or by another one with the same of these settings. Gives them as a shard.
    ///
    /// # Errors
    /// The cache cannot take them, or the run was cancelled.
    pub fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.world.keep(name, settings, batch)
    }

    /// Appends rows to a table output. The engine cuts parts and publishes each as it fills.
    ///
    /// # Errors
    /// The columns are not those of the output, the store cannot be written, or the run was cancelled.
    pub fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.world.write(output, batch)
    }

    /// Maps blocks of `rows` rows of `input` to parts of `output`, in order, on several threads.
    ///
    /// Block `i` holds rows `i·rows ..` of the input whatever the parts of the producer are, and becomes part `i` of the
    /// output. After a crash only blocks whose part is missing are mapped again. Memory: a few blocks at a time.
    ///
    /// # Errors
    /// The first error of `function`, in block order, or as [`Cx::next`] and [`Cx::write`].
    pub fn map(&mut self, input: &str, output: &str, rows: usize, function: &MapFn<'_>) -> Result<()> {
        self.world.map(input, output, rows, function)
    }

    /// Maps blocks of `size` of the numbers `0..count` to parts of `output`, in order, on several threads.
    ///
    /// For rows that follow from what the stage holds in memory rather than from rows of one input. Block `i` holds the
    /// numbers `i·size ..` and becomes part `i` of the output. After a crash only blocks whose part is missing are made
    /// again. Memory: a few blocks at a time.
    ///
    /// # Errors
    /// The first error of `function`, in block order, or as [`Cx::write`].
    pub fn produce(&mut self, output: &str, count: usize, size: usize, function: &ProduceFn<'_>) -> Result<()> {
        self.world.produce(output, count, size, function)
    }

    /// A file of a files input, such as `model.safetensors` of a model.
    ///
    /// # Errors
    /// The producer failed, the file is missing or damaged, or the run was cancelled.
    pub fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        self.world.file(input, name)
    }

    /// Writes a file of a files output.
    ///
    /// # Errors
    /// The store cannot be written, or the run was cancelled.
    pub fn put_file(&mut self, output: &str, name: &str, content: impl Into<Bytes>) -> Result<()> {
        self.world.put_file(output, name, content.into())
    }

    /// Where a source input lies.
    ///
    /// # Errors
    /// The stage declares no such source.
    pub fn source(&self, input: &str) -> Result<PathBuf> {
        self.world.source(input)
    }

    /// The folder that paths in a table input are relative to, if its producer named one.
    ///
    /// # Errors
    /// The stage declares no such input.
    pub fn root(&self, input: &str) -> Result<Option<PathBuf>> {
        self.world.root(input)
    }

    /// What the last [`Cx::save`] of this artefact kept: `None` on a fresh start.
    ///
    /// A stage that finds a state goes on from it: what it wrote before that save is already committed, and it writes
    /// what comes after.
    ///
    /// # Errors
    /// The state is damaged.
    pub fn state(&mut self) -> Result<Option<Bytes>> {
        self.world.state()
    }

    /// Keeps `state` and commits everything written so far, shorter parts included; so call it at places that depend on
    /// the data alone, never on the clock.
    ///
    /// The `last` states are kept, at least one: should the last one turn out damaged, the stage goes on from the one before
    /// it.
    ///
    /// # Errors
    /// The store cannot be written, or the run was cancelled.
    pub fn save(&mut self, state: impl Into<Bytes>, last: usize) -> Result<()> {
        self.world.save(state.into(), last)
    }

    /// Fails once the run is cancelled. For long work between other calls.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn proceed(&self) -> Result<()> {
        self.world.proceed()
    }

    /// [`Cx::proceed`] as a function, for what works beside the stage, such as a connection to other processes.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        self.world.cancellation()
    }

    /// Tells a person something: shown at the end of the run, kept with the artefact, readable in SQL.
    pub fn warn(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.world.warn(Warning { subject: subject.into(), message: message.into() });
    }

    /// Tells how far the stage has come, in its own units (steps, queries). `map` and `write` count rows by themselves.
    pub fn progress(&mut self, done: u64, total: Option<u64>) {
        self.world.progress(Progress { done, total });
    }

    /// Tells what the stage waited for since it began, in seconds.
    pub fn stalled(&mut self, stalls: Stalls) {
        self.world.stalled(stalls);
    }

    /// Threads that the stage may keep busy.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.world.threads()
    }

    /// Where tensors live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.world.device()
    }

    /// Has this stage run by `wanted` processes; if that is 1, by as many as the program was started as (`torchrun`, SLURM),
    /// which is usually one.
    ///
    /// Waits until all inputs are complete. In the other processes the same [`Run::run`] begins with the same settings,
    /// inputs and state, and this call tells them their number; what they write, save and warn of is dropped. So the
    /// call comes before the first [`Cx::save`], and all that happens between processes comes after it. From then on
    /// [`Cx::threads`] is the share of this process of its machine.
    ///
    /// When one of them ends before its time, the others are cancelled, and the error says what became of it.
    ///
    /// # Errors
    /// Other processes than the program was started with, or processes that cannot be started, do not answer or have other
    /// settings.
    pub fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        self.world.ranks(wanted)
    }

    /// Waits until no other stage of the run that asked for this is under way: for stages that want all threads, or the
    /// device, for themselves. The turn ends with the stage.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn turn(&mut self) -> Result<()> {
        self.world.turn()
    }
}

/// Says how `got` fails to have the columns of `wanted`; empty when it has them all.
///
/// Columns may be in another order and others may stand between them. A fixed-size list of width 0 in `wanted` or `got`
/// accepts every width.
#[must_use]
pub fn missing_columns(wanted: &SchemaRef, got: &SchemaRef) -> Vec<String> {
    let mut problems = Vec::new();
    for field in wanted.fields() {
        match got.field_with_name(field.name()) {
            Err(_) => problems.push(format!("column `{}` ({}) is missing", field.name(), field.data_type())),
            Ok(found) if !same_type(field.data_type(), found.data_type()) => problems.push(format!(
                "column `{}` is {}, wanted {}",
                field.name(),
                found.data_type(),
                field.data_type()
            )),
            Ok(_) => {}
        }
    }
    problems
}

fn same_type(wanted: &DataType, got: &DataType) -> bool {
    match (wanted, got) {
        (DataType::FixedSizeList(w, w_width), DataType::FixedSizeList(g, g_width)) => {
            (w_width == g_width || *w_width == 0 || *g_width == 0) && same_type(w.data_type(), g.data_type())
        }
        _ => wanted == got,
    }
}

/// The input of this name, or a defect of the stage.
///
/// # Errors
/// The stage declares no such input.
pub fn input<'i>(inputs: &'i [Input], name: &str) -> Result<&'i Input> {
    inputs
        .iter()
        .find(|input| input.name == name)
        .ok_or_else(|| Error::internal(format!("stage declares no input `{name}`")))
}
