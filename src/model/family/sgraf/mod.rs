//! SGR and SAF: reasoning over a graph of alignments, and filtration of alignments by attention.
//!
//! Diao, Zhang, Ma, Lu, "Similarity Reasoning and Filtration for Image-Text Matching", AAAI 2021. Their ensemble is
//! SGRAF, the mean of the scores of one model of each.

mod alignments;
mod difference_layer;
mod difference_products;
mod family;
mod published;

pub use pairloom_spec::family::sgraf as settings;
