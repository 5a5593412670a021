//! `pairloom report [STAGE] [--output DIR]`: the report of the latest finished run, with a section about the run.

use std::path::Path;

use super::args::{CommonArgs, ReportArgs};
use super::console::{Console, one_line};
use super::open;
use super::run_choice::{announce_run, is_named, require_run};
use super::units::{format_count, format_duration};
use pairloom_base::error::{Error, Result};
use pairloom_report::{RunFacts, StageFacts, add_run_to_html, add_run_to_markdown};
use pairloom_store::record::{RunLog, RunOutcome, RunRecord, StageRecord};
use pairloom_store::{FileEntry, Manifest, Store};

/// Texts that every page of a report has: the footer of an HTML page, the section about the run of a Markdown page, the
/// first line of tables in LaTeX.
const PAGE_MARKS: [&str; 3] = ["<footer>Made by Pairloom ", "\n## Run\n\n**run** (", "% Made by Pairloom "];

/// Prints the Markdown report of the latest finished run, or copies all files of the report. Both get a section about
/// the run.
///
/// # Errors
/// There is no such report, or the output cannot be written.
pub(super) fn report(common: &CommonArgs, arguments: &ReportArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let (run, stage) = find_report(&log, arguments)?;
    let artefact = store.artefact(&stage.kind, &stage.key);
    let manifest = artefact.manifest()?;
    let facts = run_facts(&store, run, manifest.as_ref().map(|manifest| manifest.pairloom.as_str()))?;
    let manifest_exists = manifest.is_some();
    let files: Vec<(String, FileEntry)> = manifest
        .into_iter()
        .flat_map(|manifest| manifest.files)
        .flat_map(|(output, files)| files.into_iter().map(move |file| (format!("{output}/{}", file.name), file)))
        .collect();
    if files.is_empty() {
        return Err(no_files(run, stage, manifest_exists));
    }
    announce_run(run, &arguments.of, console);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        let target = |file: &str| folder.join(file.rsplit('/').next().unwrap_or(file));
        if !arguments.force && stage.kind == "report" {
            files.iter().try_for_each(|(name, _)| check_target(&target(name)))?;
        }
        // All are read first: nothing is copied of a damaged report.
        let read = |(name, file): &(String, FileEntry)| artefact.read(name, file.bytes, &file.digest);
        let contents = files.iter().map(read).collect::<Result<Vec<_>>>()?;
        for ((name, _), content) in files.iter().zip(contents) {
            let target = target(name);
            let content = with_run(name, &content, stage, &facts);
            std::fs::write(&target, content).map_err(|error| Error::io("write", &target, &error))?;
            console.info(&format!("{}\n", target.display()));
        }
        return Ok(());
    }
    let (page, file) = files.iter().find(|(name, _)| name.ends_with(".md")).ok_or_else(|| {
        Error::data(format!("stage `{}` wrote no Markdown file", stage.name)).hint("copy its files with `--output DIR`")
    })?;
    let content = with_run(page, &artefact.read(page, file.bytes, &file.digest)?, stage, &facts);
    console.print(&String::from_utf8_lossy(&content))
}

/// Checks that a page may be written: nothing is there, or a page of an earlier report.
///
/// # Errors
/// There is a file that no `report` wrote, or it cannot be read.
fn check_target(target: &Path) -> Result<()> {
    let content = match std::fs::read(target) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", target, &error)),
    };
    let text = String::from_utf8_lossy(&content);
    if PAGE_MARKS.iter().any(|mark| text.contains(mark)) {
        return Ok(());
    }
    Err(Error::usage(format!("the output `{}` exists and is no report", target.display()))
        .hint("`--force` replaces it; `--output` can name another folder"))
}

/// Error for a stage whose result has no files.
fn no_files(run: &RunRecord, stage: &StageRecord, manifest_exists: bool) -> Error {
    let (stage, of) = (&stage.name, &run.run);
    if manifest_exists {
        return Error::data(format!("stage `{stage}` of the run `{of}` writes no files"))
            .hint("name a stage of kind `report`");
    }
    let command = run.command_line();
    if run.outcome == RunOutcome::Finished {
        Error::data(format!("the report of stage `{stage}` of the run `{of}` was removed"))
            .hint(format!("make it again: `{command}`"))
    } else {
        let outcome = run.outcome.name();
        Error::data(format!("stage `{stage}` did not finish in the run `{of}`, which is {outcome}"))
            .hint(format!("go on with `{command}`"))
    }
}

/// Facts of a run that the page shows. `pairloom` is the version of the program that wrote the page.
///
/// # Errors
/// A manifest cannot be read.
fn run_facts(store: &Store, run: &RunRecord, pairloom: Option<&str>) -> Result<RunFacts> {
    let mut facts = vec![
        ("pipeline", run.pipeline.clone()),
        ("command", run.command_line()),
        ("started", run.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
    ];
    facts.extend(run.seconds().map(|seconds| ("duration", format_duration(seconds))));
    facts.push(("outcome", run.outcome.name().to_owned()));
    facts.extend(run.command.seed.map(|seed| ("seed", seed.to_string())));
    facts.extend((!run.command.device.is_empty()).then(|| ("device", run.command.device.clone())));
    facts.extend(pairloom.map(|version| ("Pairloom", version.to_owned())));
    let held = run.expectations.iter().filter(|expectation| expectation.held).count();
    if !run.expectations.is_empty() {
        facts.push(("expectations", format!("{held} of {} held", run.expectations.len())));
    }
    let facts = facts.into_iter().map(|(name, value)| (name, one_line(&value))).collect();
    let stages = run.stages.iter().map(|stage| {
        let manifest = store.artefact(&stage.kind, &stage.key).manifest()?;
        let stages_of_manifest =
            |count: fn(&Manifest) -> u64| manifest.as_ref().map(count).map(format_count).unwrap_or_default();
        Ok(StageFacts {
            name: stage.name.clone(),
            kind: stage.kind.clone(),
            key: stage.key.short().to_owned(),
            rows: stages_of_manifest(Manifest::rows),
            warnings: stages_of_manifest(|manifest| manifest.warnings.len() as u64),
            seconds: stage.seconds.map_or("reused".to_owned(), |seconds| format!("{seconds:.1}")),
        })
    });
    Ok(RunFacts { run: run.run.clone(), facts, stages: stages.collect::<Result<_>>()? })
}

/// Content of a file of a stage, with the section about the run if it is a page of a report.
fn with_run(file: &str, content: &[u8], stage: &StageRecord, facts: &RunFacts) -> Vec<u8> {
    let text = std::str::from_utf8(content).ok().filter(|_| stage.kind == "report");
    match text {
        Some(page) if file.ends_with(".html") => add_run_to_html(page, facts).into_bytes(),
        Some(page) if file.ends_with(".md") => add_run_to_markdown(page, facts).into_bytes(),
        _ => content.to_vec(),
    }
}

/// Stage that wrote the report, with its run: of the chosen run, otherwise of the last finished run that has a report.
fn find_report<'l>(log: &'l RunLog, arguments: &ReportArgs) -> Result<(&'l RunRecord, &'l StageRecord)> {
    let expected = |stage: &&StageRecord| match &arguments.stage {
        Some(name) => stage.name == *name,
        None => stage.kind == "report",
    };
    let stage_of_run = |run: &'l RunRecord| Some((run, run.stages.iter().rfind(expected)?));
    let (found, of) = if is_named(&arguments.of) {
        let run = require_run(log, &arguments.of)?;
        (stage_of_run(run), format!("the run `{}` of `{}` has not", run.run, run.pipeline))
    } else {
        require_run(log, &arguments.of)?;
        let mut finished = log.readable().filter(|run| run.outcome == RunOutcome::Finished);
        (finished.find_map(stage_of_run), "no finished run has".to_owned())
    };
    found.ok_or_else(|| {
        let what =
            arguments.stage.as_ref().map_or("a stage of kind `report`".to_owned(), |name| format!("a stage `{name}`"));
        Error::data(format!("{of} {what}")).hint("`pairloom runs` lists the runs")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_base::error::ErrorCategory;
    use pairloom_store::testing::{finished_run, stage};

    #[test]
    fn only_pages_of_reports_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let facts = RunFacts { run: "20260101T000000.000Z-0001".to_owned(), facts: vec![], stages: vec![] };
        let page = folder.path().join("report.md");
        check_target(&page).unwrap();
        std::fs::write(&page, add_run_to_markdown("# Results\n", &facts)).unwrap();
        check_target(&page).unwrap();
        std::fs::write(&page, "# My notes\n\n## Run\n\nIn the morning.\n").unwrap();
        let error = check_target(&page).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Usage, "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.starts_with("`--force` replaces it")), "{error}");
    }

    #[test]
    fn a_missing_report_was_removed_or_never_finished() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let stages = [stage("page", "report", json!({}), &[])];
        let mut run = finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &stages);
        let removed = no_files(&run, &run.stages[0], false);
        let expected = "the report of stage `page` of the run `20260101T000000.000Z-0001` was removed";
        assert_eq!(
            (removed.to_string().as_str(), removed.hint_text()),
            (expected, Some("make it again: `pairloom run p.toml`"))
        );
        run.outcome = RunOutcome::Failed;
        let unfinished = no_files(&run, &run.stages[0], false);
        assert!(unfinished.to_string().contains("did not finish"), "{unfinished}");
        assert_eq!(unfinished.hint_text(), Some("go on with `pairloom run p.toml`"));
        assert!(no_files(&run, &run.stages[0], true).to_string().contains("writes no files"));
    }
}
