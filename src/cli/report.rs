//! `pairloom report [STAGE] [--output DIR]`: the report of the latest finished run.

use super::args::{CommonArgs, ReportArgs};
use super::console::Console;
use super::open;
use crate::error::{Error, Result};
use crate::store::Artefact;
use crate::store::record::{RunOutcome, StageRecord, records};

/// Prints the Markdown report of the latest finished run, or copies all files of the report.
///
/// # Errors
/// There is no such report, or the output cannot be written.
pub(super) fn report(common: &CommonArgs, arguments: &ReportArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let wanted = |stage: &&StageRecord| match &arguments.stage {
        Some(name) => stage.name == *name,
        None => stage.kind == "report",
    };
    let mut finished = records(&store)?.filter(|run| run.outcome == RunOutcome::Finished);
    let stage = finished.find_map(|run| run.stages.iter().rfind(wanted).cloned()).ok_or_else(|| {
        let what =
            arguments.stage.as_ref().map_or("a stage of kind `report`".to_owned(), |name| format!("a stage `{name}`"));
        Error::data(format!("no finished run has {what}")).hint("`pairloom runs` lists the runs")
    })?;
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

fn read_file(artefact: &Artefact, file: &str) -> Result<bytes::Bytes> {
    artefact.get(file)?.ok_or_else(|| {
        Error::data(format!("`{}` is missing from the store", artefact.display_path(file)))
            .hint("run the pipeline again to rebuild it")
    })
}
