//! Antialiased bilinear resampling of 8-bit RGB pictures, to the bit as PIL does it.
//!
//! Source: `Resample.c` of Pillow 13 (triangle filter, fixed point with 22 fractional bits, first the rows, then the
//! columns, 8 bits in between) and `Resize` and `CenterCrop` of torchvision 0.26 for the sizes.

/// Fractional bits of a weight: 32 less 8 for the pixel and 2 for sums that overshoot.
const PRECISION: u32 = 22;

/// Resizes an RGB picture so that its shorter side has `shorter` pixels, and cuts the central square of side `crop`.
///
/// `rgb` holds rows of `width` pixels of three bytes; so does the result, `crop` × `crop` pixels. Only the pixels of the
/// square are computed: memory is O(`crop` · `height`) whatever the shape of the picture.
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

    // Rows of the picture that the square depends on.
    let first = rows.first().map_or(0, |taps| taps.start);
    let last = rows.last().map_or(0, |taps| taps.start + taps.weights.len());
    let stride = crop * 3;
    let mut narrow = vec![0; (last - first) * stride];
    for (source, target) in rgb[first * width * 3..].chunks_exact(width * 3).zip(narrow.chunks_exact_mut(stride)) {
        for (taps, pixel) in columns.iter().zip(target.chunks_exact_mut(3)) {
            let mut sums = [1 << (PRECISION - 1); 3];
            for (&weight, from) in taps.weights.iter().zip(source[taps.start * 3..].chunks_exact(3)) {
                for (sum, &value) in sums.iter_mut().zip(from) {
                    *sum += weight * i32::from(value);
                }
            }
            pixel.copy_from_slice(&sums.map(to_byte));
        }
    }

    let mut square = Vec::with_capacity(crop * stride);
    let mut sums = vec![0; stride];
    for taps in &rows {
        sums.fill(1 << (PRECISION - 1));
        for (&weight, from) in taps.weights.iter().zip(narrow[(taps.start - first) * stride..].chunks_exact(stride)) {
            for (sum, &value) in sums.iter_mut().zip(from) {
                *sum += weight * i32::from(value);
            }
        }
        square.extend(sums.iter().copied().map(to_byte));
    }
    square
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
    u8::try_from((sum >> PRECISION).clamp(0, 255)).unwrap_or(u8::MAX)
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

    #[test]
    fn a_picture_of_the_wanted_size_is_only_cut() {
        let rgb: Vec<u8> = (0..6 * 6 * 3).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
        let cut = resize_and_crop(&rgb, 6, 6, 6, 4);
        let wanted: Vec<u8> = (1..5).flat_map(|row| rgb[(row * 6 + 1) * 3..(row * 6 + 5) * 3].to_vec()).collect();
        assert_eq!(cut, wanted);
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
