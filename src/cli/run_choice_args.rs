//! Choice of a run on the command line. Doc comments of fields are the help texts.

use clap::Args;

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
