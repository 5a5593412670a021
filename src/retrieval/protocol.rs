//! Evaluation protocols: the images of each pool, the folds, and the name of the protocol in results.
//!
//! For COCO, "1K" alone is never used as a name: papers use it for the mean of five folds, for the first fold, and for
//! a split of 1,000 images. It is unambiguous only for Flickr8k and Flickr30k, whose whole test split has 1,000 images.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result};

/// Number of images of a fold of COCO's 5,000 test images.
const FOLD_IMAGES: usize = 1000;

/// Data sets for which "1K" is unambiguous: their test split has 1,000 images.
const DATASETS_WITH_1K_TEST_SPLIT: [&str; 4] = ["f8k", "flickr8k", "f30k", "flickr30k"];

/// Evaluation protocol: the pool of images and captions that a query is ranked in. It is part of the name of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The whole split (`coco-5k`, `f30k-1k`; 1,000 images of COCO are `coco-1k-single`).
    All,
    /// The mean over five consecutive blocks of 1,000 images (`coco-1k-five-fold`).
    FiveFold,
    /// The first 1,000 images (`coco-1k-first-fold`).
    FirstFold,
}

impl Protocol {
    /// Folds of a split with `n_images` images.
    ///
    /// # Errors
    /// The split has too few images, or for [`Protocol::FiveFold`] not 5,000.
    pub fn pools(self, dataset: &str, n_images: usize) -> Result<Folds> {
        Ok(Folds { protocol: self.label(dataset, n_images), images: self.folds(n_images)? })
    }

    /// Name in pipeline files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::All => "all",
            Protocol::FiveFold => "five_fold",
            Protocol::FirstFold => "first_fold",
        }
    }

    /// Name of the protocol in results: `coco-5k`, `f30k-1k`, `flickr8k-125`, `coco-1k-five-fold`. A split of 1,000
    /// images of a data set for which "1K" is ambiguous is `coco-1k-single`.
    fn label(self, dataset: &str, n_images: usize) -> String {
        match self {
            Protocol::All
                if n_images == FOLD_IMAGES
                    && !DATASETS_WITH_1K_TEST_SPLIT.iter().any(|name| dataset.eq_ignore_ascii_case(name)) =>
            {
                format!("{dataset}-1k-single")
            }
            Protocol::All if n_images > 0 && n_images.is_multiple_of(1000) => format!("{dataset}-{}k", n_images / 1000),
            Protocol::All => format!("{dataset}-{n_images}"),
            Protocol::FiveFold => format!("{dataset}-1k-five-fold"),
            Protocol::FirstFold => format!("{dataset}-1k-first-fold"),
        }
    }

    /// Images of every fold, in the order of the split.
    ///
    /// # Errors
    /// The split has too few images, or for [`Protocol::FiveFold`] not 5,000.
    fn folds(self, n_images: usize) -> Result<Vec<Range<usize>>> {
        let wrong = |rule: String| {
            Err(Error::data(format!("protocol `{}` wants {rule} images, the split has {n_images}", self.name()))
                .hint("protocol `all` ranks a split of any size"))
        };
        match self {
            Protocol::All => Ok(std::iter::once(0..n_images).collect()),
            Protocol::FiveFold if n_images == 5 * FOLD_IMAGES => {
                Ok((0..5).map(|i| i * FOLD_IMAGES..(i + 1) * FOLD_IMAGES).collect())
            }
            Protocol::FiveFold => wrong(format!("exactly {}", 5 * FOLD_IMAGES)),
            Protocol::FirstFold if n_images >= FOLD_IMAGES => Ok(std::iter::once(0..FOLD_IMAGES).collect()),
            Protocol::FirstFold => wrong(format!("at least {FOLD_IMAGES}")),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_pool() {
        let label = |protocol: Protocol, n| protocol.label("coco", n);
        assert_eq!(label(Protocol::All, 5000), "coco-5k");
        assert_eq!(label(Protocol::All, 1000), "coco-1k-single");
        assert_eq!(Protocol::All.label("f30k", 1000), "f30k-1k");
        assert_eq!(Protocol::All.label("Flickr30K", 1000), "Flickr30K-1k");
        assert_eq!(Protocol::All.label("f30k", 29_000), "f30k-29k");
        assert_eq!(label(Protocol::All, 125), "coco-125");
        assert_eq!(label(Protocol::FiveFold, 5000), "coco-1k-five-fold");
        assert_eq!(label(Protocol::FirstFold, 5000), "coco-1k-first-fold");
    }

    #[test]
    fn folds_are_consecutive_blocks_of_a_thousand() {
        let one = |range| std::iter::once(range).collect::<Vec<Range<usize>>>();
        assert_eq!(Protocol::All.folds(125).expect("any size"), one(0..125));
        let five = Protocol::FiveFold.folds(5000).expect("5,000 images");
        assert_eq!(five, [0..1000, 1000..2000, 2000..3000, 3000..4000, 4000..5000]);
        assert_eq!(Protocol::FirstFold.folds(5000).expect("enough"), one(0..1000));
        for (protocol, n) in [(Protocol::FiveFold, 4999), (Protocol::FiveFold, 6000), (Protocol::FirstFold, 999)] {
            let error = protocol.folds(n).expect_err("too few or too many");
            assert!(error.to_string().contains(&format!("the split has {n}")), "{error}");
        }
    }
}
