//! The list of all stages, one line each, and the names of those that write each table.
//!
//! [`AnyStage`] is a stage of any kind, as plain data. It runs those that need no tensors; `pairloom_neural::run_stage` runs all.

mod writers;
#[cfg(test)]
mod fact_tests;

use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result};
use pairloom_report as report;
use pairloom_spec as spec;
use pairloom_stage::{
    CopiedRows, FileKeys, KnownFacts, OutputFact, Problem, RowKey, RunnableStage, Stage, StageContext, StageInput,
    StageOutput,
};
use pairloom_stages as stages;

macro_rules! needs_tensors {
    (data) => {
        false
    };
    (tensors) => {
        true
    };
}

macro_rules! run_without_tensors {
    (data, $stage:ident, $cx:ident) => {
        $stage.run($cx)
    };
    (tensors, $stage:ident, $cx:ident) => {
        Err(Error::internal(format!(
            "got a stage `{}`, which computes with tensors, expected one of data",
            $stage.kind()
        )))
    };
}

/// Defines [`AnyStage`]. Before each stage is what it computes with: `data` alone, or `tensors`.
macro_rules! stages {
    ($($(#[$about:meta])* $what:ident $name:ident($settings:ty)),* $(,)?) => {
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

        impl AnyStage {
            /// True for a stage that computes with tensors, which only a program with libtorch runs.
            #[must_use]
            pub fn needs_tensors(&self) -> bool {
                match self { $(Self::$name(_) => needs_tensors!($what)),* }
            }

            /// Runs a stage that computes without tensors.
            ///
            /// # Errors
            /// Any error of the stage, or an internal one if [`AnyStage::needs_tensors`].
            pub fn run_without_tensors(&self, cx: &mut StageContext<'_>) -> Result<()> {
                match self { $(Self::$name(stage) => run_without_tensors!($what, stage, cx)),* }
            }
        }
    };
}

stages! {
    /// Reads a data set: images and captions.
    data Ingest(stages::ingest::Ingest),
    /// Scores captions by their similarity to the captions of images.
    data ScoreCaptions(stages::score_captions::ScoreCaptions),
    /// Builds a vocabulary of concepts from captions.
    data BuildConcepts(stages::build_concepts::BuildConcepts),
    /// Computes feature vectors of images with an image network.
    tensors Extract(spec::stages::extract::Extract),
    /// Imports the regions of a detector.
    data ImportRegions(stages::import_regions::ImportRegions),
    /// Imports vectors of images from columns of tables, or from arrays with a row for each image.
    data ImportFeatures(stages::import_features::ImportFeatures),
    /// Imports vectors of images from npy files, one for each image.
    data ImportArrays(stages::import_arrays::ImportArrays),
    /// Trains a joint embedding of images and captions.
    tensors Train(spec::stages::train::Train),
    /// Imports a published model.
    tensors ImportModel(spec::stages::import_model::ImportModel),
    /// Embeds images and captions with a trained model.
    tensors Embed(spec::stages::embed::Embed),
    /// Scores all images of a split with all its captions.
    tensors ScorePairs(spec::stages::score_pairs::ScorePairs),
    /// Combines the scores or the vectors of several models.
    data Ensemble(stages::ensemble::Ensemble),
    /// Computes the attention between words and regions.
    tensors ComputeAttention(spec::stages::compute_attention::ComputeAttention),
    /// Ranks embeddings and measures retrieval.
    tensors Evaluate(spec::stages::evaluate::Evaluate),
    /// Tests whether two evaluations differ by more than chance.
    data TestSignificance(stages::test_significance::TestSignificance),
    /// Correlates scores with human ratings.
    data Correlate(stages::correlate::Correlate),
    /// Writes results as a Markdown page and an HTML page.
    data Report(report::Report),
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
    fn facts(&self, known: &KnownFacts) -> Vec<OutputFact> {
        self.as_stage().facts(known)
    }
    fn check_inputs(&self, known: &KnownFacts) -> Vec<Problem> {
        self.as_stage().check_inputs(known)
    }
    fn writers(output: &str) -> Option<&'static str> {
        writers::writers(output)
    }
    fn check(&self) -> Vec<Problem> {
        self.as_stage().check()
    }
    fn check_headers(&self) -> Vec<Problem> {
        self.as_stage().check_headers()
    }
    fn copied_rows(&self) -> Option<CopiedRows> {
        self.as_stage().copied_rows()
    }
    fn item_keys(&self, rows: &RecordBatch, files: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        self.as_stage().item_keys(rows, files)
    }
}
