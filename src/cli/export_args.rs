//! Arguments of `export`. Doc comments of fields and variants are the help texts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::run_choice_args::RunChoiceArgs;

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
