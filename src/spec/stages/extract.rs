//! Settings of `extract`, and their checks.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::networks::{Architecture, LayerOutput, NetworkInput};
use crate::precision::MatmulPrecision;
use crate::stages::facts::VectorWidth;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::MAX_RANKS;
use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_kernels::resize::Interpolation;
use pairloom_stage::{
    CopiedRows, FileKeys, KnownFacts, OutputFact, Problem, RequiredValues, RowKey, SourceRef, Stage, StageInput,
    StageOutput, TableRef,
};
use pairloom_tables as tables;

pub use crate::networks::Network;

/// Number of rows of a part of `features`: a few seconds of work on two cores, except for the deepest networks.
pub const PART_ROWS: usize = 128;

/// Output with the boxes of a grid.
pub const BOXES: &str = "region_boxes";

/// Output with the vectors of captions.
pub const CAPTIONS: &str = "caption_embeddings";

/// Number of rows of a part of [`CAPTIONS`].
pub const CAPTION_ROWS: usize = 1024;

/// Columns of the images that must have values.
const PICTURES: RequiredValues =
    RequiredValues { columns: &tables::images::PICTURE_COLUMNS, hint: tables::images::PICTURES_HINT };

/// Settings and inputs that decide which images have rows, and on which the row of an image does not depend.
pub const NOT_OF_ROWS: &[&str] =
    &["images", "splits", "on_undecodable", "max_skipped", "captions", "captions.table", "captions.merges"];

/// Computes feature vectors of images with a network; with CLIP, also vectors of captions in the same space.
///
/// Memory of every thread: the input of the network for `batch_size` images (`batch_size` × 3 × `crop`² values of 4
/// bytes, ten times as many with `ten_crop`, at most 128 MiB), their feature maps (some 17 times as much) and one decoded image. Threads share the
/// weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// Images.
    pub images: TableRef,
    /// Captions that CLIP embeds with the images. The stage then writes `image_embeddings` and `caption_embeddings`, with
    /// unit L2 norm, in place of `features`, so that `evaluate` ranks them without any training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<EmbeddedCaptions>,
    /// Splits whose images and captions are used; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<String>,
    /// Network, by the name of torchvision, timm (`inception_resnet_v2`) or `open_clip` (`ViT-B-32`; OpenAI's weights need
    /// the names that end in `-quickgelu`). Needed, as `weights`, without `torchscript`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Weights of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightSource>,
    /// Module of yours, in place of `network` and `weights`. The code in its file runs with the rights of this program,
    /// so use only files that you trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torchscript: Option<TorchScriptFile>,
    /// Named layer whose output is used in place of the last feature maps, or of the last feature vector: `layer3` of a
    /// ResNet, `classifier.1` (fc6) of VGG. The names are those of the published code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Output of the network to use as the feature. By default the feature vector of networks that have one (`embedding`),
    /// and the average of the last feature maps of others (`average`). Of a module of yours it says what the module
    /// returns: a vector an image by default (`embedding`), feature maps (`average`, `grid`), or `regions`.
    #[serde(default)]
    pub pooling: Option<FeaturePooling>,
    /// True if features are divided by their L2 norm, as VSE++ does before its linear layer.
    #[serde(default)]
    pub normalize: bool,
    /// Shorter side of the image after resizing, in pixels. By default that of the network's published weights: 256,
    /// 333 for `inception_resnet_v2`, and 224 for CLIP.
    #[serde(default)]
    pub resize: Option<u32>,
    /// Side of the centre crop, a square, in pixels. The memory of a thread grows with the square of the side. By default
    /// that of the network's published weights: 224, and 299 for `inception_resnet_v2`.
    #[serde(default)]
    pub crop: Option<u32>,
    /// Filter of the resizing; by default that of the network's published weights: `bilinear`, and `bicubic` for
    /// `inception_resnet_v2` and CLIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpolation: Option<Interpolation>,
    /// True if the feature is the mean of those of ten crops: the corners, the centre, and the mirror images of the five
    /// (torchvision's `TenCrop`). It costs ten times as much.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ten_crop: bool,
    /// Precision of matrix products and convolutions. `mixed` rounds their factors to bf16, which is faster on processors
    /// that multiply bf16. Features differ by some 1 % of their largest value, and far more with `mobilenet_v2`.
    #[serde(default, skip_serializing_if = "is_f32")]
    pub precision: MatmulPrecision,
    /// Precision in which vectors are stored. `f16` halves their size and rounds each value by at most 0.05 %.
    #[serde(default, skip_serializing_if = "is_stored_as_f32")]
    pub storage: VectorStorage,
    /// Number of images in a batch of a thread. An image takes some 10 MB at 224 pixels.
    #[serde(default = "default_batch_size")]
    pub batch_size: usize,
    /// Treatment of images that cannot be decoded.
    #[serde(default)]
    pub on_undecodable: OnUndecodable,
    /// Largest share of the images that `on_undecodable = "skip"` may leave out. If more are left out, or all of them,
    /// the stage fails.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
    /// True if stages with this setting that run side by side over the same images decode each of them once: several
    /// networks of one data set. The faster ones then wait for the slower ones. It is not part of the key.
    #[serde(default)]
    pub share_decoding: bool,
    /// Seed of random weights; by default the pipeline's seed.
    #[serde(default)]
    pub seed: u64,
    /// Number of processes (ranks) that extract together, each its share of the images. With 1, a program that was launched
    /// as several ranks (`torchrun`, SLURM) uses all of them. The result is that of one process. It is not part of the
    /// key.
    #[serde(default = "ranks")]
    pub ranks: usize,
}

fn ranks() -> usize {
    1
}

/// Default batch size. With larger batches, the feature maps of SqueezeNet do not fit the caches of the CPU.
fn default_batch_size() -> usize {
    8
}

/// Default of [`Extract::max_skipped`].
pub(super) fn default_max_skipped() -> f64 {
    0.1
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_default_max_skipped(share: &f64) -> bool {
    *share == default_max_skipped()
}

/// Returns true for the default of a setting that was added later.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_f32(precision: &MatmulPrecision) -> bool {
    *precision == MatmulPrecision::F32
}

/// Returns true for the default of a setting that was added later.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_stored_as_f32(storage: &VectorStorage) -> bool {
    *storage == VectorStorage::F32
}

impl Stage for Extract {
    fn kind(&self) -> &'static str {
        "extract"
    }

    /// Version 2: tall images are resampled vertically first, as Pillow 13 does. Version 3: a grid has boxes. Version 4:
    /// convolutions round differently, because their values are in another order. Version 5: rows have keys, and the
    /// last images of a part may round differently, because every batch is full. Version 6: a GPU computes in f32 without
    /// TF32. Version 7: 16-bit grey PNGs with a transparent value are clamped.
    fn version(&self) -> u32 {
        7
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("ranks");
            settings.remove("share_decoding");
            // Defaults of the network are written out: a result is the same, however its settings were chosen.
            settings.insert("pooling".to_owned(), serde_json::json!(self.effective_pooling()));
            let input = self.input();
            settings.insert("resize".to_owned(), input.resize.into());
            settings.insert("crop".to_owned(), input.crop.into());
            if self.interpolation == Some(self.usual_input().interpolation) {
                settings.remove("interpolation");
            }
            if !matches!(self.weights, Some(WeightSource::Random)) {
                settings.remove("seed");
            }
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        let images = StageInput::table("images", &self.images, &tables::images::table());
        let mut inputs = vec![images.with_values(PICTURES)];
        match &self.weights {
            Some(WeightSource::File(file)) => inputs.push(StageInput::source("weights.file", file)),
            Some(WeightSource::Model(model)) => inputs.push(StageInput::files("weights.model", model, "model")),
            Some(WeightSource::Random) | None => {}
        }
        inputs.extend(self.torchscript.iter().map(|module| StageInput::source("torchscript.file", &module.file)));
        if let Some(EmbeddedCaptions { table, merges }) = &self.captions {
            inputs.push(StageInput::table("captions.table", table, &tables::captions::table()));
            inputs.push(StageInput::source("captions.merges", merges));
        }
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        let table = |schema| StageOutput::table(self.output_name(), self.stored_schema(schema), PART_ROWS);
        // 0 stands for one width that is not known yet.
        let width = self.width().unwrap_or_default();
        if self.captions.is_some() {
            let captions = tables::caption_embeddings::table().schema_with_width(width);
            return vec![
                table(tables::image_embeddings::table().schema_with_width(width)),
                StageOutput::table(CAPTIONS, self.stored_schema(captions), CAPTION_ROWS),
            ];
        }
        let Some(places) = self.regions() else {
            return vec![table(tables::features::table().schema_with_width(width))];
        };
        let mut outputs = vec![table(tables::regions::table().schema_with_shape(&[places, width]))];
        if self.grid_side().is_some() {
            let boxes = tables::region_boxes::table().schema_with_shape(&[places, 4]);
            outputs.push(StageOutput::table(BOXES, boxes, PART_ROWS));
        }
        outputs
    }

    fn facts(&self, _: &KnownFacts) -> Vec<OutputFact> {
        self.width().map(|width| OutputFact::new(self.output_name(), VectorWidth(width))).into_iter().collect()
    }

    fn copied_rows(&self) -> Option<CopiedRows> {
        let key_columns = &["split", "path", "digest"];
        Some(CopiedRows { input: "images", output: self.output_name(), key_columns, not_of_rows: NOT_OF_ROWS })
    }

    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        let rows = self.rows_of_splits(rows)?;
        image_keys(&rows, files)
    }

    fn check(&self) -> Vec<Problem> {
        self.problems()
    }
}

impl Extract {
    /// Name of the table that the stage writes.
    #[must_use]
    pub fn output_name(&self) -> &'static str {
        match (&self.captions, self.regions()) {
            (Some(_), _) => "image_embeddings",
            (None, Some(_)) => "regions",
            (None, None) => "features",
        }
    }

    /// Architecture up to the chosen layer; `None` for a module of the user's. An unknown layer is a problem of the
    /// settings and has no effect here.
    pub(super) fn architecture(&self) -> Option<Architecture> {
        let whole = self.network?.architecture();
        let cut = self.layer.as_ref().and_then(|layer| whole.up_to(layer));
        Some(cut.unwrap_or(whole))
    }

    /// Output of the network that becomes the feature.
    #[must_use]
    pub fn effective_pooling(&self) -> FeaturePooling {
        self.pooling.unwrap_or_else(|| match self.architecture() {
            Some(architecture) if architecture.embedding.is_empty() => FeaturePooling::Average,
            _ => FeaturePooling::Embedding,
        })
    }

    /// Number of regions of an image; `None` if it has one vector.
    #[must_use]
    pub fn regions(&self) -> Option<usize> {
        match self.pooling {
            Some(FeaturePooling::Grid(side)) => Some(side.saturating_mul(side)),
            Some(FeaturePooling::Regions(count)) => Some(count),
            _ => None,
        }
    }

    /// Number of cells of a side of the grid; `None` for other outputs.
    #[must_use]
    pub fn grid_side(&self) -> Option<usize> {
        match self.pooling {
            Some(FeaturePooling::Grid(side)) => Some(side),
            _ => None,
        }
    }

    /// Preprocessing of an image.
    #[must_use]
    pub fn input(&self) -> NetworkInput {
        let own = self.usual_input();
        NetworkInput {
            resize: self.resize.map_or(own.resize, |side| side as usize),
            crop: self.crop.map_or(own.crop, |side| side as usize),
            interpolation: self.interpolation.unwrap_or(own.interpolation),
            ..own
        }
    }

    /// Preprocessing without the settings that change it.
    pub(super) fn usual_input(&self) -> NetworkInput {
        match (&self.torchscript, self.network) {
            (Some(module), _) => NetworkInput { statistics: module.statistics(), ..NetworkInput::IMAGENET },
            (None, Some(network)) => network.architecture().input,
            (None, None) => NetworkInput::IMAGENET,
        }
    }

    /// Schema of a table of vectors in the store.
    fn stored_schema(&self, schema: SchemaRef) -> SchemaRef {
        match self.storage {
            VectorStorage::F32 => schema,
            VectorStorage::F16 => tables::half_schema(&schema),
        }
    }

    /// Rows of the chosen splits.
    ///
    /// # Errors
    /// The column `split` is missing.
    pub fn rows_of_splits(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.splits.is_empty() {
            return Ok(batch.clone());
        }
        let splits = tables::text_column(batch, "split")?;
        let kept: BooleanArray = splits.iter().map(|split| split.map(|split| self.uses_split(split))).collect();
        filter_record_batch(batch, &kept).map_err(|error| Error::internal(error.to_string()))
    }

    /// Rows of a table of vectors in the store.
    ///
    /// # Errors
    /// A value is too large for the precision of the store.
    pub fn stored(&self, batch: RecordBatch) -> Result<RecordBatch> {
        match self.storage {
            VectorStorage::F32 => Ok(batch),
            VectorStorage::F16 => tables::to_halves(&batch),
        }
    }

    /// Returns true if factors are rounded to bf16.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.precision != MatmulPrecision::F32
    }

    /// Returns true if images and captions of this split are used.
    #[must_use]
    pub fn uses_split(&self, split: &str) -> bool {
        self.splits.is_empty() || self.splits.iter().any(|chosen| chosen == split)
    }

    /// Number of images of every batch.
    #[must_use]
    pub fn full_batch(&self) -> usize {
        self.batch_size.min(PART_ROWS)
    }

    /// Number of squares of an image that the network sees.
    #[must_use]
    pub fn crops(&self) -> usize {
        if self.ten_crop { 10 } else { 1 }
    }

    /// Width of a feature vector; `None` for a module of the user's, which says it when it runs.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        let network = self.architecture()?;
        Some(match self.effective_pooling() {
            FeaturePooling::Average | FeaturePooling::Grid(_) => network.width,
            FeaturePooling::Embedding => network.embedding_width,
            FeaturePooling::Logits => network.classes,
            FeaturePooling::Regions(_) => return None,
        })
    }
}

/// Keys of images that are known without their bytes: from the keys of files, and from digests in the table.
pub fn image_keys(batch: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
    let (paths, digests) = (tables::text_column(batch, "path")?, tables::text_column(batch, "digest")?);
    let keys = paths.iter().zip(digests).map(|(path, digest)| match path {
        Some(path) => files.get(path),
        None => digest.and_then(RowKey::of_digest),
    });
    Ok(keys.collect())
}

/// Source of the weights.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightSource {
    /// A safetensors file with the parameter names of the published code (torchvision, timm, `open_clip`).
    File(SourceRef),
    /// Weights of a model of `train` with the setting `finetune`.
    Model(TableRef),
    /// Random weights, drawn as the published code draws them.
    Random,
}

/// Module of the user's in TorchScript, as `torch.jit.trace(…).save(file)` writes it.
///
/// libtorch runs the code in the file for batches `(batch_size, 3, crop, crop)` of f32, in evaluation mode. A feature must
/// be a function of its image alone.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TorchScriptFile {
    /// File, whose code runs.
    pub file: SourceRef,
    /// Mean of red, green and blue, for values in 0..1, which is subtracted; by default that of ImageNet.
    #[serde(default = "imagenet_mean")]
    pub mean: [f32; 3],
    /// Standard deviation of the channels, by which they are divided; by default that of ImageNet.
    #[serde(default = "imagenet_deviation")]
    pub deviation: [f32; 3],
}

fn imagenet_mean() -> [f32; 3] {
    ChannelStatistics::IMAGENET.mean
}

fn imagenet_deviation() -> [f32; 3] {
    ChannelStatistics::IMAGENET.deviation
}

impl TorchScriptFile {
    /// Mean and standard deviation of the channels.
    fn statistics(&self) -> ChannelStatistics {
        ChannelStatistics { mean: self.mean, deviation: self.deviation }
    }
}

/// Captions that the text tower of CLIP embeds.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedCaptions {
    /// Captions.
    pub table: TableRef,
    /// Merges of the byte-pair tokeniser: `bpe_simple_vocab_16e6.txt.gz` of OpenAI's CLIP or `open_clip`, packed or not.
    pub merges: SourceRef,
}

/// Output of the network to use as the feature of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeaturePooling {
    /// Global average of the last feature maps (ResNet: input of `fc`; SqueezeNet: output of `features`).
    Average,
    /// Feature vector that the network computes from the feature maps: fc7 of VGG, after its ReLU; the vector of CLIP in
    /// the joint space of images and texts.
    Embedding,
    /// Logits of the 1,000 ImageNet classes.
    Logits,
    /// Averages of the last feature maps over the cells of a square grid with this many cells a side, in place of the
    /// regions of a detector. The stage then writes the table `regions`, row by row of cells, in place of `features`,
    /// and the cells as `region_boxes`. The network sees some pixels around a cell too.
    /// With 224 pixels, ResNet has maps of 7 × 7 values and SqueezeNet of 13 × 13.
    Grid(usize),
    /// Regions that a module of yours returns, this many an image: `(batch_size, regions, width)`. The stage then writes
    /// the table `regions`, without boxes, in place of `features`.
    Regions(usize),
}

/// Precision in which vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorStorage {
    /// Single precision, 4 bytes a value.
    #[default]
    F32,
    /// Half precision, 2 bytes a value: 11 significant bits, and at most 65,504. Stages and exports read the values as f32.
    F16,
}

/// Treatment of images that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUndecodable {
    /// Stops with an error that names the images and the reasons.
    #[default]
    Fail,
    /// Leaves the image out, with a warning. `max_skipped` limits their share.
    Skip,
}

/// Allowed sides of an input of the network, in pixels. Smaller inputs give empty feature maps in the last layers;
/// larger inputs need too much memory.
const SIDES: std::ops::RangeInclusive<usize> = 32..=2048;

/// Names of all splits.
const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// Allowed numbers of cells of a side of a grid.
const GRID_SIDES: std::ops::RangeInclusive<usize> = 1..=64;

/// Largest number of regions of an image.
const MAX_REGIONS: usize = 4096;

/// Maximum number of values of a batch, 128 MiB: 222 images of 224 pixels, or 2 of 2048.
const MAX_INPUT_VALUES: u64 = 32 << 20;

impl Extract {
    /// Problems of the settings.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = match (&self.torchscript, self.network) {
            (Some(module), _) => self.module_problems(module),
            (None, Some(network)) => self.network_problems(network),
            (None, None) => {
                let hint = "name one, or give a module of yours: `torchscript = { file = \"module.pt\" }`";
                vec![Problem::new("network", "no network is set").hint(hint)]
            }
        };
        problems.extend(self.region_problems());
        for split in self.splits.iter().filter(|split| !SPLITS.contains(&split.as_str())) {
            let message = format!("no split `{split}`; there are `train`, `restval`, `val` and `test`");
            problems.push(Problem::new("splits", message));
        }
        problems.extend(self.input_problems());
        if !(0.0..=1.0).contains(&self.max_skipped) {
            problems.push(Problem::new("max_skipped", format!("got {}, expected 0 to 1", self.max_skipped)));
        } else if self.max_skipped != default_max_skipped() && self.on_undecodable == OnUndecodable::Fail {
            let message = "it limits the images that are left out, but none are";
            problems.push(Problem::new("max_skipped", message).hint("set `on_undecodable = \"skip\"` too"));
        }
        if !(1..=MAX_RANKS).contains(&self.ranks) {
            problems.push(Problem::new("ranks", format!("got {}, expected 1 to {MAX_RANKS}", self.ranks)));
        }
        problems
    }

    /// Problems of a module of the user's, and a warning that its code runs.
    fn module_problems(&self, module: &TorchScriptFile) -> Vec<Problem> {
        let warning = "libtorch runs the code in this file, with the rights of this program";
        let trust = "use only files that you trust; weights in safetensors have no code";
        let mut problems = vec![Problem::warning("torchscript.file", warning).hint(trust)];
        for (setting, is_set) in [
            ("network", self.network.is_some()),
            ("weights", self.weights.is_some()),
            ("layer", self.layer.is_some()),
            ("captions", self.captions.is_some()),
            ("precision", self.is_mixed()),
        ] {
            if is_set {
                let message = "it has no effect on a module of yours, which is computed as it is";
                problems.push(Problem::new(setting, message).hint("leave it out, or leave out `torchscript`"));
            }
        }
        if self.pooling == Some(FeaturePooling::Logits) {
            let message =
                "a module of yours returns what it computes, expected \"embedding\", \"average\", `grid` or `regions`";
            problems.push(Problem::new("pooling", message).hint("leave `pooling` out for one vector an image"));
        }
        if !module.mean.iter().all(|mean| mean.is_finite()) {
            problems.push(Problem::new("torchscript.mean", format!("got {:?}, expected finite numbers", module.mean)));
        }
        if !module.deviation.iter().all(|deviation| deviation.is_finite() && *deviation > 0.0) {
            let message = format!("got {:?}, expected numbers above 0", module.deviation);
            problems.push(Problem::new("torchscript.deviation", message));
        }
        problems
    }

    /// Problems of a published network.
    fn network_problems(&self, network: Network) -> Vec<Problem> {
        let mut problems = self.output_problems(network);
        problems.extend(self.caption_problems(network));
        if self.weights.is_none() {
            let hint =
                "set `weights = { file = \"weights.safetensors\" }`, `{ model = \"STAGE.model\" }` or \"random\"";
            problems.push(Problem::new("weights", format!("no weights of {} are set", network.name())).hint(hint));
        }
        if let Some(FeaturePooling::Regions(_)) = self.pooling {
            let message = format!("{} returns no regions", network.name());
            problems.push(Problem::new("pooling.regions", message).hint("use `pooling = { grid = 7 }`"));
        }
        let own = network.architecture().input;
        let crop = self.input().crop;
        if own.fixed && crop != own.crop {
            let message = format!("{crop} pixels, expected {}: {} takes no other", own.crop, network.name());
            problems.push(Problem::new("crop", message));
        }
        problems
    }

    /// Problems of the layer, the pooling and the weights.
    fn output_problems(&self, network: Network) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (name, whole) = (network.name(), network.architecture());
        let layers = whole.named_layers();
        let usual = if whole.embedding.is_empty() { FeaturePooling::Average } else { FeaturePooling::Embedding };
        let pooling = self.effective_pooling();
        if matches!(self.weights, Some(WeightSource::Model(_)))
            && !(self.normalize && pooling == usual && self.layer.is_none() && !self.ten_crop)
        {
            let (message, expected) = match usual {
                FeaturePooling::Embedding => ("the model was trained on normalised feature vectors", "embedding"),
                _ => ("the model was trained on normalised averages", "average"),
            };
            let hint = format!("set `normalize = true` and `pooling = \"{expected}\"`, without `layer` and `ten_crop`");
            problems.push(Problem::new("weights.model", message).hint(hint));
        }
        let found = self.layer.as_ref().map(|layer| (layer, layers.iter().find(|(known, _)| known == layer)));
        match found {
            Some((layer, None)) => {
                let mut known = TruncatedList::default();
                known.extend(layers.iter().map(|(name, _)| format!("`{name}`")));
                let hint = if layers.is_empty() {
                    "leave `layer` out".to_owned()
                } else {
                    format!("its layers are {}", known.join(", "))
                };
                problems.push(Problem::new("layer", format!("{name} has no layer `{layer}`")).hint(hint));
            }
            Some((layer, Some((_, output)))) => {
                let fits = match output {
                    LayerOutput::Maps(_) => matches!(pooling, FeaturePooling::Average | FeaturePooling::Grid(_)),
                    LayerOutput::Vector(_) => pooling == FeaturePooling::Embedding,
                };
                if !fits {
                    let (kind, expected) = match output {
                        LayerOutput::Maps(_) => ("feature maps", "`average` or a grid"),
                        LayerOutput::Vector(_) => ("a vector", "`embedding`"),
                    };
                    let message = format!("the layer `{layer}` of {name} has {kind}, expected {expected}");
                    problems.push(Problem::new("pooling", message).hint("leave `pooling` out"));
                }
            }
            None if !whole.has_maps() && pooling != FeaturePooling::Embedding => {
                let message = format!("{name} has neither feature maps nor classes");
                problems.push(Problem::new("pooling", message).hint("leave `pooling` out"));
            }
            None if pooling == FeaturePooling::Embedding && whole.embedding.is_empty() => {
                let message = format!("{name} computes no feature vector from its feature maps");
                problems.push(Problem::new("pooling", message).hint("set `pooling = \"average\"`"));
            }
            None => {}
        }
        problems
    }

    /// Problems of the number of regions.
    fn region_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(side) = self.grid_side().filter(|side| !GRID_SIDES.contains(side)) {
            let message = format!("got {side} cells a side, expected {} to {}", GRID_SIDES.start(), GRID_SIDES.end());
            problems.push(Problem::new("pooling.grid", message));
        }
        if let Some(FeaturePooling::Regions(count)) = self.pooling
            && !(1..=MAX_REGIONS).contains(&count)
        {
            problems.push(Problem::new("pooling.regions", format!("got {count}, expected 1 to {MAX_REGIONS}")));
        }
        if self.regions().is_some() && self.ten_crop {
            let message = "the cells of ten crops are different parts of the image";
            problems.push(Problem::new("ten_crop", message).hint("use it with one vector an image"));
        }
        problems
    }

    /// Problems of the captions.
    fn caption_problems(&self, network: Network) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.captions.is_none() {
            return problems;
        }
        if network.architecture().text.is_none() {
            let message = format!("{} does not embed texts", network.name());
            problems.push(Problem::new("captions", message).hint("the networks of CLIP do, such as `ViT-B-32`"));
        }
        if matches!(self.weights, Some(WeightSource::Model(_))) {
            let message = "a model of `train` has no text tower of CLIP";
            problems.push(Problem::new("weights.model", message).hint("its own captions are embedded by `embed`"));
        }
        if self.effective_pooling() != FeaturePooling::Embedding {
            let message = "captions have vectors in the joint space, so images must have them too";
            problems.push(Problem::new("pooling", message).hint("leave `pooling` out"));
        }
        problems
    }

    /// Problems of the squares that the network sees.
    fn input_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let input = self.input();
        for (setting, side) in [("resize", input.resize), ("crop", input.crop)] {
            if !SIDES.contains(&side) {
                let message = format!("{side} pixels, expected {} to {}", SIDES.start(), SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if input.crop > input.resize {
            let message = format!("a square of {} pixels does not fit a side of {}", input.crop, input.resize);
            problems.push(Problem::new("crop", message).hint("make `crop` at most `resize`"));
        }
        if self.batch_size == 0 {
            problems.push(Problem::new("batch_size", "0 images, expected at least 1"));
        }
        // An invalid side was reported above. It may be 0, so it is excluded before the division.
        if SIDES.contains(&input.crop) {
            let image = (3 * self.crops() * input.crop.pow(2)) as u64;
            let values = (self.batch_size as u64).saturating_mul(image);
            if values > MAX_INPUT_VALUES {
                let crops = if self.ten_crop { "10 crops × " } else { "" };
                let message = format!(
                    "{} images × {crops}3 × {crop}² pixels are {values} values at once in every thread, expected at most \
                     {MAX_INPUT_VALUES} (128 MiB)",
                    self.batch_size,
                    crop = input.crop,
                );
                let most = MAX_INPUT_VALUES / image;
                let hint = match most {
                    0 => "make `crop` smaller, or leave out `ten_crop`".to_owned(),
                    most => format!("make it at most {most}"),
                };
                problems.push(Problem::new("batch_size", message).hint(hint));
            }
        }
        problems
    }
}
