//! Settings of `embeddings`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::listing;
use pairloom_stage::{Problem, SourceRef, StageInput, StageOutput};
use pairloom_tables as tables;

/// Inputs with files beside npy files.
pub(super) const IMAGE_OF: &str = "embeddings.image_of";
pub(super) const IMAGE_IDS: &str = "embeddings.image_ids";
pub(super) const CAPTION_IDS: &str = "embeddings.caption_ids";

/// Number of rows of a part, as in `embed`.
const PART_ROWS: usize = 4096;

/// Embeddings of images and captions that another program computed, in two files of the same format.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecomputedEmbeddings {
    /// Image embeddings: an `.npy` file with one row per image, or a Parquet or Arrow file with columns `image_id`,
    /// `split` and `embedding`.
    pub images: SourceRef,
    /// Caption embeddings: an `.npy` file with one row per caption, or a Parquet or Arrow file with columns
    /// `caption_id`, `image_id` and `embedding`.
    pub captions: SourceRef,
    /// Split of all rows, instead of a column; by default `test` for npy files.
    #[serde(default)]
    pub split: Option<String>,
    /// Number of captions of each image in npy files, where the captions are in the order of the images; by default 5.
    #[serde(default)]
    pub captions_per_image: Option<usize>,
    /// Text file for npy files: line i is the row number, from 0, of the image that caption i describes.
    #[serde(default)]
    pub image_of: Option<SourceRef>,
    /// Identifiers of the images of npy files, in the order of the rows: an npy file of integers, or a text file with one
    /// number a line. By default the row numbers, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_ids: Option<SourceRef>,
    /// Identifiers of the captions of npy files, in the order of the rows, such as `coco_test_ids.npy`. By default the row
    /// numbers, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_ids: Option<SourceRef>,
    /// Column names of Parquet and Arrow files, if they differ from the defaults.
    #[serde(default)]
    pub columns: Option<EmbeddingColumns>,
    /// True if vectors are scaled to unit length, as the cosine needs. Order embeddings need false, since their length
    /// has a meaning.
    #[serde(default = "default_normalize")]
    pub normalize: bool,
}

/// Column names of Parquet and Arrow files.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingColumns {
    /// Column of the image identifier, in both files: integers, or texts, for which images get the number of their row,
    /// from 0.
    pub image_id: String,
    /// Column of the caption identifier, in the caption file: integers, or texts, for which captions get the number of
    /// their row, from 0.
    pub caption_id: String,
    /// Column of the split, `train`, `restval`, `val` or `test`, in the image file; not used if the setting `split` is
    /// given. If the caption file has the column too, its values must be equal.
    pub split: String,
    /// Column of the vector in the image file.
    pub image_embedding: String,
    /// Column of the vector in the caption file.
    pub caption_embedding: String,
}

impl Default for EmbeddingColumns {
    fn default() -> Self {
        let embedding = || "embedding".to_owned();
        Self {
            image_id: "image_id".to_owned(),
            caption_id: "caption_id".to_owned(),
            split: "split".to_owned(),
            image_embedding: embedding(),
            caption_embedding: embedding(),
        }
    }
}

impl PrecomputedEmbeddings {
    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        let files = [
            ("embeddings.images", Some(&self.images)),
            ("embeddings.captions", Some(&self.captions)),
            (IMAGE_OF, self.image_of.as_ref()),
            (IMAGE_IDS, self.image_ids.as_ref()),
            (CAPTION_IDS, self.caption_ids.as_ref()),
        ];
        files.into_iter().filter_map(|(name, file)| Some(StageInput::source(name, file?))).collect()
    }

    /// The settings for npy files only that are given.
    pub(super) fn npy_settings(&self) -> impl Iterator<Item = &'static str> {
        let settings = [
            ("captions_per_image", self.captions_per_image.is_some()),
            ("image_of", self.image_of.is_some()),
            ("image_ids", self.image_ids.is_some()),
            ("caption_ids", self.caption_ids.is_some()),
        ];
        settings.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    pub(in super::super) fn outputs() -> Vec<StageOutput> {
        [tables::image_embeddings::table(), tables::caption_embeddings::table()]
            .map(|table| StageOutput::table(table.name, table.schema(), PART_ROWS))
            .into()
    }

    /// Checks the settings without reading files. The format of a file is detected later, from its first bytes.
    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(Err(message)) = self.split.as_deref().map(listing::parse_split) {
            problems.push(Problem::new("embeddings.split", message));
        }
        if self.captions_per_image == Some(0) {
            problems.push(Problem::new("embeddings.captions_per_image", "got 0, wanted at least 1"));
        }
        if self.captions_per_image.is_some() && self.image_of.is_some() {
            let message = "got `captions_per_image` and `image_of`, wanted one of them";
            problems.push(Problem::new("embeddings", message));
        }
        if let (Some(setting), Some(_)) = (self.npy_settings().next(), &self.columns) {
            let message =
                format!("got `columns`, which is for Parquet and Arrow files, with `{setting}`, for npy files");
            problems.push(Problem::new("embeddings.columns", message));
        }
        problems
    }
}

fn default_normalize() -> bool {
    true
}
