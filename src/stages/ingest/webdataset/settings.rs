//! Settings of `webdataset`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::image_folder::ImageSplit;
use super::super::on_missing::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_stage::{Problem, SourceRef, StageInput};

/// Tar files in the form of WebDataset: files of one name, up to its first point, are a sample. A sample has an image
/// (`.jpg`, `.jpeg`, `.png`) of at most 16 MiB, and captions. The images become part of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebDataset {
    /// Folder with the tar files (`.tar`, `.tar.gz`, `.tgz`), which are read in the order of their names, or one tar file.
    pub shards: SourceRef,
    /// Captions of a sample: `"txt"` for one in the file `.txt`, or `{ json = "caption" }` for a field of the file `.json`
    /// with a text or a list of texts. If the `.json` of the first sample also has `image_id` and `caption_ids`, as
    /// `pairloom export` writes them, these are the identifiers of all samples. Otherwise images and captions are numbered
    /// from 0.
    #[serde(default)]
    pub captions: CaptionMember,
    /// Split of the images: a name for all, `{ column = "split" }` for a field of the `.json`, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the name of the sample.
    pub split: ImageSplit,
    /// Treatment of samples without an image or without captions, and of files that are refused: links, paths that lead out,
    /// files over 16 MiB.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the samples that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Captions of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptionMember {
    /// File `.txt`: one caption.
    #[default]
    Txt,
    /// Field of the file `.json`: a caption or a list of captions.
    Json(String),
}

impl WebDataset {
    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("webdataset.shards", &self.shards)]
    }

    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("webdataset");
        problems.extend(max_skipped_problem("webdataset", self.on_missing, self.max_skipped));
        problems
    }
}
