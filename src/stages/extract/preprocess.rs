//! From a picture to what a network sees.

use crate::io::image::Picture;
use crate::kernels::resize::resize_and_crop;

/// Mean of the channels over ImageNet, of values in 0..1 (torchvision's `ImageClassification` preset).
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviation of the channels over ImageNet.
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Appends the normalised centre of `picture` to `pixels`: 3 channels × `crop` × `crop`.
///
/// This is torchvision's `Resize(resize)`, `CenterCrop(crop)`, `ToTensor`, `Normalize`, to the bit.
pub(super) fn append(picture: &Picture, resize: usize, crop: usize, pixels: &mut Vec<f32>) {
    let square = resize_and_crop(&picture.rgb, picture.width, picture.height, resize, crop);
    for (channel, (mean, deviation)) in MEAN.into_iter().zip(DEVIATION).enumerate() {
        let table: Vec<f32> = (0..=u8::MAX).map(|value| (f32::from(value) / 255.0 - mean) / deviation).collect();
        pixels.extend(square.iter().skip(channel).step_by(3).map(|&value| table[usize::from(value)]));
    }
}
