//! `pairloom tag`, `note` and `pin`: labels of runs and results.

use serde_json::json;

use super::args::{CommonArgs, NoteArgs, PinArgs, TagArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::run_choice::{ResultTarget, find_target};
use pairloom_base::error::{Error, Result, escape_control};
use pairloom_store::labels::{self, Labels, PinTarget};
use pairloom_store::record::RunLog;
use pairloom_store::run_names::NameMeaning;

/// Tags a run, removes a tag, or lists the tags.
///
/// # Errors
/// There is no such run or tag, another run has the tag, or the store cannot be written.
pub(super) fn tag(common: &CommonArgs, arguments: &TagArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    if let Some(tag) = &arguments.remove {
        labels::remove_tag(&store, tag)?;
        console.info(&format!("removed the tag `{tag}`\n"));
        return Ok(());
    }
    let (Some(name), Some(tag)) = (&arguments.run, &arguments.tag) else {
        let tags = Labels::read(&store)?.tags;
        let rows: Vec<[&str; 2]> = tags.iter().map(|(tag, run)| [tag.as_str(), run.as_str()]).collect();
        return print_pairs(&rows, ["tag", "run"], "there are no tags", console);
    };
    let log = open::open_log(&store, console)?;
    let run = log.find(name)?;
    check_new_tag(&log, tag)?;
    labels::set_tag(&store, &run.run, tag, arguments.force)?;
    console.note(&format!("tagged {} of {} as `{tag}`", run.run, run.pipeline));
    Ok(())
}

/// Checks that a new tag means nothing else in this store, so that it always names its run.
fn check_new_tag(log: &RunLog, tag: &str) -> Result<()> {
    labels::check_tag(tag)?;
    let meanings = log.meanings(tag)?;
    if meanings.iter().any(|of| matches!(of, NameMeaning::Tag(_))) {
        return Ok(());
    }
    let Some(meaning) = meanings.first() else { return Ok(()) };
    Err(Error::usage(format!("`{tag}` cannot be a tag: it is {meaning}")).hint("choose another tag"))
}

/// Sets, removes or prints the note of a run.
///
/// # Errors
/// There is no such run, the text is too long, or the store cannot be written.
pub(super) fn note(common: &CommonArgs, arguments: &NoteArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let run = log.find(&arguments.run)?;
    let Some(text) = &arguments.text else {
        let labels = Labels::read(&store)?;
        let note =
            labels.notes.get(&run.run).ok_or_else(|| Error::data(format!("the run `{}` has no note", run.run)))?;
        if console.json {
            return console.print_json(&json!({ "run": run.run, "note": note }));
        }
        return console.print(&format!("{}\n", note.lines().map(escape_control).collect::<Vec<_>>().join("\n")));
    };
    labels::set_note(&store, &run.run, text)?;
    let done = if text.is_empty() { "removed the note of" } else { "wrote the note of" };
    console.note(&format!("{done} {} of {}", run.run, run.pipeline));
    Ok(())
}

/// Pins a run or a result, removes a pin, or lists the pins.
///
/// # Errors
/// There is no such run or result, or the store cannot be written.
pub(super) fn pin(common: &CommonArgs, arguments: &PinArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let Some(target) = &arguments.target else {
        let Labels { pinned_runs, pinned_artefacts, .. } = Labels::read(&store)?;
        let artefacts: Vec<String> = pinned_artefacts.iter().map(|(kind, key)| format!("{kind}/{key}")).collect();
        let runs = pinned_runs.iter().map(|run| ["run", run.as_str()]);
        let rows: Vec<[&str; 2]> = runs.chain(artefacts.iter().map(|name| ["artefact", name.as_str()])).collect();
        return print_pairs(&rows, ["kind", "name"], "nothing is pinned", console);
    };
    let log = open::open_log(&store, console)?;
    let (target, name) = match find_target(&log, Some(target), &arguments.of)? {
        ResultTarget::Run(run) => (PinTarget::Run(run.run.clone()), format!("{} of {}", run.run, run.pipeline)),
        ResultTarget::Stage(run, stage) => (
            PinTarget::Artefact(stage.kind.clone(), stage.key.clone()),
            format!("`{}` ({}/{}) of {} and what it follows from", stage.name, stage.kind, stage.key.short(), run.run),
        ),
    };
    if arguments.remove {
        labels::unpin(&store, &target)?;
        console.note(&format!("unpinned {name}"));
    } else {
        labels::pin(&store, &target)?;
        console.note(&format!("pinned {name}"));
    }
    Ok(())
}

/// Prints rows of two columns as a table or as JSON objects.
fn print_pairs(rows: &[[&str; 2]], title: [&str; 2], none: &str, console: Console) -> Result<()> {
    if console.json {
        for [one, other] in rows {
            console.print_json(&json!({ title[0]: one, title[1]: other }))?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        console.info(&format!("{none}\n"));
        return Ok(());
    }
    let rows = std::iter::once(&title).chain(rows).map(|row| row.map(one_line).to_vec()).collect::<Vec<_>>();
    console.print(&align_columns(&rows, &[false, false]))
}
