//! Inputs of a stage.

use arrow::datatypes::SchemaRef;

use super::{Source, TableRef};
use crate::error::{Error, Result};

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
