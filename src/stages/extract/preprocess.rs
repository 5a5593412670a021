//! From a picture to what a network sees.

use crate::io::image::Picture;
use crate::kernels::normalize;
use crate::kernels::resize::resize_and_crop;

/// Appends the normalised centre of `picture` to `pixels`: 3 channels × `crop` × `crop`.
///
/// This is torchvision's `Resize(resize)`, `CenterCrop(crop)`, `ToTensor`, `Normalize`, to the bit.
pub(super) fn append(picture: &Picture, resize: usize, crop: usize, pixels: &mut Vec<f32>) {
    let square = resize_and_crop(&picture.rgb, picture.width, picture.height, resize, crop);
    let start = pixels.len();
    pixels.resize(start + square.len(), 0.0);
    normalize::imagenet(&square, crop, false, &mut pixels[start..]);
}
