//! Choice of the table and of the format.

use arrow::ipc::writer::FileWriter;
use serde_json::json;

use super::folder::NewFolder;
use super::npy::write_npy;
use super::precomp::write_precomp;
use super::source::ExportSource;
use super::webdataset::write_webdataset;
use crate::args::CommonArgs;
use crate::console::Console;
use crate::export_args::{ExportArgs, ExportFormat};
use crate::open;
use crate::run_choice::{announce_run, require_run};
use crate::units::format_items;
use pairloom_base::error::{Error, Result};

/// Writes a table to a new folder.
///
/// # Errors
/// There is no such table, or not of the content that the format wants; the folder exists with files in it, or cannot be
/// written. Nothing is left behind then.
pub(crate) fn export(common: &CommonArgs, arguments: &ExportArgs, console: Console) -> Result<()> {
    let mut folder = NewFolder::create(&arguments.output)?;
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
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
