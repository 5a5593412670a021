//! `ingest`: files of a data set → `images`, `captions` (and `features` or `regions`, if the data set has them), or
//! `ratings`, or `qrels`, or the rows that papers print (`published`), or the `image_embeddings` and `caption_embeddings` of another
//! program.
//!
//! For every format:
//! - images are in the order of the data set; the captions of an image are adjacent and in their order;
//! - white space around a caption is removed; a caption is not changed otherwise; a name is not changed at all;
//! - captions that are empty or null are left out with `on_missing = "skip"`, at most the share `max_skipped`;
//! - a duplicate identifier, otherwise an empty caption, an unknown split, bytes that are not UTF-8, or a name that leads out of
//!   the image folder is an error. The error names file and line, and lists all mistakes of the file.

mod karpathy;
mod flickr;
mod coco;
mod precomp;
mod caption_rows;
mod image_folder;
mod captions;
mod ratings;
mod published;
mod qrels;
mod embeddings;
mod picture_rows;
mod webdataset;
mod hugging_face;
mod image_urls;
mod synthetic;
mod listed_images;
mod writer;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod url_names_tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::Result;
use pairloom_formats::delimited::DelimitedForm;
use pairloom_stage::{
    CopiedRows, KnownFacts, OutputFact, Problem, RunnableStage, SourceOrUrl, SourceRef, Stage, StageContext,
    StageInput, StageOutput,
};
use pairloom_tables as tables;
use synthetic::IMAGE_SIDES;
use writer::{
    CAPTION_PART_ROWS, FEATURE_PART_ROWS, IMAGE_PART_ROWS, PICTURE_PART_ROWS, PUBLISHED_PART_ROWS, RATING_PART_ROWS,
    REGION_PART_ROWS,
};

pub use embeddings::{EmbeddingColumns, PrecomputedEmbeddings};
pub use hugging_face::HuggingFace;
pub use image_folder::{ImageFolder, ImageFolderColumns, ImageSplit, SplitColumn, SplitFractions};
pub use image_urls::{ImageUrlColumns, ImageUrls};
pub use qrels::QrelsFiles;
pub use ratings::{RatingForm, RatingTable};
pub use webdataset::{CaptionMember, WebDataset};

/// Settings and inputs on which the bytes of an object of a bucket do not depend.
const NOT_OF_ROWS: &[&str] = &["karpathy*", "flickr*", "coco*", "image_folder*"];

/// Reads a data set.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ingest {
    /// Karpathy split file (`dataset_coco.json`, `dataset_flickr8k.json`) with its image folder.
    Karpathy(Karpathy),
    /// Original Flickr8k format: a token file, three lists of image names and an image folder.
    Flickr(Flickr),
    /// COCO caption annotations: annotation files, each with its split, and an image folder.
    Coco(Coco),
    /// `*_precomp` folder: features, captions and ids as published with VSE++ and later models.
    Precomp(Precomp),
    /// Folder of images with a table of captions: your own photographs.
    ImageFolder(ImageFolder),
    /// Table of captions without images.
    Captions(CaptionTable),
    /// Human ratings of image-caption pairs.
    Ratings(RatingTable),
    /// Table of rows that papers print, to compare results with: a TSV or CSV file with the columns of the table
    /// `published`, such as those in `data/published/`. Columns other than `paper`, `table`, `row` and `dataset` may be
    /// left out.
    Published(SourceRef),
    /// Relevance judgements: qrels in TREC's form, or the JSON files of ECCV Caption.
    Qrels(QrelsFiles),
    /// Embeddings of images and captions that another program computed, in npy, Parquet or Arrow files.
    Embeddings(PrecomputedEmbeddings),
    /// Tar files with images and their captions, in the form of WebDataset.
    #[serde(rename = "webdataset")]
    WebDataset(WebDataset),
    /// Parquet or Arrow files with images and their captions, in the form of Hugging Face's data sets.
    HuggingFace(HuggingFace),
    /// Table of URLs of images with their captions.
    ImageUrls(ImageUrls),
    /// Synthetic images and captions, generated without any download.
    Synthetic(SyntheticScenes),
}

/// Karpathy split file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Karpathy {
    /// Split file, such as `dataset_coco.json`.
    pub json: SourceRef,
    /// Image folder, or a prefix of a bucket (`s3://bucket/photographs`).
    #[schemars(with = "SourceOrUrl")]
    pub images: SourceRef,
    /// Splits of other names in the file: `{ dev = "val", validation = "val" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub splits: BTreeMap<String, String>,
    /// Number of captions kept of each image, in file order; the published loaders keep five.
    #[serde(default = "default_captions_per_image")]
    pub captions_per_image: usize,
    /// Treatment of images whose file is missing, and of captions that are empty or null.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images, and of the captions, that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Original Flickr8k format.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flickr {
    /// Token file, such as `Flickr8k.token.txt`, with lines `name.jpg#k<TAB>caption`.
    pub tokens: SourceRef,
    /// Image folder, or a prefix of a bucket (`s3://bucket/photographs`).
    #[schemars(with = "SourceOrUrl")]
    pub images: SourceRef,
    /// File with the names of the training images, one per line.
    pub train: SourceRef,
    /// File with the names of the validation images (`devImages`).
    pub val: SourceRef,
    /// File with the names of the test images.
    pub test: SourceRef,
    /// Treatment of images whose file is missing, and of captions that are empty or null.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images, and of the captions, that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// COCO caption annotations.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coco {
    /// Image folder, or a prefix of a bucket, which usually contains `train2014/` and `val2014/`.
    #[schemars(with = "SourceOrUrl")]
    pub images: SourceRef,
    /// Annotation files.
    pub files: Vec<CocoFile>,
    /// Number of captions kept of each image, in file order; the published loaders keep five.
    #[serde(default = "default_captions_per_image")]
    pub captions_per_image: usize,
    /// Treatment of images whose file is missing, and of captions that are empty or null.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images, and of the captions, that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// COCO annotation file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CocoFile {
    /// Annotation file, such as `captions_val2014.json`.
    pub captions: SourceRef,
    /// Folder of its images below `images`, such as `val2014`; by default `images` itself.
    #[serde(default)]
    pub folder: String,
    /// Split of its images: `train`, `restval`, `val` or `test`.
    pub split: String,
}

/// `*_precomp` folder.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precomp {
    /// Folder with the files `{train,dev,test}_{caps.txt,ims.npy,ids.txt}`.
    pub folder: SourceRef,
    /// True if the features are vectors of regions with shape (images, regions, width), as for SCAN and models after
    /// it. The stage then writes the table `regions` instead of `features`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub regions: bool,
    /// Files that are the split `test`.
    #[serde(default)]
    pub test: PrecompTest,
    /// Maximum number of captions of `dev`, from the first; published loaders use 5,000, which drops 70 rows of
    /// Flickr30k.
    #[serde(default = "default_dev_captions")]
    pub dev_captions: usize,
    /// Identifiers of the captions of the split `test`, in their order: an npy file of integers, such as
    /// `coco_test_ids.npy`, or a text file with one number a line. By default captions are numbered over all splits. With
    /// these identifiers, those of the other splits are numbered after the largest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_caption_ids: Option<SourceRef>,
    /// Treatment of captions that are empty.
    #[serde(default, skip_serializing_if = "OnMissing::is_default")]
    pub on_missing: OnMissing,
    /// Largest share of the captions that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Choice of the files of a `*_precomp` folder for the split `test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrecompTest {
    /// Files `test_*`: the first 1,000 images of COCO's test split.
    #[default]
    Test,
    /// Files `testall_*`: all 5,000 images of COCO's test split.
    Testall,
}

/// Table of captions without images, for stages that need captions only; `image_folder` reads images too.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptionTable {
    /// Table of captions: CSV or TSV with column names in the first line or in `header`, JSON Lines (each of these also
    /// `.gz`), Parquet or Arrow.
    pub file: SourceRef,
    /// Column of the image of a caption: its identifier or file name.
    #[serde(default = "default_image_column")]
    pub image: String,
    /// Column of the caption, or of a list of captions, which a text may also have as JSON or Python writes it.
    #[serde(default = "default_text_column")]
    pub text: String,
    /// Column of the caption identifiers, whole numbers. By default `caption_id`, if the table has this column; otherwise,
    /// or if the setting is `""`, captions are numbered from 0.
    #[serde(default)]
    pub caption_id: Option<String>,
    /// Column of the splits, or `{ name = "part", values = { dev = "val" } }` for other names of splits.
    #[serde(default)]
    pub split_column: Option<SplitColumn>,
    /// Split of all captions, if there is no column of splits.
    #[serde(default)]
    pub split: Option<String>,
    /// Separator of the columns of a CSV file; by default a comma. Fields may be quoted as in RFC 4180: `"a ""big"" dog"`. In
    /// TSV files, a quote is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Names of the columns of a CSV or TSV file that has no line of names, in their order: `["caption", "url"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Vec<String>>,
    /// Treatment of captions that are empty or null.
    #[serde(default, skip_serializing_if = "OnMissing::is_default")]
    pub on_missing: OnMissing,
    /// Largest share of the captions that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Synthetic images and captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyntheticScenes {
    /// Number of images of the split `train`.
    pub train: u32,
    /// Number of images of the split `val`.
    pub val: u32,
    /// Number of images of the split `test`.
    pub test: u32,
    /// Width and height of an image, in pixels.
    #[serde(default = "default_pixels")]
    pub pixels: u32,
    /// Seed; by default the pipeline's seed.
    #[serde(default)]
    pub seed: u64,
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn default_image_column() -> String {
    "image_id".to_owned()
}

fn default_text_column() -> String {
    "caption".to_owned()
}

fn default_captions_per_image() -> usize {
    5
}

fn default_dev_captions() -> usize {
    5000
}

fn default_pixels() -> u32 {
    96
}

impl Ingest {
    /// Images that a list names: the input, and its folder or bucket.
    fn listed_images(&self) -> Option<(&'static str, &SourceRef)> {
        match self {
            Self::Karpathy(settings) => Some(("karpathy.images", &settings.images)),
            Self::Flickr(settings) => Some(("flickr.images", &settings.images)),
            Self::Coco(settings) => Some(("coco.images", &settings.images)),
            Self::ImageFolder(settings) => Some(("image_folder.images", &settings.images)),
            _ => None,
        }
    }
}

impl Stage for Ingest {
    fn kind(&self) -> &'static str {
        "ingest"
    }

    fn version(&self) -> u32 {
        match self {
            Ingest::Ratings(_) => 5,
            Ingest::Flickr(_)
            | Ingest::ImageFolder(_)
            | Ingest::Captions(_)
            | Ingest::ImageUrls(_)
            | Ingest::HuggingFace(_) => 4,
            Ingest::Published(_) | Ingest::Qrels(_) | Ingest::Embeddings(_) => 2,
            _ => 3,
        }
    }

    fn settings(&self) -> serde_json::Value {
        match self {
            Ingest::ImageUrls(settings) => serde_json::json!({ "image_urls": settings.settings() }),
            _ => serde_json::json!(self),
        }
    }

    fn inputs(&self) -> Vec<StageInput> {
        match self {
            Ingest::Karpathy(settings) => {
                vec![
                    StageInput::source("karpathy.json", &settings.json),
                    StageInput::source("karpathy.images", &settings.images),
                ]
            }
            Ingest::Flickr(settings) => vec![
                StageInput::source("flickr.tokens", &settings.tokens),
                StageInput::source("flickr.images", &settings.images),
                StageInput::source("flickr.train", &settings.train),
                StageInput::source("flickr.val", &settings.val),
                StageInput::source("flickr.test", &settings.test),
            ],
            Ingest::Coco(settings) => {
                let files = settings.files.iter().enumerate();
                let files =
                    files.map(|(i, file)| StageInput::source(format!("coco.files.{i}.captions"), &file.captions));
                std::iter::once(StageInput::source("coco.images", &settings.images)).chain(files).collect()
            }
            Ingest::Precomp(settings) => {
                let ids = settings.test_caption_ids.as_ref();
                let ids = ids.map(|file| StageInput::source("precomp.test_caption_ids", file));
                std::iter::once(StageInput::source("precomp.folder", &settings.folder)).chain(ids).collect()
            }
            Ingest::ImageFolder(settings) => settings.inputs(),
            Ingest::Captions(settings) => vec![StageInput::source("captions.file", &settings.file)],
            Ingest::Ratings(settings) => settings.inputs(),
            Ingest::Published(file) => vec![StageInput::source("published", file)],
            Ingest::Qrels(settings) => settings.inputs(),
            Ingest::Embeddings(settings) => settings.inputs(),
            Ingest::WebDataset(settings) => settings.inputs(),
            Ingest::HuggingFace(settings) => settings.inputs(),
            Ingest::ImageUrls(settings) => settings.inputs(),
            Ingest::Synthetic(_) => vec![],
        }
    }

    fn outputs(&self) -> Vec<StageOutput> {
        match self {
            Ingest::Ratings(_) => {
                return vec![StageOutput::table("ratings", tables::ratings::table().schema(), RATING_PART_ROWS)];
            }
            Ingest::Published(_) => {
                let schema = tables::published::table().schema();
                return vec![StageOutput::table("published", schema, PUBLISHED_PART_ROWS)];
            }
            Ingest::Qrels(_) => return QrelsFiles::outputs(),
            Ingest::Embeddings(_) => return PrecomputedEmbeddings::outputs(),
            _ => {}
        }
        let listed = self.listed_images();
        let in_bucket = listed.is_some_and(|(_, images)| images.is_url());
        let has_pictures =
            in_bucket || matches!(self, Ingest::WebDataset(_) | Ingest::HuggingFace(_) | Ingest::ImageUrls(_));
        let rows = if has_pictures { PICTURE_PART_ROWS } else { IMAGE_PART_ROWS };
        let images = StageOutput::table("images", tables::images::table().schema(), rows);
        let images = match (listed, self) {
            (Some((input, _)), _) if !in_bucket => images.relative_to(input),
            (_, Ingest::Precomp(_) | Ingest::Captions(_)) => {
                images.with_empty_columns(&tables::images::PICTURE_COLUMNS)
            }
            _ => images,
        };
        let mut outputs =
            vec![images, StageOutput::table("captions", tables::captions::table().schema(), CAPTION_PART_ROWS)];
        if let Ingest::Precomp(settings) = self {
            outputs.push(if settings.regions {
                StageOutput::table("regions", tables::regions::table().schema(), REGION_PART_ROWS)
            } else {
                StageOutput::table("features", tables::features::table().schema(), FEATURE_PART_ROWS)
            });
        }
        outputs
    }

    fn facts(&self, _: &KnownFacts) -> Vec<OutputFact> {
        let Self::Published(file) = self else { return Vec::new() };
        let names = published::printed_names(file.path());
        names.map(|names| OutputFact::new("published", names)).into_iter().collect()
    }

    fn copied_rows(&self) -> Option<CopiedRows> {
        let (input, images) = self.listed_images()?;
        images.is_url().then_some(CopiedRows { input, output: "images", key_columns: &[], not_of_rows: NOT_OF_ROWS })
    }

    fn check_headers(&self) -> Vec<Problem> {
        match self {
            Ingest::ImageFolder(settings) => settings.check_headers(),
            Ingest::Captions(settings) => captions::check_headers(settings),
            Ingest::ImageUrls(settings) => settings.check_headers(),
            _ => Vec::new(),
        }
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let skipping = match self {
            Ingest::Karpathy(settings) => Some(("karpathy", settings.on_missing, settings.max_skipped)),
            Ingest::Flickr(settings) => Some(("flickr", settings.on_missing, settings.max_skipped)),
            Ingest::Coco(settings) => Some(("coco", settings.on_missing, settings.max_skipped)),
            Ingest::Precomp(settings) => Some(("precomp", settings.on_missing, settings.max_skipped)),
            Ingest::Captions(settings) => Some(("captions", settings.on_missing, settings.max_skipped)),
            _ => None,
        };
        if let Ingest::Captions(settings) = self {
            problems.extend(delimited_problems("captions", settings.separator, settings.header.as_deref()));
            problems.extend(settings.split_column.iter().filter_map(|column| column.problem("captions.split_column")));
        }
        problems.extend(skipping.and_then(|(form, policy, share)| max_skipped_problem(form, policy, share)));
        match self {
            Ingest::Karpathy(settings) => {
                if settings.captions_per_image == 0 {
                    problems.push(Problem::new("karpathy.captions_per_image", "got 0, expected at least 1"));
                }
                let wrong = settings.splits.values().find_map(|split| listed_images::parse_split(split).err());
                problems.extend(wrong.map(|message| Problem::new("karpathy.splits", message)));
            }
            Ingest::Coco(settings) => {
                if settings.captions_per_image == 0 {
                    problems.push(Problem::new("coco.captions_per_image", "got 0, expected at least 1"));
                }
                if settings.files.is_empty() {
                    problems.push(Problem::new("coco.files", "no annotation file, expected at least one"));
                }
                for (i, file) in settings.files.iter().enumerate() {
                    if let Err(message) = listed_images::parse_split(&file.split) {
                        problems.push(Problem::new(format!("coco.files.{i}.split"), message));
                    }
                    if let Err(message) = listed_images::image_path(&file.folder, "a.jpg") {
                        problems.push(Problem::new(format!("coco.files.{i}.folder"), message));
                    }
                }
            }
            Ingest::Precomp(settings) if settings.dev_captions == 0 => {
                problems.push(Problem::new("precomp.dev_captions", "got 0, expected at least 1"));
            }
            Ingest::Synthetic(settings) => {
                if u64::from(settings.train) + u64::from(settings.val) + u64::from(settings.test) == 0 {
                    problems.push(Problem::new("synthetic", "no image in any split, expected at least one"));
                }
                if !IMAGE_SIDES.contains(&settings.pixels) {
                    let (least, most) = (IMAGE_SIDES.start(), IMAGE_SIDES.end());
                    let message = format!("got {} pixels, expected {least} to {most}", settings.pixels);
                    problems.push(Problem::new("synthetic.pixels", message));
                }
            }
            Ingest::Captions(settings) => match (&settings.split, &settings.split_column) {
                (Some(name), None) => {
                    if let Err(message) = listed_images::parse_split(name) {
                        problems.push(Problem::new("captions.split", message));
                    }
                }
                (None, Some(_)) => {}
                (given, _) => {
                    let got = if given.is_some() { "both" } else { "neither" };
                    let message = format!("got {got} of `split` and `split_column`, expected one of them");
                    problems.push(Problem::new("captions", message));
                }
            },
            Ingest::ImageFolder(settings) => problems.extend(settings.check()),
            Ingest::Ratings(settings) => problems.extend(settings.check()),
            Ingest::Qrels(settings) => problems.extend(settings.check()),
            Ingest::Embeddings(settings) => problems.extend(settings.check()),
            Ingest::WebDataset(settings) => problems.extend(settings.check()),
            Ingest::HuggingFace(settings) => problems.extend(settings.check()),
            Ingest::ImageUrls(settings) => problems.extend(settings.check()),
            Ingest::Flickr(_) | Ingest::Precomp(_) | Ingest::Published(_) => {}
        }
        problems
    }
}

/// Treatment of images whose file is missing, and of captions that are empty or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Stops with an error that names all of them.
    #[default]
    Fail,
    /// Leaves such images and their captions out, with a warning for each image, and captions that are empty or null, with one
    /// for each file. An image without a caption that is left is left out too. `max_skipped` limits the share of images and that
    /// of captions; one image at least must be left.
    Skip,
}

impl OnMissing {
    /// True for the default: leaving it out keeps the keys of older results.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Default of `max_skipped`: the largest share of images that may be left out.
pub(crate) fn default_max_skipped() -> f64 {
    0.1
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
pub(crate) fn is_default_max_skipped(share: &f64) -> bool {
    *share == default_max_skipped()
}

/// Checks the setting `max_skipped` of a form, or of a stage without forms (`""`).
pub(crate) fn max_skipped_problem(form: &str, on_missing: OnMissing, share: f64) -> Option<Problem> {
    let setting = format!("{form}.max_skipped");
    let setting = setting.trim_start_matches('.');
    if !(0.0..=1.0).contains(&share) {
        return Some(Problem::new(setting, format!("got {share}, expected 0 to 1")));
    }
    (share != default_max_skipped() && on_missing == OnMissing::Fail).then(|| {
        Problem::new(setting, "it limits the images that are left out, but none are")
            .hint("set `on_missing = \"skip\"` too")
    })
}

/// Checks the setting `separator` of a form.
fn separator_problem(form: &str, separator: Option<char>) -> Option<Problem> {
    let character = separator?;
    let is_possible = character == '\t' || (character.is_ascii() && !character.is_ascii_control() && character != '"');
    (!is_possible || character.is_ascii_alphanumeric()).then(|| {
        let message = format!("got `{}`, expected a character such as `;`", character.escape_debug());
        Problem::new(format!("{form}.separator"), message)
    })
}

/// Checks the settings `separator` and `header` of a form.
fn delimited_problems(form: &str, separator: Option<char>, header: Option<&[String]>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = separator_problem(form, separator).into_iter().collect();
    if let Some(header) = header
        && (header.is_empty() || header.iter().enumerate().any(|(at, name)| header[..at].contains(name)))
    {
        let message = "expected the name of each column, in their order, all different";
        problems.push(Problem::new(format!("{form}.header"), message));
    }
    problems
}

/// Form of a file with settings that [`delimited_problems`] accepts.
fn delimited_form(separator: Option<char>, header: Option<&[String]>) -> DelimitedForm<'_> {
    DelimitedForm { separator: separator.and_then(|character| u8::try_from(character).ok()), header }
}

impl RunnableStage for Ingest {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match self {
            Ingest::Karpathy(settings) => karpathy::run(settings, cx),
            Ingest::Flickr(settings) => flickr::run(settings, cx),
            Ingest::Coco(settings) => coco::run(settings, cx),
            Ingest::Precomp(settings) => precomp::run(settings, cx),
            Ingest::ImageFolder(settings) => image_folder::run(settings, cx),
            Ingest::Captions(settings) => captions::run(settings, cx),
            Ingest::Ratings(settings) => ratings::run(settings, cx),
            Ingest::Published(_) => published::run(cx),
            Ingest::Qrels(settings) => qrels::run(settings, cx),
            Ingest::Embeddings(settings) => embeddings::run(settings, cx),
            Ingest::WebDataset(settings) => webdataset::run(settings, cx),
            Ingest::HuggingFace(settings) => hugging_face::run(settings, cx),
            Ingest::ImageUrls(settings) => image_urls::run(settings, cx),
            Ingest::Synthetic(settings) => synthetic::run(settings, cx),
        }
    }
}
