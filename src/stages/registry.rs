//! Registry of stages, one line per stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agreement::ModelUse;
use super::image_vectors::image_vectors;
use crate::error::Result;
use crate::model::family::input_spec::ImageInput;
use crate::stage::{Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef};

macro_rules! stages {
    ($($(#[$about:meta])* $name:ident($settings:ty)),* $(,)?) => {
        /// Settings of a stage of any kind, as written in a pipeline file: `[stage.NAME.KIND]`.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum AnyStage {
            $($(#[$about])* $name($settings)),*
        }

        impl AnyStage {
            fn as_stage(&self) -> &dyn Stage {
                match self { $(Self::$name(stage) => stage),* }
            }
        }

        impl RunnableStage for AnyStage {
            fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
                match self { $(Self::$name(stage) => stage.run(cx)),* }
            }
        }
    };
}

stages! {
    /// Reads a data set: images and captions.
    Ingest(super::ingest::Ingest),
    /// Scores captions by their similarity to the captions of images.
    ScoreCaptions(super::score_captions::ScoreCaptions),
    /// Builds a vocabulary of concepts from captions.
    BuildConcepts(super::build_concepts::BuildConcepts),
    /// Computes feature vectors of images with a convolutional network.
    Extract(super::extract::Extract),
    /// Imports the regions of a detector.
    ImportRegions(super::import_regions::ImportRegions),
    /// Trains a joint embedding of images and captions.
    Train(super::train::Train),
    /// Imports a published model.
    ImportModel(super::import_model::ImportModel),
    /// Embeds images and captions with a trained model.
    Embed(super::embed::Embed),
    /// Scores all images of a split with all its captions.
    ScorePairs(super::score_pairs::ScorePairs),
    /// Combines the scores or the vectors of several models.
    Ensemble(super::ensemble::Ensemble),
    /// Computes the attention between words and regions.
    ComputeAttention(super::compute_attention::ComputeAttention),
    /// Ranks embeddings and measures retrieval.
    Evaluate(super::evaluate::Evaluate),
    /// Tests whether two evaluations differ by more than chance.
    TestSignificance(super::test_significance::TestSignificance),
    /// Correlates scores with human ratings.
    Correlate(super::correlate::Correlate),
    /// Writes results as a Markdown page and an HTML page.
    Report(super::report::Report),
}

impl Stage for AnyStage {
    fn kind(&self) -> &'static str {
        self.as_stage().kind()
    }
    fn version(&self) -> u32 {
        self.as_stage().version()
    }
    fn settings(&self) -> serde_json::Value {
        self.as_stage().settings()
    }
    fn inputs(&self) -> Vec<StageInput> {
        self.as_stage().inputs()
    }
    fn outputs(&self) -> Vec<StageOutput> {
        self.as_stage().outputs()
    }
    fn check_writers<'s>(&'s self, writer: &dyn Fn(&TableRef) -> Option<&'s Self>) -> Vec<Problem> {
        let evaluate_of = |from: &TableRef| match writer(from)? {
            Self::Evaluate(evaluate) => Some(evaluate),
            _ => None,
        };
        let evaluate = match self {
            Self::Evaluate(evaluate) => evaluate,
            Self::Report(report) => {
                let ingest_of = |from: &TableRef| match writer(from)? {
                    Self::Ingest(ingest) => Some(ingest),
                    _ => None,
                };
                let missing = super::agreement::missing_ncs(report, &evaluate_of);
                return missing.into_iter().chain(super::agreement::missing_printed(report, &ingest_of)).collect();
            }
            Self::Embed(embed) => {
                let images = image_vectors(embed.features.as_ref(), embed.regions.as_ref());
                return unfit(ModelUse::Embed, &embed.model, images.map(|(_, input)| input), writer);
            }
            Self::ScorePairs(scoring) => {
                let images = image_vectors(scoring.features.as_ref(), scoring.regions.as_ref());
                return unfit(ModelUse::Score, &scoring.model, images.map(|(_, input)| input), writer);
            }
            Self::ComputeAttention(stage) => {
                return unfit(ModelUse::Attend, &stage.model, Some(ImageInput::Regions), writer);
            }
            _ => return Vec::new(),
        };
        let embed_of = |from: &TableRef| match writer(from)? {
            Self::Embed(embed) => Some(embed),
            _ => None,
        };
        let train_of = |from: &TableRef| match writer(from)? {
            Self::Train(train) => Some(train),
            _ => None,
        };
        super::agreement::disagreements(evaluate, &embed_of, &train_of)
    }
    fn writers(output: &str) -> Option<&'static str> {
        super::writers::writers(output)
    }
    fn check(&self) -> Vec<Problem> {
        self.as_stage().check()
    }
}

/// Problems of a stage whose `model` does not fit it. Without the stage that writes the model there are none.
fn unfit<'s>(
    applied: ModelUse,
    model: &TableRef,
    images: Option<ImageInput>,
    writer: &dyn Fn(&TableRef) -> Option<&'s AnyStage>,
) -> Vec<Problem> {
    let (name, capabilities) = match writer(model) {
        Some(AnyStage::Train(train)) => (train.model.name(), train.model.capabilities()),
        Some(AnyStage::ImportModel(import)) => (import.model.name(), import.model.default_capabilities()),
        _ => return Vec::new(),
    };
    super::agreement::unfit_model(applied, images, (name, &capabilities))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems of the stage `applied`, whose model the stage `writer` writes.
    fn problems(writer: &str, applied: &str) -> Vec<String> {
        let read = |text: &str| toml::from_str::<AnyStage>(text).expect("a stage");
        let (writer, applied) = (read(writer), read(applied));
        let found = applied.check_writers(&|from: &TableRef| (from.stage() == "fit").then_some(&writer));
        found.into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    }

    /// The family is known from the stage that trains or imports the model, before anything runs.
    #[test]
    fn a_model_that_a_stage_cannot_apply_is_found_by_the_check() {
        let train = "[train]\nregions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmodel = { scan = {} }";
        let import = "[import_model]\nweights = \"w\"\nvocabulary = \"v\"\nmodel = { vsrn = {} }";
        let inputs =
            |images: &str| format!("model = \"fit.model\"\n{images} = \"x.{images}\"\ncaptions = \"x.captions\"");
        let stage = |kind: &str, images: &str| format!("[{kind}]\n{}", inputs(images));
        assert_eq!(
            problems(train, &stage("embed", "regions")),
            ["model: a model of `scan` has no vector of an image and of a caption that its score follows from"]
        );
        assert_eq!(problems(train, &stage("score_pairs", "regions")), [""; 0]);
        assert_eq!(
            problems(train, &stage("score_pairs", "features")),
            ["features: a model of `scan` reads `regions` of images"]
        );
        assert_eq!(
            problems(import, &stage("compute_attention", "regions")),
            ["model: a model of `vsrn` has no attention between words and regions"]
        );
        assert_eq!(problems(import, &stage("embed", "regions")), [""; 0]);
        assert_eq!(problems(train, &stage("compute_attention", "regions")), [""; 0]);
        let other = stage("embed", "regions").replace("fit.model", "other.model");
        assert_eq!(problems(train, &other), [""; 0]);
    }
}
