//! What `embeddings` reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::listing;
use crate::stage::{Input, Output, Problem, Source};
use crate::tables;

/// Rows of a part, as `embed` has them.
const PART_ROWS: usize = 4096;

/// Vectors of images and captions that another program computed, in two files of one form.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embeddings {
    /// The images: an `.npy` file of a row an image, or a Parquet or Arrow file with columns `image_id`, `split` and
    /// `embedding`.
    pub images: Source,
    /// The captions: an `.npy` file of a row a caption, or a Parquet or Arrow file with columns `caption_id`, `image_id` and
    /// `embedding`.
    pub captions: Source,
    /// The split of all rows, in place of a column; `test` for npy files where not given.
    #[serde(default)]
    pub split: Option<String>,
    /// npy: captions of each image, which stand together in the order of the images; 5 where not given.
    #[serde(default)]
    pub captions_per_image: Option<usize>,
    /// npy: a text file that says on line i which image caption i describes, as its row counted from 0.
    #[serde(default)]
    pub image_of: Option<Source>,
    /// Parquet and Arrow: names of columns where they differ.
    #[serde(default)]
    pub columns: Option<EmbeddingColumns>,
    /// Whether every vector is scaled to unit length, as cosines want it. Not for order embeddings, which mean their length.
    #[serde(default = "yes")]
    pub normalize: bool,
}

/// Names of the columns of Parquet and Arrow files.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingColumns {
    /// In both files: the image, a whole number.
    pub image_id: String,
    /// In the captions: the caption, a whole number.
    pub caption_id: String,
    /// In the images, where `split` is not given: the split, `train`, `restval`, `val` or `test`. If the captions have the
    /// column too, it must say the same.
    pub split: String,
    /// In the images: the vector.
    pub image_embedding: String,
    /// In the captions: the vector.
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

impl Embeddings {
    pub(in super::super) fn inputs(&self) -> Vec<Input> {
        let files =
            [Input::source("embeddings.images", &self.images), Input::source("embeddings.captions", &self.captions)];
        let image_of = self.image_of.as_ref().map(|file| Input::source("embeddings.image_of", file));
        files.into_iter().chain(image_of).collect()
    }

    pub(in super::super) fn outputs() -> Vec<Output> {
        [tables::image_embeddings::table(), tables::caption_embeddings::table()]
            .map(|table| Output::table(table.name, table.schema(), PART_ROWS))
            .into()
    }

    /// What can be told without the files: whether they are npy or tables shows in their first bytes.
    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(Err(message)) = self.split.as_deref().map(listing::split) {
            problems.push(Problem::new("embeddings.split", message));
        }
        if self.captions_per_image == Some(0) {
            problems.push(Problem::new("embeddings.captions_per_image", "got 0, wanted at least 1"));
        }
        if self.captions_per_image.is_some() && self.image_of.is_some() {
            let message = "got `captions_per_image` and `image_of`, wanted one of them";
            problems.push(Problem::new("embeddings", message));
        }
        let arrays = self.captions_per_image.is_some() || self.image_of.is_some();
        if arrays && self.columns.is_some() {
            let message = "got `columns`, which are of Parquet and Arrow files, beside a setting of npy files";
            problems.push(Problem::new("embeddings.columns", message));
        }
        problems
    }
}

fn yes() -> bool {
    true
}
