//! VSE∞: one vector of an image's regions and one of a caption's words by learned pooling.
//!
//! Chen, Hu, Wu, Jiang, Wang, "Learning the Best Pooling Strategy for Visual Semantic Embedding", CVPR 2021.

mod pooling_operator;
mod size_augmentation;
mod family;
mod published;

pub use pairloom_spec::family::vse_infinity as settings;
