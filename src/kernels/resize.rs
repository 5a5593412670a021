//! Antialiased resampling of 8-bit RGB images, bit for bit as PIL does it.
//!
//! Source: `Resample.c` of Pillow 13 (triangle and cubic filter, fixed point with 22 fractional bits, two passes with 8 bits in
//! between) and `Resize`, `CenterCrop` and `functional.resized_crop` of torchvision 0.26 for the sizes.

use std::ops::Range;

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fractional bits of a weight: 32, minus 8 for the pixel and 2 for sums that overshoot.
const PRECISION: u32 = 22;

/// Filter of a resampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// Triangle filter, as in torchvision's presets.
    Bilinear,
    /// Cubic filter with a = −½, as in CLIP and most presets of timm.
    Bicubic,
}

impl Interpolation {
    /// Radius of the filter in pixels of the result.
    fn radius(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    /// Weight at the distance `x`, before the weights are divided by their sum.
    fn weight(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let x = x.abs();
        match self {
            Self::Bilinear => (1.0 - x).max(0.0),
            // The order of operations is PIL's.
            Self::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            Self::Bicubic => 0.0,
        }
    }
}

/// Place of a square in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CropPlace {
    /// Centre.
    Centre,
    /// Centre of the mirror image: an odd rest is rounded to the other side.
    MirroredCentre,
    /// Top left corner.
    TopLeft,
    /// Top right corner.
    TopRight,
    /// Bottom left corner.
    BottomLeft,
    /// Bottom right corner.
    BottomRight,
}

impl CropPlace {
    /// Squares of torchvision's `TenCrop`, in its order: each with true if it is then mirrored. The corners of the mirror
    /// image are the mirrored corners of the other side.
    pub const TEN: [(Self, bool); 10] = [
        (Self::TopLeft, false),
        (Self::TopRight, false),
        (Self::BottomLeft, false),
        (Self::BottomRight, false),
        (Self::Centre, false),
        (Self::TopRight, true),
        (Self::TopLeft, true),
        (Self::BottomRight, true),
        (Self::BottomLeft, true),
        (Self::MirroredCentre, true),
    ];

    /// Offset of `crop` pixels in a side: of the columns in `width`, and of the rows in `height`.
    fn offsets(self, width: usize, height: usize, crop: usize) -> (usize, usize) {
        let (right, bottom) = (width - crop, height - crop);
        match self {
            Self::Centre => (centred_offset(width, crop), centred_offset(height, crop)),
            Self::MirroredCentre => (right - centred_offset(width, crop), centred_offset(height, crop)),
            Self::TopLeft => (0, 0),
            Self::TopRight => (right, 0),
            Self::BottomLeft => (0, bottom),
            Self::BottomRight => (right, bottom),
        }
    }
}

/// Resized image and the square that is cut out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResizedCrop {
    /// Shorter side after resizing, in pixels.
    pub shorter: usize,
    /// Side of the square, in pixels.
    pub crop: usize,
    /// Place of the square.
    pub place: CropPlace,
    /// Filter of the resampling.
    pub interpolation: Interpolation,
}

/// Resizes an RGB image so that its shorter side has `shorter` pixels, and crops a square of `crop` × `crop` pixels.
///
/// # Shapes
/// - `rgb`: `[height, width, 3]`
/// - result: `[crop, crop, 3]`
///
/// # Cost
/// Computes the pixels of the square only: O(`crop` · longer side) memory for any aspect ratio.
///
/// # Panics
/// `rgb` is not `width` × `height` pixels, a side is 0, or `crop` is larger than `shorter`.
#[must_use]
pub fn resize_and_crop(rgb: &[u8], width: usize, height: usize, target: ResizedCrop) -> Vec<u8> {
    let ResizedCrop { shorter, crop, place, interpolation } = target;
    assert!(width > 0 && height > 0 && rgb.len() == width * height * 3, "the image has other than its pixels");
    assert!(crop <= shorter, "a square of {crop} does not fit a side of {shorter}");
    let (new_width, new_height) = resized_size(width, height, shorter);
    let (left, top) = place.offsets(new_width, new_height, crop);
    let columns = filter_taps(width, new_width, left, crop, interpolation);
    let rows = filter_taps(height, new_height, top, crop, interpolation);
    resample(rgb, width, &columns, &rows, vertical_first((width, height), (new_width, new_height)))
}

/// Edges of the central square that [`resize_and_crop`] keeps of an image: left, top, right and bottom, as fractions of its
/// width and height.
///
/// # Panics
/// A side is 0, or `crop` is larger than `shorter`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "sides are below 2^32")]
pub fn cropped_square(width: usize, height: usize, shorter: usize, crop: usize) -> [f64; 4] {
    assert!(width > 0 && height > 0 && crop <= shorter, "a square of {crop} does not fit a side of {shorter}");
    let (new_width, new_height) = resized_size(width, height, shorter);
    let edges = |side: usize| {
        let start = centred_offset(side, crop);
        [start, start + crop].map(|edge| edge as f64 / side as f64)
    };
    let ([left, right], [top, bottom]) = (edges(new_width), edges(new_height));
    [left, top, right, bottom]
}

/// Rectangle to crop from an image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CropBox {
    /// Columns to the left of the box.
    pub left: usize,
    /// Rows above the box.
    pub top: usize,
    /// Width of the box.
    pub width: usize,
    /// Height of the box.
    pub height: usize,
}

/// Crops an RGB image and resizes the crop to `side` × `side` pixels, without keeping its aspect ratio.
///
/// The result does not depend on pixels outside of `crop`.
///
/// # Shapes
/// - `rgb`: `[height, width, 3]`
/// - result: `[side, side, 3]`
///
/// # Cost
/// O(`side` · longer side of the crop) memory.
///
/// # Panics
/// `rgb` is not `width` × `height` pixels, `crop` is empty or not inside the image, or `side` is 0.
#[must_use]
pub fn crop_and_resize(
    rgb: &[u8],
    (width, height): (usize, usize),
    crop: CropBox,
    side: usize,
    interpolation: Interpolation,
) -> Vec<u8> {
    assert!(rgb.len() == width * height * 3, "the image has other than its pixels");
    assert!(crop.width > 0 && crop.height > 0 && side > 0, "there is no pixel in {crop:?} or the square");
    let inside = crop.left + crop.width <= width && crop.top + crop.height <= height;
    assert!(inside, "{crop:?} is not inside of {width} × {height} pixels");
    let shifted = |size: usize, by: usize| {
        let mut taps = filter_taps(size, side, 0, side, interpolation);
        for taps in &mut taps {
            taps.start += by;
        }
        taps
    };
    let (columns, rows) = (shifted(crop.width, crop.left), shifted(crop.height, crop.top));
    resample(rgb, width, &columns, &rows, vertical_first((crop.width, crop.height), (side, side)))
}

/// Resamples an image of `width` columns with the filter taps of each column and row of the result.
///
/// Values between the two passes are rounded to 8 bits, so the order of the passes affects the last bit.
fn resample(rgb: &[u8], width: usize, columns: &[Taps], rows: &[Taps], vertical_first: bool) -> Vec<u8> {
    let (across, down) = (source_range(columns), source_range(rows));
    if vertical_first {
        let low = vertical(rgb, width, across.clone(), rows, 0);
        horizontal(&low, across.len(), columns, across.start)
    } else {
        let narrow = horizontal(&rgb[down.start * width * 3..down.end * width * 3], width, columns, 0);
        vertical(&narrow, columns.len(), 0..columns.len(), rows, down.start)
    }
}

/// True if PIL resamples vertically first: since version 13, if the height shrinks by more than twice as many pixels as
/// the width.
fn vertical_first((width, height): (usize, usize), (new_width, new_height): (usize, usize)) -> bool {
    height > new_height && height - new_height > 2 * width.saturating_sub(new_width)
}

/// The range of source pixels that any of `taps` reads. `taps` are in ascending order.
fn source_range(taps: &[Taps]) -> Range<usize> {
    taps.first().map_or(0, |taps| taps.start)..taps.last().map_or(0, |taps| taps.start + taps.weights.len())
}

/// Resamples each row of `rgb`, whose first column is column `left` of the image.
fn horizontal(rgb: &[u8], width: usize, columns: &[Taps], left: usize) -> Vec<u8> {
    let stride = columns.len() * 3;
    let mut narrow = vec![0; rgb.len() / (width * 3) * stride];
    for (source, target) in rgb.chunks_exact(width * 3).zip(narrow.chunks_exact_mut(stride)) {
        for (taps, pixel) in columns.iter().zip(target.chunks_exact_mut(3)) {
            let mut sums = [1 << (PRECISION - 1); 3];
            for (&weight, from) in taps.weights.iter().zip(source[(taps.start - left) * 3..].chunks_exact(3)) {
                for (sum, &value) in sums.iter_mut().zip(from) {
                    *sum += weight * i32::from(value);
                }
            }
            pixel.copy_from_slice(&sums.map(to_byte));
        }
    }
    narrow
}

/// Resamples the columns `across` of `rgb`, whose first row is row `top` of the image.
fn vertical(rgb: &[u8], width: usize, across: Range<usize>, rows: &[Taps], top: usize) -> Vec<u8> {
    let stride = across.len() * 3;
    let mut low = Vec::with_capacity(rows.len() * stride);
    let mut sums = vec![0; stride];
    for taps in rows {
        sums.fill(1 << (PRECISION - 1));
        let from = rgb[(taps.start - top) * width * 3..].chunks_exact(width * 3);
        for (&weight, row) in taps.weights.iter().zip(from) {
            for (sum, &value) in sums.iter_mut().zip(&row[across.start * 3..across.end * 3]) {
                *sum += weight * i32::from(value);
            }
        }
        low.extend(sums.iter().copied().map(to_byte));
    }
    low
}

/// The width and height of an image after its shorter side is resized to `shorter` pixels; the longer side is rounded
/// down.
fn resized_size(width: usize, height: usize, shorter: usize) -> (usize, usize) {
    if width <= height { (shorter, shorter * height / width) } else { (shorter * width / height, shorter) }
}

/// Offset of a centred interval of `crop` pixels in `side` pixels: half of the difference, ties to even.
fn centred_offset(side: usize, crop: usize) -> usize {
    let rest = side - crop;
    rest / 2 + usize::from(rest % 4 == 3)
}

/// Filter taps of one pixel of the result: consecutive source pixels and their weights.
struct Taps {
    start: usize,
    weights: Vec<i32>,
}

/// The taps of the result pixels `from .. from + count` when `size` pixels are resized to `new_size`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "PIL's casts: sides are far below 2^53, and positions are clamped to 0 and the side"
)]
fn filter_taps(size: usize, new_size: usize, from: usize, count: usize, interpolation: Interpolation) -> Vec<Taps> {
    let scale = size as f64 / new_size as f64;
    // The filter is scaled to the pixels of the result, and never narrower than for source pixels.
    let filter_scale = scale.max(1.0);
    let support = interpolation.radius() * filter_scale;
    (from..from + count)
        .map(|pixel| {
            let centre = (pixel as f64 + 0.5) * scale;
            let start = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(size);
            let weight = |x: usize| interpolation.weight((x as f64 - centre + 0.5) * (1.0 / filter_scale));
            let weights: Vec<f64> = (start..end).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            // Away from 0 by a half and then cut, as in PIL; only the cubic filter has negative weights.
            let fixed = weights.iter().map(|weight| {
                let scaled = weight / sum * f64::from(1 << PRECISION);
                (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i32
            });
            Taps { start, weights: fixed.collect() }
        })
        .collect()
}

fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255).saturating_as::<u8>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn centre(shorter: usize, crop: usize) -> ResizedCrop {
        ResizedCrop { shorter, crop, place: CropPlace::Centre, interpolation: Interpolation::Bilinear }
    }

    #[test]
    fn sizes_and_offsets_are_those_of_torchvision() {
        assert_eq!(resized_size(500, 375, 256), (341, 256));
        assert_eq!(resized_size(333, 500, 256), (256, 384));
        assert_eq!(resized_size(1, 1, 256), (256, 256));
        // Python's `round` takes 16.5 to 16 and 17.5 to 18.
        assert_eq!([256, 257, 258, 259, 260].map(|side| centred_offset(side, 224)), [16, 16, 17, 18, 18]);
    }

    #[test]
    fn the_square_of_a_wide_image_is_in_its_middle() {
        // 500 × 375 becomes 341 × 256: columns round(58.5) = 58 to 282 and rows 16 to 240.
        assert_eq!(cropped_square(500, 375, 256, 224), [58.0 / 341.0, 0.0625, 282.0 / 341.0, 0.9375]);
        assert_eq!(cropped_square(10, 20, 32, 32), [0.0, 0.25, 1.0, 0.75]);
    }

    /// Observed in Pillow 13.0.0: the largest height at which PIL resamples horizontally first, for a width and a new
    /// size.
    #[test]
    fn the_passes_run_in_the_order_of_pil() {
        for (width, size, last) in [(60, (32, 32), 88), (157, (32, 32), 282), (60, (20, 40), 120), (60, (40, 20), 60)] {
            assert!(!vertical_first((width, last), size) && vertical_first((width, last + 1), size), "{width}");
        }
        assert!(!vertical_first((20, 32), (32, 32)) && vertical_first((20, 33), (32, 32)));
    }

    #[test]
    fn an_image_of_the_right_size_is_only_cropped() {
        let rgb: Vec<u8> = (0..6 * 6 * 3).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
        let cut = resize_and_crop(&rgb, 6, 6, centre(6, 4));
        let expected: Vec<u8> = (1..5).flat_map(|row| rgb[(row * 6 + 1) * 3..(row * 6 + 5) * 3].to_vec()).collect();
        assert_eq!(cut, expected);
    }

    #[test]
    fn corners_are_cut_at_the_edges() {
        let rgb: Vec<u8> = (0..5 * 4 * 3).map(|i| u8::try_from(i).unwrap()).collect();
        let first = |place| resize_and_crop(&rgb, 5, 4, ResizedCrop { place, ..centre(4, 2) })[0];
        // The first byte of the pixel in column c of row r is 3 · (5 r + c); the central square begins at column
        // round(1.5) = 2 and row 1; that of the mirror image at 3 − 2 = 1.
        assert_eq!(CropPlace::TEN.map(|(place, _)| first(place)), [0, 9, 30, 39, 21, 9, 0, 39, 30, 18]);
    }

    /// Weights of the cubic filter at 0, ½, 1, 1½ and 2, calculated by hand.
    #[test]
    fn the_cubic_filter_passes_through_its_points() {
        let weights = [0.0, 0.5, 1.0, 1.5, 2.0].map(|x| Interpolation::Bicubic.weight(-x));
        assert_eq!(weights, [1.0, 0.5625, 0.0, -0.0625, 0.0]);
    }

    #[test]
    fn a_crop_is_resized_as_if_it_were_the_image() {
        let rgb: Vec<u8> = (0..9 * 7 * 3).map(|i| u8::try_from(i * 11 % 256).unwrap()).collect();
        let crop = CropBox { left: 2, top: 1, width: 5, height: 5 };
        let rows = (1..6).flat_map(|row| rgb[(row * 9 + 2) * 3..(row * 9 + 7) * 3].to_vec());
        let cut: Vec<u8> = rows.collect();
        let resized = |side| crop_and_resize(&rgb, (9, 7), crop, side, Interpolation::Bilinear);
        assert_eq!(resized(5), cut);
        for side in [1, 3, 8] {
            assert_eq!(resized(side), resize_and_crop(&cut, 5, 5, centre(side, side)));
        }
    }

    #[test]
    fn an_image_of_one_pixel_fills_the_square() {
        assert_eq!(resize_and_crop(&[3, 128, 255], 1, 1, centre(8, 4)), [3, 128, 255].repeat(16));
    }

    /// A row of 300,000 pixels would be 76,800,000 pixels wide after resizing; only the square is computed. Its pixels
    /// lie 1/512 of a source pixel beside the edge between two colours, so they are the mean of both.
    #[test]
    fn a_very_wide_image_computes_its_square_only() {
        let rgb: Vec<u8> =
            (0..300_000).flat_map(|x| if x < 150_000 { [10, 20, 30] } else { [200, 210, 220] }).collect();
        let square = resize_and_crop(&rgb, 300_000, 1, centre(256, 2));
        assert_eq!(square, [105, 115, 125].repeat(4));
    }
}
