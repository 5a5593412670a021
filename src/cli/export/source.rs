//! Table that is exported, read part by part.

use std::path::PathBuf;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float32Type, Int64Type};
use az::SaturatingAs;

use crate::run_choice::require_stage;
use crate::stored_table::read_table;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::suggest::closest_name;
use pairloom_store::Store;
use pairloom_store::record::{RunRecord, StageRecord};
use pairloom_tables as tables;

/// Table of a stage, or its rows of one split.
pub(super) struct ExportSource<'s> {
    store: &'s Store,
    stage: &'s StageRecord,
    table: String,
    split: Option<String>,
}

/// Vectors of a batch.
pub(super) struct VectorRows<'b> {
    /// Values, row-major.
    pub values: &'b [f32],
    /// Shape of a row: the width of its vector, or the number of vectors and their width.
    pub shape: Vec<usize>,
}

impl<'s> ExportSource<'s> {
    /// Finds the table `name`, `stage.table`, of a run.
    ///
    /// # Errors
    /// The run has no such stage or table, or the result was removed.
    pub fn find(store: &'s Store, run: &'s RunRecord, name: &str, split: Option<&str>) -> Result<Self> {
        let Some((stage, table)) = name.rsplit_once('.') else {
            let error =
                Error::usage(format!("`{name}` names no table, wanted `stage.table`, such as `photos.features`"));
            return Err(error.hint("`pairloom sql 'SHOW TABLES'` lists the tables"));
        };
        let stage = require_stage(run, stage)?;
        let Some(manifest) = store.artefact(&stage.kind, &stage.key).manifest()? else {
            let message = format!("the result of stage `{}` was removed, or it did not finish", stage.name);
            return Err(Error::data(message).hint("run the pipeline again"));
        };
        if !manifest.tables.contains_key(table) {
            let names = || manifest.tables.keys().map(String::as_str);
            let error = Error::usage(format!("stage `{}` has no table `{table}`", stage.name));
            return Err(match closest_name(table, names()) {
                Some(close) => error.hint(format!("did you mean `{close}`?")),
                None => error.hint(format!("its tables are {}", TruncatedList::from_iter(names()).join(", "))),
            });
        }
        Ok(Self { store, stage, table: table.to_owned(), split: split.map(str::to_owned) })
    }

    /// Name of the stage.
    pub fn stage(&self) -> &str {
        &self.stage.name
    }

    /// Folder of the image files that the stage names, as the run recorded it.
    pub fn image_folder(&self) -> Option<PathBuf> {
        let mut folders = self.stage.sources.iter().filter(|(input, _)| input.ends_with(".images"));
        folders.next().map(|(_, path)| PathBuf::from(path))
    }

    /// Name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Rows of the table, part by part, those of the split only.
    ///
    /// # Errors
    /// As [`read_table`]; or the table has no column `split`.
    pub fn batches(&self) -> Result<impl Iterator<Item = Result<RecordBatch>> + '_> {
        let batches = read_table(self.store, self.stage, &self.table)?;
        Ok(batches.map(|batch| {
            let batch = batch?;
            let Some(wanted) = &self.split else { return Ok(batch) };
            let splits = tables::text_column(&batch, "split")?;
            let kept: BooleanArray = splits.iter().map(|split| Some(split == Some(wanted))).collect();
            filter_record_batch(&batch, &kept).map_err(|error| Error::internal(error.to_string()))
        }))
    }

    /// Error for a table without rows to export.
    pub fn has_no_rows(&self) -> Error {
        let of_split = self.split.iter().map(|split| format!(" of the split `{split}`")).collect::<String>();
        Error::usage(format!("the table `{}.{}` has no rows{of_split}", self.stage.name, self.table))
    }

    /// Vectors of a batch: its only column of f32 vectors, or of sets of them.
    ///
    /// # Errors
    /// There is no such column, or there are several.
    pub fn vectors<'b>(&self, batch: &'b RecordBatch) -> Result<VectorRows<'b>> {
        let schema = batch.schema();
        let is_vectors = |kind: &DataType| vector_shape(kind).is_some();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .filter(|field| is_vectors(field.data_type()))
            .map(|field| field.name().as_str())
            .collect();
        let place = format!("`{}.{}`", self.stage.name, self.table);
        let [name] = names[..] else {
            let got = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let error = Error::usage(format!("the table {place} has other vectors than one column of f32: {got}"));
            return Err(error.hint("`--format arrow` writes any table"));
        };
        let column = &batch[name];
        let shape = vector_shape(column.data_type()).unwrap_or_default();
        let mut values = column.as_fixed_size_list();
        let mut start = values.offset() * shape[0];
        if let Some(inner) = values.values().as_fixed_size_list_opt() {
            start = (start + inner.offset()) * shape[1];
            values = inner;
        }
        let size = batch.num_rows() * shape.iter().product::<usize>();
        let values = values.values().as_primitive::<Float32Type>().values();
        Ok(VectorRows { values: &values[start..start + size], shape })
    }

    /// Identifiers of the rows: the first column of whole numbers.
    ///
    /// # Errors
    /// There is no such column.
    pub fn ids<'b>(&self, batch: &'b RecordBatch) -> Result<&'b [i64]> {
        let ids = batch.columns().iter().find_map(|column| column.as_primitive_opt::<Int64Type>());
        let ids = ids.ok_or_else(|| Error::usage(format!("the table `{}` has no identifiers", self.table)))?;
        Ok(ids.values())
    }
}

/// Shape of the values of a column of f32 vectors, or of sets of them.
fn vector_shape(kind: &DataType) -> Option<Vec<usize>> {
    let DataType::FixedSizeList(item, size) = kind else { return None };
    let size = (*size).saturating_as::<usize>();
    match item.data_type() {
        DataType::Float32 => Some(vec![size]),
        DataType::FixedSizeList(item, width) if item.data_type() == &DataType::Float32 => {
            Some(vec![size, (*width).saturating_as()])
        }
        _ => None,
    }
}
