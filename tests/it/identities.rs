//! Test that identities of cached results are written field by field. They must not contain `Debug` output or type
//! names, which may be ambiguous (`-0.0` of two types, omitted fields) and change with the compiler.

use std::fs;
use std::path::Path;

use crate::source;

/// Strings that mark a function that creates an identity or a hash.
const IDENTITY_MARKS: [&str; 5] = ["IdentityWriter<", "fields.", "Hasher", "blake3::hash(", "serde_json::json!(["];
/// Strings that such a function must not contain.
const BANNED: [&str; 4] = [":?}", ":#?}", "type_name", "DefaultHasher"];

/// Finds banned strings in functions that create identities, each with file and line.
fn violations(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, path) in source::files(&root.join("src")) {
        // A build id is no identity of a result.
        if !name.ends_with(".rs") || name.ends_with("tests.rs") || name.starts_with("build/") {
            continue;
        }
        let text = fs::read_to_string(path).expect("source code is text");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut line = 1;
        for function in text.split_inclusive("\nfn ").flat_map(|text| text.split_inclusive(" fn ")) {
            if IDENTITY_MARKS.iter().any(|mark| function.contains(mark)) {
                let banned = BANNED.iter().filter_map(|banned| Some((function.find(banned)?, banned)));
                found.extend(banned.map(|(at, banned)| {
                    format!("src/{name}:{}: `{banned}` in an identity", line + function[..at].matches('\n').count())
                }));
            }
            line += function.matches('\n').count();
        }
    }
    found
}

#[test]
fn every_mark_occurs_in_the_code() {
    let files = source::files(&test_data::root().join("src"));
    let code: String = files.iter().filter_map(|(_, path)| fs::read_to_string(path).ok()).collect();
    let unused: Vec<_> = IDENTITY_MARKS.iter().filter(|mark| !code.contains(**mark)).collect();
    assert!(unused.is_empty(), "{unused:?} no longer mark identities; name what replaced them");
}

#[test]
fn no_identity_contains_debug_output() {
    let found = violations(test_data::root());
    assert!(found.is_empty(), "write these field by field (`kernels::identity`):\n{}", found.join("\n"));
}

#[test]
fn debug_output_in_an_identity_is_found() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(&root.path().join("src"), name, text);
    write("a/one.rs", "fn f() {}\nfn name() {\n    blake3::hash(format!(\"{asked:?}\").as_bytes())\n}\n");
    write(
        "a/two.rs",
        "impl A {\n    fn identity(&self, fields: &mut IdentityWriter<'_>) {\n        fields.write_text(std::any::type_name::<Self>());\n    }\n}\n",
    );
    write(
        "b.rs",
        "fn g() {\n    fields.write_usize(1);\n}\nfn error() { format!(\"{got:?}\") }\n#[cfg(test)]\nmod tests { fn h() { blake3::hash(\"{:?}\") } }",
    );
    assert_eq!(
        violations(root.path()),
        ["src/a/one.rs:3: `:?}` in an identity", "src/a/two.rs:3: `type_name` in an identity"]
    );
}
