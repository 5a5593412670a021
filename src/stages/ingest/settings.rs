//! What `ingest` reads: one of the forms in which data sets lie on people's disks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::Embeddings;
use super::listing;
use super::missing::OnMissing;
use super::parts::{CAPTION_PART_ROWS, FEATURE_PART_ROWS, IMAGE_PART_ROWS, RATING_PART_ROWS, REGION_PART_ROWS};
use super::scenes::PIXELS;
use crate::stage::{Input, Output, Problem, Source, Stage};
use crate::tables;

/// Reads a data set.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ingest {
    /// A Karpathy split file (`dataset_coco.json`, `dataset_flickr8k.json`) and its folder of images.
    Karpathy(Karpathy),
    /// The original Flickr8k form: a token file, three lists of names, a folder of images.
    Flickr(Flickr),
    /// COCO caption annotations, each file with the split that it makes, and the folder of images.
    Coco(Coco),
    /// A `*_precomp` folder: features, captions and ids of the published repositories.
    Precomp(Precomp),
    /// A table of captions with no pictures.
    Captions(CaptionTable),
    /// Human ratings of pairs of captions and images.
    Ratings(RatingTable),
    /// Vectors of images and captions that another program computed: npy, Parquet or Arrow files.
    Embeddings(Embeddings),
    /// Pictures and captions that are made up here, so that everything runs with no download.
    Scenes(Scenes),
}

/// A Karpathy split file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Karpathy {
    /// The file: `dataset_coco.json`.
    pub json: Source,
    /// The folder of images.
    pub images: Source,
    /// Captions kept of each image, in file order; the published loaders keep five.
    #[serde(default = "five")]
    pub captions_per_image: usize,
    /// What to do about an image that no file holds.
    #[serde(default)]
    pub on_missing: OnMissing,
}

/// The original Flickr8k form.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flickr {
    /// `Flickr8k.token.txt`: `name.jpg#k<TAB>caption`.
    pub tokens: Source,
    /// The folder of images.
    pub images: Source,
    /// Names of the training images, one a line.
    pub train: Source,
    /// Names of the validation images (`devImages`).
    pub val: Source,
    /// Names of the test images.
    pub test: Source,
    /// What to do about an image that no file holds.
    #[serde(default)]
    pub on_missing: OnMissing,
}

/// COCO caption annotations.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coco {
    /// The folder of images, which usually holds `train2014/` and `val2014/`.
    pub images: Source,
    /// The annotation files.
    pub files: Vec<CocoFile>,
    /// Captions kept of each image, in file order; the published loaders keep five.
    #[serde(default = "five")]
    pub captions_per_image: usize,
    /// What to do about an image that no file holds.
    #[serde(default)]
    pub on_missing: OnMissing,
}

/// One COCO annotation file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CocoFile {
    /// `captions_val2014.json`.
    pub captions: Source,
    /// The folder of its images below `images`, such as `val2014`; `images` itself where not given.
    #[serde(default)]
    pub folder: String,
    /// The split that its images belong to: `train`, `restval`, `val` or `test`.
    pub split: String,
}

/// A `*_precomp` folder.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precomp {
    /// The folder: `{train,dev,test}_{caps.txt,ims.npy,ids.txt}`.
    pub folder: Source,
    /// Whether the features are vectors of regions, (images, regions, width), as SCAN and its heirs have them: the stage
    /// then writes the table `regions` in place of `features`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub regions: bool,
    /// Which files make the split `test`.
    #[serde(default)]
    pub test: PrecompTest,
    /// Captions of `dev` that are used, from the first; published loaders use 5,000, which drops 70 rows of Flickr30k.
    #[serde(default = "five_thousand")]
    pub dev_captions: usize,
}

/// Which files of a `*_precomp` folder make the split `test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrecompTest {
    /// `test_*`: the first 1,000 images of COCO's test split.
    #[default]
    Test,
    /// `testall_*`: all 5,000.
    Testall,
}

/// A table of captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaptionTable {
    /// The table: `.csv` or `.tsv`, perhaps with `.gz`, with column names in its first line.
    pub file: Source,
    /// The column that names the image of a caption: its identifier, or a file name.
    #[serde(default = "image_id")]
    pub image: String,
    /// The column of the captions.
    #[serde(default = "caption")]
    pub text: String,
    /// The column of caption identifiers; without it captions are numbered from 0.
    #[serde(default)]
    pub caption_id: Option<String>,
    /// The column of splits.
    #[serde(default)]
    pub split_column: Option<String>,
    /// The split of all captions, where no column says it.
    #[serde(default)]
    pub split: Option<String>,
}

/// Human ratings of pairs of captions and images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatingTable {
    /// `sits_test.csv` or `sits_val.csv` of Crisscrossed Captions, or a file with its columns.
    pub file: Source,
}

/// Made-up pictures.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenes {
    /// Images of the split `train`.
    pub train: u32,
    /// Images of the split `val`.
    pub val: u32,
    /// Images of the split `test`.
    pub test: u32,
    /// Width and height of a picture.
    #[serde(default = "ninety_six")]
    pub pixels: u32,
    /// Seed; the pipeline's where not given.
    #[serde(default)]
    pub seed: u64,
}

/// Keeps a setting that older results did not have out of their keys.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn image_id() -> String {
    "image_id".to_owned()
}

fn caption() -> String {
    "caption".to_owned()
}

fn five() -> usize {
    5
}

fn five_thousand() -> usize {
    5000
}

fn ninety_six() -> u32 {
    96
}

impl Stage for Ingest {
    fn kind(&self) -> &'static str {
        "ingest"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        match self {
            Ingest::Karpathy(set) => {
                vec![Input::source("karpathy.json", &set.json), Input::source("karpathy.images", &set.images)]
            }
            Ingest::Flickr(set) => vec![
                Input::source("flickr.tokens", &set.tokens),
                Input::source("flickr.images", &set.images),
                Input::source("flickr.train", &set.train),
                Input::source("flickr.val", &set.val),
                Input::source("flickr.test", &set.test),
            ],
            Ingest::Coco(set) => {
                let files = set.files.iter().enumerate();
                let files = files.map(|(i, file)| Input::source(format!("coco.files.{i}.captions"), &file.captions));
                std::iter::once(Input::source("coco.images", &set.images)).chain(files).collect()
            }
            Ingest::Precomp(set) => vec![Input::source("precomp.folder", &set.folder)],
            Ingest::Captions(set) => vec![Input::source("captions.file", &set.file)],
            Ingest::Ratings(set) => vec![Input::source("ratings.file", &set.file)],
            Ingest::Embeddings(set) => set.inputs(),
            Ingest::Scenes(_) => vec![],
        }
    }

    fn outputs(&self) -> Vec<Output> {
        match self {
            Ingest::Ratings(_) => {
                return vec![Output::table("ratings", tables::ratings::table().schema(), RATING_PART_ROWS)];
            }
            Ingest::Embeddings(_) => return Embeddings::outputs(),
            _ => {}
        }
        let images = Output::table("images", tables::images::table().schema(), IMAGE_PART_ROWS);
        let images = match self {
            Ingest::Karpathy(_) => images.relative_to("karpathy.images"),
            Ingest::Flickr(_) => images.relative_to("flickr.images"),
            Ingest::Coco(_) => images.relative_to("coco.images"),
            _ => images,
        };
        let mut outputs =
            vec![images, Output::table("captions", tables::captions::table().schema(), CAPTION_PART_ROWS)];
        if let Ingest::Precomp(set) = self {
            outputs.push(if set.regions {
                Output::table("regions", tables::regions::table().schema(), REGION_PART_ROWS)
            } else {
                Output::table("features", tables::features::table().schema(), FEATURE_PART_ROWS)
            });
        }
        outputs
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self {
            Ingest::Karpathy(set) if set.captions_per_image == 0 => {
                problems.push(Problem::new("karpathy.captions_per_image", "got 0, wanted at least 1"));
            }
            Ingest::Coco(set) => {
                if set.captions_per_image == 0 {
                    problems.push(Problem::new("coco.captions_per_image", "got 0, wanted at least 1"));
                }
                if set.files.is_empty() {
                    problems.push(Problem::new("coco.files", "no annotation file, wanted at least one"));
                }
                for (i, file) in set.files.iter().enumerate() {
                    if let Err(message) = listing::split(&file.split) {
                        problems.push(Problem::new(format!("coco.files.{i}.split"), message));
                    }
                    if let Err(message) = listing::image_path(&file.folder, "a.jpg") {
                        problems.push(Problem::new(format!("coco.files.{i}.folder"), message));
                    }
                }
            }
            Ingest::Precomp(set) if set.dev_captions == 0 => {
                problems.push(Problem::new("precomp.dev_captions", "got 0, wanted at least 1"));
            }
            Ingest::Scenes(set) => {
                if u64::from(set.train) + u64::from(set.val) + u64::from(set.test) == 0 {
                    problems.push(Problem::new("scenes", "no image in any split, wanted at least one"));
                }
                if !PIXELS.contains(&set.pixels) {
                    let (least, most) = (PIXELS.start(), PIXELS.end());
                    let message = format!("got {} pixels, wanted {least} to {most}", set.pixels);
                    problems.push(Problem::new("scenes.pixels", message));
                }
            }
            Ingest::Captions(set) => match (&set.split, &set.split_column) {
                (Some(name), None) => {
                    if let Err(message) = listing::split(name) {
                        problems.push(Problem::new("captions.split", message));
                    }
                }
                (None, Some(_)) => {}
                (given, _) => {
                    let got = if given.is_some() { "both" } else { "neither" };
                    let message = format!("got {got} of `split` and `split_column`, wanted one of them");
                    problems.push(Problem::new("captions", message));
                }
            },
            Ingest::Embeddings(set) => problems.extend(set.check()),
            Ingest::Karpathy(_) | Ingest::Flickr(_) | Ingest::Precomp(_) | Ingest::Ratings(_) => {}
        }
        problems
    }
}
