//! CIDEr and CIDEr-D: captions compared by their n-grams, those that few images have counting more.
//!
//! Vedantam, Zitnick and Parikh, "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015.
//!
//! A caption is four sparse vectors, one for each n from 1 to 4. The weight of an n-gram g in caption h is
//! `h(g) = count · (ln N − ln max(1, df(g)))`, df(g) the number of images, of N, one of whose captions has g. With R the
//! references of image i, its captions, and Δ the difference of the numbers of bigrams of h and r:
//!
//! ```text
//! φ(i, h)  =  10/|R| Σ_r  1/4 Σ_n  Σ_g s(g) / (‖h_n‖ ‖r_n‖)
//!
//! CIDEr-D     s(g) = min(h(g), r(g)) · r(g) · exp(−Δ² / (2 · 6²))
//! CIDEr       s(g) = h(g) · r(g)
//! ```
//!
//! The factor 10 and the mean over n are those of the authors' code. What the COCO evaluation prints as "CIDEr" is CIDEr-D.
//! A vector of length 0 is like nothing: its cosines are 0. So φ is 0 for a caption without words, for an image without
//! references and, since every logarithm is 0 there, in a corpus of one image.
//!
//! From captions to φ: [`Ngrams`] numbers and counts, [`Frequency`] counts images, [`Idf`] is the weight of one
//! occurrence, [`Vectors`] holds the weighted captions (the table `caption_ngrams`), [`Cider`] compares them.

mod ngrams;
mod frequency;
mod vectors;
mod measure;
mod index;
mod block;
mod similarity;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod cxc_tests;

pub use frequency::{Frequency, Idf};
pub use index::Scratch;
pub use measure::{Form, OwnCaption};
pub use ngrams::{Ngram, Ngrams};
pub use similarity::Cider;
pub use vectors::{Caption, Vectors};
