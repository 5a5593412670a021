//! Dependencies: where they come from, their licences, and crates that are compiled in several versions.
//!
//! `cargo deny` checks the same and needs a build of its own of ten minutes; this needs none. Advisories are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that allow the program to be given away under ours.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "IJG",
    "ISC",
    "MIT",
    "MIT-0",
    // Of files that nobody changes here: the trait `OptionExt` of the crate `option-ext`.
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Source of every crate that is not in this repository.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates in several versions, which others want. A new name here costs time of each build.
const SEVERAL_VERSIONS: &[&str] = &[
    "base64",
    "block-buffer",
    "bzip2",
    "constant_time_eq",
    "cpufeatures",
    "crypto-common",
    "digest",
    "foldhash",
    "getrandom",
    "glam",
    "hashbrown",
    "itertools",
    "md-5",
    "miniz_oxide",
    "num-bigint",
    "pastey",
    "phf",
    "phf_shared",
    "prettyplease",
    "rand",
    "rand_chacha",
    "rand_core",
    "sha2",
    "syn",
    "thiserror",
    "thiserror-impl",
    "tower-http",
    "zstd",
    "zstd-safe",
];

/// Root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Packages of the build for the platform of the project.
fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Mistakes in packages: another source, or no licence that is allowed.
fn mistakes(packages: &[Value]) -> Vec<String> {
    let mistake = |package: &Value| {
        let name = package["name"].as_str().unwrap_or_default();
        match (&package["source"], package["license"].as_str()) {
            (Value::Null, _) => None,
            (source, _) if *source != REGISTRY => Some(format!("`{name}` comes from {source}")),
            (_, None) => Some(format!("`{name}` names no licence")),
            (_, Some(licence)) if !is_allowed(licence) => Some(format!("`{name}` has the licence {licence}")),
            _ => None,
        }
    };
    packages.iter().filter_map(mistake).collect()
}

/// True if one of the alternatives has allowed licences only. Brackets group alternatives within a conjunction, which
/// then all have to be allowed.
fn is_allowed(licence: &str) -> bool {
    let one = |licence: &str| LICENCES.contains(&licence.trim().trim_matches(['(', ')']));
    let all_of = |text: &str, sign: &str| text.split(sign).all(one);
    if licence.contains('(') {
        return licence.split(" AND ").flat_map(|part| part.split(" OR ")).all(one);
    }
    licence.replace('/', " OR ").split(" OR ").any(|alternative| all_of(alternative, " AND "))
}

#[test]
fn dependencies_come_from_crates_io_under_allowed_licences() {
    assert_eq!(mistakes(&packages()), Vec::<String>::new());
    // Every package of the lock file has a checksum but our own.
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let without: BTreeSet<&str> = lock
        .split("[[package]]")
        .skip(1)
        .filter(|package| !package.contains("\nchecksum = "))
        .filter_map(|package| package.split('"').nth(1))
        .collect();
    assert_eq!(without.into_iter().collect::<Vec<_>>(), ["pairloom", "pairloom-kernels", "test-data", "xtask"]);
}

#[test]
fn no_further_crate_has_several_versions() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let text = |field: &str| package[field].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let several: Vec<_> = versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name).collect();
    assert_eq!(several, SEVERAL_VERSIONS);
}

#[test]
fn other_sources_and_licences_are_found() {
    let package =
        |source: &str, licence: &str| serde_json::json!({ "name": "a", "source": source, "license": licence });
    let found = mistakes(&[
        package(REGISTRY, "MIT OR Apache-2.0"),
        package(REGISTRY, "GPL-3.0/MIT"),
        package(REGISTRY, "(MIT OR Apache-2.0) AND Unicode-3.0"),
        package(REGISTRY, "GPL-3.0"),
        package(REGISTRY, "MIT AND GPL-3.0"),
        package("git+https://example.org/a", "MIT"),
        serde_json::json!({ "name": "a", "source": REGISTRY, "license": null }),
        serde_json::json!({ "name": "ours", "source": null, "license": null }),
    ]);
    let wanted = [
        "`a` has the licence GPL-3.0",
        "`a` has the licence MIT AND GPL-3.0",
        "`a` comes from \"git+https://example.org/a\"",
        "`a` names no licence",
    ];
    assert_eq!(found, wanted);
}
