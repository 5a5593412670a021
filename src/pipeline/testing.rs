//! Helpers of the tests of pipeline files.

use super::{Diagnostics, LoadOptions, Pipeline, load};
use pairloom_base::error::Error;
use pairloom_registry::AnyStage;
use pairloom_stage::plan::PlanNode;

/// Loads a file beside `there.txt` and `there.csv`. The variable `HERE` is its folder.
pub(super) fn load_bytes(
    bytes: &[u8],
    overrides: &[&str],
    sources_needed: bool,
) -> Result<Pipeline<AnyStage>, Diagnostics> {
    load_with(bytes, overrides, (None, &[]), sources_needed)
}

/// Loads a file with a profile and `--only`.
pub(super) fn load_with(
    bytes: &[u8],
    overrides: &[&str],
    (profile, only): (Option<&str>, &[&str]),
    sources_needed: bool,
) -> Result<Pipeline<AnyStage>, Diagnostics> {
    load_part(bytes, overrides, (profile, only, &[]), sources_needed)
}

/// Loads a file with parts of its matrix: profile, `--only`, `--except`.
pub(super) fn load_part(
    bytes: &[u8],
    overrides: &[&str],
    (profile, only, except): (Option<&str>, &[&str], &[&str]),
    sources_needed: bool,
) -> Result<Pipeline<AnyStage>, Diagnostics> {
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
    let (only, except) = (texts(only), texts(except));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(folder.path().join("there.txt"), "x").unwrap();
    std::fs::write(folder.path().join("there.csv"), "image_id,caption\n").unwrap();
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let environment = |name: &str| (name == "HERE").then(|| folder.path().display().to_string());
    load(
        &path,
        &LoadOptions {
            overrides: &overrides,
            profile,
            only: &only,
            except: &except,
            environment: &environment,
            sources_must_exist: sources_needed,
            check_queries: &rehearse,
        },
    )
}

/// Fake check of queries: those that contain `nothing` are wrong. The real check uses the module `sql`.
pub(super) fn rehearse(_: &[PlanNode<AnyStage>], queries: &[&str]) -> Vec<(usize, Error)> {
    let wrong = queries.iter().enumerate().filter(|(_, query)| query.contains("nothing"));
    wrong.map(|(i, _)| (i, Error::usage("no such table").hint("name one"))).collect()
}
