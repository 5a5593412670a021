//! Allowed sizes of images.

use std::ops::RangeInclusive;

/// Allowed widths and heights of an image, in pixels.
pub(in super::super) const IMAGE_SIDES: RangeInclusive<u32> = 32..=512;
