//! From the arguments to an exit code.

use std::process::ExitCode;

use clap::Parser;

use super::args::{Arguments, Command};
use super::output::Output;
use super::{check, completions, gc, handover, plan, report, run, runs, schema, sql, tensorboard};
use crate::engine::cancel::Cancel;
use crate::engine::event::Observer;
use crate::engine::plan::Plan;
use crate::engine::ranks::{Boards, Place};
use crate::engine::run::{Options, Summary};
use crate::engine::store::Store;
use crate::error::Result;
use crate::stages::AnyStage;

/// What needs libtorch. A program that does not name it does not link libtorch.
#[derive(Debug, Clone, Copy)]
pub struct Torch {
    /// Runs stages: [`crate::engine::run::execute`].
    pub execute: Execute,
    /// Runs them for another process: [`crate::engine::ranks::follow`].
    pub follow: Follow,
    /// How processes reach each other: [`super::TorchBoards`].
    pub boards: &'static dyn Boards,
}

type Execute = fn(&Plan<AnyStage>, &Store, &Options, &Cancel, &Observer<'_>) -> Result<Summary>;
type Follow = fn(&Plan<AnyStage>, &Store, &Options, &Place, &Cancel) -> Result<()>;

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
