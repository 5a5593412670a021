//! Short texts about a run for tables: its time, its score, its differences from another run. The instances of a stage that
//! the matrix repeats are one group.

use serde_json::Value;

use super::units::{format_duration, format_score};
use pairloom_engine::status::StageStatus;
use pairloom_stage::{Coordinate, stage_of_instance};
use pairloom_store::comparison::RunDifference;
use pairloom_store::record::{RunRecord, ScoreRecord, StageRecord};

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

/// Stage, or all instances of a repeated stage.
pub(super) struct StageGroup<'s, T> {
    /// Name of the stage; of several instances with their number and axes: `fit ×30 (row, seed)`.
    pub(super) name: String,
    pub(super) members: Vec<&'s T>,
}

/// Stage with a place in the matrix.
pub(super) trait Placed {
    /// Name of the stage, and its coordinates.
    fn place(&self) -> (&str, &[Coordinate]);
}

impl Placed for StageStatus {
    fn place(&self) -> (&str, &[Coordinate]) {
        (&self.name, &self.coordinates)
    }
}

impl Placed for StageRecord {
    fn place(&self) -> (&str, &[Coordinate]) {
        (&self.name, &self.coordinates)
    }
}

impl<T> Placed for (&StageRecord, T) {
    fn place(&self) -> (&str, &[Coordinate]) {
        self.0.place()
    }
}

/// Groups of stages, in their order. With `is_verbose`, each instance is a group of its own.
pub(super) fn stage_groups<T: Placed>(stages: &[T], is_verbose: bool) -> Vec<StageGroup<'_, T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for stage in stages {
        let (name, coordinates) = stage.place();
        let is_grouped = !coordinates.is_empty() && !is_verbose;
        let known = groups.iter_mut().find(|members| {
            let (other, _) = members[0].place();
            is_grouped && stage_of_instance(other) == stage_of_instance(name)
        });
        match known {
            Some(members) => members.push(stage),
            None => groups.push(vec![stage]),
        }
    }
    groups.into_iter().map(group_of).collect()
}

fn group_of<T: Placed>(members: Vec<&T>) -> StageGroup<'_, T> {
    let (name, coordinates) = members[0].place();
    let name = if members.len() == 1 {
        name.to_owned()
    } else {
        let axes: Vec<&str> = coordinates.iter().map(|of| of.axis.as_str()).collect();
        format!("{} ×{} ({})", stage_of_instance(name), members.len(), axes.join(", "))
    };
    StageGroup { name, members }
}

/// Coordinates as a JSON object: values by axis.
pub(super) fn coordinates_json(coordinates: &[Coordinate]) -> Value {
    Value::Object(coordinates.iter().map(|of| (of.axis.clone(), of.value.clone())).collect())
}

/// Numbers of equal words, in the order of their first occurrence: `12 run, 18 reused`. A single word stands alone.
pub(super) fn counts<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for word in words {
        match counts.iter_mut().find(|(of, _)| *of == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    match counts.as_slice() {
        [(word, _)] => (*word).to_owned(),
        counts => counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_stage::instance_name;
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

    impl Placed for (String, Vec<Coordinate>) {
        fn place(&self) -> (&str, &[Coordinate]) {
            (&self.0, &self.1)
        }
    }

    #[test]
    fn instances_are_one_group() {
        let at = |row: &str, seed: u64| {
            vec![
                Coordinate { axis: "row".to_owned(), value: row.into() },
                Coordinate { axis: "seed".to_owned(), value: seed.into() },
            ]
        };
        let mut stages: Vec<(String, Vec<Coordinate>)> = vec![("pairs".to_owned(), vec![])];
        for coordinates in [at("1.1", 1), at("1.1", 2), at("1.2", 1)] {
            stages.push((instance_name("fit", &coordinates), coordinates));
        }
        let names = |is_verbose| -> Vec<String> {
            stage_groups(&stages, is_verbose).into_iter().map(|group| group.name).collect()
        };
        assert_eq!(names(false), ["pairs", "fit ×3 (row, seed)"]);
        assert_eq!(names(true)[3], "fit@row=1.2,seed=1");
        assert_eq!(counts(["run", "reused", "run"]), "2 run, 1 reused");
        assert_eq!(counts(["run", "run"]), "run");
    }
}
