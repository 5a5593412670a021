//! SCAN: stacked cross attention between regions and words.
//!
//! Lee, Chen, Hua, Hu, He, "Stacked Cross Attention for Image-Text Matching", ECCV 2018.

mod family;
mod cross_attention;
mod fused_scores;
mod published;

pub use pairloom_spec::family::scan as settings;
