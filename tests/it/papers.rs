//! Tests that the files of the papers' tables have the printed rows, with their printed settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use regex::Regex;
use toml::{Table, Value};

/// Models of printed rows of files on features, and the family of each here.
const FEATURE_MODELS: [(&str, &str); 4] = [("vse", "vse"), ("order", "vse"), ("uvs", "vse"), ("vse++", "vse")];

/// Models of printed rows of files on regions, and the family of each here.
const REGION_MODELS: [(&str, &str); 4] = [("scan", "scan"), ("vsrn", "vsrn"), ("cvse", "cvse"), ("sgr", "sgraf")];

/// Rows of a file that the authors did not run, each with the reason.
const OWN_ROWS: [(&str, &str, &str); 3] = [
    ("hal-2020-table-2", "2.12-code", "the variant of the published code"),
    ("hal-2020-scan", "1.7", "cited from the paper of SCAN"),
    ("hal-2020-scan", "2.25", "cited from the paper of SCAN"),
];

/// Settings of a training that are choices between named alternatives: another choice replaces the first.
const CHOICES: [&str; 2] = ["loss", "model"];

/// Learning rate that a paper prints as a reference, with the numbers of the work that it names.
const REFERENCE: (&str, &str) =
    ("learning_rate = as in Faghri et al. (2018)", "learning_rate = 0.0002, learning_rate_decay_epochs = 15");

/// Report that has printed numbers beside its own.
const SWEEP: &[&str] = &["stage", "page", "report", "sweep"];

/// Printed value of a setting that the authors chose on the validation split.
const CHOSEN: &str = "chosen on the validation split";

/// Settings of methods at inference: the printed name, the method, and its setting.
const OF_METHODS: [(&str, &str, &str); 3] = [
    ("inverted_softmax_beta", "inverted_softmax", "beta"),
    ("csls_k", "csls", "k"),
    ("relaxed_greedy_lambda", "relaxed_greedy", "lambda"),
];

/// Image networks, as printed, the folder of their features, and their names in the heads of files. Other folders are of
/// the network that the head of the file names for them.
const NETWORKS: [(&str, &str, &str); 4] = [
    ("vgg19", "${VGG19}", "VGG19"),
    ("inception_resnet_v2", "${INCEPTION}", "Inception-ResNet-v2"),
    ("resnet152", "${RESNET152}", "ResNet-152"),
    ("bottom_up_36", "${REGIONS}", "36 regions"),
];

/// Pools of rows whose protocol is not printed: the file, the data set and the pools.
const UNPRINTED_PROTOCOLS: [(&str, &str, &[&str]); 1] =
    [("hal-2020-scan", "coco", &["coco-1k-five-fold", "coco-1k-first-fold"])];

/// Table of a paper whose numbers are all in another one, which its file names.
const PART_OF_ANOTHER: (&str, &str) = ("local-scaling-2019", "3");

/// Printed protocol, and another one of the same images.
const SAME_IMAGES: (&str, &str) = ("coco-1k-single", "coco-1k-first-fold");

/// Beginnings of the names of columns of printed numbers.
const NUMBERS: [&str; 6] = ["i2t_", "t2i_", "rsum", "hs_sum", "nsum", "k_occurrence_"];

/// Row of a file in `data/published/`, by the names of its columns.
type TsvRow = BTreeMap<String, String>;

fn folder(name: &str) -> PathBuf {
    test_data::root().join(name)
}

/// Names of the columns of a TSV, and its rows.
fn read_tsv(tsv: &str) -> (Vec<String>, Vec<TsvRow>) {
    let mut lines = tsv.lines().map(|line| line.split('\t').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    let rows = lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect();
    (names, rows)
}

/// Rows of tables of a paper that the authors ran themselves, with one of `models`.
fn printed_rows(tsv: &str, paper: &str, tables: &[Value], models: &[(&str, &str)]) -> Vec<TsvRow> {
    let rows = read_tsv(tsv).1.into_iter();
    let is_meant = |row: &TsvRow| {
        let is_of_table = row["paper"] == paper && tables.iter().any(|table| table.as_str() == Some(&row["table"]));
        is_of_table
            && row.get("cited_from").is_none_or(String::is_empty)
            && models.iter().any(|(model, _)| *model == row["model"])
    };
    rows.filter(is_meant).collect()
}

/// Name of the row of a file whose model a printed row is of.
fn model_row(printed: &TsvRow) -> &str {
    let model = printed["model_row"].as_str();
    if model.is_empty() { &printed["row"] } else { model }
}

/// Sets the values of `new` in `base` as a row of a matrix does (`src/pipeline/matrix/merge.rs`): tables are merged,
/// but another choice replaces the first.
fn merge(base: &mut Table, new: &Table) {
    for (name, value) in new {
        let is_same_choice = |base: &Table, new: &Table| base.len() == 1 && base.keys().eq(new.keys());
        match (base.get_mut(name), value) {
            (Some(Value::Table(base)), Value::Table(new))
                if !CHOICES.contains(&name.as_str()) || is_same_choice(base, new) =>
            {
                merge(base, new);
            }
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

/// Value of a setting as text: numbers in the shortest form, so that `1e-3` is the printed `0.001`.
fn shown(value: &Value) -> String {
    number(value).map_or_else(|| value.to_string(), |number| number.to_string())
}

/// Default of a setting of a method, from the JSON Schema of pipeline files.
fn default_of(method: &str, setting: &str) -> String {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../schemas/pipeline.schema.json")).unwrap();
    let all = schema["$defs"]["Method"]["oneOf"].as_array().unwrap().clone();
    let own = all.iter().find_map(|of| of["properties"][method]["properties"][setting]["default"].as_f64());
    own.unwrap().to_string()
}

/// Names of a method and of the one that corrects its scores, as printed, and their printed settings. A method of
/// `best_of` is chosen on the validation split.
fn methods_of(value: &Value, is_chosen: bool) -> Vec<(String, BTreeMap<&'static str, String>)> {
    let none = Table::new();
    let (name, own) = match value {
        Value::Array(items) => return items.iter().flat_map(|item| methods_of(item, is_chosen)).collect(),
        Value::Table(of) if of.contains_key("best_of") => return methods_of(&of["best_of"]["methods"], true),
        Value::Table(of) => of.iter().next().map(|(name, own)| (name.as_str(), own.as_table().unwrap())).unwrap(),
        name => (name.as_str().unwrap(), &none),
    };
    let mut over = own.get("over").map_or_else(Vec::new, |over| methods_of(over, false));
    let (label, mut settings) = over.pop().unwrap_or_default();
    for (printed, method, setting) in OF_METHODS.iter().filter(|(_, method, _)| *method == name) {
        let text = own.get(*setting).map_or_else(|| default_of(method, setting), shown);
        settings.insert(*printed, if is_chosen { CHOSEN.to_owned() } else { text });
    }
    let label = if label.is_empty() { name.to_owned() } else { format!("{name} over {label}") };
    vec![(label, settings)]
}

/// Settings of a row: those of the stage, then those of the values of the axes.
fn stage_settings(file: &Table, values: &[&Table], stage: &str, kind: &str) -> Table {
    let mut settings = table(file, &["stage", stage, kind]).unwrap().clone();
    for new in values.iter().filter_map(|value| table(value, &["set", stage])) {
        merge(&mut settings, new);
    }
    settings
}

/// Pools of an evaluation: the protocols of its results.
fn pools(test: &Table, precomp: &Table) -> Vec<String> {
    let dataset = test["dataset"].as_str().unwrap();
    let all = match (dataset, precomp.get("test").and_then(Value::as_str)) {
        ("coco", Some("testall")) => "5k",
        ("coco", _) => "1k-single",
        _ => "1k",
    };
    let protocols = test.get("protocols").map_or(&[][..], |protocols| protocols.as_array().unwrap());
    let names = protocols.iter().map(|protocol| match protocol.as_str().unwrap() {
        "five_fold" => "1k-five-fold",
        "first_fold" => "1k-first-fold",
        _ => all,
    });
    let names: Vec<&str> = if protocols.is_empty() { vec![all] } else { names.collect() };
    names.iter().map(|name| format!("{dataset}-{name}")).collect()
}

/// Image network of a folder, as printed: that of its name, or the one that the head of the file names for it.
fn network_of(folder: &str, head: &str) -> Option<&'static str> {
    if let Some((network, ..)) = NETWORKS.iter().find(|(_, of, _)| *of == folder) {
        return Some(network);
    }
    let variable = folder.trim_start_matches("${").trim_end_matches('}');
    // The head of a file with one folder calls it as its command does: `PRECOMP=DIR`.
    let shown = if variable == "PRECOMP" { "DIR" } else { variable };
    let sentence = Regex::new(&format!(r"\b{shown}(?: and [A-Z0-9]+)? (?:is|are) (.*)")).unwrap();
    let said = sentence.captures(head)?.get(1)?.as_str();
    let places = NETWORKS.iter().filter_map(|(network, _, name)| Some((said.find(name)?, *network)));
    places.min().map(|(_, network)| network)
}

/// Comment at the head of a file, without its commands.
fn head(text: &str) -> String {
    let lines = text.lines().skip(1).take_while(|line| line.starts_with('#'));
    let lines = lines.map(|line| line[1..].trim_start_matches(' ')).filter(|line| !line.contains("pairloom "));
    lines.collect::<Vec<_>>().join(" ")
}

/// True if a comment has the printed numbers of a row, in their order, behind its number.
fn is_commented(text: &str, columns: &[String], printed: &TsvRow) -> bool {
    let numbers = columns.iter().filter(|column| NUMBERS.iter().any(|begin| column.starts_with(begin)));
    let numbers: Vec<&str> =
        numbers.map(|column| printed[column].as_str()).filter(|number| !number.is_empty()).collect();
    text.lines().filter_map(|line| line.strip_prefix("#  ")).any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(printed["row"].as_str()) && numbers.iter().all(|number| words.any(|word| word == *number))
    })
}

/// Differences between a row of the file `name` and a printed one. `values` are those of the axes.
fn differences(name: &str, text: &str, values: &[&Table], printed: &TsvRow) -> Vec<String> {
    let file: &Table = &text.parse().unwrap();
    let (fit, test) = (stage_settings(file, values, "fit", "train"), stage_settings(file, values, "test", "evaluate"));
    let (loss, of_loss) = fit["loss"].as_table().unwrap().iter().next().unwrap();
    let of_loss = of_loss.as_table().unwrap();
    let (bank, of_margin) = (table(&fit, &["memory_bank"]), table(&fit, &["semantic_margin"]));
    let (family, of_model) = fit["model"].as_table().unwrap().iter().next().unwrap();
    let of_model = of_model.as_table().unwrap();
    let mut found = Vec::new();
    let mut compare = |setting: &str, got: String, wanted: &str| {
        if got != wanted {
            found.push(format!("{setting}: got {got}, printed {wanted}"));
        }
    };
    let over = if of_loss.get("over").and_then(Value::as_str) == Some("max") { " over max" } else { "" };
    let objective = format!("{loss}{over}{}", if bank.is_some() { " with memory bank" } else { "" });
    let margin = if of_margin.is_some() { " with semantic margin" } else { "" };
    compare("objective", format!("{objective}{margin}"), &printed["objective"]);
    let families = FEATURE_MODELS.iter().chain(&REGION_MODELS);
    let wanted = families.clone().find(|(model, _)| *model == printed["model"]).map_or("", |(_, family)| family);
    compare("model", family.clone(), wanted);
    let pairs = stage_settings(file, values, "pairs", "ingest");
    let precomp = pairs["precomp"].as_table().unwrap();
    if !printed["features"].is_empty() {
        let network = network_of(precomp["folder"].as_str().unwrap(), &head(text));
        compare("features", network.unwrap_or("none that the head of the file names").to_owned(), &printed["features"]);
        let has_regions = precomp.get("regions").and_then(Value::as_bool).unwrap_or_default();
        let wanted = printed["features"] == "bottom_up_36";
        compare("regions", has_regions.to_string(), if wanted { "true" } else { "false" });
    }
    compare("dataset", test["dataset"].as_str().unwrap().to_owned(), &printed["dataset"]);
    let pools = pools(&test, precomp);
    let has = |pool: &str| pools.iter().any(|own| own == pool);
    let is_of = |(file, dataset, _): &&(&str, &str, &[&str])| *file == name && *dataset == printed["dataset"];
    match (printed["protocol"].as_str(), UNPRINTED_PROTOCOLS.iter().find(is_of)) {
        ("", Some((.., wanted))) => compare("protocols", pools.join(", "), &wanted.join(", ")),
        ("", None) => compare("protocols", pools.join(", "), "none"),
        (wanted, _) if has(wanted) || (wanted == SAME_IMAGES.0 && has(SAME_IMAGES.1)) => {}
        (wanted, _) => compare("protocols", pools.join(", "), wanted),
    }
    let similarity = |of: &Table| of.get("similarity").and_then(Value::as_str).unwrap_or("cosine").to_owned();
    let wanted = if printed["model"] == "order" { "order" } else { "cosine" };
    compare("model.vse.similarity", similarity(of_model), wanted);
    compare("test.similarity", similarity(&test), wanted);
    let is_normalized = of_model.get("normalize_images").and_then(Value::as_bool).unwrap_or(true);
    compare("normalize_images", is_normalized.to_string(), if printed["model"] == "uvs" { "false" } else { "true" });
    let printed_settings = printed["printed_settings"].replace(REFERENCE.0, REFERENCE.1);
    let items: Vec<(&str, &str)> = (printed_settings.split(", ").filter(|item| !item.is_empty()))
        .map(|item| item.split_once(" = ").unwrap_or((item, "")))
        .collect();
    // The printed name has a parameter where two rows differ in it alone; it is among the printed settings.
    let label = printed["method"].split(", ").next().unwrap();
    let nns = Value::Array(vec!["nns".into()]);
    let methods = methods_of(test.get("methods").unwrap_or(&nns), false);
    let settings_of_method = || items.iter().filter(|(name, _)| OF_METHODS.iter().any(|(printed, ..)| printed == name));
    let is_printed = |(own, settings): &(String, BTreeMap<&str, String>)| {
        own == label && settings_of_method().all(|(name, text)| settings.get(name).is_some_and(|got| got == text))
    };
    if !methods.iter().any(is_printed) {
        let wanted: Vec<String> = settings_of_method().map(|(name, text)| format!(", {name} = {text}")).collect();
        compare("methods", "none like it".to_owned(), &format!("{label}{}", wanted.concat()));
    }
    for (name, text) in items {
        let (place, setting, text) = match (name, text) {
            // Settings of methods are compared above, together with the name of the method. A direction is that of a table
            // of hubs; an evaluation has both.
            ("inverted_softmax_beta" | "csls_k" | "relaxed_greedy_lambda", _) | ("direction", "i2t" | "t2i") => {
                continue;
            }
            // The number of images follows from the share of the captions.
            ("train_images", _) => continue,
            ("train_share", text) => {
                let share = fit.get("caption_fraction").and_then(number).map(|share| format!("{} %", share * 100.0));
                compare(name, share.unwrap_or_default(), text);
                continue;
            }
            // Text to image, mean over words.
            ("scan", "t-i AVG") => (Some(of_model), "cross_attention", "\"t2i\""),
            ("tau", text) => (of_margin, "temperature", text),
            ("sampler", text) => {
                let sampler = of_margin.and_then(|margin| margin.get("sampler")?.as_str()).unwrap_or("none");
                compare(name, sampler.to_owned(), text);
                continue;
            }
            ("triplet", text) => {
                let keeps = of_margin.is_none_or(|margin| margin.get("keep_triplet") != Some(&Value::Boolean(false)));
                compare(name, if keeps { "kept" } else { "dropped" }.to_owned(), text);
                continue;
            }
            ("memory_bank", text) => (bank, "fraction", if text == "5 %" { "0.05" } else { text }),
            ("alpha" | "beta" | "epsilon_positive" | "epsilon_negative", text) => (bank, name, text),
            ("margin" | "k" | "gamma" | "epsilon", text) => (Some(of_loss), name, text),
            ("learning_rate" | "learning_rate_decay_epochs" | "batch_size" | "epochs", text) => {
                (Some(&fit), name, text)
            }
            (_, text) => {
                compare(name, "a setting that this test does not know".to_owned(), text);
                continue;
            }
        };
        let got = place.and_then(|place| place.get(setting)).map_or_else(|| "none".to_owned(), shown);
        let wanted = text.parse::<f64>().map_or_else(|_| text.to_owned(), |wanted| wanted.to_string());
        compare(name, got, &wanted);
    }
    found
}

/// Named values of an axis of a file.
fn axis<'f>(file: &'f Table, name: &str) -> BTreeMap<&'f str, &'f Table> {
    let values = file["matrix"].get(name).and_then(Value::as_array).into_iter().flatten();
    values.map(|value| (value["name"].as_str().unwrap(), value.as_table().unwrap())).collect()
}

/// Mistakes of the file `name` beside the printed rows of its table.
fn mistakes(name: &str, text: &str, tsv: &str) -> Vec<String> {
    let file: Table = text.parse().unwrap();
    let (rows, data) = (axis(&file, "row"), axis(&file, "data"));
    let sweep = table(&file, SWEEP).unwrap();
    let reads_regions = table(&file, &["stage", "fit", "train"]).unwrap().contains_key("regions");
    let models = if reads_regions { REGION_MODELS } else { FEATURE_MODELS };
    let printed = printed_rows(tsv, sweep["paper"].as_str().unwrap(), sweep["table"].as_array().unwrap(), &models);
    let wanted: BTreeSet<&str> = printed.iter().map(model_row).collect();
    let mut mistakes: Vec<String> =
        wanted.iter().filter(|row| !rows.contains_key(*row)).map(|row| format!("{name}: no row {row}")).collect();
    let is_own = |row: &str| OWN_ROWS.iter().any(|(file, own, _)| (*file, *own) == (name, row));
    let is_extra = |row: &&&str| !wanted.contains(**row) && !is_own(row);
    mistakes.extend(rows.keys().filter(is_extra).map(|row| format!("{name}: row {row} is not printed")));
    for printed in &printed {
        let Some(row) = rows.get(model_row(printed)) else { continue };
        let of_data = data.get(printed["dataset"].as_str());
        if of_data.is_none() && !data.is_empty() {
            mistakes.push(format!("{name}: no data {} for the printed row {}", printed["dataset"], printed["row"]));
            continue;
        }
        let values: Vec<&Table> = of_data.into_iter().chain([row]).copied().collect();
        let of_row = differences(name, text, &values, printed);
        mistakes.extend(of_row.into_iter().map(|text| format!("{name}, printed row {}: {text}", printed["row"])));
    }
    mistakes
}

/// Pipeline file with printed rows beside its own: its name, its text, and the text of the table of printed rows.
struct PaperFile {
    name: String,
    text: String,
    tsv: String,
}

/// Files with a printed column. Those of SAM's tables with VSE++ have none, because the paper has other models.
fn paper_files() -> Vec<PaperFile> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(folder("pipelines/papers")).sort_by_file_name() {
        let path = entry.unwrap().into_path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file: Table = text.parse().unwrap();
        let Some(printed) = table(&file, SWEEP).and_then(|sweep| sweep.get("published")) else { continue };
        let stage = printed.as_str().unwrap().split('.').next().unwrap();
        let tsv = table(&file, &["stage", stage, "ingest"]).unwrap()["published"].as_str().unwrap();
        let tsv = std::fs::read_to_string(path.parent().unwrap().join(tsv)).unwrap();
        files.push(PaperFile { name: path.file_stem().unwrap().to_string_lossy().into_owned(), text, tsv });
    }
    files
}

#[test]
fn files_of_the_papers_have_the_printed_rows_and_settings() {
    let files = paper_files();
    let found: Vec<String> = files.iter().flat_map(|file| mistakes(&file.name, &file.text, &file.tsv)).collect();
    assert_eq!(files.len(), 14);
    assert!(found.is_empty(), "{found:#?}");
}

/// Printed rows that no file of their table trains, and that no comment in one has.
fn missing_rows(files: &[PaperFile]) -> BTreeSet<String> {
    let mut all = BTreeMap::new();
    for PaperFile { text, tsv, .. } in files {
        let file: Table = text.parse().unwrap();
        let (rows, sweep) = (axis(&file, "row"), table(&file, SWEEP).unwrap());
        let (columns, printed) = read_tsv(tsv);
        let of_paper = printed.iter().filter(|printed| sweep["paper"].as_str() == Some(printed["paper"].as_str()));
        let is_result = |printed: &&TsvRow| {
            !printed["model"].is_empty() && (printed["paper"].as_str(), printed["table"].as_str()) != PART_OF_ANOTHER
        };
        for printed in of_paper.filter(is_result) {
            let is_of_table =
                sweep["table"].as_array().unwrap().iter().any(|of| of.as_str() == Some(&printed["table"]));
            let is_there = rows.contains_key(model_row(printed)) || is_commented(text, &columns, printed);
            let [paper, table, row] = ["paper", "table", "row"].map(|column| printed[column].as_str());
            *all.entry(format!("{paper}, table {table}: {row}")).or_insert(false) |= is_of_table && is_there;
        }
    }
    all.into_iter().filter(|(_, is_there)| !is_there).map(|(name, _)| name).collect()
}

/// Rows that a paper copies from others are comments with their numbers.
#[test]
fn every_printed_row_is_in_a_file_of_its_table() {
    let mut files = paper_files();
    assert_eq!(missing_rows(&files), BTreeSet::new());
    for file in &mut files {
        file.text = file.text.replace("431.8", "431.9").replace("name = \"1.8\"", "name = \"1.88\"");
    }
    let missing = ["hal-2020, table 1: 1.8", "hal-2020, table 2: 2.15", "local-scaling-2019, table 2: 2.15"];
    assert_eq!(missing_rows(&files), missing.map(str::to_owned).into());
}

#[test]
fn a_wrong_setting_a_missing_row_and_an_extra_one_are_found() {
    let tsv = "paper\ttable\trow\tdataset\tprotocol\tfeatures\tmodel_row\tmodel\tobjective\tmethod\tcited_from\t\
               printed_settings\n\
               p\t2\t2.1\tcoco\tcoco-1k-five-fold\tvgg19\t\tvse\tsum\tnns\t\tmargin = 0.2, epochs = 30, dropout = 0.5\n\
               p\t2\t2.2\tcoco\t\t\t\torder\tmax\tnns\t\tmargin = 0.2\n\
               p\t2\t2.3\tcoco\tcoco-1k-single\t\t2.1\tvse\tsum\tcsls\t\tcsls_k = 10\n\
               p\t2\t2.5\tcoco\t\tvgg19\t\tvse\tmax with semantic margin\tnns\t\ttau = 3, sampler = random, triplet = dropped\n\
               p\t2\t2.4\tcoco\t\t\t\tvse\tsum\tnns\tothers\tmargin = 0.7\n\
               p\t3\t3.1\tcoco\t\t\t\tvse\tsum\tnns\t\tmargin = 0.7\n\
               q\t2\t2.5\tcoco\t\t\t\tvse\tsum\tnns\t\tmargin = 0.7\n";
    let file = "[stage.pairs.ingest]\nprecomp = { folder = \"${RESNET152}\" }\n\
                [stage.fit.train]\nloss = { sum = { margin = 0.1 } }\nepochs = 30\nmodel.vse.embed_size = 8\n\
                [stage.test.evaluate]\ndataset = \"coco\"\nmethods = [\"nns\", { csls = { k = 5 } }]\n\
                [stage.page.report.sweep]\npaper = \"p\"\ntable = [\"2\"]\n\
                [[matrix.row]]\nname = \"2.1\"\n[[matrix.row]]\nname = \"9\"\n\
                [[matrix.row]]\nname = \"2.5\"\n[matrix.row.set]\npairs.precomp = { folder = \"${COCO}\", regions = true }\n\
                fit = { loss = { max = {} }, semantic_margin = { temperature = 5.0, sampler = \"furthest\" } }\n";
    let file = format!("#:schema\n# COCO is `coco_precomp` with ResNet-152 features, not VGG19.\n{file}");
    assert_eq!(
        mistakes("p-table-2", &file, tsv),
        [
            "p-table-2: no row 2.2",
            "p-table-2: row 9 is not printed",
            "p-table-2, printed row 2.1: features: got resnet152, printed vgg19",
            "p-table-2, printed row 2.1: protocols: got coco-1k-single, printed coco-1k-five-fold",
            "p-table-2, printed row 2.1: margin: got 0.1, printed 0.2",
            "p-table-2, printed row 2.1: dropout: got a setting that this test does not know, printed 0.5",
            "p-table-2, printed row 2.3: methods: got none like it, printed csls, csls_k = 10",
            "p-table-2, printed row 2.5: features: got resnet152, printed vgg19",
            "p-table-2, printed row 2.5: regions: got true, printed false",
            "p-table-2, printed row 2.5: protocols: got coco-1k-single, printed none",
            "p-table-2, printed row 2.5: tau: got 5, printed 3",
            "p-table-2, printed row 2.5: sampler: got furthest, printed random",
            "p-table-2, printed row 2.5: triplet: got kept, printed dropped",
        ]
    );
}
