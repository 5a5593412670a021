//! Best scores of the stages of a run, for its record.

use arrow::array::{Array, RecordBatch};

use pairloom_base::error::Result;
use pairloom_storage::parquet;
use pairloom_store::record::{RunRecord, ScoreRecord, StageRecord};
use pairloom_store::{Artefact, Store};
use pairloom_tables as tables;

/// Table with a score.
struct ScoredTable {
    name: &'static str,
    /// Column of the score.
    metric: &'static str,
    /// Columns that describe the row of the score.
    described_by: &'static [&'static str],
}

/// Tables with a score. Of `correlations`, it is the coefficient that the column `published` compares with.
const SCORE_TABLES: [ScoredTable; 3] = [
    ScoredTable { name: "summary", metric: "rsum", described_by: &["method", "parameters"] },
    ScoredTable { name: "validation", metric: "rsum", described_by: &["epoch"] },
    ScoredTable { name: "correlations", metric: "pearson", described_by: &["score", "pairs"] },
];

/// Best score of each stage of a run that measures one: of all methods of an evaluation, of all epochs of a training, of
/// all scores that are correlated with ratings.
///
/// # Errors
/// The store cannot be read.
pub(super) fn best_scores(store: &Store, record: &RunRecord) -> Result<Vec<ScoreRecord>> {
    let mut scores = Vec::new();
    for stage in &record.stages {
        for table in &SCORE_TABLES {
            if stage.tables.iter().any(|name| name == table.name) {
                scores.extend(best_score(store, stage, table)?);
            }
        }
    }
    Ok(scores)
}

fn best_score(store: &Store, stage: &StageRecord, table: &ScoredTable) -> Result<Option<ScoreRecord>> {
    let ScoredTable { name: table, metric, described_by } = *table;
    let artefact = store.artefact(&stage.kind, &stage.key);
    let Some(manifest) = artefact.manifest()? else { return Ok(None) };
    let mut best: Option<ScoreRecord> = None;
    for part in manifest.tables.get(table).into_iter().flatten() {
        let content = artefact.read(&Artefact::part_name(table, part.index), part.bytes, &part.digest)?;
        let batch = parquet::decode_whole(content)?;
        let values = tables::float_column(&batch, metric)?;
        for row in (0..batch.num_rows()).filter(|&row| values.is_valid(row) && values.value(row).is_finite()) {
            if best.as_ref().is_none_or(|best| values.value(row) > best.value) {
                best = Some(ScoreRecord {
                    stage: stage.name.clone(),
                    table: table.to_owned(),
                    metric: metric.to_owned(),
                    of: row_name(&batch, row, described_by)?,
                    value: values.value(row),
                });
            }
        }
    }
    Ok(best)
}

/// Values of the columns that describe a row: `csls k=10`, `epoch 3`.
fn row_name(batch: &RecordBatch, row: usize, columns: &[&str]) -> Result<String> {
    let mut words = Vec::new();
    for name in columns {
        if *name == "epoch" {
            words.push(format!("epoch {}", tables::int_column(batch, name)?.value(row)));
        } else {
            let column = tables::text_column(batch, name)?;
            words.extend(column.is_valid(row).then(|| column.value(row).to_owned()));
        }
    }
    Ok(words.join(" "))
}
