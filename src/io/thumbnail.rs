//! Small pictures for pages: encoded bytes in, a small JPEG out.

use std::io::Cursor;
use std::path::{Component, Path};

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use crate::error::{Error, Result};

/// Width and height above which a picture is refused.
const MAX_SIDE: u32 = 20_000;
/// Bytes that decoding may take.
const MAX_BYTES: u64 = 512 << 20;
/// JPEG quality, of 100: small files, and faces stay faces.
const QUALITY: u8 = 78;

/// A JPEG that fits a square of `side` pixels, made of an encoded JPEG or PNG. Turned upright as its EXIF data says,
/// transparency on white.
///
/// # Errors
/// The bytes are no picture, a damaged one, or one too large to decode.
pub fn thumbnail(encoded: &[u8], side: u32) -> Result<Vec<u8>> {
    let fault = |error: image::ImageError| Error::data(error.to_string());
    let mut reader = ImageReader::new(Cursor::new(encoded))
        .with_guessed_format()
        .map_err(|error| Error::data(format!("not a picture: {error}")))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(fault)?;
    let orientation = decoder.orientation().map_err(fault)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(fault)?;
    if picture.width() > side || picture.height() > side {
        picture = picture.thumbnail(side, side);
    }
    picture.apply_orientation(orientation);

    let mut rgba = picture.into_rgba8();
    for pixel in rgba.pixels_mut() {
        let alpha = u16::from(pixel.0[3]);
        for channel in &mut pixel.0[..3] {
            let blended = (u16::from(*channel) * alpha + 255 * (255 - alpha) + 127) / 255;
            *channel = u8::try_from(blended).unwrap_or(u8::MAX);
        }
    }
    let rgb = DynamicImage::ImageRgba8(rgba).into_rgb8();
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, QUALITY).encode_image(&rgb).map_err(fault)?;
    Ok(jpeg)
}

/// The content of the file `path` below `root`.
///
/// # Errors
/// The file cannot be read, or `path` leads out of `root`.
pub fn read_below(root: &Path, path: &str) -> Result<Vec<u8>> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Error::data(format!("`{path}` leads out of the folder of images")));
    }
    let file = root.join(relative);
    std::fs::read(&file).map_err(|error| Error::io("read", &file, &error))
}

#[cfg(test)]
mod tests {
    use image::{ImageFormat, Rgba, RgbaImage};

    use super::*;

    fn png(width: u32, height: u32, pixel: [u8; 4]) -> Vec<u8> {
        let mut encoded = Cursor::new(Vec::new());
        RgbaImage::from_pixel(width, height, Rgba(pixel)).write_to(&mut encoded, ImageFormat::Png).unwrap();
        encoded.into_inner()
    }

    #[test]
    fn a_picture_keeps_its_shape_and_gets_white_behind_it() {
        let small = image::load_from_memory(&thumbnail(&png(400, 200, [200, 0, 0, 255]), 100).unwrap()).unwrap();
        assert_eq!((small.width(), small.height()), (100, 50));
        let [r, g, b] = small.to_rgb8().get_pixel(50, 25).0;
        assert!(r.abs_diff(200) < 4 && g < 4 && b < 4, "{r} {g} {b}");
        let clear = image::load_from_memory(&thumbnail(&png(10, 20, [0, 0, 0, 0]), 100).unwrap()).unwrap();
        assert_eq!((clear.width(), clear.height()), (10, 20));
        assert!(clear.to_rgb8().get_pixel(5, 5).0.iter().all(|&channel| channel > 251));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(thumbnail(b"no picture", 10).is_err());
        let whole = png(40, 20, [1, 2, 3, 255]);
        assert!(thumbnail(&whole[..whole.len() / 2], 10).is_err());
        // A header that claims 100,000 × 100,000 pixels.
        let mut bomb = whole;
        bomb[16..20].copy_from_slice(&100_000u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&100_000u32.to_be_bytes());
        assert!(thumbnail(&bomb, 10).is_err());
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("images");
        std::fs::create_dir_all(inner.join("a")).unwrap();
        std::fs::write(inner.join("a/b.jpg"), "picture").unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        assert_eq!(read_below(&inner, "a/b.jpg").unwrap(), b"picture");
        for path in ["../secret", "a/../../secret", "/etc/hostname", folder.path().join("secret").to_str().unwrap()] {
            assert!(read_below(&inner, path).unwrap_err().to_string().contains("leads out"), "{path}");
        }
        assert!(read_below(&inner, "gone.jpg").unwrap_err().to_string().contains("gone.jpg"));
    }
}
