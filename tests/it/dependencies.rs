//! Dependencies: where they come from, their licences, and crates that are compiled in several versions.
//!
//! `cargo deny` checks the same and needs a build of its own of ten minutes; this needs none. Advisories need a network:
//! `deny.toml` says how they are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

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

/// Packages of the build for the platform of the project, and their dependencies.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages() -> Vec<Value> {
    metadata()["packages"].as_array().unwrap().clone()
}

/// Licences that `deny.toml` allows.
fn allowed_licences() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let settings: toml::Table = toml::from_str(&text).unwrap();
    let licences = settings["licenses"]["allow"].as_array().unwrap();
    licences.iter().map(|licence| licence.as_str().unwrap().to_owned()).collect()
}

/// Mistakes in packages: another source, or no licence that is allowed.
fn mistakes(packages: &[Value]) -> Vec<String> {
    let allowed = allowed_licences();
    let mistake = |package: &Value| {
        let name = package["name"].as_str().unwrap_or_default();
        match (&package["source"], package["license"].as_str()) {
            (Value::Null, _) => None,
            (source, _) if *source != REGISTRY => Some(format!("`{name}` comes from {source}")),
            (_, None) => Some(format!("`{name}` names no licence")),
            (_, Some(licence)) if !is_allowed(licence, &allowed) => Some(format!("`{name}` has the licence {licence}")),
            _ => None,
        }
    };
    packages.iter().filter_map(mistake).collect()
}

/// True if one of the alternatives has allowed licences only. Brackets group alternatives within a conjunction, which
/// then all have to be allowed.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let one = |licence: &str| allowed.iter().any(|known| known == licence.trim().trim_matches(['(', ')']));
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

/// Names of the crates in the program that compile code of other languages: their build scripts use a C compiler.
fn native_crates(metadata: &Value) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_id: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let has_kind =
        |dependency: &Value, kind: &Value| list(&dependency["dep_kinds"]).iter().any(|of| of["kind"] == *kind);
    let root = of_id.iter().find(|(_, package)| package["name"] == "pairloom").unwrap().0;
    let (mut found, mut seen, mut rest) = (BTreeSet::new(), BTreeSet::new(), vec![(*root).to_owned()]);
    while let Some(id) = rest.pop() {
        let (package, dependencies) = (of_id[id.as_str()], list(&nodes[id.as_str()]["deps"]));
        let compiles = dependencies.iter().any(|of| of["name"] == "cc" && has_kind(of, &Value::from("build")));
        if compiles {
            found.insert(package["name"].as_str().unwrap().to_owned());
        }
        let used = dependencies.iter().filter(|of| has_kind(of, &Value::Null));
        let used: Vec<String> = used.map(|of| of["pkg"].as_str().unwrap().to_owned()).collect();
        rest.extend(used.into_iter().filter(|id| seen.insert(id.clone())));
    }
    found.remove("pairloom");
    found
}

#[test]
fn the_notice_names_all_native_code() {
    let notice = std::fs::read_to_string(root().join("NOTICE")).unwrap();
    let named = notice.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    let named: BTreeSet<String> = named.flat_map(|(names, _)| names.split(", ").map(str::to_owned)).collect();
    assert_eq!(named, native_crates(&metadata()));
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
