//! The two traits of a stage: its description and its work.

use std::fmt::Debug;

use arrow::array::RecordBatch;

use super::{CopiedRows, FileKeys, Problem, RowKey, StageContext, StageInput, StageOutput, TableRef};
use pairloom_base::error::Result;

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

    /// Checks the settings against those of the stages that write the inputs. `writer` finds the stage that a reference
    /// names.
    fn check_writers<'s>(&'s self, writer: &dyn Fn(&TableRef) -> Option<&'s Self>) -> Vec<Problem>
    where
        Self: Sized,
    {
        let _ = writer;
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
    ///
    /// # Errors
    /// A column is missing.
    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        let _ = (rows, files);
        Ok(Vec::new())
    }

    /// Checks the settings, as far as that is possible without data, and returns all problems.
    fn check(&self) -> Vec<Problem> {
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
