//! Outputs of a stage.

use arrow::datatypes::SchemaRef;

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
