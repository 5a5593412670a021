//! Image augmentation for training: a random resized crop and a horizontal flip, a pure function of (seed, epoch,
//! position).
//!
//! Source: `RandomResizedCrop.get_params` and `RandomHorizontalFlip` of torchvision 0.26. The crop is that of Szegedy
//! et al., "Going deeper with convolutions", CVPR 2015, section 6.

use super::random::Rng;
use super::resize::CropBox;

/// Path element that separates these random numbers from others of the same seed.
const RANDOM_STREAM: u64 = 0x0061_7567_6d65_6e74;
/// Smallest and largest area of the crop, as a fraction of the image.
const AREA_FRACTION: (f64, f64) = (0.08, 1.0);
/// Smallest and largest aspect ratio of the crop (width over height).
const ASPECT_RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// Random crops tried before the central one is taken.
const MAX_ATTEMPTS: usize = 10;

/// Augmentation of an image at one position of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Augmentation {
    /// The pixels that are resized to the square input of the network.
    pub crop: CropBox,
    /// True if left and right are swapped.
    pub flipped: bool,
}

impl Augmentation {
    /// Draws the augmentation of an image of `width` × `height` pixels at `position` of `epoch`.
    ///
    /// The area of the crop is uniform in 8 % to 100 % of the image, and the logarithm of its aspect ratio is uniform
    /// in ln ¾ to ln 4⁄3. A crop that fits into the image is placed uniformly at random. If ten crops in a row do not
    /// fit, the central crop is taken, with the aspect ratio of the image clamped to that range. Half of the images are
    /// flipped.
    ///
    /// # Panics
    /// `width` or `height` is 0.
    #[must_use]
    pub fn draw(seed: u64, epoch: u64, position: u64, width: usize, height: usize) -> Self {
        assert!(width > 0 && height > 0, "the image has no pixels");
        let mut rng = Rng::new(seed, &[RANDOM_STREAM, epoch, position]);
        let flipped = rng.uniform() < 0.5;
        let crop = (0..MAX_ATTEMPTS).find_map(|_| random_crop(&mut rng, width, height));
        Self { crop: crop.unwrap_or_else(|| central_crop(width, height)), flipped }
    }
}

/// A crop of random area and aspect ratio; `None` if it does not fit.
#[expect(clippy::cast_precision_loss, reason = "sides are far below 2^53")]
fn random_crop(rng: &mut Rng, width: usize, height: usize) -> Option<CropBox> {
    let mut between = |(low, high): (f64, f64)| low + (high - low) * rng.uniform();
    let area = (width * height) as f64 * between(AREA_FRACTION);
    let ratio = between((ASPECT_RATIO.0.ln(), ASPECT_RATIO.1.ln())).exp();
    let (w, h) = (rounded((area * ratio).sqrt()), rounded((area / ratio).sqrt()));
    ((1..=width).contains(&w) && (1..=height).contains(&h)).then(|| {
        let (top, left) = (rng.uniform_below(height - h + 1), rng.uniform_below(width - w + 1));
        CropBox { left, top, width: w, height: h }
    })
}

/// The largest centred crop of a permitted aspect ratio.
#[expect(clippy::cast_precision_loss, reason = "sides are far below 2^53")]
fn central_crop(width: usize, height: usize) -> CropBox {
    let ratio = width as f64 / height as f64;
    let (w, h) = if ratio < ASPECT_RATIO.0 {
        (width, rounded(width as f64 / ASPECT_RATIO.0))
    } else if ratio > ASPECT_RATIO.1 {
        (rounded(height as f64 * ASPECT_RATIO.1), height)
    } else {
        (width, height)
    };
    CropBox { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
}

/// Rounds to the nearest integer, ties to even, as Python does.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sides are positive and far below 2^53")]
fn rounded(side: f64) -> usize {
    side.round_ties_even() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(seed: u64, epoch: u64, position: u64) -> Augmentation {
        Augmentation::draw(seed, epoch, position, 500, 375)
    }

    #[test]
    fn the_augmentation_depends_on_seed_epoch_and_position_only() {
        assert_eq!(view(1, 2, 3), view(1, 2, 3));
        for other in [view(2, 2, 3), view(1, 3, 3), view(1, 2, 4), view(1, 3, 2)] {
            assert_ne!(other.crop, view(1, 2, 3).crop);
        }
    }

    #[test]
    fn every_crop_lies_inside_the_image() {
        for (width, height) in [(1, 1), (1, 2), (2, 1), (3, 500), (500, 3), (31, 47), (640, 480)] {
            for position in 0..2000 {
                let CropBox { left, top, width: w, height: h } = Augmentation::draw(3, 0, position, width, height).crop;
                assert!(w > 0 && h > 0 && left + w <= width && top + h <= height, "{width} × {height}");
            }
        }
    }

    /// The standard deviation of 10,000 draws with p = 0.5 is 50.
    #[test]
    fn half_of_the_images_are_flipped() {
        let count = (0..10_000).filter(|&position| view(5, 0, position).flipped).count();
        assert!((4800..=5200).contains(&count), "{count}");
    }
}
