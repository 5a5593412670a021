//! Settings of `image_folder`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::listing::parse_split;
use super::super::on_missing::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::Result;
use pairloom_stage::{Problem, SourceOrUrl, SourceRef, StageInput};

/// Name of the input of the images.
pub(super) const IMAGES: &str = "image_folder.images";

/// Folder of images, with or without a table of captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageFolder {
    /// Image folder, or a prefix of a bucket (`s3://bucket/photographs`). Images that the table does not name are not used.
    #[schemars(with = "SourceOrUrl")]
    pub images: SourceRef,
    /// Table of captions with one caption, or a list of captions, in a row: CSV or TSV with column names in the first
    /// line, JSON Lines (each of these also `.gz`), Parquet or Arrow. The rows of an image may be anywhere in the table.
    /// Without a table, all files that end in `.jpg`, `.jpeg` or `.png` are images without captions, numbered from 0 in the
    /// order of their names: enough for features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<SourceRef>,
    /// Separator of the columns of a CSV file; by default a comma. Fields may be quoted as in RFC 4180: `"a ""big"" dog"`. In
    /// TSV files, a quote is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Split of the images: a name for all (`"train"`, `"restval"`, `"val"`, `"test"`), `{ column = "split" }` for a
    /// column of the table, or `{ fractions = { val = 0.1, test = 0.1 } }` for a random split.
    pub split: ImageSplit,
    /// Names of the columns of the table.
    #[serde(default)]
    pub columns: ImageFolderColumns,
    /// Treatment of images whose file is missing.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Names of the columns of a table of captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageFolderColumns {
    /// Column of the file of the image, relative to the folder.
    pub file_name: String,
    /// Column of the caption, or of a list of captions.
    pub caption: String,
    /// Column of the identifier of the image. Whole numbers become `image_id`. If one of them is a text, images are
    /// numbered from 0 in order of first appearance, and the identifiers are in the column `file_name` of `images`, in
    /// place of the files, which stay in `path`. By default `image_id`, if the table has this column; otherwise, or if
    /// the setting is `""`, images are numbered.
    pub image_id: Option<String>,
    /// Column of the identifier of the caption, a whole number. By default `caption_id`, if the table has this column;
    /// otherwise, or if the setting is `""`, captions are numbered from 0.
    pub caption_id: Option<String>,
}

/// Split of the images.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageSplit {
    /// All images are in the split `train`.
    Train,
    /// All images are in the split `restval`.
    Restval,
    /// All images are in the split `val`.
    Val,
    /// All images are in the split `test`.
    Test,
    /// Column of the split, with the values `train`, `restval`, `val` and `test`. All rows of an image have the same.
    Column(String),
    /// Random split with these fractions.
    Fractions(SplitFractions),
}

/// Random split of the images. The split of an image is a function of its file name and `split_seed` alone, so it stays
/// when other images are added: with the first eight bytes h of the BLAKE3 hash of the name and a uniform random number
/// u = SplitMix64(`split_seed`, h) in [0, 1), it is `test` if u < `test`, `val` if u < `test` + `val`, and else `train`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitFractions {
    /// Fraction of the split `val`.
    #[serde(default)]
    pub val: f64,
    /// Fraction of the split `test`.
    #[serde(default)]
    pub test: f64,
    /// Seed of the split. Not the seed of the pipeline, so that runs with several seeds have the same test images.
    #[serde(default)]
    pub split_seed: u64,
}

impl ImageSplit {
    /// Problems of the setting `split` of a form.
    pub(in super::super) fn problems(&self, form: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Self::Fractions(SplitFractions { val, test, .. }) = *self {
            for (name, fraction) in [("val", val), ("test", test)] {
                if !(0.0..=1.0).contains(&fraction) {
                    let setting = format!("{form}.split.fractions.{name}");
                    problems.push(Problem::new(setting, format!("got {fraction}, wanted 0 to 1")));
                }
            }
            if problems.is_empty() && val + test > 1.0 {
                let message = format!("`val` and `test` are {} together, wanted at most 1", val + test);
                problems.push(Problem::new(format!("{form}.split.fractions"), message));
            }
        }
        problems
    }

    /// Split of an image by its name, or by its `field` for a column of splits.
    ///
    /// # Errors
    /// The field is no split.
    pub(in super::super) fn of(&self, name: &str, field: Option<&str>) -> Result<&'static str, String> {
        Ok(match self {
            Self::Train => "train",
            Self::Restval => "restval",
            Self::Val => "val",
            Self::Test => "test",
            Self::Column(_) => return parse_split(field.unwrap_or_default()),
            Self::Fractions(fractions) => fractions.split_of(name),
        })
    }

    /// Checks that a random split of `count` images has images in each of its parts; `splits` are those that have some.
    ///
    /// # Errors
    /// A part has none, which happens with few images.
    pub(in super::super) fn check_sizes(&self, count: usize, splits: &BTreeSet<&str>) -> Result<()> {
        match self {
            Self::Fractions(fractions) => fractions.check_sizes(count, splits),
            _ => Ok(()),
        }
    }
}

impl Default for ImageFolderColumns {
    fn default() -> Self {
        Self { file_name: "file_name".to_owned(), caption: "caption".to_owned(), image_id: None, caption_id: None }
    }
}

impl ImageFolder {
    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        let captions = self.captions.iter().map(|table| StageInput::source("image_folder.captions", table));
        std::iter::once(StageInput::source(IMAGES, &self.images)).chain(captions).collect()
    }

    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("image_folder");
        problems.extend(max_skipped_problem("image_folder", self.on_missing, self.max_skipped));
        if let (None, ImageSplit::Column(_)) = (&self.captions, &self.split) {
            let problem = Problem::new("image_folder.split", "there is no table with such a column");
            problems.push(problem.hint("name the table with `captions`, or write `split = \"train\"`"));
        }
        problems
    }
}
