//! Names of kept results are written field by field: nothing that is hashed is made of `Debug` or of names of types, which say
//! too little (`-0.0` of two types, a field that is left out) and change with a compiler.

use std::fs;
use std::path::Path;

use crate::source;

/// Marks of a function that names results: it writes an identity, or hashes.
const NAMING: [&str; 5] = ["Fields<", "fields.", "Hasher", "blake3::hash(", "serde_json::json!(["];
/// Expressions that it must not have.
const BANNED: [&str; 4] = [":?}", ":#?}", "type_name", "DefaultHasher"];

/// The functions that name results by what must not name them, each with file and line.
fn violations(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, path) in source::files(&root.join("src")) {
        if !name.ends_with(".rs") || name.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(path).expect("source code is text");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut line = 1;
        for function in text.split_inclusive("\nfn ").flat_map(|text| text.split_inclusive(" fn ")) {
            if NAMING.iter().any(|naming| function.contains(naming)) {
                let banned = BANNED.iter().filter_map(|banned| Some((function.find(banned)?, banned)));
                found.extend(banned.map(|(at, banned)| {
                    format!(
                        "src/{name}:{}: `{banned}` in what names results",
                        line + function[..at].matches('\n').count()
                    )
                }));
            }
            line += function.matches('\n').count();
        }
    }
    found
}

#[test]
fn no_name_of_results_is_made_of_debug() {
    let found = violations(test_data::root());
    assert!(found.is_empty(), "write these field by field (`kernels::identity`):\n{}", found.join("\n"));
}

#[test]
fn a_name_that_is_made_of_debug_is_found() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = root.path().join("src").join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
        fs::write(path, text).expect("it can be written");
    };
    write("a/one.rs", "fn f() {}\nfn name() {\n    blake3::hash(format!(\"{asked:?}\").as_bytes())\n}\n");
    write(
        "a/two.rs",
        "impl A {\n    fn identity(&self, fields: &mut Fields<'_>) {\n        fields.text(std::any::type_name::<Self>());\n    }\n}\n",
    );
    write(
        "b.rs",
        "fn g() {\n    fields.number(1);\n}\nfn error() { format!(\"{got:?}\") }\n#[cfg(test)]\nmod tests { fn h() { blake3::hash(\"{:?}\") } }",
    );
    assert_eq!(
        violations(root.path()),
        ["src/a/one.rs:3: `:?}` in what names results", "src/a/two.rs:3: `type_name` in what names results"]
    );
}
