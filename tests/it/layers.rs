//! Test of the allowed dependencies between modules: the layers of `ARCHITECTURE.md`, as tables.

use std::fs;
use std::path::Path;

use crate::source::{self, Use};

/// Modules of the crate that each module of `src/` may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("suggest", &[]),
    ("runtime", &["error"]),
    ("kernels", &[]),
    ("language", &["kernels", "error"]),
    ("tables", &["error"]),
    ("io", &["tables", "error"]),
    ("loader", &["kernels", "io", "tables", "runtime", "error"]),
    ("search", &["kernels", "runtime", "error"]),
    ("retrieval", &["kernels", "search", "tables", "error"]),
    ("stage", &["io", "tables", "runtime", "error"]),
    // `model` until the settings of models are in `spec` themselves.
    ("spec", &["stage", "tables", "kernels", "search", "retrieval", "runtime", "error", "suggest", "model"]),
    ("model", &["kernels", "tables", "loader", "search", "runtime", "error"]),
    ("stages", &["stage", "tables", "kernels", "language", "io", "runtime", "error", "suggest"]),
    ("report", &["stage", "tables", "kernels", "retrieval", "io", "error", "suggest"]),
    ("registry", &["spec", "stages", "report", "stage", "retrieval", "error", "model"]),
    (
        "neural",
        &[
            "registry",
            "spec",
            "stage",
            "tables",
            "kernels",
            "language",
            "model",
            "search",
            "retrieval",
            "io",
            "loader",
            "runtime",
            "error",
            "suggest",
        ],
    ),
    ("store", &["stage", "io", "runtime", "error"]),
    ("plan", &["stage", "suggest"]),
    ("engine", &["stage", "store", "plan", "tables", "io", "runtime", "error"]),
    ("pipeline", &["stage", "plan", "suggest", "error"]),
    ("sql", &["store", "search", "retrieval", "tables", "kernels", "io", "error", "stage", "suggest"]),
    ("cluster", &["sql", "search", "store", "tables", "runtime", "error"]),
    ("flight", &["sql", "store", "runtime", "error"]),
    ("cli", &["*"]),
    ("fuzzing", &["*"]),
    ("main", &["*"]),
];

/// Crates and parts of the standard library that only some modules may use, with the reason. `cli` and `main` may use
/// all.
const OUTSIDE: &[(&str, &[&str], &str)] = &[
    ("tch", &["model"], "tensors stay in `model`"),
    ("datafusion", &["sql", "cluster"], "the planner stays in `sql`"),
    ("datafusion_functions_json", &["sql"], "the planner stays in `sql`"),
    ("comfy_table", &["sql"], "results are formatted in `sql`"),
    ("rustyline", &[], "the shell stays in `cli`"),
    ("object_store", &["io", "sql", "cluster"], "artefacts are accessed through `io`"),
    ("tokio", &["io", "sql", "flight", "cluster"], "stages and engine are synchronous"),
    (
        "std::fs",
        &["io", "store", "engine", "pipeline", "cluster"],
        "files are accessed through `io`; `pipeline` reads pipeline files",
    ),
    ("std::env", &[], "settings come from the pipeline file or the command line"),
    ("std::process", &["store", "engine"], "a stage has side effects through its `StageContext` only"),
    (
        "std::net",
        &["io", "model", "flight", "cluster"],
        "only stores, images at URLs, the rendezvous of ranks and servers use it",
    ),
    ("reqwest", &["io"], "requests have their limits there"),
    ("tar", &["io", "cli"], "archives are read through `io`"),
    ("zip", &["io"], "archives are read through `io`"),
    // `model` measures which library is faster, and keeps the choice in the checkpoint.
    ("std::time::Instant", &["store", "engine", "loader", "flight", "model"], "results must not depend on the clock"),
    ("std::time::SystemTime", &["engine"], "results must not depend on the clock"),
    ("jiff", &["store", "engine", "sql"], "results must not depend on the clock"),
    (
        "std::thread::Builder",
        &["store", "engine", "io", "loader", "model"],
        "only these modules may start threads that outlive a call",
    ),
    (
        "std::thread::scope",
        &["engine", "io", "model", "search", "sql", "cluster", "stages"],
        "parallelism is up to the caller",
    ),
    ("crossbeam", &["engine", "io", "loader"], "threads belong to the engine; a stage uses `StageContext::map`"),
    ("std::hash::RandomState", &[], "randomness is `kernels::random` with a seed"),
    ("pairloom_kernels", &[], "it is `crate::kernels` here"),
    ("rand", &[], "randomness is `kernels::random` with a seed"),
    ("arrow_flight", &["flight"], "the protocol stays in `flight`"),
    ("ballista_core", &["cluster"], "the cluster stays in `cluster`"),
    ("ballista_scheduler", &["cluster"], "the cluster stays in `cluster`"),
    ("ballista_executor", &["cluster"], "the cluster stays in `cluster`"),
    ("datafusion_proto", &["cluster", "sql"], "messages of plans stay with these"),
    ("tonic", &["flight", "cluster"], "the protocol stays in `flight`"),
    ("prost", &["flight", "sql"], "messages stay with what they describe"),
    ("clap", &[], "the command line stays in `cli`"),
    ("indicatif", &[], "progress is drawn in `cli`"),
    ("ctrlc", &[], "signals are caught in `cli`"),
];

/// Crates that the innermost modules may use, besides the standard library.
const INNERMOST: &[(&str, &[&str])] = &[
    ("kernels", &["az", "schemars", "serde"]),
    ("tables", &["arrow", "az"]),
    ("error", &["arrow", "parquet"]),
    ("stage", &["arrow", "blake3", "bytes", "schemars", "serde", "serde_json"]),
];

/// Names of the crates in `[dependencies]` of a manifest, as in code.
fn dependencies(manifest: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(manifest).expect("the manifest is readable");
    let manifest: toml::Table = manifest.parse().expect("the manifest is TOML");
    manifest["dependencies"].as_table().expect("a table").keys().map(|name| name.replace('-', "_")).collect()
}

/// Finds all uses that break a rule, one line each.
fn violations(root: &Path) -> Vec<String> {
    let dependencies_of_all = dependencies(&root.join("Cargo.toml"));
    let files: Vec<_> =
        source::files(&root.join("src")).into_iter().filter(|(name, _)| name.ends_with(".rs")).collect();
    let mut for_tests: Vec<Vec<String>> = Vec::new();
    for (name, path) in &files {
        let above: Vec<String> = source::module_of(name).into_iter().map(str::to_owned).collect();
        for_tests.extend(source::test_modules(path).into_iter().map(|below| [above.as_slice(), &[below]].concat()));
    }
    let mut found = Vec::new();
    for (name, path) in files {
        let module = source::module_of(&name);
        let layer = match module.first() {
            None => continue,
            Some(&"bin") => "main",
            Some(&layer) => layer,
        };
        // Test modules may use anything.
        if for_tests.iter().any(|test| test.len() <= module.len() && test.iter().zip(&module).all(|(a, b)| a == b)) {
            continue;
        }
        if !LAYERS.iter().any(|(known, _)| *known == layer) {
            found.push(format!("src/{name}:1: no rule for module `{layer}`; add one to tests/it/layers.rs"));
            continue;
        }
        // A package of its own has its own dependencies, and its paths start at that package.
        let manifest = root.join("src").join(layer).join("Cargo.toml");
        let own = manifest.is_file().then(|| dependencies(&manifest));
        for mut used in source::uses(&path, &module) {
            if own.is_some() && used.path[0] == "crate" && used.path.get(1).is_none_or(|name| name != layer) {
                used.path.insert(1, layer.to_owned());
            }
            let dependencies = own.as_ref().unwrap_or(&dependencies_of_all);
            if let Some(reason) =
                layer_violation(layer, &module, &used).or_else(|| dependency_violation(layer, &used, dependencies))
            {
                found.push(format!("src/{name}:{}: {reason}", used.line));
            }
        }
    }
    found
}

/// Returns the reason if `used` breaks the layers of the crate.
fn layer_violation(layer: &str, module: &[&str], used: &Use) -> Option<String> {
    let (first, path) = used.path.split_first()?;
    let target = path.first()?;
    if first != "crate" && !(layer == "main" && first == "pairloom") || target == "self" {
        return None;
    }
    let (_, allowed) = LAYERS.iter().find(|(known, _)| *known == layer)?;
    if target == layer {
        // A stage must not use another stage; only what runs a stage of any kind names several. What several stages have is
        // in a module of its own.
        let other = path.get(1).map_or("", String::as_str);
        let isolated = matches!(layer, "stages" | "neural") && !matches!(module.get(1), None | Some(&"run_stage"));
        let forbidden = isolated
            && other != module[1]
            && !matches!(other, "testing" | "imported_vectors" | "image_input" | "tokenized_captions");
        return forbidden.then(|| format!("stage `{}` must not use stage `{other}`", module[1]));
    }
    let fits = allowed.iter().any(|rule| *rule == "*" || rule == target);
    (!fits).then(|| format!("`{layer}` must not use `{}`", path.join("::")))
}

/// Returns the reason if `used` breaks the rules on other crates.
fn dependency_violation(layer: &str, used: &Use, dependencies: &[String]) -> Option<String> {
    if matches!(layer, "cli" | "fuzzing" | "main") {
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
fn modules_use_only_allowed_dependencies() {
    let found = violations(test_data::root());
    assert!(found.is_empty(), "layers are broken (rules: tests/it/layers.rs):\n{}", found.join("\n"));
}

/// The sources break every kind of rule once, and also follow each.
#[test]
fn violations_are_reported_with_file_and_line() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| source::write(root.path(), name, text);
    write("Cargo.toml", "[dependencies]\narrow = \"1\"\ntch = \"1\"\nproc-macro = \"1\"\n");
    write("src/lib.rs", "pub use pairloom_kernels as kernels;\npub mod language;");
    write("src/kernels/Cargo.toml", "[dependencies]\narrow = \"1\"");
    write("src/kernels/lib.rs", "pub mod csls;");
    write("src/kernels/csls.rs", "use std::mem;\nuse crate::top_k;\nuse super::dot;\nuse arrow::array;\nuse std::fs;");
    write(
        "src/language/mod.rs",
        "use std::mem;\nuse crate::{\n  kernels::top_k,\n  stages::train,\n};\nuse pairloom_kernels::dot;",
    );
    write("src/registry/mod.rs", "use crate::stages::train::Train;\nuse crate::stages::embed::Embed;");
    write(
        "src/stages/train/mod.rs",
        "use super::super::stage::StageContext;\nuse super::embed::Embed;\nuse crate::retrieval;",
    );
    write("src/stages/train/fit.rs", "use super::settings::Train;\nfn f() { tch::no_grad(|| ()); }");
    write("src/stages/embed.rs", "use std::time::{Duration, Instant};\n#[cfg(test)]\nmod tests { use crate::engine; }");
    write("src/engine/run.rs", "// crate::stages\nuse crate::stages;\nuse std::fs;\nuse std::time::Instant;");
    write("src/pipeline/build.rs", "use crate::plan::Plan;\nuse crate::engine::run;\nuse crate::stages::train::Train;");
    write("src/sql/mod.rs", "use crate::store::Store;\nuse datafusion::prelude::*;");
    write("src/cli/mod.rs", "use crate::{engine, sql};\nuse std::{env, fs};");
    write("src/model/mod.rs", "use tch::Tensor;\nuse crate::kernels::random;");
    write("src/helpers.rs", "");
    write("src/tables/mod.rs", "#[cfg(test)]\npub(crate) mod samples;");
    write("src/tables/samples/more.rs", "use crate::engine;");

    assert_eq!(
        violations(root.path()),
        [
            "src/engine/run.rs:2: `engine` must not use `stages`",
            "src/helpers.rs:1: no rule for module `helpers`; add one to tests/it/layers.rs",
            "src/kernels/csls.rs:4: `kernels` must not use the crate `arrow`",
            "src/kernels/csls.rs:5: `kernels` must not use `std::fs`: files are accessed through `io`; `pipeline` reads pipeline files",
            "src/language/mod.rs:4: `language` must not use `stages::train`",
            "src/language/mod.rs:6: `language` must not use `pairloom_kernels::dot`: it is `crate::kernels` here",
            "src/pipeline/build.rs:2: `pipeline` must not use `engine::run`",
            "src/pipeline/build.rs:3: `pipeline` must not use `stages::train::Train`",
            "src/stages/embed.rs:1: `stages` must not use `std::time::Instant`: results must not depend on the clock",
            "src/stages/train/fit.rs:2: `stages` must not use `tch::no_grad`: tensors stay in `model`",
            "src/stages/train/mod.rs:2: stage `train` must not use stage `embed`",
        ]
    );
}
