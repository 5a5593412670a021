//! Which module may use which: the layers of `ARCHITECTURE.md`, as tables that the code is held to.

use std::fs;
use std::path::Path;

use crate::source::{self, Use};

/// What each module of `src/` may use of the crate. A name with `::` allows just that part.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("suggest", &[]),
    ("kernels", &[]),
    ("language", &["kernels", "error"]),
    ("tables", &["error"]),
    ("io", &["tables", "error"]),
    ("loader", &["kernels", "io", "tables", "error"]),
    ("search", &["kernels", "io::Mistakes", "error"]),
    ("stage", &["tables", "io::shard", "io::shards", "loader::Stalls", "error"]),
    (
        "model",
        &[
            "kernels",
            "tables",
            "loader",
            "search",
            "error",
            "stage::Cancellation",
            "stage::Device",
            "stage::Ranks",
            "stage::Meeting",
        ],
    ),
    ("stages", &["stage", "tables", "kernels", "language", "model", "search", "io", "loader", "error"]),
    ("engine", &["stage", "tables", "io", "loader::Stalls", "suggest", "error"]),
    ("pipeline", &["stage", "stages::AnyStage", "engine::plan", "suggest", "error"]),
    ("sql", &["tables", "kernels::epoch", "io", "engine::store", "engine::key", "engine::record", "error"]),
    ("cli", &["*"]),
    ("main", &["*"]),
];

/// What only some modules may use of the outside. `cli` and `main` are not asked.
const OUTSIDE: &[(&str, &[&str], &str)] = &[
    ("tch", &["model"], "tensors stay in `model`"),
    ("datafusion", &["sql"], "the planner stays in `sql`"),
    ("object_store", &["io", "sql"], "artefacts are reached through `io`"),
    ("tokio", &["io", "sql"], "stages and engine are synchronous"),
    ("std::fs", &["io", "engine", "pipeline"], "files are reached through `io`; `pipeline` reads its own"),
    ("std::env", &[], "settings come from the pipeline file or the command line"),
    ("std::process", &["engine"], "a stage does nothing to the world but through its `Cx`"),
    ("std::net", &["model"], "only servers listen, and ranks that meet"),
    ("std::time::Instant", &["engine", "loader"], "results must not depend on the clock"),
    ("std::time::SystemTime", &["engine"], "results must not depend on the clock"),
    ("jiff", &["engine", "sql"], "results must not depend on the clock"),
    ("std::thread::Builder", &["engine", "io", "loader", "model"], "threads that outlive a call are the engine's"),
    ("std::thread::scope", &["engine", "io", "model", "search", "sql", "stages"], "parallelism is the caller's"),
    ("crossbeam", &["engine", "io", "loader"], "threads are the engine's; a stage maps through its `Cx`"),
    ("std::hash::RandomState", &[], "randomness is `kernels::sample` with a seed"),
    ("rand", &[], "randomness is `kernels::sample` with a seed"),
    ("clap", &[], "the command line stays in `cli`"),
    ("indicatif", &[], "progress is drawn in `cli`"),
    ("ctrlc", &[], "signals are caught in `cli`"),
];

/// The only crates that the innermost modules may use, besides the standard library.
const INNERMOST: &[(&str, &[&str])] = &[
    ("kernels", &[]),
    ("tables", &["arrow"]),
    ("error", &["arrow", "parquet"]),
    ("stage", &["arrow", "bytes", "schemars", "serde", "serde_json"]),
];

/// Crates that code may name, from `[dependencies]` of the manifest.
fn dependencies(root: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest is readable");
    let manifest: toml::Table = manifest.parse().expect("the manifest is TOML");
    manifest["dependencies"].as_table().expect("a table").keys().map(|name| name.replace('-', "_")).collect()
}

/// Every use that breaks a rule, one line each.
fn violations(root: &Path) -> Vec<String> {
    let dependencies = dependencies(root);
    let files: Vec<_> =
        source::files(&root.join("src")).into_iter().filter(|(name, _)| name.ends_with(".rs")).collect();
    let mut for_tests: Vec<Vec<String>> = Vec::new();
    for (name, path) in &files {
        let above: Vec<String> = module_of(name).into_iter().filter(|part| *part != "lib").map(str::to_owned).collect();
        for_tests.extend(source::test_modules(path).into_iter().map(|below| [above.as_slice(), &[below]].concat()));
    }
    let mut found = Vec::new();
    for (name, path) in files {
        let module = module_of(&name);
        let layer = match module[0] {
            "lib" => continue,
            "bin" => "main",
            layer => layer,
        };
        // Modules that exist for tests only may use anything.
        if for_tests.iter().any(|test| test.len() <= module.len() && test.iter().zip(&module).all(|(a, b)| a == b)) {
            continue;
        }
        if !LAYERS.iter().any(|(known, _)| *known == layer) {
            found.push(format!("src/{name}:1: no rule for module `{layer}`; add one to tests/it/layers.rs"));
            continue;
        }
        for used in source::uses(&path, &module) {
            if let Some(reason) =
                inside_rule(layer, &module, &used).or_else(|| outside_rule(layer, &used, &dependencies))
            {
                found.push(format!("src/{name}:{}: {reason}", used.line));
            }
        }
    }
    found
}

/// Where a file of `src/` stands: `["stages", "train"]` for `stages/train/mod.rs`.
fn module_of(name: &str) -> Vec<&str> {
    name.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect()
}

/// Why `used` breaks the layers of the crate.
fn inside_rule(layer: &str, module: &[&str], used: &Use) -> Option<String> {
    let (first, path) = used.path.split_first()?;
    let target = path.first()?;
    if first != "crate" && !(layer == "main" && first == "pairloom") || target == "self" {
        return None;
    }
    let (_, allowed) = LAYERS.iter().find(|(known, _)| *known == layer)?;
    if target == layer {
        // A stage is an island; only the registry knows them all.
        let other = path.get(1).map_or("", String::as_str);
        let island = layer == "stages" && !matches!(module.get(1), None | Some(&"registry"));
        let apart = island && other != module[1] && other != "testing";
        return apart.then(|| format!("stage `{}` must not use stage `{other}`", module[1]));
    }
    let used = path.join("::");
    let fits = |rule: &&str| *rule == "*" || used == *rule || used.starts_with(&format!("{rule}::"));
    (!allowed.iter().any(fits)).then(|| format!("`{layer}` must not use `{used}`"))
}

/// Why `used` breaks the rules about other crates.
fn outside_rule(layer: &str, used: &Use, dependencies: &[String]) -> Option<String> {
    if matches!(layer, "cli" | "main") {
        return None;
    }
    let path = used.path.join("::");
    for (what, modules, reason) in OUTSIDE {
        if (path == *what || path.starts_with(&format!("{what}::"))) && !modules.contains(&layer) {
            return Some(format!("`{layer}` must not use `{path}`: {reason}"));
        }
    }
    let (_, allowed) = INNERMOST.iter().find(|(known, _)| *known == layer)?;
    let name = used.path.first()?;
    (dependencies.contains(name) && !allowed.contains(&name.as_str()))
        .then(|| format!("`{layer}` must not use the crate `{name}`"))
}

#[test]
fn every_module_uses_only_what_it_may() {
    let found = violations(&source::root());
    assert!(found.is_empty(), "layers are broken (rules: tests/it/layers.rs):\n{}", found.join("\n"));
}

/// A tree that breaks every kind of rule once, and keeps them in as many ways.
#[test]
fn broken_layers_are_named_with_file_and_line() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
        fs::write(path, text).expect("it can be written");
    };
    write("Cargo.toml", "[dependencies]\narrow = \"1\"\ntch = \"1\"\nproc-macro = \"1\"\n");
    write("src/lib.rs", "pub mod kernels;");
    write(
        "src/kernels/csls.rs",
        "use std::mem;\nuse crate::{\n  kernels::top_k,\n  stages::train,\n};\nuse arrow::array;",
    );
    write("src/stages/registry.rs", "use super::train::Train;\nuse super::embed::Embed;");
    write("src/stages/train/mod.rs", "use super::super::stage::Cx;\nuse super::embed::Embed;\nuse crate::model;");
    write("src/stages/train/fit.rs", "use super::settings::Train;\nfn f() { tch::no_grad(|| ()); }");
    write("src/stages/embed.rs", "use std::time::{Duration, Instant};\n#[cfg(test)]\nmod tests { use crate::engine; }");
    write("src/engine/run.rs", "// crate::stages\nuse crate::stages;\nuse std::fs;\nuse std::time::Instant;");
    write(
        "src/pipeline/build.rs",
        "use crate::engine::{plan::Plan, run};\nuse crate::stages::AnyStage;\nuse crate::stages::train::Train;",
    );
    write("src/sql/mod.rs", "use crate::engine::store::Store;\nuse datafusion::prelude::*;");
    write("src/cli/mod.rs", "use crate::{engine, sql};\nuse std::{env, fs};");
    write("src/model/mod.rs", "use tch::Tensor;\nuse crate::kernels::sample;");
    write("src/helpers.rs", "");
    write("src/tables/mod.rs", "#[cfg(test)]\npub(crate) mod samples;");
    write("src/tables/samples/more.rs", "use crate::engine;");

    assert_eq!(
        violations(root.path()),
        [
            "src/engine/run.rs:2: `engine` must not use `stages`",
            "src/helpers.rs:1: no rule for module `helpers`; add one to tests/it/layers.rs",
            "src/kernels/csls.rs:4: `kernels` must not use `stages::train`",
            "src/kernels/csls.rs:6: `kernels` must not use the crate `arrow`",
            "src/pipeline/build.rs:1: `pipeline` must not use `engine::run`",
            "src/pipeline/build.rs:3: `pipeline` must not use `stages::train::Train`",
            "src/stages/embed.rs:1: `stages` must not use `std::time::Instant`: results must not depend on the clock",
            "src/stages/train/fit.rs:2: `stages` must not use `tch::no_grad`: tensors stay in `model`",
            "src/stages/train/mod.rs:2: stage `train` must not use stage `embed`",
        ]
    );
}
