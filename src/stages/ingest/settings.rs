//! What `ingest` reads: one of five forms in which data sets lie on people's disks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stage::{Cx, Input, Output, Problem, Run, Source, Stage};
use crate::tables;

/// Rows of a part of `images`.
const IMAGE_PART_ROWS: usize = 1024;
/// Rows of a part of `captions`.
const CAPTION_PART_ROWS: usize = 8192;
/// Rows of a part of `features`.
const FEATURE_PART_ROWS: usize = 1024;

/// Reads a data set.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ingest {
    /// A Karpathy split file (`dataset_coco.json`, `dataset_flickr8k.json`) and its folder of images.
    Karpathy(Karpathy),
    /// The original Flickr8k form: a token file, three lists of names, a folder of images.
    Flickr(Flickr),
    /// COCO caption annotations, each file with its folder of images and the split that it makes.
    Coco(Vec<Coco>),
    /// A `*_precomp` folder: features, captions and ids of the published repositories.
    Precomp(Precomp),
    /// Pictures and captions that are made up here, so that everything runs with no download.
    Scenes(Scenes),
}

/// What to do about an image that captions name and no file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Stop, naming all of them.
    #[default]
    Fail,
    /// Leave the image and its captions out, with a warning for each.
    Skip,
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

/// One COCO annotation file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coco {
    /// `captions_val2014.json`.
    pub captions: Source,
    /// The folder of its images.
    pub images: Source,
    /// The split that its images belong to: `train`, `restval`, `val` or `test`.
    pub split: String,
    /// Captions kept of each image, in file order; the published loaders keep five.
    #[serde(default = "five")]
    pub captions_per_image: usize,
    /// What to do about an image that no file holds.
    #[serde(default)]
    pub on_missing: OnMissing,
}

/// A `*_precomp` folder.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precomp {
    /// The folder: `{train,dev,test}_{caps.txt,ims.npy,ids.txt}`.
    pub folder: Source,
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
            Ingest::Coco(sets) => sets
                .iter()
                .enumerate()
                .flat_map(|(i, set)| {
                    [
                        Input::source(format!("coco.{i}.captions"), &set.captions),
                        Input::source(format!("coco.{i}.images"), &set.images),
                    ]
                })
                .collect(),
            Ingest::Precomp(set) => vec![Input::source("precomp.folder", &set.folder)],
            Ingest::Scenes(_) => vec![],
        }
    }

    fn outputs(&self) -> Vec<Output> {
        let mut outputs = vec![
            Output::table("images", tables::images::table().schema(), IMAGE_PART_ROWS),
            Output::table("captions", tables::captions::table().schema(), CAPTION_PART_ROWS),
        ];
        if let Ingest::Precomp(_) = self {
            outputs.push(Output::table("features", tables::features::table().schema(), FEATURE_PART_ROWS));
        }
        outputs
    }

    fn check(&self) -> Vec<Problem> {
        vec![]
    }
}

impl Run for Ingest {
    fn run(&self, _cx: &mut Cx<'_>) -> Result<()> {
        Err(Error::internal("ingest is being written"))
    }
}
