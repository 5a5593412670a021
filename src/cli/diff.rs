//! `pairloom diff RUN RUN`: differences between two runs in settings, connections, sources and scores.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::Array;
use serde_json::json;

use super::args::{CommonArgs, DiffArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::open::read_table;
use super::run_texts::score_text;
use super::units::{format_age, format_score};
use pairloom_base::error::Result;
use pairloom_stages::test_significance::{RankingComparison, compare_rankings};
use pairloom_store::Store;
use pairloom_store::comparison::compare_runs;
use pairloom_store::lineage::{ArtefactName, Lineage, artefact_inputs};
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_tables as tables;

/// What the interval and the p-value of a difference cover. Another seed of a training is another model.
const TESTED_OVER: &str = "test images, not seeds";

/// Columns of `summary` that are compared.
const COMPARED_COLUMNS: [&str; 4] = ["i2t_r1", "t2i_r1", "rsum", "hs_sum"];

/// Scores of an evaluation in both runs.
struct ScoreRow {
    /// Stage, protocol and method.
    name: [String; 3],
    /// Value of each of [`COMPARED_COLUMNS`] in the first and the second run.
    values: [[Option<f64>; 4]; 2],
    /// Paired test of the difference in rsum, if both runs have rankings of the same queries.
    test: Option<RankingComparison>,
}

/// Prints the differences between two runs.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub(super) fn diff(common: &CommonArgs, arguments: &DiffArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let (first, second) = (log.find(&arguments.first)?, log.find(&arguments.second)?);
    let differences = compare_runs(first, second);
    let mut scores = score_rows(&store, first, second)?;
    let removed = removed_results(&store, first, second)?;
    test_rankings(&store, (first, second), &removed, &mut scores, console)?;
    if console.json {
        return console.print_json(&json!({
            "first": first.run, "second": second.run,
            "differences": differences.iter().map(|of| {
                json!({ "subject": of.subject, "before": of.before, "after": of.after })
            }).collect::<Vec<_>>(),
            "scores": scores.iter().map(score_json).collect::<Vec<_>>(),
            "removed": removed.iter().map(|(run, stage)| json!({ "run": run.run, "stage": stage.name })).collect::<Vec<_>>(),
        }));
    }
    let mut rows = vec![vec![String::new(), "first".to_owned(), "second".to_owned()]];
    let mut add = |name: &str, one: String, other: String| rows.push(vec![name.to_owned(), one, other]);
    add("run", first.run.clone(), second.run.clone());
    add("started", format_age(first.started), format_age(second.started));
    add("outcome", first.outcome.name().to_owned(), second.outcome.name().to_owned());
    let missing = || "–".to_owned();
    let best = |run: &RunRecord| run.best_score().map_or_else(missing, score_text);
    if first.best_score().is_some() || second.best_score().is_some() {
        add("best score", best(first), best(second));
    }
    for of in &differences {
        add(&of.subject, of.before.clone().unwrap_or_else(missing), of.after.clone().unwrap_or_else(missing));
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    console.print(&align_columns(&rows, &[false; 3]))?;
    if differences.is_empty() {
        let same = if second.is_repeat_of(first) { "the results are the same" } else { "the results differ" };
        console.info(&format!("no setting, connection, source or version differs; {same}\n"));
    }
    for run in [first, second] {
        let unknown: Vec<&str> =
            run.stages.iter().filter(|stage| stage.identity.is_none()).map(|stage| stage.name.as_str()).collect();
        if !unknown.is_empty() {
            console.note(&format!(
                "the record of {} is of an older version, without settings, and its results were removed: {}",
                run.run,
                unknown.join(", ")
            ));
        }
    }
    for (run, stage) in &removed {
        let gone = match run.outcome {
            RunOutcome::Finished => "was removed",
            _ => "is not there, because the run did not finish it",
        };
        console.note(&format!(
            "the result of `{}` of {} {gone}; scores and the paired test need the results of both runs; compute it: {}",
            stage.name,
            run.run,
            run.command_line()
        ));
    }
    if !scores.is_empty() {
        console.print("\n")?;
        console.print(&align_columns(
            &score_table(&scores),
            &[false, false, false, false, true, true, true, false, true, false],
        ))?;
        if scores.iter().any(|row| row.test.is_some()) {
            console.info(
                "p: paired randomisation test of rsum over images; interval: paired bootstrap of the difference, 95 %; \
                 neither covers the choice of the seeds, which a matrix over seeds measures\n",
            );
        }
    }
    Ok(())
}

/// Rows of the `summary` tables of the evaluations of both runs. Instances with the same result in both are left out.
fn score_rows(store: &Store, first: &RunRecord, second: &RunRecord) -> Result<Vec<ScoreRow>> {
    let mut rows = Vec::new();
    let second_stages = second.stages.iter().map(|other| (first.stage(&other.name), Some(other)));
    let gone = first.stages.iter().filter(|one| second.stage(&one.name).is_none());
    for (one, other) in second_stages.chain(gone.map(|one| (Some(one), None))) {
        let is_evaluation = |stage: &&StageRecord| writes(stage, "summary");
        let (one, other) = (one.filter(is_evaluation), other.filter(is_evaluation));
        let Some(stage) = other.or(one) else { continue };
        // Equal results of instances would be many rows without a difference.
        let is_same = one.zip(other).is_some_and(|(one, other)| one.key == other.key);
        if is_same && !stage.coordinates.is_empty() {
            continue;
        }
        let values = |stage: Option<&StageRecord>| {
            stage.map(|stage| summary_values(store, stage)).transpose().map(Option::unwrap_or_default)
        };
        let (before, after) = (values(one)?, values(other)?);
        let names = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
        for name in names {
            let of = |values: &BTreeMap<[String; 2], [Option<f64>; 4]>| values.get(name).copied().unwrap_or_default();
            let [protocol, method] = name.clone();
            rows.push(ScoreRow {
                name: [stage.name.clone(), protocol, method],
                values: [of(&before), of(&after)],
                test: None,
            });
        }
    }
    Ok(rows)
}

/// Results with scores or rankings that are not in the store, of stages that both runs have, with their runs.
fn removed_results<'r>(
    store: &Store,
    first: &'r RunRecord,
    second: &'r RunRecord,
) -> Result<Vec<(&'r RunRecord, &'r StageRecord)>> {
    let mut removed: Vec<(&RunRecord, &StageRecord)> = Vec::new();
    for table in ["summary", "rankings"] {
        for (one, other) in common_stages(first, second, table) {
            for (run, stage) in [(first, one), (second, other)] {
                let is_known = removed.iter().any(|(known, of)| known.run == run.run && of.name == stage.name);
                if !is_known && store.artefact(&stage.kind, &stage.key).manifest()?.is_none() {
                    removed.push((run, stage));
                }
            }
        }
    }
    Ok(removed)
}

/// Stages of the same name in both runs that write `table`.
fn common_stages<'r>(
    first: &'r RunRecord,
    second: &'r RunRecord,
    table: &str,
) -> Vec<(&'r StageRecord, &'r StageRecord)> {
    let both = second.stages.iter().filter(|stage| writes(stage, table));
    both.filter_map(|other| Some((first.stage(&other.name).filter(|one| writes(one, table))?, other))).collect()
}

/// True if a stage writes `table`.
fn writes(stage: &StageRecord, table: &str) -> bool {
    stage.tables.iter().any(|name| name == table)
}

/// Compared values of a `summary`, by protocol and method.
fn summary_values(store: &Store, stage: &StageRecord) -> Result<BTreeMap<[String; 2], [Option<f64>; 4]>> {
    let mut values = BTreeMap::new();
    for batch in read_table(store, stage, "summary")? {
        let batch = batch?;
        let text = |name: &str| tables::text_column(&batch, name);
        let (protocols, methods, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
        for row in 0..batch.num_rows() {
            let number = |name: &str| {
                let column = tables::float_column(&batch, name).ok()?;
                column.is_valid(row).then(|| column.value(row))
            };
            let parameters = parameters.is_valid(row).then(|| format!(" ({})", parameters.value(row)));
            let method = format!("{}{}", methods.value(row), parameters.unwrap_or_default());
            values.insert([protocols.value(row).to_owned(), method], COMPARED_COLUMNS.map(number));
        }
    }
    Ok(values)
}

/// Adds the paired test to each row whose rankings are in the store for both runs.
fn test_rankings(
    store: &Store,
    (first, second): (&RunRecord, &RunRecord),
    removed: &[(&RunRecord, &StageRecord)],
    rows: &mut [ScoreRow],
    console: Console,
) -> Result<()> {
    for (one, other) in common_stages(first, second, "rankings") {
        // Results that were removed are named below the settings.
        if one.key == other.key || removed.iter().any(|(_, stage)| stage.name == other.name) {
            continue;
        }
        if data_of(first, one) != data_of(second, other) {
            console.note(&format!("`{}`: the data differ, so the difference is not tested", other.name));
            continue;
        }
        let compared = compare_rankings(read_table(store, one, "rankings")?, read_table(store, other, "rankings")?);
        let compared = match compared {
            Ok(compared) => compared,
            Err(error) => {
                console.note(&format!("`{}`: the rankings cannot be tested: {error}", other.name));
                continue;
            }
        };
        for found in compared {
            let method = found.method.replace('`', "");
            let expected = [other.name.as_str(), &found.protocol, &method];
            if let Some(row) = rows.iter_mut().find(|row| row.name.each_ref().map(String::as_str) == expected) {
                row.test = Some(found);
            }
        }
    }
    Ok(())
}

/// Artefacts without inputs from other artefacts that a result follows from: its data. Identifiers of other data mean
/// other images and captions, even if their numbers are equal.
fn data_of(run: &RunRecord, stage: &StageRecord) -> BTreeSet<ArtefactName> {
    let lineage = Lineage::of_run(run);
    let name = (stage.kind.clone(), stage.key.clone());
    let ancestors = lineage.ancestors(&name).into_iter().map(|ancestor| ancestor.name);
    let is_source =
        |name: &ArtefactName| lineage.identity(name).is_some_and(|identity| artefact_inputs(identity).next().is_none());
    ancestors.filter(is_source).filter(|(kind, _)| kind == "ingest").collect()
}

fn score_table(scores: &[ScoreRow]) -> Vec<Vec<String>> {
    let title = ["stage", "protocol", "method", "measure", "first", "second", "difference", "interval", "p", "over"];
    let mut rows = vec![title.map(str::to_owned).to_vec()];
    for score in scores {
        for (i, column) in COMPARED_COLUMNS.iter().enumerate() {
            let [before, after] = [score.values[0][i], score.values[1][i]];
            let number = |value: Option<f64>| value.map(format_score).unwrap_or_default();
            let difference = before.zip(after).map(|(before, after)| signed(after - before));
            let test = score.test.as_ref().filter(|_| *column == "rsum");
            let mut row = if i == 0 { score.name.to_vec() } else { vec![String::new(); 3] };
            row.extend([
                (*column).to_owned(),
                number(before),
                number(after),
                difference.unwrap_or_default(),
                test.map(|test| format!("[{}, {}]", signed(test.ci95.0), signed(test.ci95.1))).unwrap_or_default(),
                test.map(|test| format!("{:.4}", test.p_value)).unwrap_or_default(),
                test.map(|_| TESTED_OVER.to_owned()).unwrap_or_default(),
            ]);
            rows.push(row.iter().map(|cell| one_line(cell)).collect());
        }
    }
    rows
}

fn signed(value: f64) -> String {
    let text = format_score(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

fn score_json(row: &ScoreRow) -> serde_json::Value {
    let values = |side: usize| -> serde_json::Map<String, serde_json::Value> {
        COMPARED_COLUMNS.iter().zip(row.values[side]).map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
    };
    let [stage, protocol, method] = &row.name;
    json!({
        "stage": stage, "protocol": protocol, "method": method, "first": values(0), "second": values(1),
        "p_value": row.test.as_ref().map(|test| test.p_value),
        "ci95": row.test.as_ref().map(|test| [test.ci95.0, test.ci95.1]),
        "n_images": row.test.as_ref().map(|test| test.n_images),
        "tested_over": row.test.as_ref().map(|_| TESTED_OVER),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_store::testing::{WrittenStage, finished_run, stage};

    #[test]
    fn the_line_of_a_paired_test_says_what_it_covers() {
        let test = RankingComparison {
            protocol: "all".to_owned(),
            method: "nns".to_owned(),
            rsum: [200.0, 227.8],
            ci95: (5.0, 50.0),
            p_value: 0.011,
            n_images: 100,
        };
        let values = [[None, None, Some(200.0), None], [None, None, Some(227.8), None]];
        let name = ["test", "all", "nns"].map(str::to_owned);
        let score = ScoreRow { name, values, test: Some(test) };
        let table = score_table(std::slice::from_ref(&score));
        let line = table.iter().find(|row| row[3] == "rsum").unwrap();
        assert_eq!(line[6..], ["+27.8", "[+5, +50]", "0.0110", "test images, not seeds"]);
        assert_eq!(score_json(&score)["tested_over"], "test images, not seeds");
        assert!(table.iter().filter(|row| row[3] != "rsum").skip(1).all(|row| row[9].is_empty()), "{table:?}");
    }

    #[test]
    fn removed_results_are_named_with_their_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let run = |name: &str, n: u32| {
            let table = ("rankings", bytes::Bytes::from_static(b"rows"), 1);
            let pairs = stage("pairs", "ingest", json!({ "n": n }), &[]);
            let test = WrittenStage { table, ..stage("test", "evaluate", json!({}), &["pairs"]) };
            finished_run(&store, name, "p.toml", &[pairs, test])
        };
        let (first, second) = (run("20260101T000000.000Z-0001", 1), run("20260102T000000.000Z-0002", 2));
        let removed = || -> Vec<String> {
            let removed = removed_results(&store, &first, &second).unwrap();
            removed.iter().map(|(run, stage)| format!("{} {}", run.short_name(), stage.name)).collect()
        };
        assert_eq!(removed(), Vec::<String>::new());
        for of in &first.stages {
            store.artefact(&of.kind, &of.key).remove().unwrap();
        }
        assert_eq!(removed(), ["0001 test"], "`pairs` has no scores");
        store.artefact("evaluate", &second.stages[1].key).remove().unwrap();
        assert_eq!(removed(), ["0001 test", "0002 test"]);
    }
}
