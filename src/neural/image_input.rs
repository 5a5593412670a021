//! Kind of the images that a model reads.

use pairloom_base::error::{Error, Result};
use pairloom_model::family::input_spec::ImageInput;
use pairloom_model::trained_model::TrainedModel;

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
