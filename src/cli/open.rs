//! Opening what the command line names: pipeline files and stores.

use std::path::Path;

use super::args::Common;
use super::expect;
use super::output::{Output, tell};
use crate::engine::cache::CachePlace;
use crate::engine::ranks::RankOptions;
use crate::engine::run::Options;
use crate::error::{Error, Result};
use crate::io::objects::Location;
use crate::pipeline::{self, Faults, Pipeline};
use crate::stages::AnyStage;
use crate::store::Store;

/// The pipeline, or all that is wrong with the file.
pub(super) fn pipeline(file: &Path, set: &[String], sources_needed: bool) -> Result<Pipeline<AnyStage>, Faults> {
    let environment = |name: &str| std::env::var(name).ok();
    pipeline::load(
        file,
        &pipeline::Options { overrides: set, environment: &environment, sources_needed, rehearse: &expect::rehearse },
    )
}

/// Shows what is wrong with a pipeline file; the error that remains is for the exit code only.
pub(super) fn show(faults: &Faults, output: Output) -> Error {
    tell(&faults.render(output.colour));
    if output.json {
        for fault in faults.to_json() {
            // There is nobody left to tell that stdout is gone.
            let _ = output.object(&fault);
        }
    }
    Error::usage("")
}

/// What is in every store, and so tells one from another folder: the layout that this version reads.
const LAYOUT: &str = "v1";

/// Beginnings of variables that say how to reach a store at a URL.
const SERVICES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// The store, which in a folder is made if it is not there.
pub(super) fn store(common: &Common) -> Result<Store> {
    at(&location(common)?)
}

/// What `--store` names. The parser of the command line would show a wrong URL with the password that is in it.
fn location(common: &Common) -> Result<Location> {
    Location::parse(common.store.clone()).map_err(|error| error.context("`--store`"))
}

fn at(location: &Location) -> Result<Store> {
    let settings: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| SERVICES.iter().any(|service| name.starts_with(service)))
        .collect();
    let locks = dirs::cache_dir().map(|folder| folder.join("pairloom/claims"));
    Store::at(location, &settings, locks.as_deref())
}

/// The store, which must be there for commands that only read it.
pub(super) fn existing_store(common: &Common) -> Result<Store> {
    let location = location(common)?;
    let missing = || {
        let error = Error::data(format!("there is no store at `{location}`"));
        error.hint("run a pipeline first, or name the folder or URL with `--store`")
    };
    if let Location::Folder(folder) = &location {
        return if folder.join(LAYOUT).is_dir() { at(&location) } else { Err(missing()) };
    }
    let store = at(&location)?;
    // Every store has a record of the run that made it.
    if store.objects().list("runs")?.is_empty() {
        return Err(missing());
    }
    Ok(store)
}

/// How to run.
pub(super) fn options(common: &Common, file: &Path, ranks: RankOptions) -> Options {
    Options {
        pipeline: file.display().to_string(),
        threads: threads(common),
        memory: common.memory,
        device: common.device,
        cache: CachePlace {
            folder: common.cache.clone().or_else(|| Some(dirs::cache_dir()?.join("pairloom").join("shards"))),
            limit: common.cache_size,
        },
        ranks,
    }
}

/// Threads that a stage may keep busy.
pub(super) fn threads(common: &Common) -> usize {
    common.threads.map_or(processors(), usize::from).min(most_threads())
}

/// Says so when [`threads`] are fewer than were asked for.
pub(super) fn note_threads(common: &Common, output: Output) {
    if let Some(wanted) = common.threads
        && usize::from(wanted) > most_threads()
    {
        output.note(&format!("`--threads {wanted}` is more than helps here: taking {}\n", most_threads()));
    }
}

/// Threads beyond this only take time to start.
fn most_threads() -> usize {
    processors().saturating_mul(4)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// A place as short as it can be said: relative to the current folder if it lies below.
pub(super) fn short(place: String) -> String {
    let here = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let below = here.ok().and_then(|here| Some(Path::new(&place).strip_prefix(here).ok()?.display().to_string()));
    below.unwrap_or(place)
}
