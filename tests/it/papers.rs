//! Tests that the files of the papers' tables have the printed rows, with their printed settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Models of printed rows that exist here; others are comments in the files.
const MODELS: [&str; 4] = ["vse", "order", "uvs", "vse++"];

/// Rows that no paper prints: the variant of the published code.
const OWN_ROWS: [(&str, &str); 1] = [("hal-2020-table-2", "2.12-code")];

/// Row of a file in `data/published/`, by the names of its columns.
type TsvRow = BTreeMap<String, String>;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Rows of a table that the authors ran themselves, with models that exist here.
fn printed_rows(tsv: &str, table: &str) -> Vec<TsvRow> {
    let mut lines = tsv.lines().map(|line| line.split('\t').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    let rows = lines.map(|fields| names.iter().cloned().zip(fields).collect::<TsvRow>());
    let is_meant =
        |row: &TsvRow| row["table"] == table && row["cited_from"].is_empty() && MODELS.contains(&row["model"].as_str());
    rows.filter(is_meant).collect()
}

/// Name of the row of a file whose model a printed row is of.
fn model_row(printed: &TsvRow) -> &str {
    let model = printed["model_row"].as_str();
    if model.is_empty() { &printed["row"] } else { model }
}

/// Sets the values of `new` in `base` as a row of a matrix does: a loss is replaced, other tables are merged.
fn merge(base: &mut Table, new: &Table) {
    for (name, value) in new {
        match (base.get_mut(name), value) {
            (Some(Value::Table(base)), Value::Table(new)) if name != "loss" => merge(base, new),
            _ => drop(base.insert(name.clone(), value.clone())),
        }
    }
}

fn table<'t>(of: &'t Table, path: &[&str]) -> Option<&'t Table> {
    path.iter().try_fold(of, |table, name| table.get(*name)?.as_table())
}

/// Number of a setting, written as an integer or not.
fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "settings are small")]
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

/// True if a list of methods has `method` with this number, also within `best_of` and under another method.
fn has_method(methods: &Value, method: &str, setting: &str, wanted: f64) -> bool {
    match methods {
        Value::Array(items) => items.iter().any(|item| has_method(item, method, setting, wanted)),
        Value::Table(entries) => entries.iter().any(|(name, value)| {
            let is_own = name == method && value.get(setting).and_then(number) == Some(wanted);
            is_own || has_method(value, method, setting, wanted)
        }),
        _ => false,
    }
}

/// Settings of a row: those of the stage, then those of the row.
fn stage_settings(file: &Table, row: &Table, stage: &str, kind: &str) -> Table {
    let mut settings = table(file, &["stage", stage, kind]).unwrap().clone();
    if let Some(new) = table(row, &["set", stage]) {
        merge(&mut settings, new);
    }
    settings
}

/// Differences between a row of a file and a printed one.
fn differences(file: &Table, row: &Table, printed: &TsvRow) -> Vec<String> {
    let (fit, test) = (stage_settings(file, row, "fit", "train"), stage_settings(file, row, "test", "evaluate"));
    let (loss, of_loss) = fit["loss"].as_table().unwrap().iter().next().unwrap();
    let of_loss = of_loss.as_table().unwrap();
    let bank = table(&fit, &["memory_bank"]);
    let vse = table(&fit, &["model", "vse"]).unwrap();
    let mut found = Vec::new();
    let mut compare = |setting: &str, got: String, wanted: &str| {
        if got != wanted {
            found.push(format!("{setting}: got {got}, printed {wanted}"));
        }
    };
    let over = if of_loss.get("over").and_then(Value::as_str) == Some("max") { " over max" } else { "" };
    let objective = format!("{loss}{over}{}", if bank.is_some() { " with memory bank" } else { "" });
    compare("objective", objective, &printed["objective"]);
    let similarity = |of: &Table| of.get("similarity").and_then(Value::as_str).unwrap_or("cosine").to_owned();
    let wanted = if printed["model"] == "order" { "order" } else { "cosine" };
    compare("model.vse.similarity", similarity(vse), wanted);
    compare("test.similarity", similarity(&test), wanted);
    let is_normalized = vse.get("normalize_images").and_then(Value::as_bool).unwrap_or(true);
    compare("normalize_images", is_normalized.to_string(), if printed["model"] == "uvs" { "false" } else { "true" });
    let methods = test.get("methods").cloned().unwrap_or(Value::Array(Vec::new()));
    let has = |method: &str, setting: &str, text: &str| match text.parse() {
        Ok(wanted) => has_method(&methods, method, setting, wanted),
        Err(_) => text == "chosen on the validation split" && methods.to_string().contains("best_of"),
    };
    for item in printed["printed_settings"].split(", ").filter(|item| !item.is_empty()) {
        let (name, text) = item.split_once(" = ").unwrap();
        let of_method = match name {
            "inverted_softmax_beta" => Some(("inverted_softmax", "beta")),
            "csls_k" => Some(("csls", "k")),
            "relaxed_greedy_lambda" => Some(("relaxed_greedy", "lambda")),
            _ => None,
        };
        if let Some((method, setting)) = of_method {
            compare(name, if has(method, setting, text) { text } else { "none" }.to_owned(), text);
            continue;
        }
        let (place, setting, text) = match (name, text) {
            // The direction of a table of hubs; an evaluation has both.
            ("direction", _) => continue,
            ("memory_bank", text) => (bank, "fraction", if text == "5 %" { "0.05" } else { text }),
            ("alpha" | "beta" | "epsilon_positive" | "epsilon_negative", text) => (bank, name, text),
            ("margin" | "k" | "gamma" | "epsilon", text) => (Some(of_loss), name, text),
            ("learning_rate", "as in Faghri et al. (2018)") => (Some(&fit), name, "0.0002"),
            ("learning_rate" | "learning_rate_decay_epochs" | "batch_size" | "epochs", text) => {
                (Some(&fit), name, text)
            }
            _ => panic!("the test does not know the printed setting `{item}`"),
        };
        let got = place.and_then(|place| number(place.get(setting)?));
        let wanted: f64 = text.parse().unwrap();
        compare(name, got.map_or_else(|| "none".to_owned(), |got| got.to_string()), &wanted.to_string());
    }
    found
}

/// Mistakes of the file `name` beside the printed rows of its table.
fn mistakes(name: &str, file: &str, tsv: &str) -> Vec<String> {
    let file: Table = file.parse().unwrap();
    let rows: BTreeMap<&str, &Table> = (file["matrix"]["row"].as_array().unwrap().iter())
        .map(|row| (row["name"].as_str().unwrap(), row.as_table().unwrap()))
        .collect();
    let printed = printed_rows(tsv, name.rsplit('-').next().unwrap());
    let wanted: BTreeSet<&str> = printed.iter().map(model_row).collect();
    let mut mistakes: Vec<String> =
        wanted.iter().filter(|row| !rows.contains_key(*row)).map(|row| format!("{name}: no row {row}")).collect();
    let is_extra = |row: &&&str| !wanted.contains(**row) && !OWN_ROWS.contains(&(name, **row));
    mistakes.extend(rows.keys().filter(is_extra).map(|row| format!("{name}: row {row} is not printed")));
    for printed in &printed {
        let of_row = rows.get(model_row(printed)).map_or_else(Vec::new, |row| differences(&file, row, printed));
        mistakes.extend(of_row.into_iter().map(|text| format!("{name}, printed row {}: {text}", printed["row"])));
    }
    mistakes
}

#[test]
fn files_of_the_papers_have_the_printed_rows_and_settings() {
    let (mut found, mut files) = (Vec::new(), 0);
    for entry in walkdir::WalkDir::new(folder("pipelines/papers")).sort_by_file_name() {
        let path = entry.unwrap().into_path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // The tables of SAM are of other models.
        let Some((paper, _)) = name.rsplit_once("-table-").filter(|(paper, _)| *paper != "sam-2022") else { continue };
        let tsv = std::fs::read_to_string(folder("data/published").join(format!("{paper}.tsv"))).unwrap();
        found.extend(mistakes(&name, &std::fs::read_to_string(&path).unwrap(), &tsv));
        files += 1;
    }
    assert_eq!(files, 9);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_wrong_setting_a_missing_row_and_an_extra_one_are_found() {
    let tsv = "table\trow\tmodel_row\tmodel\tobjective\tcited_from\tprinted_settings\n\
               2\t2.1\t\tvse\tsum\t\tmargin = 0.2, epochs = 30\n\
               2\t2.2\t\torder\tmax\t\tmargin = 0.2\n\
               2\t2.3\t2.1\tvse\tsum\t\tcsls_k = 10\n\
               2\t2.4\t\tvse\tsum\tothers\tmargin = 0.7\n";
    let file = "[stage.fit.train]\nloss = { sum = { margin = 0.1 } }\nepochs = 30\nmodel.vse.embed_size = 8\n\
                [stage.test.evaluate]\nmethods = [\"nns\"]\n\
                [[matrix.row]]\nname = \"2.1\"\n[[matrix.row]]\nname = \"9\"\n";
    assert_eq!(
        mistakes("p-table-2", file, tsv),
        [
            "p-table-2: no row 2.2",
            "p-table-2: row 9 is not printed",
            "p-table-2, printed row 2.1: margin: got 0.1, printed 0.2",
            "p-table-2, printed row 2.3: csls_k: got none, printed 10",
        ]
    );
}
