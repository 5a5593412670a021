//! VSRN: reasoning over the regions of an image by graph convolutions and a GRU.
//!
//! Li, Zhang, Li, Li, Fu, "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019.

mod region_reasoning;
mod caption_branch;
mod family;
mod published;

pub use pairloom_spec::family::vsrn as settings;
