//! Record of a run: written at its start, and completed at its end.

use std::collections::BTreeMap;

use crate::event::{Event, Observer};
use crate::ordered_map::MemoryBudget;
use crate::run_options::RunOptions;
use crate::status::StageStatus;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::Stalls;
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_store::{Manifest, Store};

/// Result of a run.
#[derive(Debug)]
pub struct RunSummary {
    /// Record of the run, which is in the store already.
    pub record: RunRecord,
    /// Manifest of each finished stage, by name of the stage.
    pub manifests: BTreeMap<String, Manifest>,
    /// Peak number of bytes in flight between threads.
    pub peak_bytes_in_flight: u64,
    /// Error that ended the run, if any.
    pub error: Option<Error>,
}

/// Writes the record of a new run, and reports the stages whose results are reused.
pub(super) fn begin_record(
    statuses: &[StageStatus],
    store: &Store,
    options: &RunOptions,
    observer: &Observer<'_>,
) -> Result<RunRecord> {
    let mut record = RunRecord::start(&options.pipeline, options.command.clone());
    record.name_after_others(store)?;
    record.stages = statuses
        .iter()
        .map(|status| StageRecord {
            name: status.name.clone(),
            coordinates: status.coordinates.clone(),
            kind: status.kind.clone(),
            key: status.key.clone(),
            identity: Some(status.identity.clone()),
            tables: status.tables.clone(),
            sources: status.sources.clone(),
            warnings: status.warnings.clone(),
            reused: status.is_reuse(),
            seconds: None,
            stalls: None,
        })
        .collect();
    if !statuses.iter().all(StageStatus::is_reuse) {
        record.save(store)?;
    }
    let stages = statuses.iter().map(|status| status.name.clone()).collect();
    observer(&Event::RunStarted { run: record.run.clone(), pipeline: record.pipeline.clone(), stages });
    for status in statuses {
        if let Some(manifest) = status.reused() {
            let (stage, kind, key) = (status.name.clone(), status.kind.clone(), status.key.to_string());
            observer(&Event::StageReused { stage, kind, key, rows: manifest.rows() });
        }
    }
    Ok(record)
}

/// Result of a stage: its manifest and, if it ran, the seconds it took and its data stalls.
pub(super) type StageResult = Result<(Manifest, Option<(f64, Option<Stalls>)>)>;

/// Completes and writes the record of a run, and returns the summary.
pub(super) fn finish_record(
    record: &mut RunRecord,
    store: &Store,
    budget: &MemoryBudget,
    observer: &Observer<'_>,
    results: Vec<(String, StageResult)>,
    seconds: f64,
) -> Result<RunSummary> {
    let mut manifests = BTreeMap::new();
    let mut first: Option<Error> = None;
    let mut failed = 0;
    for (name, result) in results {
        failed += usize::from(matches!(&result, Err(error) if error.category() != ErrorCategory::Interrupted));
        match result {
            Ok((manifest, ran)) => {
                if let Some(stage) = record.stages.iter_mut().find(|stage| stage.name == name) {
                    stage.seconds = ran.map(|(seconds, _)| seconds);
                    stage.stalls = ran.and_then(|(_, stalls)| stalls);
                    // Another process, or another stage of the same key, may have built it while this one waited.
                    stage.reused = ran.is_none();
                }
                manifests.insert(name, manifest);
            }
            // Interruptions are consequences of the first other error, if there is one.
            Err(error) if first.as_ref().is_none_or(|first| first.category() == ErrorCategory::Interrupted) => {
                first = Some(if error.category() == ErrorCategory::Interrupted {
                    error
                } else {
                    error.context(format!("stage `{name}`"))
                });
            }
            Err(_) => {}
        }
    }
    if failed > 1 {
        first = first.map(|error| error.context(format!("{failed} stages failed, first")));
    }
    record.finished = Some(jiff::Timestamp::now());
    record.error = first.as_ref().map(ToString::to_string);
    record.outcome = match &first {
        None => RunOutcome::Finished,
        Some(error) if error.category() == ErrorCategory::Interrupted => RunOutcome::Interrupted,
        Some(_) => RunOutcome::Failed,
    };
    let saved = record.save(store);
    if first.is_none() {
        saved?;
    }
    let outcome = serde_json::json!(record.outcome).as_str().unwrap_or_default().to_owned();
    let peak = budget.peak();
    observer(&Event::RunFinished { run: record.run.clone(), seconds, outcome, peak_bytes_in_flight: peak });
    Ok(RunSummary { record: record.clone(), manifests, peak_bytes_in_flight: peak, error: first })
}
