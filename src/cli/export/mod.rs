//! `pairloom export TABLE`: tables of the store as files of other programs.
//!
//! A table is read part by part and written to a folder that appears whole or not at all, in one of the formats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float32Type, Int64Type};
use arrow::ipc::writer::FileWriter;
use az::SaturatingAs;
use serde_json::json;

use self::npy::write_npy;
use self::precomp::write_precomp;
use self::webdataset::write_webdataset;
use crate::args::{CommonArgs, ExportArgs, ExportFormat};
use crate::console::Console;
use crate::open::{open_existing_store, open_log, read_table};
use crate::run_choice::{announce_run, require_run, require_stage};
use crate::units::format_items;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::suggest::closest_name;
use pairloom_store::Store;
use pairloom_store::record::{RunRecord, StageRecord};
use pairloom_tables as tables;

mod npy;
mod precomp;
mod webdataset;

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
                Error::usage(format!("`{name}` names no table, expected `stage.table`, such as `photos.features`"));
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
            let Some(chosen) = &self.split else { return Ok(batch) };
            let splits = tables::text_column(&batch, "split")?;
            let kept: BooleanArray = splits.iter().map(|split| Some(split == Some(chosen))).collect();
            filter_record_batch(&batch, &kept).map_err(|error| Error::internal(error.to_string()))
        }))
    }

    /// Error for a table without rows to export.
    pub fn has_no_rows(&self) -> Error {
        let split_text = self.split.iter().map(|split| format!(" of the split `{split}`")).collect::<String>();
        Error::usage(format!("the table `{}.{}` has no rows{split_text}", self.stage.name, self.table))
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

/// New folder under another name until all its files are complete.
pub(super) struct NewFolder {
    path: PathBuf,
    /// The folder while it is written.
    part: PathBuf,
    files: Vec<String>,
}

/// File of a [`NewFolder`].
pub(super) struct NewFile {
    out: BufWriter<File>,
    /// Path of the complete file.
    path: PathBuf,
}

impl NewFile {
    /// Error of a failed write.
    pub fn failed(&self, error: &std::io::Error) -> Error {
        Error::io("write", &self.path, error)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The disk is full, for example.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(|error| self.failed(&error))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl NewFolder {
    /// Creates the folder that [`NewFolder::commit`] renames to `path`.
    ///
    /// # Errors
    /// `path` is a file or a folder with files in it, or the folder cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        match std::fs::read_dir(path).map(|mut files| files.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                let message =
                    format!("the output folder `{}` has files, expected a new or an empty one", path.display());
                return Err(Error::usage(message).hint("name another folder, or remove this one"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::usage(format!("the output `{}` is a file, expected a folder", path.display())));
            }
            Err(error) => return Err(Error::io("read", path, &error)),
        }
        // A path such as `out/` has a name without the slash.
        let path: PathBuf = path.components().collect();
        let mut name = path.clone().into_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(name);
        std::fs::create_dir_all(&part).map_err(|error| Error::io("create", &path, &error))?;
        Ok(Self { path, part, files: Vec::new() })
    }

    /// Creates a file of the folder.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn file(&mut self, name: &str) -> Result<NewFile> {
        self.files.push(name.to_owned());
        let path = self.path.join(name);
        let file = File::create(self.part.join(name)).map_err(|error| Error::io("write", &path, &error))?;
        Ok(NewFile { out: BufWriter::with_capacity(1 << 20, file), path })
    }

    /// Renames the folder and returns the names of its files.
    ///
    /// # Errors
    /// The folder cannot be renamed.
    pub fn commit(mut self) -> Result<Vec<String>> {
        std::fs::rename(&self.part, &self.path).map_err(|error| Error::io("create", &self.path, &error))?;
        Ok(std::mem::take(&mut self.files))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // Best effort, after a failure. After a success there is none.
        let _ = std::fs::remove_dir_all(&self.part);
    }
}

/// Writes a table to a new folder.
///
/// # Errors
/// There is no such table, or not of the content that the format wants; the folder exists with files in it, or cannot be
/// written. Nothing is left behind then.
pub(super) fn export(common: &CommonArgs, arguments: &ExportArgs, console: Console) -> Result<()> {
    let mut folder = NewFolder::create(&arguments.output)?;
    let store = open_existing_store(common)?;
    let log = open_log(&store, console)?;
    let run = require_run(&log, &arguments.of)?;
    let source = ExportSource::find(&store, run, &arguments.table, arguments.split.as_deref())?;
    announce_run(run, &arguments.of, console);
    let captions = || {
        let beside = format!("{}.captions", source.stage());
        ExportSource::find(&store, run, arguments.captions.as_deref().unwrap_or(&beside), None)
    };
    let rows = match arguments.format {
        ExportFormat::Npy => write_npy(&source, &mut folder)?,
        ExportFormat::Arrow => write_arrow(&source, &mut folder)?,
        ExportFormat::Precomp => write_precomp(&source, &captions()?, &mut folder)?,
        ExportFormat::WebDataset => write_webdataset(&source, &captions()?, &mut folder)?,
    };
    let files = folder.commit()?;
    if console.json {
        return console.print_json(&json!({ "table": arguments.table, "run": run.run, "rows": rows, "files": files }));
    }
    console.note(&format!(
        "{} of `{}` in `{}`: {}",
        format_items(rows, "rows"),
        arguments.table,
        arguments.output.display(),
        files.join(", ")
    ));
    Ok(())
}

/// Writes all columns as an Arrow file, `TABLE.arrow`. Returns the number of rows.
fn write_arrow(source: &ExportSource<'_>, folder: &mut NewFolder) -> Result<usize> {
    let name = format!("{}.arrow", source.table());
    let failed = |error: arrow::error::ArrowError| Error::data(format!("cannot write `{name}`: {error}"));
    let mut file = Some(folder.file(&name)?);
    let (mut writer, mut rows) = (None, 0);
    for batch in source.batches()? {
        let batch = batch?;
        rows += batch.num_rows();
        if let Some(file) = file.take() {
            writer = Some(FileWriter::try_new(file, &batch.schema()).map_err(failed)?);
        }
        writer.iter_mut().try_for_each(|writer| writer.write(&batch)).map_err(failed)?;
    }
    let writer = writer.ok_or_else(|| source.has_no_rows())?;
    writer.into_inner().map_err(failed)?.finish()?;
    Ok(rows)
}
