//! Folds of a protocol.

use std::ops::Range;

/// Folds of a protocol; each is a pool that is ranked by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folds {
    /// Name in results: `coco-5k`.
    pub protocol: String,
    /// Images of each pool. A pool also has their captions. No image is in two pools.
    pub images: Vec<Range<usize>>,
}

impl Folds {
    /// A whole collection of `images` images as one pool.
    #[must_use]
    pub fn whole(protocol: impl Into<String>, images: usize) -> Self {
        Self { protocol: protocol.into(), images: std::iter::once(0..images).collect() }
    }
}
