//! Pools of a protocol.

use std::ops::Range;

/// Pools of a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folds {
    /// Name in results: `coco-5k`.
    pub protocol: String,
    /// Images of each pool; it has their captions. No image is in two.
    pub images: Vec<Range<usize>>,
}

impl Folds {
    /// A collection of so many images as one pool.
    #[must_use]
    pub fn whole(protocol: impl Into<String>, images: usize) -> Self {
        Self { protocol: protocol.into(), images: std::iter::once(0..images).collect() }
    }
}
