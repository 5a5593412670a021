//! Settings of stages that read or import the vectors of images.

use crate::error::{Error, Result};
use crate::model::family::input_spec::ImageInput;
use crate::model::trained_model::TrainedModel;
use crate::stage::{Problem, StageInput, TableRef};
use crate::tables;

/// Largest number of regions of an image that can be imported.
const MAX_REGIONS: usize = 1000;

/// Largest number of values of the regions of an image. Parts of a hundred images are written at once.
const MAX_ROW_VALUES: usize = 1 << 20;

/// Checks the number of values of an image with `places` regions of vectors of `width` values.
pub(super) fn check_row_values(places: usize, width: usize) -> std::result::Result<(), String> {
    let values = places.saturating_mul(width);
    if values > MAX_ROW_VALUES {
        return Err(format!(
            "an image has {values} values ({places} regions by `max_regions`, {width} values each), wanted at most \
             {MAX_ROW_VALUES}"
        ));
    }
    Ok(())
}

/// Problems of the settings `max_regions` and `max_skipped` of a stage that imports vectors.
pub(super) fn import_problems(max_regions: Option<usize>, max_skipped: f64) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(places) = max_regions.filter(|places| !(1..=MAX_REGIONS).contains(places)) {
        problems.push(Problem::new("max_regions", format!("got {places}, wanted 1 to {MAX_REGIONS}")));
    }
    if !(0.0..=1.0).contains(&max_skipped) {
        problems.push(Problem::new("max_skipped", format!("got {max_skipped}, wanted 0 to 1")));
    }
    problems
}

/// Input of the vectors of images.
pub(super) fn image_vectors_input(name: impl Into<String>, from: &TableRef, input: ImageInput) -> StageInput {
    let table = match input {
        ImageInput::Features => tables::features::table(),
        ImageInput::Regions => tables::regions::table(),
    };
    StageInput::table(name, from, &table)
}

/// Table with the vectors of images, and its kind, from the settings `features` and `regions`.
pub(super) fn image_vectors<'t>(
    features: Option<&'t TableRef>,
    regions: Option<&'t TableRef>,
) -> Option<(&'t TableRef, ImageInput)> {
    let features = features.map(|from| (from, ImageInput::Features));
    features.or_else(|| regions.map(|from| (from, ImageInput::Regions)))
}

/// Inputs of a stage that applies a model: the model, the vectors of images, captions.
pub(super) fn model_inputs(
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
pub(super) fn either_image_vectors_problem(
    features: Option<&TableRef>,
    regions: Option<&TableRef>,
    prefix: &str,
) -> Option<Problem> {
    match (features, regions) {
        (Some(_), Some(_)) => {
            let message = "set together with `features`: wanted one of the two";
            Some(Problem::new(format!("{prefix}regions"), message))
        }
        (None, None) => {
            let message = "no images: wanted `features`, or `regions` for a model that reads them";
            Some(Problem::new(format!("{prefix}features"), message).hint("`features = \"cnn.features\"`"))
        }
        _ => None,
    }
}

/// Checks that a model reads images of this kind.
///
/// # Errors
/// It reads the other kind.
pub(super) fn check_image_input(model: &TrainedModel, got: ImageInput) -> Result<()> {
    let wanted = model.input_spec().image_input();
    if got == wanted {
        return Ok(());
    }
    let (got, wanted) = (got.name(), wanted.name());
    Err(Error::data(format!("the model reads `{wanted}` of images, got `{got}`"))
        .hint(format!("set `{wanted}` in place of `{got}`")))
}

/// Problem of the tables `features` and `regions`, of which a model of the family `model` reads the kind `wanted`. Names
/// of settings begin with `prefix`.
pub(super) fn image_vectors_problem(
    tables: (Option<&TableRef>, Option<&TableRef>),
    wanted: ImageInput,
    prefix: &str,
    model: &str,
) -> Option<Problem> {
    let example = match wanted {
        ImageInput::Features => "`features = \"cnn.features\"`",
        ImageInput::Regions => "`regions = \"pairs.regions\"`",
    };
    let (setting, message) = match (tables, wanted) {
        ((Some(_), None), ImageInput::Features) | ((None, Some(_)), ImageInput::Regions) => return None,
        ((Some(_), Some(_)), _) => ("regions", "set together with `features`: wanted one of the two".to_owned()),
        ((None, None), _) => (wanted.name(), format!("no images: wanted `{}`", wanted.name())),
        ((Some(_), None), ImageInput::Regions) => {
            ("features", format!("a model of `{model}` reads regions, not one vector of an image"))
        }
        ((None, Some(_)), ImageInput::Features) => {
            ("regions", format!("a model of `{model}` reads one vector of an image, not regions"))
        }
    };
    Some(Problem::new(format!("{prefix}{setting}"), message).hint(example))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_too_many_values_are_refused() {
        // Grids of CLIP's largest vision transformer, and a thousand regions.
        assert_eq!(check_row_values(577, 1_024), Ok(()));
        assert_eq!(check_row_values(1_000, 1_048), Ok(()));
        let message = check_row_values(1_000, 16_384).unwrap_err();
        assert!(message.starts_with("an image has 16384000 values (1000 regions by `max_regions`, 16384 values each)"));
    }
}
