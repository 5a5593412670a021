//! Code of other languages in the program, which the file `NOTICE` names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Packages of the build for the platform of the project, and their dependencies.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(["--features", "pairloom-sql/flight,pairloom-sql/cluster"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(test_data::root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
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
    let programs = ["pairloom", "pairloom-torch", "pairloom-sql"];
    let programs = of_id.iter().filter(|(_, package)| programs.iter().any(|name| package["name"] == *name));
    let mut rest: Vec<String> = programs.map(|(id, _)| (*id).to_owned()).collect();
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
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
    found.retain(|name: &String| !name.starts_with("pairloom"));
    found
}

#[test]
fn the_notice_names_all_native_code() {
    let notice = std::fs::read_to_string(test_data::root().join("NOTICE")).unwrap();
    let named = notice.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    let named: BTreeSet<String> = named.flat_map(|(names, _)| names.split(", ").map(str::to_owned)).collect();
    assert_eq!(named, native_crates(&metadata()));
}
