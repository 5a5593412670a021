//! Entry point of the programs: parses the arguments of the process, with tips about wrong ones, runs a command, returns an
//! exit code. What only some of the programs can do is passed in by their `main` as a [`Program`].

use std::process::ExitCode;
use std::time::SystemTime;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::args::{Cli, ClusterCommand, Command, CommonArgs, ServeArgs, SqlArgs};
use super::console::Console;
use super::interrupt::ignore_file_size_signal;
use super::schemas::pipeline_schema;
use super::siblings::{Sibling, check_build, restart_with_huge_pages, table_reader};
use super::sql_requests::{QueryValue, TableDeclaration};
use super::{check, diff, export, gc, init, labels, plan, report, run, runs, schemas, show, tensorboard, trec, verify};
use pairloom_base::error::{Error, Result, catch_panic, silence_caught_panics};
use pairloom_base::runtime::{Device, set_build};
use pairloom_engine::ranks::RendezvousBackend;
use pairloom_formats::table_file::{self, READ_TABLE};
use pairloom_registry::AnyStage;
use pairloom_stage::RunStage;
use pairloom_store::Store;
use pairloom_store::record::StageRecord;

/// Runs the command line. The process hands over to another program for what this one lacks: to `pairloom-torch` if a stage
/// has to run, to `pairloom-sql` for queries.
pub fn main(program: &Program) -> ExitCode {
    ignore_file_size_signal();
    let mut given = std::env::args_os().skip(1);
    if given.next().is_some_and(|first| first == READ_TABLE) {
        return table_file::answer(given);
    }
    set_build(program.build);
    let arguments: Cli = parse();
    if let Ok(reader) = table_reader() {
        table_file::set_program(reader);
    }
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
        Command::Init(data) => init::init(data, program, console),
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
        Command::Schema => schemas::schema(console),
        Command::Completions(shell) => schemas::completions(shell, console),
    };
    silence_caught_panics();
    let checks = || check_build().and_then(|()| check_clock());
    let code = exit_code(|| checks().and_then(|()| command()), |error| console.print_error(error));
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

/// Checks that the clock of the machine shows a time that records of runs can have.
///
/// # Errors
/// It is beyond the year 9999.
#[expect(clippy::disallowed_methods, reason = "the clock is checked, and decides nothing")]
fn check_clock() -> Result<()> {
    check_time(SystemTime::now())
}

fn check_time(now: SystemTime) -> Result<()> {
    let time = jiff::Timestamp::try_from(now);
    time.map(drop).map_err(|error| {
        Error::stage(format!("the clock of this machine is wrong: {error}"))
            .hint("set it, for example with `timedatectl set-ntp true`; records have years up to 9999")
    })
}

/// Program with this command line. What it lacks is handed over to another program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Hash of the sources, `env!("PAIRLOOM_BUILD")`.
    pub build: &'static str,
    /// Functions that need libtorch.
    pub torch: Option<TorchFunctions>,
    /// Functions that need DataFusion.
    pub sql: Option<SqlFunctions>,
}

/// Functions that need DataFusion, passed in by `pairloom-sql`. A program that never constructs this is linked without
/// DataFusion.
#[derive(Debug, Clone, Copy)]
pub struct SqlFunctions {
    /// Command `sql`.
    pub sql: fn(&CommonArgs, &SqlArgs, Console) -> Result<()>,
    /// Command `serve`.
    pub serve: fn(&CommonArgs, &ServeArgs, Console) -> Result<()>,
    /// Command `cluster`.
    pub cluster: fn(&CommonArgs, &ClusterCommand, Console) -> Result<()>,
    /// Plans queries against tables without rows. Returns the error of each wrong query.
    pub check_queries: CheckQueries,
    /// Evaluates queries for single numbers over the results of the stages of a run.
    pub query_values: QueryValues,
}

type CheckQueries = fn(&[TableDeclaration], &[String]) -> Result<Vec<Option<Error>>>;
type QueryValues = fn(&Store, &[StageRecord], &[String]) -> Result<Vec<Result<QueryValue>>>;

/// Functions that need libtorch. A program that never constructs this is linked without libtorch.
#[derive(Debug, Clone, Copy)]
pub struct TorchFunctions {
    /// Runs a stage of any kind: `pairloom_neural::run_stage`.
    pub run_stage: RunStage<AnyStage>,
    /// Checks that a device exists: `pairloom_model::device::to_tch`.
    pub check_device: fn(Device) -> Result<()>,
    /// Rendezvous of the ranks.
    pub rendezvous: &'static dyn RendezvousBackend,
}

/// Parses the arguments of the process. Ends it with exit code 2 if they are wrong.
fn parse() -> Cli {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Cli::try_parse().unwrap_or_else(|error| with_tip(with_plain_usage(error, &arguments)).exit())
}

/// Replaces the usage line of an error by that of `--help`.
///
/// clap lists every option that has a value there, also one from its default or a variable, as if it had to be given.
fn with_plain_usage(mut error: clap::Error, arguments: &[String]) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let mut command = Cli::command();
    command.build();
    let named = arguments.iter().skip(1).find_map(|name| command.find_subcommand(name)).cloned();
    let usage = named.unwrap_or(command).render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
}

/// Adds a tip to an error of clap about an argument that should be another one.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let got = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    };
    let argument = got(ContextKind::InvalidArg);
    let setting = argument.trim_start_matches('-').split('=').next().unwrap_or_default().replace('-', "_");
    let is_setting = pipeline_schema().contains(&format!("\"{setting}\": {{"));
    let tip = match error.kind() {
        ErrorKind::UnknownArgument if argument.contains('=') && !argument.starts_with('-') => {
            format!("a setting is overridden by `--set {argument}`")
        }
        ErrorKind::UnknownArgument if argument.starts_with("--") && is_setting => {
            error.remove(ContextKind::SuggestedArg);
            format!("a setting of the pipeline file is overridden by `--set stage.NAME.KIND.{setting}=VALUE`")
        }
        ErrorKind::MissingRequiredArgument if argument.contains("<FILE") => {
            "name a pipeline file, such as `pipelines/quickstart.toml`".to_owned()
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
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

    #[test]
    fn a_clock_beyond_the_year_9999_is_refused() {
        let at = |seconds: u64| check_time(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert!(at(1_800_000_000).is_ok());
        // 10000-01-02, one day after 253,402,300,800.
        let error = at(253_402_387_200).unwrap_err();
        assert_eq!(error.category().exit_code(), 4);
        assert!(error.to_string().starts_with("the clock of this machine is wrong: "), "{error}");
    }

    fn message(arguments: &[&str]) -> String {
        let arguments: Vec<String> =
            std::iter::once("pairloom").chain(arguments.iter().copied()).map(str::to_owned).collect();
        let error = Cli::try_parse_from(&arguments).expect_err("wrong arguments");
        with_tip(with_plain_usage(error, &arguments)).to_string()
    }

    #[test]
    fn the_usage_line_has_what_must_be_given_and_nothing_else() {
        for (arguments, usage) in [
            (&["run"][..], "Usage: pairloom run [OPTIONS] <FILE>\n"),
            (&["run", "p.toml", "--stor", "x"], "Usage: pairloom run [OPTIONS] <FILE>\n"),
            (&["--store", "x", "check"], "Usage: pairloom check [OPTIONS] <FILES>...\n"),
            (&["rnu"], "Usage: pairloom [OPTIONS] <COMMAND>\n"),
        ] {
            let text = message(arguments);
            assert!(text.contains(usage), "{text}");
        }
    }

    #[test]
    fn wrong_arguments_are_answered_with_a_tip() {
        let tip = |arguments: &[&str], tip: &str| {
            let text = message(arguments);
            assert!(text.contains(&format!("\n  tip: {tip}\n")), "{text}");
        };
        tip(&["run", "p.toml", "seed=3"], "a setting is overridden by `--set seed=3`");
        tip(
            &["run", "p.toml", "--batch-size", "3"],
            "a setting of the pipeline file is overridden by `--set stage.NAME.KIND.batch_size=VALUE`",
        );
        tip(&["run"], "name a pipeline file, such as `pipelines/quickstart.toml`");
        tip(&["check"], "name a pipeline file, such as `pipelines/quickstart.toml`");
        tip(&["run", "p.toml", "--stor", "x"], "a similar argument exists: '--store'");
        tip(&["rnu"], "a similar subcommand exists: 'runs'");
        assert!(message(&["run", "p.toml", "--memory", "10"]).contains("did you mean `10MiB`?"));
    }
}
