//! Thumbnails of images for reports, as JPEG.

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, RgbImage};

use crate::image::decode;
use pairloom_base::error::{Error, Result};

/// JPEG quality, of 100: small files in which faces are still recognisable.
const QUALITY: u8 = 78;

/// Scales an encoded JPEG or PNG image down to a JPEG that fits a square of `side` pixels. The image is decoded by
/// [`decode`], as for a network: without EXIF orientation and without transparency.
///
/// # Errors
/// As [`decode`].
pub fn thumbnail(encoded: &[u8], side: u32) -> Result<Vec<u8>> {
    let picture = decode(encoded)?;
    let too_large = |_| Error::internal("an image of the permitted size has a side above 2^32");
    let (width, height) =
        (u32::try_from(picture.width).map_err(too_large)?, u32::try_from(picture.height).map_err(too_large)?);
    let mut rgb = RgbImage::from_raw(width, height, picture.rgb)
        .ok_or_else(|| Error::internal("an image has fewer values than pixels"))?;
    if width > side || height > side {
        rgb = DynamicImage::ImageRgb8(rgb).thumbnail(side, side).into_rgb8();
    }
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, QUALITY)
        .encode_image(&rgb)
        .map_err(|error| Error::internal(format!("cannot encode a thumbnail: {error}")))?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Rgba, RgbaImage};

    use super::*;

    fn png(width: u32, height: u32, pixel: [u8; 4]) -> Vec<u8> {
        let mut encoded = Cursor::new(Vec::new());
        RgbaImage::from_pixel(width, height, Rgba(pixel)).write_to(&mut encoded, ImageFormat::Png).unwrap();
        encoded.into_inner()
    }

    #[test]
    fn thumbnails_keep_the_aspect_ratio_and_drop_transparency() {
        let small = image::load_from_memory(&thumbnail(&png(400, 200, [200, 0, 0, 255]), 100).unwrap()).unwrap();
        assert_eq!((small.width(), small.height()), (100, 50));
        let [r, g, b] = small.to_rgb8().get_pixel(50, 25).0;
        assert!(r.abs_diff(200) < 4 && g < 4 && b < 4, "{r} {g} {b}");
        let clear = image::load_from_memory(&thumbnail(&png(10, 20, [0, 200, 0, 0]), 100).unwrap()).unwrap();
        assert_eq!((clear.width(), clear.height()), (10, 20));
        let [r, g, b] = clear.to_rgb8().get_pixel(5, 5).0;
        assert!(r < 4 && g.abs_diff(200) < 4 && b < 4, "{r} {g} {b}");
    }

    #[test]
    fn invalid_images_are_refused() {
        assert!(thumbnail(b"no image", 10).is_err());
        let whole = png(40, 20, [1, 2, 3, 255]);
        assert!(thumbnail(&whole[..whole.len() / 2], 10).is_err());
        // A header that claims 100,000 × 100,000 pixels.
        let mut bomb = whole;
        bomb[16..20].copy_from_slice(&100_000u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&100_000u32.to_be_bytes());
        assert!(thumbnail(&bomb, 10).is_err());
    }
}
