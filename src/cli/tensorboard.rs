//! `pairloom tensorboard DIR [--follow]`: export of training curves as TensorBoard event files.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::args::{CommonArgs, TensorboardArgs};
use super::console::Console;
use super::open;
use crate::error::{Error, Result};
use crate::io::{parquet, tensorboard};
use crate::store::record::StageRecord;
use crate::store::run_log::RunLog;
use crate::store::{Artefact, Store};
use crate::tables;

/// Tables whose columns become curves. An epoch's row is published in the first table before the second, and so on.
const EXPORTED_TABLES: [&str; 3] = ["history", "auxiliary_losses", "validation"];

/// Time between two scans of the store with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Exports the trainings of the latest runs as TensorBoard event files; with `--follow` continues with new parts.
///
/// Every part of a table becomes one file, which is written once and never changed. The file name contains the last
/// step of the part, so names sort in the order of publication, in which TensorBoard reads them. Existing files stay.
///
/// # Errors
/// The store cannot be read, the folder cannot be written, or no run has a training (without `--follow`).
pub(super) fn tensorboard(common: &CommonArgs, arguments: &TensorboardArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let mut exporter = EventFileExporter {
        store,
        folder: arguments.folder.clone(),
        limit: arguments.limit,
        exported_parts: BTreeSet::new(),
    };
    exporter.update(console)?;
    if arguments.follow {
        match exporter.follow(console)? {}
    }
    if exporter.exported_parts.is_empty() {
        return Err(Error::data("no run of this store has a training yet")
            .hint("a training appears after its first checkpoint (`checkpoint_steps`, or an epoch)"));
    }
    Ok(())
}

/// Exporter that keeps a folder of event files up to date with a store.
struct EventFileExporter {
    store: Store,
    folder: PathBuf,
    limit: usize,
    /// Names of the parts that were exported.
    exported_parts: BTreeSet<String>,
}

/// Message: new event files of a training.
#[derive(Serialize)]
struct TrainingUpdate {
    /// Folder of the training.
    run: String,
    /// Last step in the event files.
    last_step: i64,
}

impl EventFileExporter {
    fn follow(&mut self, console: Console) -> Result<Infallible> {
        loop {
            std::thread::sleep(POLL_INTERVAL);
            self.update(console)?;
        }
    }

    /// Exports new parts and prints the trainings that they belong to.
    fn update(&mut self, console: Console) -> Result<()> {
        let mut done = BTreeSet::new();
        let log = RunLog::open(&self.store)?;
        for run in log.readable().take(self.limit) {
            for stage in run.stages.iter().filter(|stage| stage.kind == "train") {
                if done.insert(&stage.key) {
                    self.export_training(&run.pipeline, stage, console)?;
                }
            }
        }
        Ok(())
    }

    fn export_training(&mut self, pipeline: &str, stage: &StageRecord, console: Console) -> Result<()> {
        let artefact = self.store.artefact(&stage.kind, &stage.key);
        let mut files = Vec::new();
        // The order is the reverse of publication. So a row that is found in one table exists in all earlier tables.
        for table in EXPORTED_TABLES.iter().rev() {
            let parts = artefact.list(table)?.into_iter().filter(|name| name.ends_with(".parquet"));
            for part in parts.filter(|part| !self.exported_parts.contains(&artefact.name(part))).collect::<Vec<_>>() {
                files.extend(event_file(&artefact, table, &part)?);
                self.exported_parts.insert(artefact.name(&part));
            }
        }
        files.sort_unstable();
        if files.is_empty() {
            return Ok(());
        }
        let folder = self.run_folder(pipeline, stage)?;
        let mut exported_step = None;
        for (step, name, content) in files {
            let target = folder.join(&name);
            if !target.exists() {
                // TensorBoard ignores files of this name.
                let unfinished = folder.join("unfinished");
                std::fs::write(&unfinished, content)
                    .and_then(|()| std::fs::rename(&unfinished, &target))
                    .map_err(|error| Error::io("write", &target, &error))?;
                exported_step = Some(step);
            }
        }
        match exported_step {
            None => Ok(()),
            Some(last_step) => {
                let run = folder.display().to_string();
                if console.json {
                    return console.print_json(&TrainingUpdate { run, last_step });
                }
                console.print(&format!("{run}: up to step {last_step}\n"))
            }
        }
    }

    /// Folder of a training, `pipeline.stage-key`, created if missing. An existing folder keeps its name even if
    /// another pipeline has reused the training since.
    fn run_folder(&self, pipeline: &str, stage: &StageRecord) -> Result<PathBuf> {
        let failed = |error: std::io::Error| Error::io("make the folder", &self.folder, &error);
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        let ending = format!("-{}", stage.key.short());
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().ends_with(&ending) && entry.path().is_dir() {
                return Ok(entry.path());
            }
        }
        let pipeline = Path::new(pipeline).file_stem().unwrap_or_default().to_string_lossy();
        let folder = self.folder.join(format!("{}.{}{ending}", path_safe(&pipeline), path_safe(&stage.name)));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }
}

/// Event file of a part: last step, file name and content. `None` if the part has no rows or was removed.
fn event_file(artefact: &Artefact, table: &str, part: &str) -> Result<Option<(i64, String, Vec<u8>)>> {
    // The artefact may be removed meanwhile.
    let (Some(content), Some(written)) = (artefact.get(part)?, artefact.modified_time(part)?) else { return Ok(None) };
    let batch = parquet::decode_whole(content)
        .map_err(|error| error.context(format!("`{}` is damaged", artefact.display_path(part))))?;
    let Some(&last) = tables::int_column(&batch, "step")?.values().last() else { return Ok(None) };
    let content = tensorboard::event_file(table, &batch, written)?;
    Ok(Some((last, format!("events.out.tfevents.{last:010}.{table}"), content)))
}

/// Name with every character that is not alphanumeric, `_` or `-` replaced by `-`.
fn path_safe(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}
