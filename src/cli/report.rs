//! `pairloom report [STAGE] [--output DIR]`: the report of the latest finished run.

use super::args::{CommonArgs, ReportArgs};
use super::console::Console;
use super::open;
use super::run_choice::require_run;
use crate::error::{Error, Result};
use crate::store::Artefact;
use crate::store::record::{RunOutcome, RunRecord, StageRecord};
use crate::store::run_log::RunLog;

/// Prints the Markdown report of the latest finished run, or copies all files of the report.
///
/// # Errors
/// There is no such report, or the output cannot be written.
pub(super) fn report(common: &CommonArgs, arguments: &ReportArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = RunLog::open(&store)?;
    let (_, stage) = find_report(&log, arguments)?;
    let artefact = store.artefact(&stage.kind, &stage.key);
    let files: Vec<String> = artefact
        .manifest()?
        .into_iter()
        .flat_map(|manifest| manifest.files)
        .flat_map(|(output, files)| files.into_iter().map(move |file| format!("{output}/{}", file.name)))
        .collect();
    if files.is_empty() {
        return Err(Error::data(format!("stage `{}` wrote no report", stage.name)));
    }
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        for file in &files {
            let target = folder.join(file.rsplit('/').next().unwrap_or(file));
            let content = read_file(&artefact, file)?;
            std::fs::write(&target, content).map_err(|error| Error::io("write", &target, &error))?;
            console.info(&format!("{}\n", target.display()));
        }
        return Ok(());
    }
    let page = files.iter().find(|file| file.ends_with(".md")).ok_or_else(|| {
        Error::data(format!("stage `{}` wrote no Markdown file", stage.name)).hint("copy its files with `--output DIR`")
    })?;
    console.print(&String::from_utf8_lossy(&read_file(&artefact, page)?))
}

/// Stage that wrote the report, with its run: of the chosen run, otherwise of the last finished run that has a report.
fn find_report<'l>(log: &'l RunLog, arguments: &ReportArgs) -> Result<(&'l RunRecord, &'l StageRecord)> {
    let wanted = |stage: &&StageRecord| match &arguments.stage {
        Some(name) => stage.name == *name,
        None => stage.kind == "report",
    };
    let of_run = |run: &'l RunRecord| Some((run, run.stages.iter().rfind(wanted)?));
    let is_chosen = arguments.of.run.is_some() || arguments.of.pipeline.is_some();
    let (found, of) = if is_chosen {
        let run = require_run(log, &arguments.of)?;
        (of_run(run), format!("the run `{}` of `{}` has not", run.run, run.pipeline))
    } else {
        let mut finished = log.readable().filter(|run| run.outcome == RunOutcome::Finished);
        (finished.find_map(of_run), "no finished run has".to_owned())
    };
    found.ok_or_else(|| {
        let what =
            arguments.stage.as_ref().map_or("a stage of kind `report`".to_owned(), |name| format!("a stage `{name}`"));
        Error::data(format!("{of} {what}")).hint("`pairloom runs` lists the runs")
    })
}

fn read_file(artefact: &Artefact, file: &str) -> Result<bytes::Bytes> {
    artefact.get(file)?.ok_or_else(|| {
        Error::data(format!("`{}` is missing from the store", artefact.display_path(file)))
            .hint("run the pipeline again to rebuild it")
    })
}
