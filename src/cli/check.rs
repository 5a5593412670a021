//! `pairloom check FILE...`: mistakes that can be found without data.

use super::args::Check;
use super::open;
use super::output::Output;
use crate::error::{Error, Result};

/// Looks for mistakes in every file; files and folders that stages read need not be there.
///
/// # Errors
/// There are mistakes; they are shown.
pub(super) fn check(arguments: &Check, output: Output) -> Result<()> {
    let mut wrong = None;
    for file in &arguments.files {
        match open::pipeline(file, &arguments.set, false) {
            Ok(pipeline) => {
                let stages = pipeline.plan.nodes().len();
                output.note(&format!("`{}` is fine: {stages} stages\n", file.display()));
            }
            Err(faults) => wrong = Some(open::show(&faults, output)),
        }
    }
    wrong.map_or(Ok(()), Err::<(), Error>)
}
