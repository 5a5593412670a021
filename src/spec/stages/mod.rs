//! Settings of the stages that compute with tensors, and their checks: one file a stage, and here the vectors of images that several
//! read. `neural` runs these stages.

pub mod extract;
pub mod train;
pub mod import_model;
pub mod embed;
pub mod score_pairs;
pub mod compute_attention;
pub mod evaluate;
pub mod facts;

use crate::input_spec::ImageInput;
use pairloom_stage::{Problem, StageInput, TableRef};
use pairloom_tables as tables;

/// Input of the vectors of images.
fn image_vectors_input(name: impl Into<String>, from: &TableRef, input: ImageInput) -> StageInput {
    let table = match input {
        ImageInput::Features => tables::features::table(),
        ImageInput::Regions => tables::regions::table(),
    };
    StageInput::table(name, from, &table)
}

/// Table with the vectors of images, and its kind, from the settings `features` and `regions`.
#[must_use]
pub fn image_vectors<'t>(
    features: Option<&'t TableRef>,
    regions: Option<&'t TableRef>,
) -> Option<(&'t TableRef, ImageInput)> {
    let features = features.map(|from| (from, ImageInput::Features));
    features.or_else(|| regions.map(|from| (from, ImageInput::Regions)))
}

/// Inputs of a stage that applies a model: the model, the vectors of images, captions.
fn model_inputs(
    model: &TableRef,
    features: Option<&TableRef>,
    regions: Option<&TableRef>,
    captions: &TableRef,
) -> Vec<StageInput> {
    let images = image_vectors(features, regions);
    let images = images.map(|(from, input)| image_vectors_input(input.name(), from, input));
    let captions = StageInput::table("captions", captions, &tables::captions::table());
    std::iter::once(StageInput::files("model", model, "model")).chain(images).chain([captions]).collect()
}

/// Problem unless one of `features` and `regions` is set. Names of settings begin with `prefix`.
fn either_image_vectors_problem(
    features: Option<&TableRef>,
    regions: Option<&TableRef>,
    prefix: &str,
) -> Option<Problem> {
    match (features, regions) {
        (Some(_), Some(_)) => {
            let message = "set together with `features`: expected one of the two";
            Some(Problem::new(format!("{prefix}regions"), message))
        }
        (None, None) => {
            let message = "no images: expected `features`, or `regions` for a model that reads them";
            Some(Problem::new(format!("{prefix}features"), message).hint("`features = \"cnn.features\"`"))
        }
        _ => None,
    }
}

/// Problem of the tables `features` and `regions`, of which a model of the family `model` reads the kind `expected`. Names
/// of settings begin with `prefix`.
fn image_vectors_problem(
    tables: (Option<&TableRef>, Option<&TableRef>),
    expected: ImageInput,
    prefix: &str,
    model: &str,
) -> Option<Problem> {
    let example = match expected {
        ImageInput::Features => "`features = \"cnn.features\"`",
        ImageInput::Regions => "`regions = \"pairs.regions\"`",
    };
    let (setting, message) = match (tables, expected) {
        ((Some(_), None), ImageInput::Features) | ((None, Some(_)), ImageInput::Regions) => return None,
        ((Some(_), Some(_)), _) => ("regions", "set together with `features`: expected one of the two".to_owned()),
        ((None, None), _) => (expected.name(), format!("no images: expected `{}`", expected.name())),
        ((Some(_), None), ImageInput::Regions) => {
            ("features", format!("a model of `{model}` reads regions, not one vector of an image"))
        }
        ((None, Some(_)), ImageInput::Features) => {
            ("regions", format!("a model of `{model}` reads one vector of an image, not regions"))
        }
    };
    Some(Problem::new(format!("{prefix}{setting}"), message).hint(example))
}
