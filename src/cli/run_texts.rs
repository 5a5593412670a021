//! Short texts about a run for tables: its time, its score, its differences from another run.

use super::units::{format_duration, format_score};
use pairloom_store::comparison::RunDifference;
use pairloom_store::record::{RunRecord, ScoreRecord};

/// Wall time of a run; of one that computed nothing, a remark.
pub(super) fn run_time(run: &RunRecord) -> String {
    match run.seconds() {
        Some(_) if run.is_all_reused() => "all reused".to_owned(),
        Some(seconds) => format_duration(seconds),
        None => String::new(),
    }
}

/// Score with its metric: `rsum 245.1`.
pub(super) fn score_text(score: &ScoreRecord) -> String {
    format!("{} {}", score.metric, format_score(score.value))
}

/// Difference on one line: `fit.epochs 30 → 3`.
pub(super) fn difference_text(difference: &RunDifference) -> String {
    let RunDifference { subject, before, after, .. } = difference;
    match (before, after) {
        (Some(before), Some(after)) => format!("{subject} {before} → {after}"),
        (None, Some(after)) => format!("{subject} {after} (new)"),
        (Some(before), None) => format!("{subject} {before} (gone)"),
        (None, None) => subject.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_store::Store;
    use pairloom_store::testing::{finished_run, stage};

    fn score(table: &str, metric: &str, value: f64) -> ScoreRecord {
        let (stage, table, metric) = ("test".to_owned(), table.to_owned(), metric.to_owned());
        ScoreRecord { stage, table, metric, of: String::new(), value }
    }

    #[test]
    fn a_run_that_computed_nothing_has_no_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut run =
            finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &[stage("a", "ingest", json!({}), &[])]);
        assert_eq!(run_time(&run), "", "it has no end");
        run.finished = Some(run.started + jiff::SignedDuration::from_millis(1500));
        assert_eq!(run_time(&run), "1.5 s");
        run.stages[0].reused = true;
        assert_eq!(run_time(&run), "all reused");
    }

    #[test]
    fn the_most_telling_score_has_its_metric() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut run = finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &[]);
        let mut best_after = |score: ScoreRecord| {
            run.scores.push(score);
            run.best_score().map(score_text).unwrap()
        };
        assert_eq!(best_after(score("", "count(*)", 1234.0)), "count(*) 1234");
        assert_eq!(best_after(score("correlations", "pearson", 0.734_9)), "pearson 0.73");
        assert_eq!(best_after(score("correlations", "pearson", 0.5)), "pearson 0.73");
        assert_eq!(best_after(score("validation", "rsum", 300.0)), "rsum 300");
        assert_eq!(best_after(score("summary", "rsum", 245.1)), "rsum 245.1");
    }
}
