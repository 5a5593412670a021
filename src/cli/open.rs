//! Pipeline files, stores, tables of stages and run options from the arguments of the command line.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use arrow::array::RecordBatch;

use super::args::{CommonArgs, DEFAULT_STORE, PipelineArgs};
use super::console::{Console, write_stderr};
use super::expectations::QueryCheck;
use super::start::Program;
use pairloom_base::error::{Error, Result};
use pairloom_engine::inputs::CacheOptions;
use pairloom_engine::ranks::RankOptions;
use pairloom_engine::run::RunOptions;
use pairloom_pipeline::{self as pipeline, Diagnostics, Pipeline};
use pairloom_registry::AnyStage;
use pairloom_storage::objects::Location;
use pairloom_storage::parquet;
use pairloom_store::record::{RunCommand, RunLog, StageRecord};
use pairloom_store::{Artefact, Store};

/// Loads a pipeline file, or returns all of its mistakes. Beside the pipeline is the error because of which the queries of its
/// expectations were not checked, if the program that checks them is not there.
pub(super) fn load_pipeline(
    arguments: &PipelineArgs,
    sources_needed: bool,
    program: &Program,
) -> Result<(Pipeline<AnyStage>, Option<Error>), Diagnostics> {
    let environment = |name: &str| std::env::var(name).ok();
    let queries = QueryCheck::new(program);
    let pipeline = pipeline::load(
        &arguments.file,
        &pipeline::LoadOptions {
            overrides: &arguments.set,
            profile: arguments.profile.as_deref(),
            only: &arguments.only,
            except: &arguments.except,
            environment: &environment,
            sources_must_exist: sources_needed,
            check_queries: &|stages, queries_of_file| queries.check(stages, queries_of_file),
        },
    )?;
    Ok((pipeline, queries.missing()))
}

/// Prints a note about queries that were not checked, if there are any.
pub(super) fn note_unchecked(error: Option<Error>, console: Console) {
    if let Some(error) = error {
        let hint = error.hint_text().map(|hint| format!("; {hint}")).unwrap_or_default();
        console.note(&format!("note: the queries of `[[expect]]` were not checked: {error}{hint}"));
    }
}

/// Prints the mistakes of a pipeline file. The returned error has no message: it carries the exit code only.
pub(super) fn print_diagnostics(diagnostics: &Diagnostics, console: Console) -> Error {
    write_stderr(&diagnostics.render(console.colour));
    if console.json {
        for diagnostic in diagnostics.to_json() {
            // A closed stdout is no further error: the mistakes are on stderr.
            let _ = console.print_json(&diagnostic);
        }
    }
    Error::usage("")
}

/// Prints the warnings about a pipeline file, if there are any.
///
/// # Errors
/// With `--json`: stdout cannot be written.
pub(super) fn print_warnings(warnings: &Diagnostics, console: Console) -> Result<()> {
    if warnings.as_slice().is_empty() {
        return Ok(());
    }
    console.info(&warnings.render(console.colour));
    if console.json {
        for warning in warnings.to_json() {
            console.print_json(&warning)?;
        }
    }
    Ok(())
}

/// Subfolder for the layout that this version reads. A folder that has it is a store.
const LAYOUT_FOLDER: &str = "v1";

/// Prefixes of the environment variables that configure access to a store or a source at a URL.
const SERVICE_PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// Opens the store of `--store`. A missing folder is created.
pub fn open_store(common: &CommonArgs) -> Result<Store> {
    open_named_store(&common.store)
}

/// Opens the store of this name. A missing folder is created.
pub fn open_named_store(name: &OsStr) -> Result<Store> {
    let location = location(name)?;
    if let Location::Folder(folder) = &location {
        refuse_file(folder)?;
    }
    open_at(&location)
}

/// Location that `--store` names. Parsed here, because clap would print an invalid URL with the password in it.
fn location(store: &OsStr) -> Result<Location> {
    if store.is_empty() {
        return Err(Error::usage("the store has an empty name").hint("unset `PAIRLOOM_STORE`, or name a folder or URL"));
    }
    Location::parse(store.to_owned()).map_err(|error| error.context("`--store`"))
}

/// Settings of clients of buckets.
fn client_settings() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| SERVICE_PREFIXES.iter().any(|service| name.starts_with(service)))
        .collect()
}

fn open_at(location: &Location) -> Result<Store> {
    let settings = client_settings();
    let locks = dirs::cache_dir().map(|folder| folder.join("pairloom/claims"));
    Store::at(location, &settings, locks.as_deref())
}

/// Opens the store of `--store`, which must exist: for commands that only read it.
pub fn open_existing_store(common: &CommonArgs) -> Result<Store> {
    let location = location(&common.store)?;
    let missing = || {
        let error = Error::data(format!("there is no store at `{location}`"));
        error.hint("run a pipeline first, or name the folder or URL with `--store`")
    };
    if let Location::Folder(folder) = &location {
        refuse_file(folder)?;
        return if is_store(folder)? { open_at(&location) } else { Err(missing()) };
    }
    let store = open_at(&location)?;
    // Every store has a record of the run that created it.
    if store.objects().list("runs")?.is_empty() {
        return Err(missing());
    }
    Ok(store)
}

/// Opens the log of the runs of a store. Each record that cannot be read is a warning on stderr, when it is first needed.
pub fn open_log(store: &Store, console: Console) -> Result<RunLog> {
    RunLog::open_observed(store, move |error| console.note(&format!("warning: {error}")))
}

/// Opens the store of `--store` for a dry run, which writes nothing. Without a store, returns an empty one, and the text of
/// a note.
pub(super) fn open_store_to_plan(common: &CommonArgs) -> Result<(Store, Option<String>)> {
    let location = location(&common.store)?;
    let note = || Some(format!("there is no store at `{location}` yet"));
    if let Location::Folder(folder) = &location {
        refuse_file(folder)?;
        if !is_store(folder)? {
            return Ok((Store::empty(folder).with_client_settings(&client_settings()), note()));
        }
    }
    let store = open_at(&location)?.read_only();
    let is_new = matches!(location, Location::Url(_)) && store.objects().list("runs")?.is_empty();
    Ok((store, if is_new { note() } else { None }))
}

/// True if a folder is a store.
///
/// # Errors
/// The file system does not say. There may be a store then, with all that a run would reuse.
fn is_store(folder: &Path) -> Result<bool> {
    let layout = folder.join(LAYOUT_FOLDER);
    match std::fs::metadata(&layout) {
        Ok(found) => Ok(found.is_dir()),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename) =>
        {
            Ok(false)
        }
        Err(error) => Err(Error::io("look at", &layout, &error)),
    }
}

/// Refuses a file in place of the folder of a store.
fn refuse_file(folder: &Path) -> Result<()> {
    if !folder.is_file() {
        return Ok(());
    }
    let shown = folder.display();
    let error = Error::usage(format!("`--store` is `{shown}`, which is a file; expected a folder or a URL"));
    Err(match folder.extension() {
        Some(end) if end == "toml" => error.hint(format!("a pipeline file is no option: `pairloom run {shown}`")),
        _ => error.hint("leave `--store` out for the folder `store`"),
    })
}

/// Options of a run.
pub(super) fn run_options(common: &CommonArgs, file: &Path, ranks: RankOptions) -> RunOptions {
    RunOptions {
        pipeline: pipeline_name(file),
        command: RunCommand {
            file: pipeline_path(file),
            folder: Path::new(".").canonicalize().ok().map(|folder| folder.display().to_string()),
            store: Some(common.store.display().to_string()).filter(|store| store != DEFAULT_STORE),
            device: common.device.to_string(),
            threads: threads(common),
            ..RunCommand::default()
        },
        threads: threads(common),
        jobs: 1,
        keep_going: false,
        trust_folder_times: false,
        memory: common.memory,
        device: common.device,
        cache: CacheOptions {
            folder: common.cache.clone().or_else(|| Some(dirs::cache_dir()?.join("pairloom").join("shards"))),
            limit: common.cache_size,
        },
        ranks,
        remote: None,
    }
}

/// Path of a pipeline file for records: as on the command line without `.` components, relative to the current folder
/// if it is below it.
pub(super) fn pipeline_name(file: &Path) -> String {
    let plain: PathBuf = file.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    relative_to_current(plain.display().to_string())
}

/// Canonical path of a pipeline file, which tells pipelines apart; `None` for a pipe.
pub(super) fn pipeline_path(file: &Path) -> Option<String> {
    file.canonicalize().ok().map(|path| path.display().to_string())
}

/// Threads of a stage.
pub fn threads(common: &CommonArgs) -> usize {
    common.threads.map_or(processors(), usize::from).min(max_threads())
}

/// Prints a note if [`threads`] is less than `--threads`.
pub(super) fn note_thread_limit(common: &CommonArgs, console: Console) {
    if let Some(requested) = common.threads
        && usize::from(requested) > max_threads()
    {
        console.info(&format!("`--threads {requested}` is more than four per CPU: using {}\n", max_threads()));
    }
}

/// Upper limit of `--threads`: more threads only take time to start.
fn max_threads() -> usize {
    processors().saturating_mul(4)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Path relative to the current folder if it is below it, otherwise unchanged.
pub(super) fn relative_to_current(place: String) -> String {
    let here = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let below = here.ok().and_then(|here| Some(Path::new(&place).strip_prefix(here).ok()?.display().to_string()));
    below.unwrap_or(place)
}

/// Batches of a table of a stage, one for each part; none if the result was removed.
///
/// # Errors
/// The store cannot be read, or a part is damaged.
pub(super) fn read_table(
    store: &Store,
    stage: &StageRecord,
    table: &str,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let artefact = store.artefact(&stage.kind, &stage.key);
    let parts = artefact.manifest()?.and_then(|mut manifest| manifest.tables.remove(table)).unwrap_or_default();
    let table = table.to_owned();
    Ok(parts.into_iter().map(move |part| {
        let content = artefact.read(&Artefact::part_name(&table, part.index), part.bytes, &part.digest)?;
        parquet::decode_whole(content)
    }))
}
