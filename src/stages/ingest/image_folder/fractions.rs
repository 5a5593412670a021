//! Random split of images by their names.

use std::collections::BTreeSet;

use super::SplitFractions;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;

impl SplitFractions {
    /// Returns the split of the image `name`, see [`SplitFractions`].
    pub(super) fn split_of(self, name: &str) -> &'static str {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(name.as_bytes()).as_bytes();
        let hash = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let position = Rng::new(self.split_seed, &[hash]).uniform();
        if position < self.test {
            "test"
        } else if position < self.test + self.val {
            "val"
        } else {
            "train"
        }
    }

    /// Checks that each split with a fraction has an image.
    ///
    /// # Errors
    /// A split has none, which happens with few images.
    pub(super) fn check_sizes(self, count: usize, splits: &BTreeSet<&str>) -> Result<()> {
        let train = 1.0 - self.val - self.test;
        for (name, fraction) in [("train", train), ("val", self.val), ("test", self.test)] {
            // A remainder of rounding is no fraction.
            if fraction > 1e-9 && !splits.contains(name) {
                return Err(Error::data(format!(
                    "no image is in the split `{name}`: {count} images, of which the fraction {fraction} is random"
                ))
                .hint(
                    "with few images, set another `split_seed`, larger fractions, or give the splits in a column: \
                     `split = { column = \"split\" }`",
                ));
            }
        }
        Ok(())
    }
}
