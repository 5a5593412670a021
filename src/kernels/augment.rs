//! Random views of pictures for training, each a pure function of (seed, epoch, position): a region and a mirror.
//!
//! Source: `RandomResizedCrop.get_params` and `RandomHorizontalFlip` of torchvision 0.26. The crop is that of Szegedy et
//! al., "Going deeper with convolutions", CVPR 2015, section 6.

use super::resize::Region;
use super::sample::Sample;

/// Marks the random numbers of views.
const AUGMENT: u64 = 0x0061_7567_6d65_6e74;
/// Least and greatest share of the picture's area.
const AREA: (f64, f64) = (0.08, 1.0);
/// Least and greatest width over height.
const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// Regions that are drawn before the central one is taken.
const TRIES: usize = 10;

/// What training sees of a picture at one position of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The pixels that are resized to the square.
    pub region: Region,
    /// Whether left and right change places.
    pub mirrored: bool,
}

impl View {
    /// The view at `position` of `epoch` of a picture of `width` × `height` pixels.
    ///
    /// The area is uniform in 8 % to 100 % of the picture and the logarithm of the ratio of sides uniform in ln ¾ to
    /// ln 4⁄3; a rectangle that fits lies anywhere with equal chance. When ten do not fit, it is the central one with the
    /// picture's ratio, cut to that range. One view of two is mirrored.
    ///
    /// # Panics
    /// A side is 0.
    #[must_use]
    pub fn draw(seed: u64, epoch: u64, position: u64, width: usize, height: usize) -> Self {
        assert!(width > 0 && height > 0, "the picture has no pixels");
        let mut sample = Sample::new(seed, &[AUGMENT, epoch, position]);
        let mirrored = sample.unit() < 0.5;
        let region = (0..TRIES).find_map(|_| fitting(&mut sample, width, height));
        Self { region: region.unwrap_or_else(|| central(width, height)), mirrored }
    }
}

/// A region of a random area and ratio, if it fits.
#[expect(clippy::cast_precision_loss, reason = "sides are far below 2^53")]
fn fitting(sample: &mut Sample, width: usize, height: usize) -> Option<Region> {
    let mut between = |(low, high): (f64, f64)| low + (high - low) * sample.unit();
    let area = (width * height) as f64 * between(AREA);
    let ratio = between((RATIO.0.ln(), RATIO.1.ln())).exp();
    let (w, h) = (rounded((area * ratio).sqrt()), rounded((area / ratio).sqrt()));
    ((1..=width).contains(&w) && (1..=height).contains(&h)).then(|| {
        let (top, left) = (sample.below(height - h + 1), sample.below(width - w + 1));
        Region { left, top, width: w, height: h }
    })
}

/// The largest region in the middle whose ratio is permitted.
#[expect(clippy::cast_precision_loss, reason = "sides are far below 2^53")]
fn central(width: usize, height: usize) -> Region {
    let ratio = width as f64 / height as f64;
    let (w, h) = if ratio < RATIO.0 {
        (width, rounded(width as f64 / RATIO.0))
    } else if ratio > RATIO.1 {
        (rounded(height as f64 * RATIO.1), height)
    } else {
        (width, height)
    };
    Region { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
}

/// To the nearest whole number, a half to the even one, as Python rounds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sides are positive and far below 2^53")]
fn rounded(side: f64) -> usize {
    side.round_ties_even() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(seed: u64, epoch: u64, position: u64) -> View {
        View::draw(seed, epoch, position, 500, 375)
    }

    #[test]
    fn a_view_depends_on_seed_epoch_and_position_alone() {
        assert_eq!(view(1, 2, 3), view(1, 2, 3));
        for other in [view(2, 2, 3), view(1, 3, 3), view(1, 2, 4), view(1, 3, 2)] {
            assert_ne!(other.region, view(1, 2, 3).region);
        }
    }

    #[test]
    fn every_region_lies_inside_of_its_picture() {
        for (width, height) in [(1, 1), (1, 2), (2, 1), (3, 500), (500, 3), (31, 47), (640, 480)] {
            for position in 0..2000 {
                let Region { left, top, width: w, height: h } = View::draw(3, 0, position, width, height).region;
                assert!(w > 0 && h > 0 && left + w <= width && top + h <= height, "{width} × {height}");
            }
        }
    }

    /// 10,000 draws with p = 0.5 have a standard deviation of 50.
    #[test]
    fn one_view_of_two_is_mirrored() {
        let count = (0..10_000).filter(|&position| view(5, 0, position).mirrored).count();
        assert!((4800..=5200).contains(&count), "{count}");
    }
}
