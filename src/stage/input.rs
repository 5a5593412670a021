//! Inputs of a stage.

use arrow::datatypes::SchemaRef;

use super::{SourceRef, TableRef};
use pairloom_base::error::{Error, Result};
use pairloom_tables::Table;

/// Origin of an input.
#[derive(Debug, Clone)]
pub enum InputOrigin {
    /// A table of another stage.
    Table {
        /// The table.
        from: TableRef,
        /// Name of the table that is wanted, `features`; `None` if any table with the columns will do.
        wanted: Option<&'static str>,
        /// Columns that the table must have; it may have more. A list of width 0 stands for any width.
        required_columns: SchemaRef,
        /// Columns of which at least one must have values.
        required_values: Option<RequiredValues>,
    },
    /// Files of another stage, such as a model.
    Files {
        /// The output that holds the files.
        from: TableRef,
        /// Name of the output that is wanted: `model`.
        wanted: &'static str,
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
    /// Input from the table `wanted` of another stage.
    pub fn table(name: impl Into<String>, from: &TableRef, wanted: &Table) -> Self {
        let (wanted, required_columns) = (Some(wanted.name), wanted.schema());
        let origin = InputOrigin::Table { from: from.clone(), wanted, required_columns, required_values: None };
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
        let origin = InputOrigin::Table { from: from.clone(), wanted: None, required_columns, required_values: None };
        Self { name: name.into(), origin }
    }

    /// Input from the files `wanted` of another stage.
    pub fn files(name: impl Into<String>, from: &TableRef, wanted: &'static str) -> Self {
        Self { name: name.into(), origin: InputOrigin::Files { from: from.clone(), wanted } }
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
