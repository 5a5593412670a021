//! Settings of `import_model`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::ModelFacts;
use crate::family::PublishedModel;
use pairloom_kernels::text::Tokenizer;
use pairloom_stage::{KnownFacts, OutputFact, SourceRef, Stage, StageInput, StageOutput};

/// Imports a published model, so that `embed` can use it like a model of `train`.
///
/// `docs/tutorials/published-models.md` has the lines of Python that turn a published checkpoint (`.pth.tar`) and its
/// vocabulary (`.pkl`) into these files.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportModel {
    /// Safetensors file of the parameters, under their published names.
    pub weights: SourceRef,
    /// JSON file of the vocabulary: a list of words in the order of their token ids, or an object from word to token
    /// id, which may be in the field `word2idx`.
    pub vocabulary: SourceRef,
    /// Tokeniser of the published code. Models that were trained with HAL's code under Python 3 need `python3_bytes`.
    #[serde(default)]
    pub tokenizer: Tokenizer,
    /// Family of the model, and settings that the file does not contain.
    #[serde(default)]
    pub model: PublishedModel,
}

impl Stage for ImportModel {
    fn kind(&self) -> &'static str {
        "import_model"
    }

    /// Version 2: models of CVSE add consensus scores, and the inverse temperatures of SCAN follow from its direction.
    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(revision) = self.tokenizer.revision() {
            settings["tokenizer_revision"] = revision.into();
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("weights", &self.weights), StageInput::source("vocabulary", &self.vocabulary)]
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::files("model")]
    }

    fn facts(&self, _: &KnownFacts) -> Vec<OutputFact> {
        let (family, capabilities) = (self.model.name(), self.model.default_capabilities());
        let facts = ModelFacts { family, capabilities, is_imported: true, trained_on: None };
        vec![OutputFact::new("model", facts)]
    }
}
