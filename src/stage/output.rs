//! Outputs of a stage.

use arrow::datatypes::SchemaRef;

/// One thing that a stage writes.
#[derive(Debug, Clone)]
pub struct Output {
    /// Name that other stages give after the dot: `features`.
    pub name: &'static str,
    /// Kind of the output.
    pub form: Form,
}

/// Kind of an output.
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
