//! Antialiased bilinear resampling of 8-bit RGB pictures, to the bit as PIL does it.
//!
//! Source: `Resample.c` of Pillow 13 (triangle filter, fixed point with 22 fractional bits, two passes with 8 bits in
//! between) and `Resize`, `CenterCrop` and `functional.resized_crop` of torchvision 0.26 for the sizes.

use std::ops::Range;

use az::SaturatingAs;

/// Fractional bits of a weight: 32 less 8 for the pixel and 2 for sums that overshoot.
const PRECISION: u32 = 22;

/// Resizes an RGB picture so that its shorter side has `shorter` pixels, and cuts the central square of side `crop`.
///
/// `rgb` holds rows of `width` pixels of three bytes; so does the result, `crop` × `crop` pixels. Only the pixels of the
/// square are computed: memory is O(`crop` · longer side) whatever the shape of the picture.
///
/// # Panics
/// `rgb` is not `width` × `height` pixels, a side is 0, or `crop` is larger than `shorter`.
#[must_use]
pub fn resize_and_crop(rgb: &[u8], width: usize, height: usize, shorter: usize, crop: usize) -> Vec<u8> {
    assert!(width > 0 && height > 0 && rgb.len() == width * height * 3, "the picture has other than its pixels");
    assert!(crop <= shorter, "a square of {crop} does not fit a side of {shorter}");
    let (new_width, new_height) = resized(width, height, shorter);
    let columns = weights(width, new_width, centre(new_width, crop), crop);
    let rows = weights(height, new_height, centre(new_height, crop), crop);
    resample(rgb, width, &columns, &rows, vertical_first((width, height), (new_width, new_height)))
}

/// A rectangle of pixels of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Pixels left of it.
    pub left: usize,
    /// Rows above it.
    pub top: usize,
    /// Pixels of a row of it.
    pub width: usize,
    /// Rows of it.
    pub height: usize,
}

/// Cuts `region` out of an RGB picture and resizes it to `side` × `side` pixels, whatever its shape.
///
/// As with a picture that has only those pixels: nothing outside of the region shows. Memory: O(`side` · longer side of
/// the region).
///
/// # Panics
/// `rgb` is not `width` × `height` pixels, the region is empty or not inside of them, or `side` is 0.
#[must_use]
pub fn crop_and_resize(rgb: &[u8], width: usize, height: usize, region: Region, side: usize) -> Vec<u8> {
    assert!(rgb.len() == width * height * 3, "the picture has other than its pixels");
    assert!(region.width > 0 && region.height > 0 && side > 0, "there is no pixel in {region:?} or the square");
    let inside = region.left + region.width <= width && region.top + region.height <= height;
    assert!(inside, "{region:?} is not inside of {width} × {height} pixels");
    let shifted = |size: usize, by: usize| {
        let mut taps = weights(size, side, 0, side);
        for taps in &mut taps {
            taps.start += by;
        }
        taps
    };
    let (columns, rows) = (shifted(region.width, region.left), shifted(region.height, region.top));
    resample(rgb, width, &columns, &rows, vertical_first((region.width, region.height), (side, side)))
}

/// The pixels that `columns` and `rows` make of a picture whose rows have `width` pixels.
///
/// 8 bits are kept between the two passes, so their order shows in the last bit.
fn resample(rgb: &[u8], width: usize, columns: &[Taps], rows: &[Taps], vertical_first: bool) -> Vec<u8> {
    let (across, down) = (reach(columns), reach(rows));
    if vertical_first {
        let low = vertical(rgb, width, across.clone(), rows, 0);
        horizontal(&low, across.len(), columns, across.start)
    } else {
        let narrow = horizontal(&rgb[down.start * width * 3..down.end * width * 3], width, columns, 0);
        vertical(&narrow, columns.len(), 0..columns.len(), rows, down.start)
    }
}

/// Whether PIL resamples the columns of a picture before its rows, as it does since version 13 where the height shrinks by
/// more than twice as many pixels as the width.
fn vertical_first((width, height): (usize, usize), (new_width, new_height): (usize, usize)) -> bool {
    height > new_height && height - new_height > 2 * width.saturating_sub(new_width)
}

/// The pixels that any of `taps`, which are in order, depends on.
fn reach(taps: &[Taps]) -> Range<usize> {
    taps.first().map_or(0, |taps| taps.start)..taps.last().map_or(0, |taps| taps.start + taps.weights.len())
}

/// Each row of `rgb` resampled; places of `columns` count from `left`.
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

/// The columns `across` of `rgb` resampled; places of `rows` count from `top`.
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

/// The size of a picture whose shorter side is brought to `shorter` pixels; the longer side is rounded down.
fn resized(width: usize, height: usize, shorter: usize) -> (usize, usize) {
    if width <= height { (shorter, shorter * height / width) } else { (shorter * width / height, shorter) }
}

/// Where a stretch of `crop` pixels starts in the middle of `side`: half the rest, a half to the even number.
fn centre(side: usize, crop: usize) -> usize {
    let rest = side - crop;
    rest / 2 + usize::from(rest % 4 == 3)
}

/// The source pixels that one pixel of the result is made of.
struct Taps {
    start: usize,
    weights: Vec<i32>,
}

/// The taps of the pixels `from .. from + count` when `size` pixels become `new_size`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the casts are those of PIL: sides are far below 2^53, and positions are cut at zero and at the side"
)]
fn weights(size: usize, new_size: usize, from: usize, count: usize) -> Vec<Taps> {
    let scale = size as f64 / new_size as f64;
    // The filter is as wide as a pixel of the result when that covers several, and never narrower than a source pixel.
    let support = scale.max(1.0);
    (from..from + count)
        .map(|pixel| {
            let centre = (pixel as f64 + 0.5) * scale;
            let start = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(size);
            let triangle = |x: usize| (1.0 - ((x as f64 - centre + 0.5) * (1.0 / support)).abs()).max(0.0);
            let weights: Vec<f64> = (start..end).map(triangle).collect();
            let sum: f64 = weights.iter().sum();
            let fixed = weights.iter().map(|weight| (0.5 + weight / sum * f64::from(1 << PRECISION)) as i32);
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

    #[test]
    fn sizes_and_offsets_are_those_of_torchvision() {
        assert_eq!(resized(500, 375, 256), (341, 256));
        assert_eq!(resized(333, 500, 256), (256, 384));
        assert_eq!(resized(1, 1, 256), (256, 256));
        // Python's `round` takes 16.5 to 16 and 17.5 to 18.
        assert_eq!([256, 257, 258, 259, 260].map(|side| centre(side, 224)), [16, 16, 17, 18, 18]);
    }

    /// Seen in Pillow 13.0.0: the greatest height at which rows are resampled first, for a width and a wanted size.
    #[test]
    fn passes_have_pils_order() {
        for (width, size, last) in [(60, (32, 32), 88), (157, (32, 32), 282), (60, (20, 40), 120), (60, (40, 20), 60)] {
            assert!(!vertical_first((width, last), size) && vertical_first((width, last + 1), size), "{width}");
        }
        assert!(!vertical_first((20, 32), (32, 32)) && vertical_first((20, 33), (32, 32)));
    }

    #[test]
    fn a_picture_of_the_wanted_size_is_only_cut() {
        let rgb: Vec<u8> = (0..6 * 6 * 3).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
        let cut = resize_and_crop(&rgb, 6, 6, 6, 4);
        let wanted: Vec<u8> = (1..5).flat_map(|row| rgb[(row * 6 + 1) * 3..(row * 6 + 5) * 3].to_vec()).collect();
        assert_eq!(cut, wanted);
    }

    #[test]
    fn a_region_is_resized_as_if_it_were_the_picture() {
        let rgb: Vec<u8> = (0..9 * 7 * 3).map(|i| u8::try_from(i * 11 % 256).unwrap()).collect();
        let region = Region { left: 2, top: 1, width: 5, height: 5 };
        let rows = (1..6).flat_map(|row| rgb[(row * 9 + 2) * 3..(row * 9 + 7) * 3].to_vec());
        let cut: Vec<u8> = rows.collect();
        assert_eq!(crop_and_resize(&rgb, 9, 7, region, 5), cut);
        for side in [1, 3, 8] {
            assert_eq!(crop_and_resize(&rgb, 9, 7, region, side), resize_and_crop(&cut, 5, 5, side, side));
        }
    }

    #[test]
    fn one_pixel_fills_the_square() {
        assert_eq!(resize_and_crop(&[3, 128, 255], 1, 1, 8, 4), [3, 128, 255].repeat(16));
    }

    /// A line of 300,000 pixels would be 76,800,000 pixels wide after resizing; only the square is made. Its pixels lie
    /// 1/512 of a source pixel beside the edge: half one colour and half the other.
    #[test]
    fn a_line_costs_no_more_than_its_square() {
        let rgb: Vec<u8> =
            (0..300_000).flat_map(|x| if x < 150_000 { [10, 20, 30] } else { [200, 210, 220] }).collect();
        let square = resize_and_crop(&rgb, 300_000, 1, 256, 2);
        assert_eq!(square, [105, 115, 125].repeat(4));
    }
}
