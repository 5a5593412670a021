//! CVSE: concepts that captions have in common, as a graph beside the vectors of an image and a caption.
//!
//! Wang, Zhang, Ji, Pang, Ma, "Consensus-Aware Visual-Semantic Embedding for Image-Text Matching", ECCV 2020.

mod consensus;
mod family;
mod published;

pub use pairloom_spec::family::cvse as settings;
