//! Entry point of the programs: parses arguments, runs a command, returns an exit code.

use std::process::ExitCode;

use super::args::{Cli, Command};
use super::console::Console;
use super::program::Program;
use super::siblings::{Sibling, check_build, restart_with_huge_pages};
use super::usage;
use super::{
    check, completions, diff, export, gc, labels, plan, report, run, runs, schema, show, tensorboard, trec, verify,
};
use pairloom_base::error::{Error, Result, catch_panic};
use pairloom_base::runtime::set_build;

/// Runs the command line. The process hands over to another program for what this one lacks: to `pairloom-torch` if a stage
/// has to run, to `pairloom-sql` for queries.
pub fn main(program: &Program) -> ExitCode {
    set_build(program.build);
    let arguments: Cli = usage::parse();
    let computes = matches!(&arguments.command, Command::Sql(_) | Command::Serve(_) | Command::Cluster(_));
    if computes && program.sql.is_some() {
        restart_with_huge_pages();
    }
    let console = Console::new(&arguments.common);
    let common = &arguments.common;
    let command = || match &arguments.command {
        Command::Run(pipeline) => run::run(common, pipeline, program, console),
        Command::Plan(pipeline) => plan::plan(common, pipeline, program, console),
        Command::Check(files) => check::check(files, program, console),
        Command::Sql(query) => match &program.sql {
            Some(of) => (of.sql)(common, query, console),
            None => Err(Sibling::Sql.hand_over()),
        },
        Command::Cluster(command) => match &program.sql {
            Some(of) => (of.cluster)(common, command, console),
            None => Err(Sibling::SqlServer.hand_over()),
        },
        Command::Serve(what) => match &program.sql {
            Some(of) => (of.serve)(common, what, console),
            None => Err(Sibling::SqlServer.hand_over()),
        },
        Command::Report(page) => report::report(common, page, console),
        Command::Export(what) => export::export(common, what, console),
        Command::Tensorboard(which) => tensorboard::tensorboard(common, which, console),
        Command::Trec(which) => trec::trec(common, which, console),
        Command::Runs(which) => runs::runs(common, which, console),
        Command::Diff(which) => diff::diff(common, which, console),
        Command::Show(which) => show::show(common, which, console),
        Command::Tag(what) => labels::tag(common, what, console),
        Command::Note(what) => labels::note(common, what, console),
        Command::Pin(what) => labels::pin(common, what, console),
        Command::Gc(what) => gc::gc(common, what, console),
        Command::Verify(what) => verify::verify(common, what, console),
        Command::Schema => schema::schema(console),
        Command::Completions(shell) => completions::completions(shell, console),
    };
    let code = exit_code(|| check_build().and_then(|()| command()), |error| console.print_error(error));
    ExitCode::from(code)
}

/// Runs a command, prints its error, and returns its exit code. A panic, such as one of a library on odd input, is an error
/// with exit code 70.
fn exit_code(command: impl FnOnce() -> Result<()>, print: impl FnOnce(&Error)) -> u8 {
    match catch_panic(command) {
        Ok(()) => 0,
        Err(error) => {
            // Mistakes of a pipeline file have been printed already; their error has no message.
            if !error.to_string().is_empty() {
                print(&error);
            }
            error.category().exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit code of a command, and the errors that are printed.
    fn ended(command: impl FnOnce() -> Result<()>) -> (u8, Vec<String>) {
        let mut printed = Vec::new();
        let code = exit_code(command, |error| printed.push(error.to_string()));
        (code, printed)
    }

    #[test]
    fn a_panic_of_a_command_is_printed_as_an_error_and_has_exit_code_70() {
        let row = 7;
        assert_eq!(ended(|| panic!("no row {row}")), (70, vec!["panicked: no row 7".to_owned()]));
        assert_eq!(ended(|| panic!("no row")), (70, vec!["panicked: no row".to_owned()]));
        assert_eq!(ended(|| std::panic::panic_any(row)), (70, vec!["panicked: no message".to_owned()]));
    }

    #[test]
    fn an_error_of_a_command_is_printed_if_it_has_a_message_and_its_category_is_the_exit_code() {
        assert_eq!(ended(|| Ok(())), (0, vec![]));
        assert_eq!(ended(|| Err(Error::data("no file"))), (3, vec!["no file".to_owned()]));
        // Mistakes of a pipeline file.
        assert_eq!(ended(|| Err(Error::usage(""))), (2, vec![]));
    }
}
