//! Registry of stages, one line per stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
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
