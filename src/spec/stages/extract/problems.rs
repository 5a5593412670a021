//! Problems of the settings of `extract`.

use super::{Extract, FeaturePooling, OnUndecodable, TorchScriptFile, WeightSource, default_max_skipped};
use crate::networks::{LayerOutput, Network};
use pairloom_base::error::TruncatedList;
use pairloom_base::runtime::MAX_RANKS;
use pairloom_stage::Problem;

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
    pub(super) fn problems(&self) -> Vec<Problem> {
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
            problems.push(Problem::new("max_skipped", format!("got {}, wanted 0 to 1", self.max_skipped)));
        } else if self.max_skipped != default_max_skipped() && self.on_undecodable == OnUndecodable::Fail {
            let message = "it limits the images that are left out, but none are";
            problems.push(Problem::new("max_skipped", message).hint("set `on_undecodable = \"skip\"` too"));
        }
        if !(1..=MAX_RANKS).contains(&self.ranks) {
            problems.push(Problem::new("ranks", format!("got {}, wanted 1 to {MAX_RANKS}", self.ranks)));
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
                "a module of yours returns what it computes, wanted \"embedding\", \"average\", `grid` or `regions`";
            problems.push(Problem::new("pooling", message).hint("leave `pooling` out for one vector an image"));
        }
        if !module.mean.iter().all(|mean| mean.is_finite()) {
            problems.push(Problem::new("torchscript.mean", format!("got {:?}, wanted finite numbers", module.mean)));
        }
        if !module.deviation.iter().all(|deviation| deviation.is_finite() && *deviation > 0.0) {
            let message = format!("got {:?}, wanted numbers above 0", module.deviation);
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
            let message = format!("{crop} pixels, wanted {}: {} takes no other", own.crop, network.name());
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
            let (message, wanted) = match usual {
                FeaturePooling::Embedding => ("the model was trained on normalised feature vectors", "embedding"),
                _ => ("the model was trained on normalised averages", "average"),
            };
            let hint = format!("set `normalize = true` and `pooling = \"{wanted}\"`, without `layer` and `ten_crop`");
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
                    let (kind, wanted) = match output {
                        LayerOutput::Maps(_) => ("feature maps", "`average` or a grid"),
                        LayerOutput::Vector(_) => ("a vector", "`embedding`"),
                    };
                    let message = format!("the layer `{layer}` of {name} has {kind}, wanted {wanted}");
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
            let message = format!("got {side} cells a side, wanted {} to {}", GRID_SIDES.start(), GRID_SIDES.end());
            problems.push(Problem::new("pooling.grid", message));
        }
        if let Some(FeaturePooling::Regions(count)) = self.pooling
            && !(1..=MAX_REGIONS).contains(&count)
        {
            problems.push(Problem::new("pooling.regions", format!("got {count}, wanted 1 to {MAX_REGIONS}")));
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
                let message = format!("{side} pixels, wanted {} to {}", SIDES.start(), SIDES.end());
                problems.push(Problem::new(setting, message));
            }
        }
        if input.crop > input.resize {
            let message = format!("a square of {} pixels does not fit a side of {}", input.crop, input.resize);
            problems.push(Problem::new("crop", message).hint("make `crop` at most `resize`"));
        }
        if self.batch_size == 0 {
            problems.push(Problem::new("batch_size", "0 images, wanted at least 1"));
        }
        // An invalid side was reported above. It may be 0, so it is excluded before the division.
        if SIDES.contains(&input.crop) {
            let image = (3 * self.crops() * input.crop.pow(2)) as u64;
            let values = (self.batch_size as u64).saturating_mul(image);
            if values > MAX_INPUT_VALUES {
                let crops = if self.ten_crop { "10 crops × " } else { "" };
                let message = format!(
                    "{} images × {crops}3 × {crop}² pixels are {values} values at once in every thread, wanted at most \
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
