//! Settings of `hugging_face`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::image_folder::ImageSplit;
use super::super::on_missing::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_stage::{Problem, SourceRef, StageInput};

/// Parquet or Arrow files in the form of Hugging Face's data sets: one image a row, as bytes or as the struct of `bytes` and
/// `path` of the feature `Image`, with a caption or a list of captions. An image has at most 16 MiB. The images become part
/// of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuggingFace {
    /// Folder with the files (`.parquet`, `.arrow`), which are read in the order of their names, or one file.
    pub files: SourceRef,
    /// Column of the images.
    #[serde(default = "default_image")]
    pub image: String,
    /// Column of the captions: texts or lists of texts.
    #[serde(default = "default_caption")]
    pub caption: String,
    /// Column of the identifiers of the images, whole numbers; without it images are numbered from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Split of the images: a name for all, `{ column = "split" }` for a column, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the name of the image.
    pub split: ImageSplit,
    /// Treatment of rows without an image, without captions or without an identifier, and of images over 16 MiB.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the rows that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

fn default_image() -> String {
    "image".to_owned()
}

fn default_caption() -> String {
    "caption".to_owned()
}

impl HuggingFace {
    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("hugging_face.files", &self.files)]
    }

    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("hugging_face");
        problems.extend(max_skipped_problem("hugging_face", self.on_missing, self.max_skipped));
        problems
    }
}
