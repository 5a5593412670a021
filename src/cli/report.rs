//! `pairloom report [STAGE] [--output DIR]`.

use super::args::{Common, Report};
use super::open;
use super::output::Output;
use crate::error::{Error, Result};
use crate::store::Artefact;
use crate::store::record::{Outcome, StageRecord, records};

/// Prints the Markdown page of the latest finished run, or copies all files of the page.
///
/// # Errors
/// There is no such page, or the output cannot be written.
pub(super) fn report(common: &Common, arguments: &Report, output: Output) -> Result<()> {
    let store = open::existing_store(common)?;
    let wanted = |stage: &&StageRecord| match &arguments.stage {
        Some(name) => stage.name == *name,
        None => stage.kind == "report",
    };
    let mut finished = records(&store)?.filter(|run| run.outcome == Outcome::Finished);
    let stage = finished.find_map(|run| run.stages.iter().rfind(wanted).cloned()).ok_or_else(|| {
        let what = arguments.stage.as_ref().map_or("a `report`".to_owned(), |name| format!("a stage `{name}`"));
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
        return Err(Error::data(format!("stage `{}` wrote no page", stage.name)));
    }
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        for file in &files {
            let target = folder.join(file.rsplit('/').next().unwrap_or(file));
            let content = content(&artefact, file)?;
            std::fs::write(&target, content).map_err(|error| Error::io("write", &target, &error))?;
            output.note(&format!("{}\n", target.display()));
        }
        return Ok(());
    }
    let page = files.iter().find(|file| file.ends_with(".md")).ok_or_else(|| {
        Error::data(format!("stage `{}` wrote no Markdown", stage.name)).hint("copy its files with `--output DIR`")
    })?;
    output.data(&String::from_utf8_lossy(&content(&artefact, page)?))
}

fn content(artefact: &Artefact, file: &str) -> Result<bytes::Bytes> {
    artefact.get(file)?.ok_or_else(|| {
        Error::data(format!("the store lacks `{}`", artefact.place(file)))
            .hint("run the pipeline again: what is missing is built anew")
    })
}
