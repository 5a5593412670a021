//! Preprocessing of an image for the network.

use pairloom_images::image::DecodedImage;
use pairloom_kernels::normalize;
use pairloom_kernels::resize::{CropPlace, resize_and_crop};
use pairloom_model::networks::NetworkInput;

/// Resizes `image`, crops its centre, normalises it and appends it to `pixels`: 3 channels × `crop` × `crop` values.
///
/// Equal to the bit to torchvision's `Resize(resize)`, `CenterCrop(crop)`, `ToTensor`, `Normalize`.
pub(super) fn append_normalized(image: &DecodedImage, input: &NetworkInput, pixels: &mut Vec<f32>) {
    append_square(image, input, (CropPlace::Centre, false), pixels);
}

/// Appends ten squares in place of one: torchvision's `TenCrop(crop)`, in its order.
pub(super) fn append_ten_crops(image: &DecodedImage, input: &NetworkInput, pixels: &mut Vec<f32>) {
    for square in CropPlace::TEN {
        append_square(image, input, square, pixels);
    }
}

fn append_square(
    image: &DecodedImage,
    input: &NetworkInput,
    (place, mirrored): (CropPlace, bool),
    pixels: &mut Vec<f32>,
) {
    let square = resize_and_crop(&image.rgb, image.width, image.height, input.square(place));
    let start = pixels.len();
    pixels.resize(start + square.len(), 0.0);
    normalize::to_channels(&square, input.crop, input.statistics, mirrored, &mut pixels[start..]);
}
