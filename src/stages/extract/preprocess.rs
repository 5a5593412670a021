//! Preprocessing of an image for the network.

use crate::io::image::DecodedImage;
use crate::kernels::normalize;
use crate::kernels::resize::resize_and_crop;

/// Resizes `image`, crops its centre, normalises it and appends it to `pixels`: 3 channels × `crop` × `crop` values.
///
/// Equal to the bit to torchvision's `Resize(resize)`, `CenterCrop(crop)`, `ToTensor`, `Normalize`.
pub(super) fn append_normalized(image: &DecodedImage, resize: usize, crop: usize, pixels: &mut Vec<f32>) {
    let square = resize_and_crop(&image.rgb, image.width, image.height, resize, crop);
    let start = pixels.len();
    pixels.resize(start + square.len(), 0.0);
    normalize::imagenet(&square, crop, false, &mut pixels[start..]);
}
