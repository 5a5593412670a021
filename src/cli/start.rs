//! From the arguments to an exit code.

use std::process::ExitCode;

use clap::Parser;

use super::args::{Arguments, Command};
use super::output::Output;
use super::torch::Torch;
use super::{check, completions, gc, handover, plan, report, run, runs, schema, sql, tensorboard};

/// The whole program. Without libtorch it becomes `pairloom-torch` when there is a stage to run.
pub fn main(torch: Option<Torch>) -> ExitCode {
    // Usage errors end the program here, with exit code 2.
    let arguments = Arguments::parse();
    let output = Output::new(&arguments.common);
    let common = &arguments.common;
    let result = handover::check_build().and_then(|()| match &arguments.command {
        Command::Run(pipeline) => run::run(common, pipeline, torch, output),
        Command::Plan(pipeline) => plan::plan(common, pipeline, output),
        Command::Check(files) => check::check(files, output),
        Command::Sql(query) => sql::sql(common, query, output),
        Command::Report(page) => report::report(common, page, output),
        Command::Tensorboard(which) => tensorboard::tensorboard(common, which, output),
        Command::Runs(which) => runs::runs(common, which, output),
        Command::Gc(what) => gc::gc(common, what, output),
        Command::Schema => schema::schema(output),
        Command::Completions(shell) => completions::completions(shell, output),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What is wrong with a pipeline file has been shown already, with its places.
            if !error.to_string().is_empty() {
                output.error(&error);
            }
            ExitCode::from(error.kind().exit_code())
        }
    }
}
