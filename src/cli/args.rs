//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::{Error, Result};
use crate::runtime::Device;
use crate::sql::Format;

/// A streaming data-pipeline engine for image-text matching.
#[derive(Debug, Parser)]
#[command(name = "pairloom", version, after_help = EXIT_CODES, max_term_width = 120, propagate_version = true)]
pub struct Arguments {
    /// What holds for every command.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The numbers of [`crate::error::Kind`], for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    fine
  1    an [[expect]] of the pipeline file did not hold
  2    the command line or the pipeline file is wrong
  3    data is missing or damaged
  4    a stage failed
  70   a defect of Pairloom
  130  interrupted; the same command goes on where it stopped";

/// What holds for every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Folder of the store, or its URL: `s3://bucket/path`, `gs://`, `az://`, `http(s)://` to read
    #[arg(long, global = true, value_name = "DIR", env = "PAIRLOOM_STORE", default_value = "store")]
    pub store: OsString,
    /// Threads that a stage may keep busy, at most four for each processor [default: one for each]
    #[arg(long, global = true, value_name = "N", env = "PAIRLOOM_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Bytes in flight between threads at most
    #[arg(long, global = true, value_name = "SIZE", env = "PAIRLOOM_MEMORY", default_value = "512MiB", value_parser = super::bytes::parse)]
    pub memory: u64,
    /// Folder of the cache of shards, which trainings read from [default: `pairloom/shards` in the user's cache folder]
    #[arg(long, global = true, value_name = "DIR", env = "PAIRLOOM_CACHE")]
    pub cache: Option<PathBuf>,
    /// Bytes of all shards in the cache at most
    #[arg(long, global = true, value_name = "SIZE", env = "PAIRLOOM_CACHE_SIZE", default_value = "64GiB", value_parser = super::bytes::parse)]
    pub cache_size: u64,
    /// Where tensors live: cpu, cuda or cuda:N
    #[arg(long, global = true, value_name = "DEVICE", env = "PAIRLOOM_DEVICE", default_value = "cpu", value_parser = device)]
    pub device: Device,
    /// Seconds that one of several processes waits for another before that one counts as gone
    #[arg(long, global = true, value_name = "SECONDS", env = "PAIRLOOM_RANK_TIMEOUT", default_value = "1800", value_parser = clap::value_parser!(u64).range(1..))]
    pub rank_timeout: u64,
    /// Print one JSON object a line on stdout: events of a run, rows of other commands
    #[arg(long, global = true, env = "PAIRLOOM_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
    /// Show no progress bars
    #[arg(long, global = true, env = "PAIRLOOM_NO_PROGRESS", value_parser = FalseyValueParser::new())]
    pub no_progress: bool,
    /// Say more: why stages run, every warning
    #[arg(short, long, global = true, env = "PAIRLOOM_VERBOSE", value_parser = FalseyValueParser::new())]
    pub verbose: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, env = "PAIRLOOM_QUIET", value_parser = FalseyValueParser::new(), conflicts_with = "verbose")]
    pub quiet: bool,
    /// Colours on stderr; `NO_COLOR` is honoured
    #[arg(long, global = true, value_name = "WHEN", env = "PAIRLOOM_COLOR", default_value = "auto")]
    pub color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run what is missing of a pipeline
    Run(Pipeline),
    /// Show what a run would do, and why
    Plan(Pipeline),
    /// Look for mistakes in pipeline files; needs no data
    Check(Check),
    /// Query the tables of a store
    Sql(Sql),
    /// Print the page of the latest run, or copy it
    Report(Report),
    /// Write the curves of trainings for TensorBoard, also while they run
    Tensorboard(Tensorboard),
    /// List runs, the latest first
    Runs(Runs),
    /// Find what no recent run needs, and remove it
    Gc(Gc),
    /// Print the JSON Schema of pipeline files
    Schema,
    /// Print completions for a shell
    Completions(Completions),
}

/// A pipeline file with changes.
#[derive(Debug, Args)]
pub struct Pipeline {
    /// Pipeline file
    pub file: PathBuf,
    /// Change a setting for this time: `stage.fit.train.epochs=3`, `seed=11`. Relative paths start at the current folder
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// What to check.
#[derive(Debug, Args)]
pub struct Check {
    /// Pipeline files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Change a setting for this time, in each of the files
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// A query.
#[derive(Debug, Args)]
pub struct Sql {
    /// Query, or `-` for stdin. Tables are `stage.table` of the latest runs, and `store.runs`, `store.stages`,
    /// `store.artefacts`, `store.parts`, `store.warnings`, `store.expectations`
    pub query: String,
    /// Form of the answer [default: table, or what the name of the output says; jsonl with --json]
    #[arg(long, value_name = "FORM", value_parser = ["table", "json", "jsonl", "csv", "parquet"])]
    pub format: Option<String>,
    /// File for the answer, in place of stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Sql {
    /// The form of the answer.
    ///
    /// # Errors
    /// The name of the output ends with what is no form.
    pub(super) fn form(&self, json: bool) -> Result<Format> {
        let ending = || Some(self.output.as_ref()?.extension()?.to_string_lossy().to_lowercase());
        match self.format.clone().or_else(ending) {
            Some(name) => name.parse().map_err(|message| Error::usage(message).hint("name the form with `--format`")),
            None if json => Ok(Format::Jsonl),
            None => Ok(Format::Table),
        }
    }
}

/// Which page.
#[derive(Debug, Args)]
pub struct Report {
    /// Stage that wrote it [default: the last `report` of the run]
    pub stage: Option<String>,
    /// Folder to copy the page to
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Which trainings, and where to.
#[derive(Debug, Args)]
pub struct Tensorboard {
    /// Folder for the event files, one folder in it for each training: what `tensorboard --logdir` is given
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Stay, and write on as trainings go on
    #[arg(long, short)]
    pub follow: bool,
    /// Look at the trainings of the last N runs
    #[arg(long, short, value_name = "N", default_value = "20")]
    pub limit: usize,
}

/// Which runs.
#[derive(Debug, Args)]
pub struct Runs {
    /// Runs shown
    #[arg(long, short, value_name = "N", default_value = "20")]
    pub limit: usize,
}

/// What to remove.
#[derive(Debug, Args)]
pub struct Gc {
    /// Keep what the last N runs used
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_runs: u32,
    /// Remove it; without this, only say what would go
    #[arg(long)]
    pub delete: bool,
}

/// Which shell.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    pub shell: clap_complete::Shell,
}

fn device(text: &str) -> Result<Device, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(Device::Cpu),
        None if text == "cuda" => Ok(Device::Cuda(0)),
        Some(("cuda", number)) => {
            number.parse().map(Device::Cuda).map_err(|_| format!("`{number}` is no number of a GPU"))
        }
        _ => Err("wanted `cpu`, `cuda` or `cuda:N`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_form_of_an_answer() {
        let form = |format: Option<&str>, output: Option<&str>, json| {
            let (format, output) = (format.map(str::to_owned), output.map(PathBuf::from));
            Sql { query: String::new(), format, output }.form(json).map_err(|error| error.to_string())
        };
        assert_eq!(form(None, None, false), Ok(Format::Table));
        assert_eq!(form(None, Some("answer"), true), Ok(Format::Jsonl));
        assert_eq!(form(None, Some("answer.CSV"), true), Ok(Format::Csv));
        assert_eq!(form(Some("parquet"), Some("answer.xyz"), false), Ok(Format::Parquet));
        let wrong = form(None, Some("answer.xyz"), false).expect_err("no form");
        assert_eq!(wrong, "no form `xyz`; there are `table`, `json`, `jsonl`, `csv`, `parquet`");
    }

    #[test]
    fn devices() {
        assert_eq!(device("cpu"), Ok(Device::Cpu));
        assert_eq!(device("cuda:3"), Ok(Device::Cuda(3)));
        assert!(device("cuda:x").is_err() && device("gpu").is_err());
    }

    #[test]
    fn the_exit_codes_of_the_help_are_those_of_errors() {
        use crate::error::Kind;
        for kind in [Kind::Expectation, Kind::Usage, Kind::Data, Kind::Stage, Kind::Internal, Kind::Interrupted] {
            assert!(EXIT_CODES.contains(&format!("\n  {:<5}", kind.exit_code())), "{kind:?}");
        }
    }
}
