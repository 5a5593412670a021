//! The two traits of a stage, its description and its work; and its inputs and outputs, with the check of their columns.

use std::fmt::Debug;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};

use super::{CopiedRows, FileKeys, KnownFacts, OutputFact, Problem, RowKey, SourceRef, StageContext, TableRef};
use pairloom_base::error::{Error, Result};
use pairloom_tables::Table;

/// Description of a stage: its settings, inputs and outputs.
pub trait Stage: Debug + Send + Sync {
    /// Kind of the stage, a verb, as in pipeline files, the store, events and messages: `embed`.
    fn kind(&self) -> &'static str;

    /// Version of the stage's code, part of the key. It is raised when the same settings and inputs give other bytes
    /// than before.
    fn version(&self) -> u32;

    /// Settings that are part of the key, as JSON. References to tables and sources serialise as null, since the key
    /// contains the content that they refer to. So results stay valid if a stage is renamed or a folder is moved.
    fn settings(&self) -> serde_json::Value;

    /// Tables, files and sources that the stage reads.
    fn inputs(&self) -> Vec<StageInput>;

    /// Tables and files that the stage writes.
    fn outputs(&self) -> Vec<StageOutput>;

    /// Facts about the outputs that are known before anything runs. `known` has those about the inputs.
    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        let _ = known;
        Vec::new()
    }

    /// Checks the facts about the inputs, as far as they are `known`, and returns all problems.
    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let _ = known;
        Vec::new()
    }

    /// Stages that write the table or files `output`, for messages: "an `extract`". `None` if unknown.
    #[must_use]
    fn writers(output: &str) -> Option<&'static str>
    where
        Self: Sized,
    {
        let _ = output;
        None
    }

    /// Rows that a run copies from earlier results. `None` if it computes all.
    fn copied_rows(&self) -> Option<CopiedRows> {
        None
    }

    /// Keys of the items of [`Stage::copied_rows`] in some rows of the input, which have the columns
    /// [`CopiedRows::key_columns`] only; `None` for an item whose key is not known without reading it. `files` are the keys of
    /// the files in the folder that paths in the table are relative to.
    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        let _ = (rows, files);
        Ok(Vec::new())
    }

    /// Checks the settings, as far as that is possible without data, and returns all problems.
    fn check(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Checks the settings against the headers of sources that are there, such as the columns of a table, and returns all
    /// problems. Reads no rows, and says nothing about sources that are missing.
    fn check_headers(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// Runs a stage, which reads and writes through its context only. Its errors end the stage and the run.
///
/// The engine takes this function and not [`RunnableStage`]: the settings of a stage that computes with tensors are data
/// below libtorch, and what runs it is above.
pub type RunStage<S> = fn(&S, &mut StageContext<'_>) -> Result<()>;

/// A stage that runs without tensors. Separate from [`Stage`], which the settings of all stages implement.
pub trait RunnableStage: Stage {
    /// Runs the stage. It reads and writes through `cx` only and has no other side effects.
    ///
    /// # Errors
    /// Any error of the stage. It ends the stage and the run.
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()>;
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
    fn inputs(&self) -> Vec<StageInput> {
        (**self).inputs()
    }
    fn outputs(&self) -> Vec<StageOutput> {
        (**self).outputs()
    }
    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        (**self).facts(known)
    }
    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        (**self).check_inputs(known)
    }
    fn check(&self) -> Vec<Problem> {
        (**self).check()
    }
    fn copied_rows(&self) -> Option<CopiedRows> {
        (**self).copied_rows()
    }
    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        (**self).item_keys(rows, files)
    }
}

impl<S: RunnableStage + ?Sized> RunnableStage for Box<S> {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        (**self).run(cx)
    }
}

/// Origin of an input.
#[derive(Debug, Clone)]
pub enum InputOrigin {
    /// A table of another stage.
    Table {
        /// The table.
        from: TableRef,
        /// Name of the expected table, `features`; `None` if any table with the columns will do.
        expected: Option<&'static str>,
        /// Columns that the table must have; it may have more. A list of width 0 stands for any width.
        required_columns: SchemaRef,
        /// Columns of which at least one must have values.
        required_values: Option<RequiredValues>,
    },
    /// Files of another stage, such as a model.
    Files {
        /// The output that holds the files.
        from: TableRef,
        /// Name of the expected output: `model`.
        expected: &'static str,
    },
    /// A file or folder outside of the store. Its content is part of the key.
    Source(SourceRef),
}

/// Nullable columns of an input table, at least one of which must have values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredValues {
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// Hint of the error for a table without such values.
    pub hint: &'static str,
}

/// Input of a stage.
#[derive(Debug, Clone)]
pub struct StageInput {
    /// Setting that names the input, dotted if nested: `features`, `karpathy.json`.
    pub name: String,
    /// Origin of the input.
    pub origin: InputOrigin,
}

impl StageInput {
    /// Input from the table `expected` of another stage.
    pub fn table(name: impl Into<String>, from: &TableRef, expected: &Table) -> Self {
        let (expected, required_columns) = (Some(expected.name), expected.schema());
        let origin = InputOrigin::Table { from: from.clone(), expected, required_columns, required_values: None };
        Self { name: name.into(), origin }
    }

    /// Requires values in at least one of some columns of an input table.
    #[must_use]
    pub fn with_values(mut self, values: RequiredValues) -> Self {
        if let InputOrigin::Table { required_values, .. } = &mut self.origin {
            *required_values = Some(values);
        }
        self
    }

    /// Input from any table of another stage that has at least these columns.
    pub fn any_table(name: impl Into<String>, from: &TableRef, required_columns: SchemaRef) -> Self {
        let origin = InputOrigin::Table { from: from.clone(), expected: None, required_columns, required_values: None };
        Self { name: name.into(), origin }
    }

    /// Input from the files `expected` of another stage.
    pub fn files(name: impl Into<String>, from: &TableRef, expected: &'static str) -> Self {
        Self { name: name.into(), origin: InputOrigin::Files { from: from.clone(), expected } }
    }

    /// Input from a file or folder outside of the store.
    pub fn source(name: impl Into<String>, source: &SourceRef) -> Self {
        Self { name: name.into(), origin: InputOrigin::Source(source.clone()) }
    }
}

/// Finds the input with this name.
///
/// # Errors
/// An internal error if the stage declares no such input.
pub fn input<'i>(inputs: &'i [StageInput], name: &str) -> Result<&'i StageInput> {
    inputs
        .iter()
        .find(|input| input.name == name)
        .ok_or_else(|| Error::internal(format!("stage declares no input `{name}`")))
}

/// Output of a stage.
#[derive(Debug, Clone)]
pub struct StageOutput {
    /// Name, which other stages use after the dot of a reference: `features`.
    pub name: &'static str,
    /// Kind of the output.
    pub kind: OutputKind,
}

/// Kind of an output.
#[derive(Debug, Clone)]
pub enum OutputKind {
    /// A table with these columns, in Parquet parts of `part_rows` rows each; the last part may be shorter. A list of
    /// width 0 stands for one unspecified width.
    Table {
        /// Columns.
        schema: SchemaRef,
        /// Rows of a part. A part is committed, made visible to later stages, and lost in a crash as a whole.
        part_rows: usize,
        /// Name of the source input that paths in this table are relative to.
        root: Option<String>,
        /// Columns that are missing in every row, although the schema has them.
        empty_columns: &'static [&'static str],
    },
    /// A few files that belong together, such as `model.safetensors` and `model.json`.
    Files,
}

impl StageOutput {
    /// A table output in parts of `part_rows` rows.
    #[must_use]
    pub fn table(name: &'static str, schema: SchemaRef, part_rows: usize) -> Self {
        Self { name, kind: OutputKind::Table { schema, part_rows, root: None, empty_columns: &[] } }
    }

    /// Declares that paths in this table are relative to the source `input`.
    #[must_use]
    pub fn relative_to(mut self, input: impl Into<String>) -> Self {
        if let OutputKind::Table { root, .. } = &mut self.kind {
            *root = Some(input.into());
        }
        self
    }

    /// Declares that these columns are missing in every row, so that inputs that need their values are refused before
    /// anything runs.
    #[must_use]
    pub fn with_empty_columns(mut self, columns: &'static [&'static str]) -> Self {
        if let OutputKind::Table { empty_columns, .. } = &mut self.kind {
            *empty_columns = columns;
        }
        self
    }

    /// An output of files that belong together.
    #[must_use]
    pub fn files(name: &'static str) -> Self {
        Self { name, kind: OutputKind::Files }
    }
}

/// Lists the columns of `expected` that `got` lacks or has with another type; empty if it has them all.
///
/// Columns may be in another order, and `got` may have more of them. A fixed-size list of width 0 in `expected` or `got`
/// matches every width, and vectors of half precision fit where those of f32 are expected: they are read as f32.
#[must_use]
pub fn missing_columns(expected: &SchemaRef, got: &SchemaRef) -> Vec<String> {
    let mut problems = Vec::new();
    for field in expected.fields() {
        match got.field_with_name(field.name()) {
            Err(_) => problems.push(format!("column `{}` ({}) is missing", field.name(), field.data_type())),
            Ok(found) if !same_type(field.data_type(), found.data_type()) => problems.push(format!(
                "column `{}` is {}, expected {}",
                field.name(),
                found.data_type(),
                field.data_type()
            )),
            Ok(_) => {}
        }
    }
    problems
}

fn same_type(expected: &DataType, got: &DataType) -> bool {
    match (expected, got) {
        (DataType::FixedSizeList(w, w_width), DataType::FixedSizeList(g, g_width)) => {
            let are_halves = (w.data_type(), g.data_type()) == (&DataType::Float32, &DataType::Float16);
            let same_width = w_width == g_width || *w_width == 0 || *g_width == 0;
            same_width && (are_halves || same_type(w.data_type(), g.data_type()))
        }
        _ => expected == got,
    }
}
