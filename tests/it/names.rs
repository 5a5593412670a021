//! Names: every type has a name of its own, and test files are named by one scheme.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::source;

/// Type names that may be defined more than once, each with the reason.
const SHARED: &[(&str, &str)] = &[];

/// Names of types that are defined more than once, each with its places, and exceptions that nothing needs.
fn shared_names(root: &Path, shared: &[(&str, &str)]) -> Vec<String> {
    let defines = Regex::new(
        r"(?m)^(?:[ \t]*(?:pub(?:\([a-z: ]+\))? )?(?:unsafe )?(?:struct|enum|trait|union)|(?:pub(?:\([a-z: ]+\))? )?type) ([A-Z]\w*)",
    )
    .expect("a valid pattern");
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, path) in source::files(root).into_iter().filter(|(name, _)| name.ends_with(".rs")) {
        let text = fs::read_to_string(path).expect("source code is text");
        for found in defines.captures_iter(&text) {
            let start = found.get(1).expect("the pattern has a group").start();
            let line = text[..start].matches('\n').count() + 1;
            places.entry(found[1].to_owned()).or_default().push(format!("{name}:{line}"));
        }
    }
    let excused = |name: &str| shared.iter().any(|(excused, _)| *excused == name);
    let unused = shared.iter().filter(|(name, _)| places.get(*name).is_none_or(|places| places.len() < 2));
    let unused = unused.map(|(name, _)| format!("`{name}` needs no exception; remove it from tests/it/names.rs"));
    let clashes = places.iter().filter(|(name, places)| places.len() > 1 && !excused(name));
    clashes.map(|(name, places)| format!("`{name}` is defined at {}", places.join(", "))).chain(unused).collect()
}

/// Files whose tests stand outside of a `mod tests`, and whose name does not say that they are tests.
fn badly_named_tests(root: &Path) -> Vec<String> {
    let attribute = Regex::new(r"(?m)^#\[test\]").expect("a valid pattern");
    let mut found = Vec::new();
    for (name, path) in source::files(root).into_iter().filter(|(name, _)| name.starts_with("src/")) {
        let file = name.rsplit('/').next().unwrap_or_default();
        let named = file == "tests.rs" || file.ends_with("_tests.rs") || name.contains("/tests/");
        if !file.ends_with(".rs") || named {
            continue;
        }
        let text = fs::read_to_string(path).expect("source code is text");
        if attribute.is_match(&text) {
            found.push(format!("{name}: has tests, so its name is `tests.rs` or ends with `_tests.rs`"));
        }
    }
    found
}

#[test]
fn every_type_has_a_name_of_its_own() {
    let found = shared_names(test_data::root(), SHARED);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn test_files_are_named_by_one_scheme() {
    let found = badly_named_tests(test_data::root());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_check_of_names_can_fail() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(root.path(), name, text);
    write("src/a.rs", "//! A.\npub struct Row;\nimpl Iterator for Row {\n    type Item = u8;\n}\nstruct Both;\n");
    write(
        "src/b.rs",
        "//! B.\n\npub(crate) enum Row {}\ntype Item = u8;\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn f() {}\n    struct Both;\n}\n",
    );
    write("src/golden.rs", "//! Golden.\n#[test]\nfn f() {}\n");
    write("src/golden_tests.rs", "//! Golden.\n#[test]\nfn f() {}\n");
    assert_eq!(
        shared_names(root.path(), &[("Both", "a reason"), ("Gone", "another")]),
        ["`Row` is defined at src/a.rs:2, src/b.rs:3", "`Gone` needs no exception; remove it from tests/it/names.rs"]
    );
    assert_eq!(
        badly_named_tests(root.path()),
        ["src/golden.rs: has tests, so its name is `tests.rs` or ends with `_tests.rs`"]
    );
}
