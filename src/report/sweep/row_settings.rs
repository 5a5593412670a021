//! Settings in which the rows of a sweep differ, from the lineage of their runs.

use std::collections::BTreeMap;

use super::read::SweepRuns;
use super::settings::{METRICS, ReportSweep, SUMMARIES, VALIDATIONS};
use pairloom_stage::flat_settings::{flatten, text};
use pairloom_stage::{AncestorArtefact, AncestorInput, StageLineage};

/// Digits of a digest that are shown.
const DIGEST_DIGITS: usize = 12;

/// Settings of a row that other rows do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowSettings {
    pub(super) row: String,
    /// `train: loss = max, learning_rate = 0.0002; evaluate: split = test`.
    pub(super) settings: String,
}

/// Settings of stages: by the kind of the stage and the flat name of the setting.
type KindSettings = BTreeMap<(usize, String), String>;

/// Settings in which the rows differ; empty if there is one row, or the lineage is unknown.
///
/// Rows are compared in one run each, of a repetition that all have, if there is one.
pub(super) fn read(lineage: &StageLineage, runs: &SweepRuns) -> Vec<RowSettings> {
    let rows = runs.rows();
    let has = |row: &str, repetition: &Option<String>| {
        runs.runs.iter().position(|run| run.row == row && run.repetition == *repetition)
    };
    let common = runs
        .runs
        .iter()
        .map(|run| &run.repetition)
        .find(|repetition| rows.iter().all(|row| has(row, repetition).is_some()));
    let first = |row: &str| runs.runs.iter().position(|run| run.row == row);
    let run_of = |row: &&str| common.and_then(|repetition| has(row, repetition)).or_else(|| first(row));
    let kinds = kinds(lineage);
    let row_settings: Vec<KindSettings> = rows
        .iter()
        .filter_map(run_of)
        .map(|run| settings_of(lineage, &kinds, &ReportSweep::summary_input(run)))
        .collect();
    let is_different =
        |name: &(usize, String)| row_settings.iter().any(|settings| settings.get(name) != row_settings[0].get(name));
    let own: Vec<RowSettings> = (rows.iter().zip(&row_settings))
        .map(|(row, settings)| {
            let different = settings.iter().filter(|(name, _)| is_different(name));
            RowSettings { row: (*row).to_owned(), settings: phrase(&kinds, different) }
        })
        .collect();
    if own.iter().all(|row| row.settings.is_empty()) { Vec::new() } else { own }
}

/// Kinds of stages, producers before consumers.
fn kinds(lineage: &StageLineage) -> Vec<&str> {
    let mut kinds: Vec<&str> = Vec::new();
    for artefact in &lineage.artefacts {
        if !kinds.contains(&artefact.kind.as_str()) {
            kinds.push(&artefact.kind);
        }
    }
    kinds
}

/// Settings and sources of everything that an input follows from. Several values of one setting are all named.
fn settings_of(lineage: &StageLineage, kinds: &[&str], input: &str) -> KindSettings {
    let mut settings: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for artefact in ancestors(lineage, &[input]) {
        let kind = kinds.iter().position(|kind| *kind == artefact.kind).unwrap_or(kinds.len());
        let sources = artefact.inputs.iter().filter_map(|(name, input)| match input {
            AncestorInput::Source { digest } => {
                Some((name.clone(), digest.get(..DIGEST_DIGITS).unwrap_or(digest).to_owned()))
            }
            AncestorInput::Artefact { .. } => None,
        });
        let own = flatten(&artefact.settings).into_iter().map(|(name, value)| (name, text(&value)));
        for (name, value) in own.chain(sources) {
            let known = settings.entry((kind, name)).or_default();
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }
    settings.into_iter().map(|(name, values)| (name, values.join(" / "))).collect()
}

/// Settings as text, one phrase for each kind.
fn phrase<'s>(kinds: &[&str], settings: impl Iterator<Item = (&'s (usize, String), &'s String)>) -> String {
    let mut by_kind: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for ((kind, name), value) in settings {
        by_kind.entry(*kind).or_default().push(format!("{name} = {value}"));
    }
    let phrases =
        by_kind.into_iter().map(|(kind, own)| format!("{}: {}", kinds.get(kind).unwrap_or(&""), own.join(", ")));
    phrases.collect::<Vec<_>>().join("; ")
}

/// Artefacts that some inputs follow from, in the order of the lineage.
fn ancestors<'l>(lineage: &'l StageLineage, inputs: &[&str]) -> Vec<&'l AncestorArtefact> {
    let key = |input: &'l AncestorInput| match input {
        AncestorInput::Artefact { key, .. } => Some(key.as_str()),
        AncestorInput::Source { .. } => None,
    };
    let mut expected: Vec<&str> = inputs.iter().filter_map(|input| key(lineage.inputs.get(*input)?)).collect();
    let mut found: Vec<&AncestorArtefact> = Vec::new();
    // Producers come before consumers.
    for artefact in lineage.artefacts.iter().rev() {
        if expected.contains(&artefact.key.as_str()) {
            expected.extend(artefact.inputs.values().filter_map(key));
            found.push(artefact);
        }
    }
    found.reverse();
    found
}

/// Lineage without the runs of a sweep other than the first one.
pub(crate) fn without_other_runs(lineage: &StageLineage) -> StageLineage {
    let is_other = |input: &str| {
        let number =
            [SUMMARIES, VALIDATIONS, METRICS].iter().find_map(|list| input.strip_prefix(list)?.strip_prefix('.'));
        number.is_some_and(|number| number != "0")
    };
    let inputs: BTreeMap<_, _> = lineage
        .inputs
        .iter()
        .filter(|(name, _)| !is_other(name))
        .map(|(name, input)| (name.clone(), input.clone()))
        .collect();
    let names: Vec<&str> = inputs.keys().map(String::as_str).collect();
    let artefacts = ancestors(lineage, &names).into_iter().cloned().collect();
    StageLineage { inputs, artefacts }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_stage::TableRef;

    fn artefact(kind: &str, key: &str, settings: serde_json::Value, inputs: &[(&str, &str)]) -> AncestorArtefact {
        let origin = |from: &str| match from.strip_prefix("source ") {
            Some(digest) => AncestorInput::Source { digest: digest.to_owned() },
            None => AncestorInput::Artefact { key: from.to_owned(), output: "rows".to_owned() },
        };
        let inputs = inputs.iter().map(|(name, from)| ((*name).to_owned(), origin(from))).collect();
        AncestorArtefact { kind: kind.to_owned(), key: key.to_owned(), version: 1, settings, inputs }
    }

    /// Two rows with seeds 1 and 2; the first row has a seed 0 more. Row `b` reads other features.
    fn lineage() -> (StageLineage, SweepRuns) {
        let mut artefacts = vec![
            artefact("ingest", "i1", json!({}), &[("file", "source 0123456789abcdef")]),
            artefact("ingest", "i2", json!({}), &[("file", "source fedcba9876543210")]),
        ];
        let runs = [("a", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2)];
        let mut inputs = BTreeMap::new();
        for (number, (row, seed)) in runs.iter().enumerate() {
            let (fit, test) = (format!("t{number}"), format!("e{number}"));
            let from = if *row == "a" { "i1" } else { "i2" };
            let loss =
                if *row == "a" { json!({ "sum": { "margin": 0.2 } }) } else { json!({ "hal": { "gamma": 30 } }) };
            artefacts.push(artefact(
                "train",
                &fit,
                json!({ "loss": loss, "seed": seed, "epochs": 3 }),
                &[("features", from)],
            ));
            artefacts.push(artefact("evaluate", &test, json!({ "split": "test" }), &[("model", &fit)]));
            let origin = AncestorInput::Artefact { key: test, output: "summary".to_owned() };
            inputs.insert(ReportSweep::summary_input(number), origin);
        }
        let reference =
            |(row, seed): &(&str, i32)| TableRef::try_from(format!("test@row={row},seed={seed}.summary")).unwrap();
        let references: Vec<TableRef> = runs.iter().map(reference).collect();
        (StageLineage { inputs, artefacts }, SweepRuns::of(&references, "seed"))
    }

    #[test]
    fn rows_are_compared_in_a_repetition_that_all_have() {
        let (lineage, runs) = lineage();
        let found = read(&lineage, &runs);
        let row = |row: &str, settings: &str| RowSettings { row: row.to_owned(), settings: settings.to_owned() };
        let expected = [
            row("a", "ingest: file = 0123456789ab; train: loss = sum, loss.margin = 0.2"),
            row("b", "ingest: file = fedcba987654; train: loss = hal, loss.gamma = 30"),
        ];
        assert_eq!(found, expected);
        assert_eq!(read(&StageLineage::default(), &runs), []);
    }

    #[test]
    fn several_values_of_a_setting_are_each_named_once() {
        let names = ["", "coco", "f30k", "coco"];
        let ingest =
            |(place, name): (usize, &&str)| artefact("ingest", &place.to_string(), json!({ "name": name }), &[]);
        let mut artefacts: Vec<AncestorArtefact> = names.iter().enumerate().map(ingest).collect();
        artefacts.push(artefact("evaluate", "e", json!({}), &[("a", "0"), ("b", "1"), ("c", "2"), ("d", "3")]));
        let origin = AncestorInput::Artefact { key: "e".to_owned(), output: "summary".to_owned() };
        let lineage = StageLineage { inputs: BTreeMap::from([("test".to_owned(), origin)]), artefacts };
        let found = settings_of(&lineage, &kinds(&lineage), "test");
        assert_eq!(found, KindSettings::from([((0, "name".to_owned()), " / coco / f30k".to_owned())]));
    }

    #[test]
    fn the_stages_of_the_first_run_are_kept() {
        let (lineage, _) = lineage();
        let kept = without_other_runs(&lineage);
        let keys: Vec<&str> = kept.artefacts.iter().map(|artefact| artefact.key.as_str()).collect();
        assert_eq!(keys, ["i1", "t0", "e0"]);
        assert_eq!(kept.inputs.len(), 1);
    }
}
