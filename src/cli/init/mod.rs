//! `pairloom init DATA`: looks at a folder or a file and writes a pipeline file for it, with comments.
//!
//! Nothing is asked and nothing is copied: the pipeline reads the data where it is.

use std::path::Path;

use serde_json::json;

use self::draft::{Draft, TomlPaths};
use super::args::{InitArgs, PipelineArgs};
use super::console::{Console, check_output, one_line, write_file};
use super::open;
use super::start::Program;
use pairloom_base::error::{Error, Result};

mod annotations;
mod draft;
mod look;
mod table;
#[cfg(test)]
mod tests;

/// Writes a pipeline for data, and checks it.
///
/// # Errors
/// The data are in no known form, or the file exists or cannot be written.
pub(super) fn init(arguments: &InitArgs, program: &Program, console: Console) -> Result<()> {
    check_output(&arguments.output, arguments.force)?;
    let draft = look::look(&arguments.data)?;
    let name = arguments.output.display().to_string();
    let text = text_of(&draft, &arguments.data, &arguments.output);
    write_file(&arguments.output, |mut file| {
        std::io::Write::write_all(&mut file, text.as_bytes())
            .and_then(|()| std::io::Write::flush(&mut file))
            .map_err(|error| Error::io("write", &arguments.output, &error))
    })?;
    let file = arguments.output.clone();
    let written =
        PipelineArgs { file, set: vec![], profile: None, only: vec![], except: vec![], trust_folder_times: false };
    let (pipeline, unchecked) =
        open::load_pipeline(&written, true, program).map_err(|found| open::print_diagnostics(&found, console))?;
    open::note_unchecked(unchecked, console);
    open::print_warnings(&pipeline.warnings, console)?;
    if console.json {
        let notes: Vec<&str> = draft.notes().collect();
        let found = json!({ "file": name, "found": draft.found, "split": draft.split_source(), "notes": notes });
        return console.print_json(&found);
    }
    console.print(&format!("{}wrote `{name}`; run it: pairloom run {name}\n", said(&draft)))
}

/// What was found, in lines: the form, the source of the split, and notes.
fn said(draft: &Draft) -> String {
    let split = draft.split_source();
    let lines = std::iter::once(format!("found {}", one_line(&draft.found)))
        .chain(split.map(|split| one_line(&split)))
        .chain(draft.notes().map(|note| format!("note: {}", one_line(note))));
    lines.map(|line| line + "\n").collect()
}

/// Text of the pipeline file `output` for the data at `data`.
fn text_of(draft: &Draft, data: &Path, output: &Path) -> String {
    let folder = output.parent().unwrap_or(Path::new(""));
    draft.text(data, &output.display().to_string(), &TomlPaths::relative_to(folder))
}
