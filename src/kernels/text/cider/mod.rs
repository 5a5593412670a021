//! CIDEr and CIDEr-D: caption similarity by the cosine of tf-idf weighted n-grams.
//!
//! Vedantam, Zitnick and Parikh, "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015.
//!
//! A caption is four sparse vectors, one for each n from 1 to 4. The weight of an n-gram g in caption h is
//! `h(g) = count · (ln N − ln max(1, df(g)))`, where N is the number of images and df(g) the number of images with g in
//! one of their captions. R are the references of image i (its captions), and Δ is the difference between the numbers
//! of bigrams of h and r:
//!
//! ```text
//! φ(i, h)  =  10/|R| Σ_r  1/4 Σ_n  Σ_g s(g) / (‖h_n‖ ‖r_n‖)
//!
//! CIDEr-D     s(g) = min(h(g), r(g)) · r(g) · exp(−Δ² / (2 · 6²))
//! CIDEr       s(g) = h(g) · r(g)
//! ```
//!
//! The factor 10 and the mean over n are those of the authors' code. The value that the COCO evaluation prints as
//! "CIDEr" is CIDEr-D. The cosines of a vector of norm 0 are 0. So φ is 0 for a caption without words, for an image
//! without references and in a corpus of one image, where every logarithm is 0.
//!
//! From captions to φ: [`NgramVocabulary`] counts the n-grams of a caption and gives them ids, [`DocumentFrequency`]
//! counts images, [`Idf`] is the weight of one occurrence, [`CaptionVectors`] holds the weighted captions (the table
//! `caption_ngrams`), and [`Cider`] compares them.

mod ngrams;
mod frequency;
mod vectors;
mod scorer;
mod index;
mod block;
mod similarity;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod cxc_golden_tests;

pub use frequency::{DocumentFrequency, Idf};
pub use index::CiderScratch;
pub use ngrams::{Ngram, NgramVocabulary};
pub use scorer::{CiderVariant, OwnCaption};
pub use similarity::Cider;
pub use vectors::{CaptionVector, CaptionVectors};
