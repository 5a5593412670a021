//! `pairloom tensorboard DIR [--follow]`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::args::{Common, Tensorboard};
use super::open;
use super::output::Output;
use crate::error::{Error, Result};
use crate::io::{parquet, tensorboard};
use crate::store::record::{StageRecord, records};
use crate::store::{Artefact, Store};
use crate::tables;

/// Tables that become curves. An epoch's row of the first is published before that of the second, and so on.
const TABLES: [&str; 3] = ["history", "auxiliary_losses", "validation"];

/// Between two looks at the store.
const PAUSE: Duration = Duration::from_secs(2);

/// Writes the courses of the trainings of the latest runs as TensorBoard event files, and goes on with what is new if asked
/// to follow.
///
/// Every part of a table becomes one file, which is written whole and never changed: its name begins with the last step that
/// it holds, so names sort as parts were published, which is the order in which TensorBoard reads on. What is there already
/// is left alone.
///
/// # Errors
/// The store cannot be read, the folder cannot be written, or no run has trained anything and there is nothing to follow.
pub(super) fn tensorboard(common: &Common, arguments: &Tensorboard, output: Output) -> Result<()> {
    let store = open::existing_store(common)?;
    let mut mirror = Mirror { store, folder: arguments.folder.clone(), limit: arguments.limit, seen: BTreeSet::new() };
    mirror.update(output)?;
    if arguments.follow {
        match mirror.follow(output)? {}
    }
    if mirror.seen.is_empty() {
        return Err(Error::data("no run of this store has trained anything yet")
            .hint("a training shows up with its first checkpoint (`checkpoint_steps`, or an epoch)"));
    }
    Ok(())
}

/// A folder of event files that is kept up with a store.
struct Mirror {
    store: Store,
    folder: PathBuf,
    limit: usize,
    /// Parts that have their file.
    seen: BTreeSet<String>,
}

/// A training that got new files.
#[derive(Serialize)]
struct Grown {
    /// Its folder.
    run: String,
    /// The last step that TensorBoard can show.
    last_step: i64,
}

impl Mirror {
    fn follow(&mut self, output: Output) -> Result<Infallible> {
        loop {
            std::thread::sleep(PAUSE);
            self.update(output)?;
        }
    }

    /// Writes what is new, and says of which trainings.
    fn update(&mut self, output: Output) -> Result<()> {
        let mut done = BTreeSet::new();
        let runs: Vec<_> = records(&self.store)?.take(self.limit).collect();
        for run in &runs {
            for stage in run.stages.iter().filter(|stage| stage.kind == "train") {
                if done.insert(&stage.key) {
                    self.training(&run.pipeline, stage, output)?;
                }
            }
        }
        Ok(())
    }

    fn training(&mut self, pipeline: &str, stage: &StageRecord, output: Output) -> Result<()> {
        let artefact = self.store.artefact(&stage.kind, &stage.key);
        let mut files = Vec::new();
        // Listed the other way round than they are published: of what is seen of the second, all of the first is there.
        for table in TABLES.iter().rev() {
            let parts = artefact.list(table)?.into_iter().filter(|name| name.ends_with(".parquet"));
            for part in parts.filter(|part| !self.seen.contains(&artefact.name(part))).collect::<Vec<_>>() {
                files.extend(event_file(&artefact, table, &part)?);
                self.seen.insert(artefact.name(&part));
            }
        }
        files.sort_unstable();
        if files.is_empty() {
            return Ok(());
        }
        let folder = self.run_folder(pipeline, stage)?;
        let mut grown = None;
        for (step, name, content) in files {
            let target = folder.join(&name);
            if !target.exists() {
                // TensorBoard takes no notice of this name.
                let unfinished = folder.join("unfinished");
                std::fs::write(&unfinished, content)
                    .and_then(|()| std::fs::rename(&unfinished, &target))
                    .map_err(|error| Error::io("write", &target, &error))?;
                grown = Some(step);
            }
        }
        match grown {
            None => Ok(()),
            Some(last_step) => {
                let run = folder.display().to_string();
                if output.json {
                    return output.object(&Grown { run, last_step });
                }
                output.data(&format!("{run}: up to step {last_step}\n"))
            }
        }
    }

    /// The folder of a training, which is made if it is not there: `pipeline.stage-key`. One that is there stays the same,
    /// even if another pipeline has used the training since.
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
        let folder = self.folder.join(format!("{}.{}{ending}", plain(&pipeline), plain(&stage.name)));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }
}

/// The event file of a part: its last step, its name and its content; none for a part without rows.
fn event_file(artefact: &Artefact, table: &str, part: &str) -> Result<Option<(i64, String, Vec<u8>)>> {
    // An artefact may be removed while it is looked at.
    let (Some(content), Some(written)) = (artefact.get(part)?, artefact.written(part)?) else { return Ok(None) };
    let batch = parquet::decode_whole(content)
        .map_err(|error| error.context(format!("`{}` is damaged", artefact.place(part))))?;
    let Some(&last) = tables::ids(&batch, "step")?.values().last() else { return Ok(None) };
    let content = tensorboard::event_file(table, &batch, written)?;
    Ok(Some((last, format!("events.out.tfevents.{last:010}.{table}"), content)))
}

/// A name without what has a meaning in paths.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}
