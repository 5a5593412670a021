//! Facts that stages state of vectors, models and embeddings, and the checks of the stages that apply a model.

use crate::family::Capabilities;
use crate::input_spec::ImageInput;
use crate::similarity::EmbeddingSimilarity;
use pairloom_stage::{KnownFacts, Problem, TableRef};

/// Width of the vectors of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorWidth(pub usize);

/// Facts about a model, and about the scores that it computes.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// Name of the family.
    pub family: &'static str,
    /// Capabilities; of an imported model those of default settings.
    pub capabilities: Capabilities,
    /// True for a published model, whose settings are known when it is imported.
    pub is_imported: bool,
    /// Table of the images that the model is trained on, and the width of its vectors.
    pub trained_on: Option<(TableRef, VectorWidth)>,
}

/// Facts about embeddings of images or captions.
#[derive(Debug, Clone)]
pub struct EmbeddingFacts {
    /// Model that computes them.
    pub model: TableRef,
    /// Similarity that the model is trained with.
    pub similarity: Option<EmbeddingSimilarity>,
    /// Splits that are embedded; all if empty.
    pub splits: Vec<String>,
}

impl ModelFacts {
    /// Problems of a stage that applies the model to vectors of images that it was not made for.
    pub(super) fn image_problems(&self, images: Option<(&TableRef, ImageInput)>, known: &KnownFacts) -> Vec<Problem> {
        let Some((from, input)) = images else { return Vec::new() };
        let mut problems = Vec::new();
        let expected = self.capabilities.image_input;
        if input != expected {
            let (got, expected) = (input.name(), expected.name());
            let message = format!("a model of `{}` reads `{expected}` of images", self.family);
            problems.push(Problem::new(got, message).hint(format!("set `{expected}` in place of `{got}`")));
        }
        if let (Some((trained_on, expected)), Some(got)) = (&self.trained_on, known.get::<VectorWidth>(from))
            && got != expected
        {
            let message = format!(
                "`{from}` has vectors of {} values, and the model is trained on `{trained_on}` with {}",
                got.0, expected.0
            );
            let hint = "extract them with the network of the training";
            problems.push(Problem::new(input.name(), message).hint(hint));
        }
        problems
    }
}
