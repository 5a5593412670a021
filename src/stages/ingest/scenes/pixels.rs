//! Sizes of pictures.

use std::ops::RangeInclusive;

/// Widths that a picture may have.
pub(in super::super) const PIXELS: RangeInclusive<u32> = 32..=512;
