//! The registry: one line a stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::stage::{Cx, Input, Output, Problem, Run, Stage};

macro_rules! stages {
    ($($(#[$about:meta])* $name:ident($settings:ty)),* $(,)?) => {
        /// The settings of any stage, as they stand in a pipeline file: `[stage.NAME.KIND]`.
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

        impl Run for AnyStage {
            fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
                match self { $(Self::$name(stage) => stage.run(cx)),* }
            }
        }
    };
}

stages! {
    /// Reads a data set: images and captions.
    Ingest(super::ingest::Ingest),
    /// Compares captions with the captions of images.
    Compare(super::compare::Compare),
    /// Computes feature vectors of images with a convolutional network.
    Extract(super::extract::Extract),
    /// Trains a joint embedding of images and captions.
    Train(super::train::Train),
    /// Takes over a published model.
    Convert(super::convert::Convert),
    /// Embeds images and captions with a trained model.
    Embed(super::embed::Embed),
    /// Ranks embeddings and measures retrieval.
    Evaluate(super::evaluate::Evaluate),
    /// Tests whether two evaluations differ by more than chance.
    Contrast(super::contrast::Contrast),
    /// Measures how well scores agree with what people say.
    Correlate(super::correlate::Correlate),
    /// Writes results as a Markdown and an HTML page.
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
    fn inputs(&self) -> Vec<Input> {
        self.as_stage().inputs()
    }
    fn outputs(&self) -> Vec<Output> {
        self.as_stage().outputs()
    }
    fn check(&self) -> Vec<Problem> {
        self.as_stage().check()
    }
}
