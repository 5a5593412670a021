//! `pairloom check FILE...`: validates pipeline files without data.

use super::args::{CheckArgs, PipelineArgs};
use super::console::Console;
use super::open;
use super::start::Program;
use super::units::format_items;
use pairloom_base::error::{Error, Result};

/// Checks every file. Source files and folders of stages need not exist.
///
/// # Errors
/// A file has mistakes, which have been printed.
pub(super) fn check(arguments: &CheckArgs, program: &Program, console: Console) -> Result<()> {
    let mut wrong = None;
    for file in &arguments.files {
        let (set, profile) = (arguments.set.clone(), arguments.profile.clone());
        match open::load_pipeline(
            &PipelineArgs { file: file.clone(), set, profile, only: vec![], except: vec![], trust_folder_times: false },
            false,
            program,
        ) {
            Ok((pipeline, unchecked)) => {
                open::note_unchecked(unchecked, console);
                let stages = format_items(pipeline.plan.stages().len(), "stages");
                open::print_warnings(&pipeline.warnings, console)?;
                let warnings = match pipeline.warnings.as_slice().len() {
                    0 => String::new(),
                    n => format!(", {}", format_items(n, "warnings")),
                };
                console.info(&format!("`{}` is valid: {stages}{warnings}\n", file.display()));
            }
            Err(diagnostics) => wrong = Some(open::print_diagnostics(&diagnostics, console)),
        }
    }
    wrong.map_or(Ok(()), Err::<(), Error>)
}
