//! Settings of `embed`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{EmbeddingFacts, ModelFacts};
use super::{either_image_vectors_problem, image_vectors, model_inputs};
use pairloom_base::runtime::MAX_RANKS;
use pairloom_stage::{KnownFacts, OutputFact, Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables::{caption_embeddings, image_embeddings};

/// Number of rows of a part.
const PART_ROWS: usize = 4096;

/// Names of all splits.
const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// Embeds images and captions with a trained model.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// Model.
    pub model: TableRef,
    /// Feature vectors of the images. One of `features` and `regions` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<TableRef>,
    /// Feature vectors of the regions of the images, for a model that reads them, instead of `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<TableRef>,
    /// Captions.
    pub captions: TableRef,
    /// Splits that are embedded; all splits if empty.
    #[serde(default)]
    pub splits: Vec<String>,
    /// Number of processes (ranks) that embed together, each its share of the rows. With 1, a program that was launched
    /// as several ranks (`torchrun`, SLURM) uses all of them. The result is that of one process with as many threads as
    /// each has. It is not part of the key.
    #[serde(default = "ranks")]
    pub ranks: usize,
}

fn ranks() -> usize {
    1
}

impl Stage for Embed {
    fn kind(&self) -> &'static str {
        "embed"
    }

    /// Version 3: a GRU over regions or positions is computed by kernels of this project, and so rounds differently.
    fn version(&self) -> u32 {
        3
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("ranks");
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        model_inputs(&self.model, self.features.as_ref(), self.regions.as_ref(), &self.captions)
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![
            StageOutput::table("image_embeddings", image_embeddings::table().schema(), PART_ROWS),
            StageOutput::table("caption_embeddings", caption_embeddings::table().schema(), PART_ROWS),
        ]
    }

    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        let model = known.get::<ModelFacts>(&self.model).filter(|model| !model.is_imported);
        let similarity = model.and_then(|model| model.capabilities.similarity);
        let facts = EmbeddingFacts { model: self.model.clone(), similarity, splits: self.splits.clone() };
        ["image_embeddings", "caption_embeddings"].map(|output| OutputFact::new(output, facts.clone())).into()
    }

    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        let Some(model) = known.get::<ModelFacts>(&self.model) else { return Vec::new() };
        let no_vectors = model.capabilities.similarity.is_none().then(|| {
            let family = model.family;
            let message =
                format!("a model of `{family}` has no vector of an image and of a caption that its score follows from");
            Problem::new("model", message).hint("`score_pairs`, and `evaluate` with its `scores`")
        });
        let images = image_vectors(self.features.as_ref(), self.regions.as_ref());
        no_vectors.into_iter().chain(model.image_problems(images, known)).collect()
    }

    fn check(&self) -> Vec<Problem> {
        let either = either_image_vectors_problem(self.features.as_ref(), self.regions.as_ref(), "");
        let unknown = self.splits.iter().filter(|split| !SPLITS.contains(&split.as_str()));
        let unknown = unknown.map(|split| {
            Problem::new("splits", format!("no split `{split}`; there are `train`, `restval`, `val` and `test`"))
        });
        let ranks = (!(1..=MAX_RANKS).contains(&self.ranks))
            .then(|| Problem::new("ranks", format!("got {}, expected 1 to {MAX_RANKS}", self.ranks)));
        either.into_iter().chain(unknown).chain(ranks).collect()
    }
}
