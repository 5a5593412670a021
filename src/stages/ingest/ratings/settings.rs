//! Settings of `ratings`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::separator::separator_problem;
use pairloom_stage::{Problem, SourceRef, StageInput, TableRef};
use pairloom_tables as tables;

/// Name of the input with the file.
pub(super) const FILE: &str = "ratings.file";
/// Name of the input with the images.
pub(super) const IMAGES: &str = "ratings.images";
/// Name of the input with the captions.
pub(super) const CAPTIONS: &str = "ratings.captions";

/// Human ratings of image-caption pairs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatingTable {
    /// File of the ratings, in the form that `form` names.
    pub file: SourceRef,
    /// Form of the file.
    #[serde(default, skip_serializing_if = "RatingForm::is_default")]
    pub form: RatingForm,
    /// Images whose column `file_name` has the names of the file; needs `captions`. Without these tables, the number at
    /// the end of a name is the identifier: 365325 of `COCO_val2014_000000365325.jpg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TableRef>,
    /// Captions of `images`. The name `a.jpg#2` is the third caption of the image `a.jpg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<TableRef>,
    /// Separator of the columns of a CSV file; by default a comma. Fields may be quoted as in RFC 4180: `"a ""big"" dog"`. In
    /// TSV files, a quote is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
}

/// Form of a file of ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatingForm {
    /// `sits_test.csv` or `sits_val.csv` of Crisscrossed Captions, or a CSV or TSV file with the same columns: `caption`,
    /// `image`, `agg_score`, `sampling_method`. With a column `rater`, a pair can have ratings of several people, each in a
    /// row.
    #[default]
    Crisscrossed,
    /// `ExpertAnnotations.txt` of Flickr8k: lines with the file name of an image, the name of a caption and the ratings of
    /// three people, from 1 to 4, between tabs. Each rating is a row. The sampling of a pair is `own_image` for a caption of
    /// the image itself, and `other_image` for another one. Needs `images` and `captions`.
    Flickr8kExpert,
}

impl RatingForm {
    /// True for the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RatingTable {
    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        let images = self.images.iter().map(|from| StageInput::table(IMAGES, from, &tables::images::table()));
        let captions = self.captions.iter().map(|from| StageInput::table(CAPTIONS, from, &tables::captions::table()));
        std::iter::once(StageInput::source(FILE, &self.file)).chain(images).chain(captions).collect()
    }

    pub(in super::super) fn check(&self) -> Vec<Problem> {
        let tables =
            "name the tables of the same data set: `images = \"pairs.images\"`, `captions = \"pairs.captions\"`";
        let mut problems: Vec<Problem> = separator_problem("ratings", self.separator).into_iter().collect();
        match (self.form, &self.images, &self.captions) {
            (_, Some(_), None) => problems.push(Problem::new(IMAGES, "needs `captions` beside it").hint(tables)),
            (_, None, Some(_)) => problems.push(Problem::new(CAPTIONS, "needs `images` beside it").hint(tables)),
            (RatingForm::Flickr8kExpert, None, None) => {
                let message = "`flickr8k_expert` has names of images and captions, and needs `images` and `captions`";
                problems.push(Problem::new("ratings.form", message).hint(tables));
            }
            _ => {}
        }
        if self.form == RatingForm::Flickr8kExpert && self.separator.is_some() {
            let message = "`flickr8k_expert` has tabs between its columns";
            problems.push(Problem::new("ratings.separator", message).hint("leave `separator` out"));
        }
        problems
    }
}
