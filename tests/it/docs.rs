//! Checks of documentation: file heads, links, names of tests, and no path of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::markdown::Document;
use crate::source;

/// Folder of the book. mdBook copies it, so pages link to pages of it alone.
const BOOK: &str = "docs/";

/// List of the pages of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Document whose tables have a case, its outcome, and the tests that hold it.
const HOSTILE_INPUTS: &str = "tests/hostile_inputs.md";

/// Head of these tables.
const HEAD_OF_CASES: &str = "| case | outcome | test |";

/// Rust files that do not open with what they are.
fn files_without_head(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, path) in source::files(root).into_iter().filter(|(name, _)| name.ends_with(".rs")) {
        let text = fs::read_to_string(&path).expect("source code is text");
        if !text.starts_with("//! ") {
            found.push(format!("{name}:1: begins without `//! ` and a sentence that says what it is"));
        }
    }
    found
}

/// Links, anchors and file names in the documents of the checkout that lead nowhere.
fn dead_ends(root: &Path) -> Vec<String> {
    // A file name that starts with a folder of the project. `<name>` and `*` stand for something else.
    let named = Regex::new(
        r"^((?:src|tests|xtask|pipelines|schemas|data|docs|benches|\.ci|\.cargo)/\S*|[A-Z][A-Za-z]*\.(?:md|toml))",
    )
    .expect("a valid pattern");
    let files = source::files(root).into_iter().filter(|(name, _)| name.ends_with(".md"));
    let read = |(name, path): (String, PathBuf)| {
        let text = fs::read_to_string(path).expect("a document is text");
        (name, Document::parse(&text))
    };
    let documents: BTreeMap<String, Document> = files.map(read).collect();
    let mut found = Vec::new();
    for (name, document) in &documents {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, link) in document.links.iter().filter(|(_, link)| !link.contains(':')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { name.clone() } else { joined(folder, path) };
            let exists = root.join(&target).exists();
            if !exists || !anchor.is_empty() && documents.get(&target).is_none_or(|to| !to.anchors.contains(anchor)) {
                found.push(format!("{name}:{line}: `{link}` does not exist"));
            } else if name.starts_with(BOOK) && !target.starts_with(BOOK) {
                found.push(format!("{name}:{line}: `{link}` leads out of the book"));
            }
        }
        for (line, code) in &document.code {
            let path = named.captures(code).map_or("", |found| found.get(1).map_or("", |path| path.as_str()));
            if !path.contains(['<', '*', '{', '…']) && !root.join(path).exists() {
                found.push(format!("{name}:{line}: `{path}` does not exist"));
            }
        }
    }
    if let Some(summary) = documents.get(SUMMARY) {
        let listed: Vec<String> = summary.links.iter().map(|(_, page)| format!("{BOOK}{page}")).collect();
        let pages = documents.keys().filter(|name| name.starts_with(BOOK) && *name != SUMMARY);
        found.extend(pages.filter(|name| !listed.contains(name)).map(|name| format!("{SUMMARY} lacks {name}")));
    }
    found
}

/// Path of a link in a document of `folder`.
fn joined(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Absolute paths of one machine in files that everybody gets.
fn machine_paths(root: &Path) -> Vec<String> {
    // Pieced together, or this file would be the first to be found.
    let folders = ["work", "root", "home", "tmp", "Users"].join("|");
    let path = Regex::new(&format!(r#"(?:^|[\s"'`=(\[,:<])/(?:{folders})/[A-Za-z0-9._-]"#)).expect("a valid pattern");
    let mut found = Vec::new();
    for (name, file) in source::files(root) {
        // Binary files have no paths to read, and cargo writes the lock file.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if name == "Cargo.lock" {
            continue;
        }
        for (number, line) in text.lines().enumerate().filter(|(_, line)| path.is_match(line)) {
            found.push(format!("{name}:{}: names a path of one machine: {}", number + 1, line.trim()));
        }
    }
    found
}

/// Names of the tests below `src/` and `tests/`.
fn names_of_tests(root: &Path) -> BTreeSet<String> {
    // Other attributes and comments may come between.
    let test =
        Regex::new(r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:#\[[^\]]*\]\s*|//[^\n]*\s*)*(?:async\s+)?fn\s+(\w+)");
    let test = test.expect("a valid pattern");
    let mut names = BTreeSet::new();
    for (name, path) in source::files(root) {
        if name.ends_with(".rs") && (name.starts_with("src/") || name.starts_with("tests/")) {
            let text = fs::read_to_string(&path).expect("source code is text");
            names.extend(test.captures_iter(&text).map(|found| found[1].to_owned()));
        }
    }
    names
}

/// Rows of the tables of cases, with their line numbers.
fn cases(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = document.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.filter(|(_, line)| line.starts_with("| ") && *line != HEAD_OF_CASES)
}

/// The lint that stands for a test, if the workspace turns it on.
fn lint_of_a_case(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("it is there");
    let workspace: toml::Table = toml::from_str(&text).expect("it is TOML");
    let lints = workspace["workspace"]["lints"]["clippy"].as_table().expect("the workspace has lints");
    let name = "undocumented_unsafe_blocks";
    (lints[name].as_str() == Some("warn")).then(|| name.to_owned())
}

/// Rows of the tables of cases in `document` whose last cell is not names of `tests` in backticks.
fn cases_without_their_test(document: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in cases(document) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, _, names] = cells[..] else {
            found.push(format!("{HOSTILE_INPUTS}:{number}: has {} cells, expected 3", cells.len()));
            continue;
        };
        for name in names.split(", ") {
            let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            if quoted.is_none_or(|name| !tests.contains(name)) {
                found.push(format!("{HOSTILE_INPUTS}:{number}: {name} is no test"));
            }
        }
    }
    found
}

#[test]
fn every_file_says_what_it_is() {
    let found = files_without_head(test_data::root());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Stages of the JSON Schema that the drawing of the flow in `readme` lacks.
fn stages_missing_in_flow(schema: &str, readme: &str) -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(schema).expect("the schema is JSON");
    let stages = schema["$defs"]["AnyStage"]["oneOf"].as_array().expect("the schema lists the stages");
    let names = stages.iter().filter_map(|stage| stage["required"][0].as_str()).map(str::to_owned);
    let flow = readme.split("## The flow").nth(1).and_then(|text| text.split("```").nth(1)).unwrap_or_default();
    names.filter(|name| !flow.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)).collect()
}

#[test]
fn the_flow_in_the_readme_shows_every_stage() {
    let read = |name: &str| fs::read_to_string(test_data::root().join(name)).expect("it is there");
    let (schema, readme) = (read("schemas/pipeline.schema.json"), read("README.md"));
    assert_eq!(stages_missing_in_flow(&schema, &readme), [""; 0]);
    assert_eq!(stages_missing_in_flow(&schema, &readme.replace("import_model", "other")), ["import_model"]);
}

#[test]
fn everything_that_a_document_names_exists() {
    let found = dead_ends(test_data::root());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn hostile_inputs_name_tests_that_exist() {
    let document = fs::read_to_string(test_data::root().join(HOSTILE_INPUTS)).expect("it is there");
    let mut tests = names_of_tests(test_data::root());
    tests.extend(lint_of_a_case(test_data::root()));
    let found = cases_without_their_test(&document, &tests);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let rows = cases(&document).count();
    assert!(rows >= 40, "{rows} cases");
}

#[test]
fn a_case_whose_test_does_not_exist_is_found() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(root.path(), name, text);
    write("src/a.rs", "#[test]\n// Why.\n#[expect(dead_code)]\nfn one() {}\nfn helper() {}\n");
    write(
        "tests/it/b.rs",
        "proptest! {\n    #[test]\n    fn two(n in 0..9) {}\n}\n#[tokio::test]\nasync fn three() {}\n",
    );
    write("xtask/src/c.rs", "#[test]\nfn four() {}\n");
    let tests = names_of_tests(root.path());
    assert!(tests.iter().eq(["one", "three", "two"]), "{tests:?}");
    let rows = "| a | b | `one` |\n| a | b | none |\n| a | b | `two`, `helper` |\n| a | `one` |\n| a | b | three |\n";
    let found = cases_without_their_test(&format!("{HEAD_OF_CASES}\n|---|---|---|\n{rows}"), &tests);
    assert_eq!(
        found,
        [
            "tests/hostile_inputs.md:4: none is no test",
            "tests/hostile_inputs.md:5: `helper` is no test",
            "tests/hostile_inputs.md:6: has 2 cells, expected 3",
            "tests/hostile_inputs.md:7: three is no test",
        ]
    );
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let found = machine_paths(test_data::root());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_of_these_checks_can_fail() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(root.path(), name, text);
    write("src/good.rs", "//! Good.\n");
    write("src/bare.rs", "fn f() {}\n");
    write("target/debug/generated.rs", "not ours");
    assert_eq!(
        files_without_head(root.path()),
        ["src/bare.rs:1: begins without `//! ` and a sentence that says what it is"]
    );

    write(
        "README.md",
        "# A b\n[a](src/good.rs) [b](src/gone.rs#x) [c](https://example.org/x) [d](#a-b) [e](#none)\n`src/good.rs`, \
         `src/lost.rs`, `src/<name>.rs`, `ARCHITECTURE.md`, `src/good.rs --flag`\n",
    );
    write("docs/SUMMARY.md", "[a](a/b.md)\n");
    write("docs/a/b.md", "# B\n[a](../c.md#c) [b](../c.md#d) [c](../../README.md)\n");
    write("docs/c.md", "# C\n");
    assert_eq!(
        dead_ends(root.path()),
        [
            "README.md:2: `src/gone.rs#x` does not exist",
            "README.md:2: `#none` does not exist",
            "README.md:3: `src/lost.rs` does not exist",
            "README.md:3: `ARCHITECTURE.md` does not exist",
            "docs/a/b.md:2: `../c.md#d` does not exist",
            "docs/a/b.md:2: `../../README.md` leads out of the book",
            "docs/SUMMARY.md lacks docs/c.md",
        ]
    );

    let somewhere = ["", "home", "ada", "data"].join("/");
    write("pipelines/mine.toml", &format!("# one\nimages = \"{somewhere}\"\n"));
    write("pipelines/fine.toml", "images = \"../data/images\"\nurl = \"https://example.org/home/x\"\n");
    let found = machine_paths(root.path());
    assert_eq!(found, [format!("pipelines/mine.toml:2: names a path of one machine: images = \"{somewhere}\"")]);
}
