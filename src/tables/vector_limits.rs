//! Limit of the numbers in vectors of images, so that their products stay finite.

use pairloom_base::error::{Error, Result};

/// Largest number in a vector of an image. The squared norms of such vectors after a linear layer are far below the
/// largest f32.
pub const LARGEST: f32 = 1e12;

/// First finite number whose absolute value is above [`LARGEST`].
#[must_use]
pub fn too_large(vector: &[f32]) -> Option<f32> {
    vector.iter().copied().find(|value| value.is_finite() && value.abs() > LARGEST)
}

/// Checks the vector or the regions of an image.
///
/// # Errors
/// A number is not finite, or is too large.
pub fn check_image_vector(image: i64, vector: &[f32]) -> Result<()> {
    if vector.iter().any(|value| !value.is_finite()) {
        return Err(Error::data(format!("the feature of image {image} holds a value that is not finite")));
    }
    match too_large(vector) {
        Some(value) => {
            let message =
                format!("the feature of image {image} holds {value:e}, wanted numbers of at most {LARGEST:e}");
            Err(Error::data(message).hint("products of such numbers are not finite"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_is_too_large_is_found() {
        assert_eq!(too_large(&[1.0, -LARGEST, f32::NAN, f32::INFINITY]), None);
        assert_eq!(too_large(&[1.0, -2e12, 3e38]), Some(-2e12));
        let text = |vector: &[f32]| check_image_vector(7, vector).map_err(|error| error.to_string());
        assert_eq!(text(&[1.0, 1e11]), Ok(()));
        let large = "the feature of image 7 holds 3e38, wanted numbers of at most 1e12".to_owned();
        assert_eq!(text(&[1.0, 3e38]), Err(large));
        assert_eq!(text(&[f32::NAN]), Err("the feature of image 7 holds a value that is not finite".to_owned()));
    }
}
