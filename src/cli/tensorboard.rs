//! `pairloom tensorboard DIR [--follow]`: export of training curves as TensorBoard event files, with the settings of the
//! trainings as flat names and values.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use serde::Serialize;
use serde_json::Value;

use super::args::{CommonArgs, TensorboardArgs};
use super::console::Console;
use super::open;
use pairloom_base::error::{Error, Result};
use pairloom_formats::tensorboard::{self, Hparam, HparamMetric, HparamValue};
use pairloom_storage::parquet;
use pairloom_store::comparison::{flatten, text};
use pairloom_store::record::{RunLog, StageRecord};
use pairloom_store::{Artefact, Manifest, Store};
use pairloom_tables as tables;

/// Metrics of a training, from the epoch whose model was kept: tag, column of `validation`, name of the column.
const KEPT_METRICS: [(&str, &str, &str); 2] = [
    ("validation/kept_rsum", "rsum", "rsum of the kept epoch"),
    ("train/kept_loss", "loss", "mean loss of the kept epoch"),
];

/// Event file with the settings of a training. TensorBoard reads files in the order of their names.
const START_FILE: &str = "events.out.tfevents.0000000000.hparams";
/// Event file with the end of a training and its metrics.
const END_FILE: &str = "events.out.tfevents.9999999999.end";
/// Event file with the names of all settings and metrics, beside the folders of the trainings.
const EXPERIMENT_FILE: &str = "events.out.tfevents.hparams";

/// Tables whose columns become curves. An epoch's row is published in the first table before the second, and so on.
const EXPORTED_TABLES: [&str; 4] = ["history", "auxiliary_losses", "loss_scalars", "validation"];

/// Time between two scans of the store with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Exports the latest trainings as TensorBoard event files; with `--follow` continues with new parts.
///
/// Every part of a table becomes one file, which is written once and never changed. The file name contains the last
/// step of the part, so names sort in the order of publication, in which TensorBoard reads them. Existing files stay;
/// only [`EXPERIMENT_FILE`] is replaced when trainings are added.
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
        sessions: BTreeMap::new(),
        has_updated: false,
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
    /// Trainings whose settings are known, by key.
    sessions: BTreeMap<String, TrainingSession>,
    /// True after the first scan, which warns of records that cannot be read.
    has_updated: bool,
}

/// Training of a pipeline, with the latest run that has it.
struct PipelineTraining {
    pipeline: String,
    /// Identity of the pipeline.
    identity: String,
    stage: StageRecord,
    /// Start of the run in seconds since 1970.
    started: f64,
}

/// Settings and state of a training.
struct TrainingSession {
    settings: FlatSettings,
    /// Start, in seconds since 1970.
    started: f64,
    /// Manifest of the training, once it is finished.
    manifest: Option<Manifest>,
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
        let log = if self.has_updated { RunLog::open(&self.store)? } else { open::open_log(&self.store, console)? };
        self.has_updated = true;
        let trainings = latest_trainings(&log, self.limit);
        for training in &trainings {
            self.read_session(training)?;
        }
        for training in &trainings {
            self.export_training(training, &trainings, console)?;
        }
        self.export_experiment(&trainings)
    }

    /// Reads settings and state of a training, unless they are known and final.
    fn read_session(&mut self, training: &PipelineTraining) -> Result<()> {
        let stage = &training.stage;
        let key = stage.key.as_str();
        if self.sessions.get(key).is_some_and(|session| session.manifest.is_some()) {
            return Ok(());
        }
        let artefact = self.store.artefact(&stage.kind, &stage.key);
        let session = match artefact.manifest()? {
            Some(manifest) => TrainingSession {
                settings: flat_settings(&manifest.identity.settings),
                started: manifest.finished.as_duration().as_secs_f64() - manifest.seconds,
                manifest: Some(manifest),
            },
            None => {
                let Some(identity) = &stage.identity else { return Ok(()) };
                let settings = flat_settings(&identity.settings);
                TrainingSession { settings, started: training.started, manifest: None }
            }
        };
        self.sessions.insert(key.to_owned(), session);
        Ok(())
    }

    fn export_training(
        &mut self,
        training: &PipelineTraining,
        all: &[PipelineTraining],
        console: Console,
    ) -> Result<()> {
        let stage = &training.stage;
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
        let session = self.sessions.get(stage.key.as_str());
        let known = self.find_folder(stage)?;
        if files.is_empty() && known.is_none() {
            return Ok(());
        }
        let folder = known.unwrap_or_else(|| self.new_folder(training, all));
        std::fs::create_dir_all(&folder).map_err(|error| Error::io("make the folder", &folder, &error))?;
        if let Some(session) = session {
            let hparams: Vec<_> = session.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let content = || Ok(tensorboard::session_start_file(session.started, &hparams));
            write_once(&folder, START_FILE, content)?;
        }
        let mut exported_step = None;
        for (step, name, content) in files {
            if write_once(&folder, &name, || Ok(content))? {
                exported_step = Some(step);
            }
        }
        if let Some(manifest) = session.and_then(|session| session.manifest.as_ref()) {
            write_once(&folder, END_FILE, || end_file(&artefact, manifest))?;
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

    /// Folder of a training, if it exists. It keeps its name even if another pipeline has reused the training since.
    fn find_folder(&self, stage: &StageRecord) -> Result<Option<PathBuf>> {
        let failed = |error: std::io::Error| Error::io("make the folder", &self.folder, &error);
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().ends_with(stage.key.short()) && entry.path().is_dir() {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    }

    /// Folder of a new training: pipeline, stage, the settings that tell it from the other trainings of this stage, and
    /// the start of its key.
    fn new_folder(&self, training: &PipelineTraining, all: &[PipelineTraining]) -> PathBuf {
        let PipelineTraining { pipeline, identity, stage, .. } = training;
        let siblings = all.iter().filter(|other| other.identity == *identity && other.stage.name == stage.name);
        let settings = |key: &str| self.sessions.get(key).map(|session| &session.settings);
        let siblings: Vec<_> = siblings.filter_map(|other| settings(other.stage.key.as_str())).collect();
        let description = settings(stage.key.as_str()).map_or_else(String::new, |own| describe(own, &siblings));
        let pipeline = Path::new(pipeline).file_stem().unwrap_or_default().to_string_lossy();
        let (pipeline, name, key) = (path_safe(&pipeline), path_safe(&stage.name), stage.key.short());
        self.folder.join(format!("{pipeline}.{name}{description},{key}"))
    }

    /// Writes the names of all settings and metrics, if they have changed.
    fn export_experiment(&self, trainings: &[PipelineTraining]) -> Result<()> {
        let exported: Vec<&TrainingSession> =
            trainings.iter().filter_map(|training| self.sessions.get(training.stage.key.as_str())).collect();
        if exported.is_empty() || !self.folder.is_dir() {
            return Ok(());
        }
        let started = exported.iter().map(|session| session.started).fold(f64::INFINITY, f64::min);
        let metrics = KEPT_METRICS.map(|(tag, _, display_name)| HparamMetric { tag, display_name });
        let hparams = hparams(exported.iter().map(|session| &session.settings));
        let content = tensorboard::experiment_file(started, &hparams, &metrics);
        let target = self.folder.join(EXPERIMENT_FILE);
        if std::fs::read(&target).is_ok_and(|before| before == content) {
            return Ok(());
        }
        replace_file(&self.folder, &target, content)
    }
}

/// The latest distinct trainings, the latest first.
fn latest_trainings(log: &RunLog, limit: usize) -> Vec<PipelineTraining> {
    let mut seen = BTreeSet::new();
    let trainings = log.readable().flat_map(|run| {
        let trainings = run.stages.iter().filter(|stage| stage.kind == "train");
        trainings.map(move |stage| PipelineTraining {
            pipeline: run.pipeline.clone(),
            identity: run.pipeline_identity().to_owned(),
            stage: stage.clone(),
            started: run.started.as_duration().as_secs_f64(),
        })
    });
    trainings.filter(|training| seen.insert(training.stage.key.clone())).take(limit).collect()
}

/// Writes a file unless it exists. Returns true if it did not.
fn write_once(folder: &Path, name: &str, content: impl FnOnce() -> Result<Vec<u8>>) -> Result<bool> {
    let target = folder.join(name);
    if target.exists() {
        return Ok(false);
    }
    replace_file(folder, &target, content()?)?;
    Ok(true)
}

fn replace_file(folder: &Path, target: &Path, content: Vec<u8>) -> Result<()> {
    // TensorBoard ignores files of this name.
    let unfinished = folder.join("unfinished");
    std::fs::write(&unfinished, content)
        .and_then(|()| std::fs::rename(&unfinished, target))
        .map_err(|error| Error::io("write", target, &error))
}

/// Event file of a part: last step, file name and content. `None` if the part has no rows or was removed.
fn event_file(artefact: &Artefact, table: &str, part: &str) -> Result<Option<(i64, String, Vec<u8>)>> {
    // The artefact may be removed meanwhile.
    let Some(written) = artefact.modified_time(part)? else { return Ok(None) };
    let Some(batch) = read_part(artefact, part)? else { return Ok(None) };
    let Some(&last) = tables::int_column(&batch, "step")?.values().last() else { return Ok(None) };
    let content = tensorboard::event_file(&batch, written, |column| tag(table, column))?;
    Ok(Some((last, format!("events.out.tfevents.{last:010}.{table}"), content)))
}

fn read_part(artefact: &Artefact, part: &str) -> Result<Option<RecordBatch>> {
    let damaged = |error: Error| error.context(format!("`{}` is damaged", artefact.display_path(part)));
    artefact.get(part)?.map(|content| parquet::decode_whole(content).map_err(damaged)).transpose()
}

/// Tag of a curve: `train/loss`, `validation/i2t/R@1`.
fn tag(table: &str, column: &str) -> String {
    match (table, column.split_once("_r")) {
        ("history", _) => format!("train/{column}"),
        ("auxiliary_losses", _) => format!("train/auxiliary_loss/{column}"),
        ("loss_scalars", _) => format!("train/loss_scalar/{column}"),
        ("validation", _) if column == "loss" => "train/epoch_loss".to_owned(),
        (_, Some((direction @ ("i2t" | "t2i"), k))) => format!("{table}/{direction}/R@{k}"),
        _ => format!("{table}/{column}"),
    }
}

/// Event file with the end of a training, and the metrics of the epoch whose model was kept.
fn end_file(artefact: &Artefact, manifest: &Manifest) -> Result<Vec<u8>> {
    let mut kept = (0, Vec::new());
    for part in artefact.list("validation")?.into_iter().filter(|name| name.ends_with(".parquet")) {
        let Some(batch) = read_part(artefact, &part)? else { continue };
        let (steps, best) = (tables::int_column(&batch, "step")?, batch.column_by_name("best"));
        let best = best.and_then(|column| column.as_boolean_opt());
        let last = (0..batch.num_rows()).rev().find(|&row| best.is_some_and(|best| best.value(row)));
        if let Some(row) = last {
            let value = |&(tag, column, _): &(&'static str, &str, &str)| -> Result<(&'static str, f64)> {
                Ok((tag, tables::float_column(&batch, column)?.value(row)))
            };
            kept = (steps.value(row), KEPT_METRICS.iter().map(value).collect::<Result<Vec<_>>>()?);
        }
    }
    let finished = manifest.finished.as_duration().as_secs_f64();
    Ok(tensorboard::session_end_file(finished, kept.0, &kept.1))
}

/// Settings of a training by name: `loss`, `loss.margin`, `learning_rate`.
pub(super) type FlatSettings = BTreeMap<String, HparamValue>;

/// Settings that are always part of the name of a training.
const NAMED_SETTINGS: [&str; 2] = ["loss", "seed"];
/// Maximum number of settings in the name of a training.
const MAX_NAMED: usize = 5;
/// Maximum number of characters of a value in the name of a training.
const MAX_VALUE: usize = 24;

/// Flattens the settings of a training. A list is one text.
fn flat_settings(settings: &Value) -> FlatSettings {
    let plain = |value: Value| match value {
        Value::Bool(flag) => HparamValue::Flag(flag),
        Value::Number(number) => HparamValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        other => HparamValue::Text(text(&other)),
    };
    flatten(settings).into_iter().map(|(name, value)| (name, plain(value))).collect()
}

/// Collects the settings of all trainings, with their distinct values.
fn hparams<'s>(trainings: impl Iterator<Item = &'s FlatSettings> + Clone) -> Vec<Hparam> {
    let mut values: BTreeMap<&str, Vec<HparamValue>> = BTreeMap::new();
    for (name, value) in trainings.clone().flatten() {
        let values = values.entry(name).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let hparam = |(name, values): (&str, Vec<HparamValue>)| {
        let differs = values.len() > 1 || trainings.clone().any(|settings| !settings.contains_key(name));
        Hparam { name: name.to_owned(), values, differs }
    };
    values.into_iter().map(hparam).collect()
}

/// Short description of a training for its name: loss, seed, and the settings in which it differs from `others`, each
/// with a leading comma: `,loss=sum,seed=7`. Empty if no settings are known.
pub(super) fn describe(settings: &FlatSettings, others: &[&FlatSettings]) -> String {
    let differs = |name: &&str| others.iter().any(|other| other.get(*name) != settings.get(*name));
    let own = settings.keys().map(String::as_str).filter(|name| !NAMED_SETTINGS.contains(name)).filter(differs);
    let text = |name: &str| -> Option<String> {
        let value = match settings.get(name)? {
            HparamValue::Text(text) => text.clone(),
            HparamValue::Number(number) => number.to_string(),
            HparamValue::Flag(flag) => flag.to_string(),
        };
        (value.chars().count() <= MAX_VALUE).then(|| format!(",{name}={}", path_safe(&value)))
    };
    NAMED_SETTINGS.into_iter().chain(own).filter_map(text).take(MAX_NAMED).collect()
}

/// Name with every character that is not alphanumeric, `_`, `-` or `.` replaced by `-`.
fn path_safe(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn curves_have_readable_tags() {
        for (table, column, expected) in [
            ("history", "loss", "train/loss"),
            ("history", "gradient_norm", "train/gradient_norm"),
            ("auxiliary_losses", "caption", "train/auxiliary_loss/caption"),
            ("loss_scalars", "bias", "train/loss_scalar/bias"),
            ("validation", "loss", "train/epoch_loss"),
            ("validation", "i2t_r10", "validation/i2t/R@10"),
            ("validation", "rsum", "validation/rsum"),
        ] {
            assert_eq!(tag(table, column), expected);
        }
    }

    #[test]
    fn settings_become_flat_names_and_short_descriptions() {
        let settings = |loss: Value, rate: f64| {
            flat_settings(&json!({
                "captions": null, "loss": loss, "learning_rate": rate, "seed": 7, "shuffle": { "windows": 64 },
                "model": { "vse": { "bidirectional": false } }, "finetune": null, "mixed_with": [1, 2],
            }))
        };
        let (sum, max) = (settings(json!({ "sum": { "margin": 0.2 } }), 1e-3), settings(json!({ "max": {} }), 2e-4));
        let text = |text: &str| HparamValue::Text(text.to_owned());
        let expected = [
            ("learning_rate", HparamValue::Number(0.001)),
            ("loss", text("sum")),
            ("loss.margin", HparamValue::Number(0.2)),
            ("mixed_with", text("[1,2]")),
            ("model", text("vse")),
            ("model.bidirectional", HparamValue::Flag(false)),
            ("seed", HparamValue::Number(7.0)),
            ("shuffle.windows", HparamValue::Number(64.0)),
        ];
        assert_eq!(sum, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(describe(&sum, &[&sum]), ",loss=sum,seed=7");
        assert_eq!(describe(&max, &[&sum, &max]), ",loss=max,seed=7,learning_rate=0.0002");
        assert_eq!(describe(&FlatSettings::new(), &[&sum]), "");

        let found = hparams([&sum, &max].into_iter());
        let differing: Vec<&str> =
            found.iter().filter(|found| found.differs).map(|found| found.name.as_str()).collect();
        assert_eq!(differing, ["learning_rate", "loss", "loss.margin"]);
        assert_eq!(found[1].values, [text("sum"), text("max")]);
    }
}
