//! Architecture of a text tower of CLIP.

use super::layer::Layer;

/// Architecture of a text tower.
#[derive(Debug, Clone, PartialEq)]
pub struct TextTower {
    /// Layers from token identifiers to tokens.
    pub layers: Vec<Layer>,
    /// Projection of the last token of a text to the joint space.
    pub projection: Layer,
    /// Width of a token.
    pub width: usize,
    /// Width of the joint space.
    pub embedding_width: usize,
    /// Largest number of tokens of a text.
    pub length: usize,
}
