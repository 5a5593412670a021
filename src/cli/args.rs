//! Command-line arguments. Doc comments of fields and variants are the help texts.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use pairloom_base::runtime::{ClusterUrl, Device, NamedFile, version_and_build};

/// Folder of the store without `--store`.
pub(super) const DEFAULT_STORE: &str = "store";

/// A streaming data-pipeline engine for image-text retrieval.
#[derive(Debug, Parser)]
#[command(name = "pairloom", version = version_and_build(), after_help = EXIT_CODES, max_term_width = 120, propagate_version = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Exit codes for `--help`: those of [`pairloom_base::error::ErrorCategory`].
const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    an [[expect]] check of the pipeline file failed
  2    the command line or the pipeline file is wrong
  3    data is missing or damaged
  4    a stage failed
  70   a bug in Pairloom
  130  interrupted; run the same command again to resume";

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// Folder or URL of the store: `s3://bucket/path`, `gs://…`, `az://…`; `http(s)://…` is read-only
    #[arg(long, global = true, value_name = "DIR", env = "PAIRLOOM_STORE", default_value = DEFAULT_STORE)]
    pub store: OsString,
    /// Threads of a stage, at most four per CPU [default: one per CPU]
    #[arg(long, global = true, value_name = "N", env = "PAIRLOOM_THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Maximum size of the data in flight between threads, at least 1MiB
    #[arg(long, global = true, value_name = "SIZE", env = "PAIRLOOM_MEMORY", default_value = "512MiB", value_parser = super::units::parse_capacity)]
    pub memory: u64,
    /// Folder of the shard cache, which training reads from [default: `pairloom/shards` in the user's cache folder]
    #[arg(long, global = true, value_name = "DIR", env = "PAIRLOOM_CACHE")]
    pub cache: Option<PathBuf>,
    /// Maximum size of the shard cache, at least 1MiB
    #[arg(long, global = true, value_name = "SIZE", env = "PAIRLOOM_CACHE_SIZE", default_value = "64GiB", value_parser = super::units::parse_capacity)]
    pub cache_size: u64,
    /// Device of tensors: cpu, cuda or cuda:N
    #[arg(long, global = true, value_name = "DEVICE", env = "PAIRLOOM_DEVICE", default_value = "cpu", value_parser = parse_device)]
    pub device: Device,
    /// Seconds to wait for another rank before it counts as lost
    #[arg(long, global = true, value_name = "SECONDS", env = "PAIRLOOM_RANK_TIMEOUT", default_value = "1800", value_parser = clap::value_parser!(u64).range(1..))]
    pub rank_timeout: u64,
    /// Print one JSON object per line on stdout: events of a run, rows of other commands
    #[arg(long, global = true, env = "PAIRLOOM_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
    /// Hide progress bars, and the lines that replace them without a terminal: one a stage every 30 s, or every 10 % at
    /// most every 5 s
    #[arg(long, global = true, env = "PAIRLOOM_NO_PROGRESS", value_parser = FalseyValueParser::new())]
    pub no_progress: bool,
    /// Print more: why stages run, every warning
    #[arg(short, long, global = true, env = "PAIRLOOM_VERBOSE", value_parser = FalseyValueParser::new())]
    pub verbose: bool,
    /// Print errors only
    #[arg(short, long, global = true, env = "PAIRLOOM_QUIET", value_parser = FalseyValueParser::new(), conflicts_with = "verbose")]
    pub quiet: bool,
    /// When to use colours on stderr; `NO_COLOR` is respected
    #[arg(long, global = true, value_name = "WHEN", env = "PAIRLOOM_COLOR", default_value = "auto")]
    pub color: ColorChoice,
}

/// Use of colours on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// Only on a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the stages of a pipeline whose results are missing
    Run(RunArgs),
    /// Show what a run would do, and why
    Plan(PipelineArgs),
    /// Check pipeline files for mistakes; needs no data, and reads the headers of tables that are there
    Check(CheckArgs),
    /// Write a pipeline file for a folder or a file with data
    Init(InitArgs),
    /// Query the tables of a store
    Sql(SqlArgs),
    /// Answer SQL queries of other programs, by Flight SQL
    Serve(ServeArgs),
    /// Start a process of a cluster, which computes queries and evaluations
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Print or copy the report of the latest run
    Report(ReportArgs),
    /// Export a table to files of other programs: npy, a `*_precomp` folder, Arrow
    Export(ExportArgs),
    /// Export training curves for TensorBoard, also of a training in progress
    Tensorboard(TensorboardArgs),
    /// Export the rankings of an evaluation as a TREC run, for other evaluation programs
    Trec(TrecArgs),
    /// List runs, latest first, with what differs between them
    Runs(RunsArgs),
    /// Compare two runs: settings, sources, scores
    Diff(DiffArgs),
    /// Show a run, a stage or an artefact: files, sizes, lineage, command
    Show(ShowArgs),
    /// Give a run a tag, or list tags; garbage collection spares tagged runs
    Tag(TagArgs),
    /// Write or show the note of a run; garbage collection spares runs with a note
    Note(NoteArgs),
    /// Keep the results of a run, or a result and all that it follows from; or list what is pinned
    Pin(PinArgs),
    /// List or remove results of old runs
    Gc(GcArgs),
    /// Read results and compare them with their digests; the next run rebuilds damaged ones
    Verify(VerifyArgs),
    /// Print the JSON Schema of pipeline files
    Schema,
    /// Print shell completions
    Completions(CompletionsArgs),
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Read all results of the store and the records of its runs, not the results of one run
    #[arg(long, conflicts_with_all = ["run", "pipeline"])]
    pub all: bool,
    /// Run whose results are read
    #[command(flatten)]
    pub of: RunChoiceArgs,
}

/// Arguments of `run` and `plan`: a pipeline file and overrides.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Pipeline file
    pub file: PathBuf,
    /// Override a setting: `stage.fit.train.epochs=3`, `seed=11`; `*` stands for all stages of a kind:
    /// `'stage.*.train.epochs=3'`. Relative paths start at the current folder
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Use the settings of the table `[profile.NAME]` of the file
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Use only these values of an axis of the matrix: `row=2.12`, `seed=1,2`
    #[arg(long, value_name = "AXIS=VALUES")]
    pub only: Vec<String>,
    /// Leave out the combinations of the matrix with these values: `row=2.12,seed=3`
    #[arg(long, value_name = "AXIS=VALUE,…")]
    pub except: Vec<String>,
    /// Take a folder as unchanged if its times and those of its subfolders are, without a look at each file. A file that
    /// was added, removed, renamed or replaced is seen; one that was rewritten in place, or behind a link, is not
    #[arg(long, env = "PAIRLOOM_TRUST_FOLDER_TIMES", value_parser = FalseyValueParser::new())]
    pub trust_folder_times: bool,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Pipeline file and its values.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Instances of the matrix that run at the same time and share the threads [default: 1]
    #[arg(long, value_name = "N", env = "PAIRLOOM_JOBS", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Go on after a stage failed, with all stages that do not follow from it
    #[arg(long)]
    pub keep_going: bool,
    /// Cluster of the evaluations.
    #[command(flatten)]
    pub cluster: ClusterChoiceArgs,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Pipeline files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Override a setting in each of the files: `stage.fit.train.epochs=3`, `'stage.*.train.epochs=3'`
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Use the settings of the table `[profile.NAME]` of each file
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder or file: photographs with a table of captions, Karpathy's split file, COCO's annotations, Flickr's token file, a
    /// `*_precomp` folder, tar files of WebDataset, Parquet files of Hugging Face, a table of URLs, two npy files of
    /// embeddings
    pub data: PathBuf,
    /// Pipeline file to write, which must not exist yet
    #[arg(long, short, value_name = "FILE", default_value = "pipeline.toml")]
    pub output: PathBuf,
    /// Replace the pipeline file if it exists
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// SQL query, or `-` for stdin [default: a shell on a terminal, otherwise stdin]. `SHOW TABLES` lists the tables,
    /// `DESCRIBE stage.table` the columns of one. `stage.table` is a table of one run, `all_runs.table` has the rows of
    /// all runs, `store.runs` and so on are the records of the store
    pub query: Option<String>,
    /// Run of the tables `stage.table`
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Output format [default: by the extension of the output file; otherwise jsonl with --json, or a table whose long
    /// texts are wrapped; on a terminal that is too narrow for the table, vertical]. `table` wraps nothing: each row is
    /// one line. Only json, jsonl, csv and parquet have all digits and all values of lists
    #[arg(long, value_name = "FORMAT", value_parser = ["table", "vertical", "json", "jsonl", "csv", "parquet"])]
    pub format: Option<String>,
    /// Read a file as the table NAME: csv, tsv, parquet, json, jsonl, ndjson. Repeatable. A query reads no other files
    #[arg(long = "file", value_name = "NAME=FILE", value_parser = str::parse::<NamedFile>)]
    pub files: Vec<NamedFile>,
    /// Output file, which must not exist yet [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Memory of the groups and joins of a query in this process, and as much again for its sorts; executors of a cluster
    /// have their own. Sorts and groups that need more use temporary files, of 16 GiB at most; other queries fail
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = super::units::parse_capacity)]
    pub query_memory: u64,
    /// Seconds that a query may take, until its last row is written [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub query_time: Option<u32>,
    /// Cluster of the queries.
    #[command(flatten)]
    pub cluster: ClusterChoiceArgs,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Stage that wrote the report [default: the last `report` stage of the run]
    pub stage: Option<String>,
    /// Run of the report
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Folder to copy the report to
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace files in the folder that are no reports
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Arguments of `tensorboard`.
#[derive(Debug, Args)]
pub struct TensorboardArgs {
    /// Folder for the event files, with a subfolder for each training: the log directory for `tensorboard --logdir`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Keep running and export new steps as they are trained
    #[arg(long, short)]
    pub follow: bool,
    /// Export the last N trainings; runs that reused a training do not count
    #[arg(long, short, value_name = "N", default_value = "20")]
    pub limit: usize,
}

/// Arguments of `trec`.
#[derive(Debug, Args)]
pub struct TrecArgs {
    /// Stage that evaluates [default: the last `evaluate` stage of the run]
    pub stage: Option<String>,
    /// Direction: i2t ranks captions for images, t2i ranks images for captions
    #[arg(long, short, value_name = "DIRECTION", value_parser = ["i2t", "t2i"])]
    pub direction: String,
    /// Protocol, as in the table `summary`; needed if there are several
    #[arg(long, value_name = "PROTOCOL")]
    pub protocol: Option<String>,
    /// Method, as in the table `summary`; needed if there are several
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Parameters of the method, as in the table `summary`; needed if the method is there several times
    #[arg(long, value_name = "TEXT")]
    pub parameters: Option<String>,
    /// Tag, the last field of each line [default: stage, method and parameters]
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Run of the stage
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Output file, which must not exist yet [default: stdout]. Lines are `query Q0 item rank score tag`; ranks count
    /// from 1. `ranking_depth` of `evaluate` sets the number of items of a query. Programs that sort by score order equal
    /// scores in their own way
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Maximum number of runs to list
    #[arg(long, short, value_name = "N", default_value = "20")]
    pub limit: usize,
    /// List runs of this pipeline only
    #[arg(long, value_name = "NAME")]
    pub pipeline: Option<String>,
    /// List runs with this outcome only
    #[arg(long, value_name = "OUTCOME", value_parser = ["finished", "failed", "interrupted", "unfinished"])]
    pub outcome: Option<String>,
    /// List runs with this value of a setting only: `fit.loss=max`, `fit.epochs=30`
    #[arg(long = "where", value_name = "STAGE.SETTING=VALUE")]
    pub settings: Vec<String>,
    /// List runs with a tag, a note or a pin only
    #[arg(long)]
    pub labelled: bool,
    /// Also list runs that repeated an earlier one and changed nothing
    #[arg(long, short)]
    pub all: bool,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// First run: its name, the last four digits of its name, a tag, a pipeline, or `latest`
    pub first: String,
    /// Second run [default: the last finished run]
    #[arg(default_value = "latest")]
    pub second: String,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run, stage, or key of an artefact (at least six digits) [default: the last finished run]
    pub target: Option<String>,
    /// Stage of the run that comes before it: `pairloom show latest fit`
    #[arg(conflicts_with_all = ["run", "pipeline"])]
    pub stage: Option<String>,
    /// Run of the stage
    #[command(flatten)]
    pub of: RunChoiceArgs,
}

/// Arguments of `tag`.
#[derive(Debug, Args)]
pub struct TagArgs {
    /// Run to tag; without it, tags are listed
    #[arg(requires = "tag")]
    pub run: Option<String>,
    /// Tag
    pub tag: Option<String>,
    /// Move a tag that another run has
    #[arg(long)]
    pub force: bool,
    /// Remove a tag
    #[arg(long, value_name = "TAG", exclusive = true)]
    pub remove: Option<String>,
}

/// Arguments of `note`.
#[derive(Debug, Args)]
pub struct NoteArgs {
    /// Run
    pub run: String,
    /// Text of the note; without it, the note is shown. An empty text removes it
    pub text: Option<String>,
}

/// Arguments of `pin`.
#[derive(Debug, Args)]
pub struct PinArgs {
    /// Run, stage, or key of an artefact (at least six digits); without it, pins are listed
    pub target: Option<String>,
    /// Run of the stage
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Remove the pin
    #[arg(long, requires = "target")]
    pub remove: bool,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Keep the results of the last N different finished runs of each pipeline; repeats count once
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_runs: u32,
    /// Remove the results instead of listing them
    #[arg(long)]
    pub delete: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print completions for
    pub shell: clap_complete::Shell,
}

fn parse_device(text: &str) -> Result<Device, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(Device::Cpu),
        None if text == "cuda" => Ok(Device::Cuda(0)),
        Some(("cuda", number)) => {
            number.parse().map(Device::Cuda).map_err(|_| format!("`{number}` is not a GPU number"))
        }
        _ => Err("expected `cpu`, `cuda` or `cuda:N`".to_owned()),
    }
}

/// Choice of one run of a store.
#[derive(Debug, Clone, Default, Args)]
pub struct RunChoiceArgs {
    /// Run: its name, the last four digits of its name, a tag, or a pipeline; `~1` after it is the different run before
    /// [default: the last run that finished]
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Pipeline whose last finished run is used: its file or the last components of its path
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    pub pipeline: Option<String>,
}

/// Processes of a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start the scheduler, which hands tasks to executors
    Scheduler(SchedulerArgs),
    /// Start an executor, which runs the tasks of a scheduler on the data of the store
    Executor(ExecutorArgs),
}

/// Arguments of `cluster scheduler`.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Address to listen on; port 0 means any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
    pub address: SocketAddr,
    /// Listen on an address that other machines reach. Ports have no authentication: whoever reaches them can read the
    /// store and use the executors
    #[arg(long)]
    pub allow_remote: bool,
    /// Seconds after which an executor that is silent counts as dead, and its tasks go to others. It gives a sign of life
    /// every two seconds
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u64).range(5..))]
    pub executor_timeout: u64,
}

/// Arguments of `cluster executor`.
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// Scheduler: `http://HOST:PORT`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:50050")]
    pub scheduler: ClusterUrl,
    /// Address of the network interface to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Listen on an address that other machines reach. Ports have no authentication: whoever reaches them can read the
    /// store and use the executors
    #[arg(long)]
    pub allow_remote: bool,
    /// Name or address under which the other processes reach this one [default: the address that it listens on]
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Port for rows that other processes fetch; 0 means any free port
    #[arg(long, value_name = "PORT", default_value = "0")]
    pub rows_port: u16,
    /// Port for tasks of the scheduler; 0 means any free port
    #[arg(long, value_name = "PORT", default_value = "0")]
    pub tasks_port: u16,
    /// Memory of the sorts, groups and joins of a query on one thread. Sorts and groups that need more use temporary files;
    /// a sort of many short rows by several columns can fail instead
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = super::units::parse_capacity)]
    pub query_memory: u64,
    /// Folder for rows that other processes fetch, and for temporary files [default: the folder of the system]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Choice of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterChoiceArgs {
    /// Scheduler of a cluster that computes the searches of `evaluate`, or the rows of a query: `http://HOST:PORT`. Its
    /// executors need this store
    #[arg(long, value_name = "URL", env = "PAIRLOOM_CLUSTER")]
    pub cluster: Option<ClusterUrl>,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Serve Flight SQL, for clients such as ADBC and JDBC. The port is 32010 by default; 0 means any free port.
    /// Without a token, only addresses of this machine
    #[arg(long, value_name = "ADDRESS", required = true, num_args = 0..=1, default_missing_value = "127.0.0.1:32010")]
    pub flight: SocketAddr,
    /// File with the token that clients need: at least 16 characters. Clients send it as `authorization: Bearer TOKEN`,
    /// or as the password of any user [default: the environment variable `PAIRLOOM_FLIGHT_TOKEN`]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of the server and its chain (PEM): connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Memory of the process: beyond it, the query ends that began last [default: three quarters of the memory of the machine]
    #[arg(long, value_name = "SIZE", value_parser = super::units::parse_capacity)]
    pub memory: Option<u64>,
    /// Memory of the groups and joins of one query, and as much again for its sorts. Sorts and groups that need more use
    /// temporary files, of 16 GiB at most; other queries fail. Values that a function computes are not counted
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = super::units::parse_capacity)]
    pub query_memory: u64,
    /// Seconds that a query may take, until the client has taken its last row
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u32).range(1..))]
    pub query_time: u32,
    /// Queries that run at the same time; others wait
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..))]
    pub queries: u16,
    /// Scheduler of a cluster that computes the rows of queries: `http://HOST:PORT`
    #[command(flatten)]
    pub cluster: ClusterChoiceArgs,
    /// Run of the tables `stage.table`; by default always the last one that has finished
    #[command(flatten)]
    pub of: RunChoiceArgs,
    /// Read a file as the table NAME: csv, tsv, parquet, json, jsonl, ndjson. Repeatable. A query reads no other files
    #[arg(long = "file", value_name = "NAME=FILE", value_parser = str::parse::<NamedFile>)]
    pub files: Vec<NamedFile>,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Table: `stage.table`, such as `photos.features`
    pub table: String,
    /// Folder for the files, new or empty
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// Format of the files
    #[arg(long, value_name = "FORMAT", default_value = "npy")]
    pub format: ExportFormat,
    /// Export the rows of one split only
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<String>,
    /// Captions of a `*_precomp` folder or of tar files: `stage.table` [default: the table `captions` of the same stage]
    #[arg(long, value_name = "TABLE")]
    pub captions: Option<String>,
    /// Run of the stage
    #[command(flatten)]
    pub of: RunChoiceArgs,
}

/// Format of the files of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Array `TABLE.npy` of the vectors, (rows, width) or (rows, regions, width), and identifiers in `TABLE_ids.txt`.
    Npy,
    /// Folder that code published with VSE++, SCAN and later models reads: features or regions, captions, identifiers.
    Precomp,
    /// Arrow file with all columns.
    Arrow,
    /// Tar files of images with their captions, in the form of WebDataset: `.jpg` or `.png`, `.txt` with the first caption,
    /// and `.json` with all of them.
    #[value(name = "webdataset")]
    WebDataset,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn devices() {
        assert_eq!(parse_device("cpu"), Ok(Device::Cpu));
        assert_eq!(parse_device("cuda:3"), Ok(Device::Cuda(3)));
        assert!(parse_device("cuda:x").is_err() && parse_device("gpu").is_err());
    }

    #[test]
    fn the_help_lists_the_exit_codes_of_all_error_kinds() {
        use pairloom_base::error::ErrorCategory;
        for kind in [
            ErrorCategory::Expectation,
            ErrorCategory::Usage,
            ErrorCategory::Data,
            ErrorCategory::Stage,
            ErrorCategory::Internal,
            ErrorCategory::Interrupted,
        ] {
            assert!(EXIT_CODES.contains(&format!("\n  {:<5}", kind.exit_code())), "{kind:?}");
        }
    }
}
