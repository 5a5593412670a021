//! Normalisation of images for networks: channels first, with the mean and standard deviation of each channel.
//!
//! Source: `ToTensor` and `Normalize` of torchvision 0.26, in f32 and in the same order of operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mean and standard deviation of each channel (red, green, blue), for values in 0..1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelStatistics {
    /// Mean.
    pub mean: [f32; 3],
    /// Standard deviation.
    pub deviation: [f32; 3],
}

impl ChannelStatistics {
    /// Statistics of ImageNet, for the networks of torchvision (its preset `ImageClassification`).
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
    /// Statistics of CLIP's training images.
    pub const CLIP: Self =
        Self { mean: [0.481_454_66, 0.457_827_5, 0.408_210_73], deviation: [0.268_629_54, 0.261_302_6, 0.275_777_1] };
    /// One half for both: values of −1 to 1, as Inception networks have them.
    pub const HALVES: Self = Self { mean: [0.5; 3], deviation: [0.5; 3] };
}

/// Normalises an RGB image: writes (value / 255 − mean) / deviation to `channels`, all of red, then green, then blue.
/// With `flipped`, each row is reversed.
///
/// # Shapes
/// - `rgb`: `[height, width, 3]`
/// - `channels`: `[3, height, width]`
///
/// # Panics
/// The length of `rgb` is no multiple of `3 · width`, or `channels` has another length.
pub fn to_channels(rgb: &[u8], width: usize, statistics: ChannelStatistics, flipped: bool, channels: &mut [f32]) {
    assert!(width > 0 && rgb.len().is_multiple_of(3 * width), "{} bytes are no rows of {width} pixels", rgb.len());
    assert_eq!(rgb.len(), channels.len(), "one value a byte");
    let planes = channels.chunks_exact_mut((rgb.len() / 3).max(1));
    for (channel, (plane, (mean, deviation))) in
        planes.zip(statistics.mean.into_iter().zip(statistics.deviation)).enumerate()
    {
        let mut table = [0.0; 256];
        for (value, entry) in (0..=u8::MAX).zip(&mut table) {
            *entry = (f32::from(value) / 255.0 - mean) / deviation;
        }
        for (pixels, row) in rgb.chunks_exact(3 * width).zip(plane.chunks_exact_mut(width)) {
            for (pixel, value) in pixels.chunks_exact(3).zip(row.iter_mut()) {
                *value = table[usize::from(pixel[channel])];
            }
            if flipped {
                row.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: (0 − 0.485) / 0.229, (1 − 0.456) / 0.224, (0.2 − 0.406) / 0.225.
    #[test]
    fn channels_come_first_and_a_flip_reverses_rows() {
        let rgb = [[0, 255, 51], [255, 0, 0], [255, 255, 255], [0, 0, 0]].concat();
        let mut straight = [0.0; 12];
        to_channels(&rgb, 2, ChannelStatistics::IMAGENET, false, &mut straight);
        let mut flipped = [0.0; 12];
        to_channels(&rgb, 2, ChannelStatistics::IMAGENET, true, &mut flipped);
        for (got, expected) in [(straight[0], -2.117_904), (straight[4], 2.428_571_5), (straight[8], -0.915_555_54)] {
            assert!((got - expected).abs() < 1e-6, "{got}, expected {expected}");
        }
        let reversed: Vec<f32> = straight.chunks_exact(2).flat_map(|row| [row[1], row[0]]).collect();
        assert_eq!(flipped[..], reversed);
    }
}
