//! The README and the book: every block of code runs, or is checked.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use regex::Regex;
use toml::Table;

use crate::markdown::{Block, Document};
use crate::pipelines::number_of;
use crate::support::{isolated, pairloom};

/// Summary of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Page whose queries `recovery.rs` runs, on a matrix.
const SWEEPS: &str = "docs/tutorials/sweeps.md";

/// Page of the functions of SQL, which this test program writes.
const FUNCTIONS: &str = "docs/reference/sql-functions.md";

/// Document of the checkout.
pub(crate) fn document(name: &str) -> Document {
    let text = fs::read_to_string(test_data::root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Document::parse(&text)
}

/// Block of a language in a document whose text has a part.
pub(crate) fn block(name: &str, language: &str, part: &str) -> String {
    let blocks = document(name).blocks.into_iter();
    let found = blocks.filter(|block| block.language == language).find(|block| block.text.contains(part));
    found.unwrap_or_else(|| panic!("{name} has no {language} with `{part}`")).text
}

/// README and the pages of the book, in the order of the summary.
fn pages() -> Vec<(String, Document)> {
    let pages = document(SUMMARY).links.into_iter().map(|(_, page)| format!("docs/{page}"));
    std::iter::once("README.md".to_owned()).chain(pages).map(|name| (name.clone(), document(&name))).collect()
}

/// Output as text, if the command succeeded.
fn outcome(output: &Output) -> Result<String, String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr))) }
}

/// Runs a block of a shell in `folder`, with `programs` before those of the system.
fn shell(text: &str, folder: &Path, programs: &Path) -> Result<String, String> {
    let mut bash = isolated("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", text]).current_dir(folder).stdin(Stdio::null());
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
    outcome(&bash.output().unwrap())
}

/// Checks a block of a shell that is not run: each `pairloom` parses its arguments, and all programs look for the files of
/// `pipelines/` that they are given.
fn check_shell(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    symlink(test_data::root().join("pipelines"), folder.path().join("pipelines")).unwrap();
    let mistakes = folder.path().join("mistakes");
    let files =
        "for word; do case $word in pipelines/*) [ -e \"$word\" ] || echo \"no $word\" >>MISTAKES;; esac; done\n";
    let parse = "\"PROGRAM\" \"$@\" --help >/dev/null 2>message || cat message >>MISTAKES\n";
    let next = "while [ $# -gt 0 ]; do [ \"$1\" = pairloom ] && exec \"$@\"; shift; done\n";
    for name in ["pairloom", "torchrun", "srun", "cargo", "sbatch", "kubectl", "tensorboard", "python3"] {
        let then = match name {
            "pairloom" => parse,
            "torchrun" | "srun" => next,
            _ => "",
        };
        let script = format!("#!/bin/sh\n{files}{then}");
        let script = script.replace("MISTAKES", mistakes.to_str().unwrap());
        let script = script.replace("PROGRAM", pairloom().get_program().to_str().unwrap());
        let path = folder.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    shell(&format!("{text}\nwait\n"), folder.path(), &folder.path().join("bin"))?;
    fs::read_to_string(&mistakes).map_or(Ok(()), Err)
}

/// Checks that a block is Python.
fn check_python(text: &str) -> Result<(), String> {
    let mut python = Command::new("python3");
    python.args(["-c", "import ast, sys; ast.parse(sys.stdin.read())"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().map_err(|error| format!("python3: {error}"))?;
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    outcome(&python.wait_with_output().unwrap()).map(|_| ())
}

/// Names of the stages that a table refers to.
fn referenced(value: &toml::Value, is_set: bool, names: &mut Vec<String>) {
    let mut add = |text: &str| names.push(text.split(['.', '@']).next().unwrap_or_default().to_owned());
    match value {
        toml::Value::String(text) => add(text),
        toml::Value::Array(items) => items.iter().for_each(|item| referenced(item, false, names)),
        toml::Value::Table(members) => {
            if is_set {
                members.keys().for_each(|name| add(name));
            }
            members.iter().for_each(|(name, member)| referenced(member, name == "set", names));
        }
        _ => {}
    }
}

/// A block with the stages that it refers to: those of blocks before it, or of `book.toml`.
fn completed(block: &Table, before: &[Table]) -> Table {
    let stubs: Table = include_str!("book.toml").parse().unwrap();
    let mut whole = block.clone();
    let find = |part: &str| before.iter().rev().find_map(|table| table.get(part)).cloned();
    if block.to_string().contains('@') && !whole.contains_key("matrix") {
        whole.extend(find("matrix").map(|matrix| ("matrix".to_owned(), matrix)));
    }
    loop {
        let mut names = Vec::new();
        referenced(&toml::Value::Table(whole.clone()), false, &mut names);
        let stages = whole.entry("stage").or_insert_with(|| Table::new().into()).as_table_mut().unwrap();
        let mut missing = names.into_iter().filter(|name| !stages.contains_key(name));
        let known = |name: String| {
            let mut all = before.iter().rev().chain([&stubs]);
            let stage = all.find_map(|table| table.get("stage")?.get(&name))?.clone();
            Some((name, stage))
        };
        let Some((name, stage)) = missing.find_map(known) else { return whole };
        stages.insert(name, stage);
    }
}

/// Checks a block of a pipeline file.
fn check_pipeline(text: &str, before: &mut Vec<Table>) -> Result<(), String> {
    let block: Table = text.parse().map_err(|error| format!("{error}"))?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("block.toml");
    fs::write(&file, completed(&block, before).to_string()).unwrap();
    before.push(block);
    outcome(&pairloom().arg("check").arg(&file).output().unwrap()).map(|_| ())
}

/// Mistakes of the blocks of a page that need no store.
fn mistakes(page: &str, document: &Document) -> Vec<String> {
    let mut pipelines = Vec::new();
    let check = |block: &Block| {
        let checked = match block.language.as_str() {
            "toml" => check_pipeline(&block.text, &mut pipelines),
            "python" => check_python(&block.text),
            "sh,no_run" => check_shell(&block.text),
            "sh" | "sql" | "text" => Ok(()),
            other => Err(format!("a block of the language `{other}`, expected sh, sql, toml, python or text")),
        };
        Some(format!("{page}:{}: {}", block.line, checked.err()?))
    };
    document.blocks.iter().filter_map(check).collect()
}

/// Runs the blocks of all pages that are commands or queries, each page on its own copy of a store of the quickstart that
/// has two runs. Returns mistakes.
pub(crate) fn run_blocks(store: &Path) -> Vec<String> {
    let programs = pairloom();
    let programs = Path::new(programs.get_program()).parent().unwrap().to_owned();
    let mut mistakes = Vec::new();
    for (page, document) in pages() {
        let runs = |block: &&Block| block.language == "sh" || block.language == "sql" && page != SWEEPS;
        let folder = tempfile::tempdir().unwrap();
        for name in ["pipelines", "tests"] {
            symlink(test_data::root().join(name), folder.path().join(name)).unwrap();
        }
        let own = folder.path().join("store");
        assert!(Command::new("cp").arg("-al").args([store, own.as_path()]).status().unwrap().success());
        for block in document.blocks.iter().filter(runs) {
            let ran = match block.language.as_str() {
                "sh" => shell(&block.text, folder.path(), &programs).map(|_| ()),
                _ => run_queries(&block.text, &own),
            };
            mistakes.extend(ran.err().map(|error| format!("{page}:{}: {error}", block.line)));
        }
    }
    mistakes
}

/// Runs the queries of a block. Each has rows, but for the search of equal images, of which there are none.
fn run_queries(text: &str, store: &Path) -> Result<(), String> {
    for sql in text.split_inclusive(";\n") {
        let output = pairloom().args(["sql", "--json", "--store"]).arg(store).args(["--", sql]).output().unwrap();
        let rows = outcome(&output)?;
        if rows.is_empty() != sql.contains("HAVING count(*) > 1") {
            return Err(format!("{sql}: {rows}"));
        }
        // Recalls in plain SQL are those of the evaluation.
        if sql.contains("AS rsum FROM (") {
            let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
            let expected = number_of(store, "SELECT rsum FROM test.summary");
            assert!((row["rsum"].as_f64().unwrap() - expected).abs() < 1e-9 * expected, "{rows}, expected {expected}");
        }
    }
    Ok(())
}

#[test]
fn blocks_that_need_no_store_are_right() {
    let pages = pages();
    let found: Vec<String> = pages.iter().flat_map(|(page, document)| mistakes(page, document)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let blocks = pages.iter().flat_map(|(_, document)| &document.blocks);
    let kinds = blocks.filter(|block| ["toml", "python", "sh,no_run"].contains(&block.language.as_str()));
    assert!(kinds.count() >= 40, "the book has lost its blocks");
}

#[test]
fn mistakes_of_blocks_are_found() {
    let text = "```toml\n[stage.a.train]\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\nepoch = 3\n```\n\
                ```python\nfor x\n```\n```sh,no_run\nA=b torchrun -n 2 pairloom run --epochs 2 &\n```\n\
                ```sh,no_run\nA=b pairloom run pipelines/none.toml\n```\n```yaml\na: b\n```\n\
                ```toml\n[stage.a.embed]\nmodel = \"fit.model\"\nfeatures = \"cnn.features\"\ncaptions = \"pairs.captions\"\n```\n";
    let found = mistakes("page.md", &Document::parse(text));
    let expected = ["page.md:1: ", "page.md:7: ", "page.md:10: ", "page.md:13: ", "page.md:16: "];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (place, part)) in
        found.iter().zip(expected.into_iter().zip(["epochs", "SyntaxError", "--epochs", "no pipelines/none", "yaml"]))
    {
        assert!(found.starts_with(place) && found.contains(part), "{found}");
    }
}

/// The committed page of the functions equals the generated one.
#[test]
fn generated_sql_functions_are_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("v1/runs")).unwrap();
    let output =
        pairloom().args(["sql", "--json", "--store"]).arg(folder.path()).arg("SHOW FUNCTIONS").output().unwrap();
    let rows = outcome(&output).unwrap_or_else(|error| panic!("{error}"));
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let mut page =
        "<!-- Generated from the code: `UPDATE_GENERATED=1 cargo test --package pairloom-tests generated`. -->\n\n\
                    # SQL functions\n\n`SHOW FUNCTIONS LIKE 'array%'` shows the same of some of them.\n"
            .to_owned();
    // Links of DataFusion's documentation lead to its pages.
    let link = Regex::new(r"\[([^\]]*)\]\([^):]*\)").unwrap();
    let cell = |row: &serde_json::Value, column: &str| {
        let text = link.replace_all(row[column].as_str().unwrap_or_default(), "$1");
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
    };
    for kind in ["scalar", "aggregate", "window", "table"] {
        let functions: Vec<_> = rows.iter().filter(|row| row["type"] == kind).collect();
        assert!(!functions.is_empty(), "no {kind} functions");
        let _ = write!(page, "\n## {kind} functions\n\n| syntax | value |\n|---|---|\n");
        for row in functions {
            let syntax = cell(row, "syntax");
            let syntax = if syntax.is_empty() { cell(row, "function") } else { syntax };
            let _ = writeln!(page, "| `{syntax}` | {} |", cell(row, "description"));
        }
    }
    let path = test_data::root().join(FUNCTIONS);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let command = "UPDATE_GENERATED=1 cargo test --package pairloom-tests generated";
    assert!(
        fs::read_to_string(&path).is_ok_and(|text| text == page),
        "{FUNCTIONS} is out of date; `{command}` writes it"
    );
}
