//! PNG to RGB.
//!
//! Of 16 bits PIL keeps the upper 8 in a picture with colour or alpha, but cuts values above 255 to 255 in plain grey;
//! features only agree with torchvision's when that is done here as well.

use std::io::Cursor;

use az::SaturatingAs;
use image::codecs::png::PngDecoder;
use image::{DynamicImage, ImageDecoder, Limits};

use super::Picture;
use super::picture::{MAX_PIXELS, check_size};
use crate::error::{Error, Result};

/// Bytes of the widest pixel (RGBA of 16 bits).
const WIDEST: u64 = 8;

/// Decodes a PNG picture.
///
/// # Errors
/// A damaged or truncated picture, or too many pixels.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_PIXELS * WIDEST);
    let mut decoder = PngDecoder::with_limits(Cursor::new(bytes), limits.clone()).map_err(|e| damaged(&e))?;
    let (width, height) = decoder.dimensions();
    check_size(u64::from(width), u64::from(height))?;
    decoder.set_limits(limits).map_err(|e| damaged(&e))?;
    let rgb = match DynamicImage::from_decoder(decoder).map_err(|e| damaged(&e))? {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        DynamicImage::ImageLuma8(image) => image.into_raw().into_iter().flat_map(|v| [v; 3]).collect(),
        DynamicImage::ImageLumaA8(image) => image.into_raw().chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        DynamicImage::ImageRgba8(image) => image.into_raw().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        DynamicImage::ImageLuma16(image) => image.into_raw().into_iter().flat_map(|v| [cut(v); 3]).collect(),
        DynamicImage::ImageLumaA16(image) => image.into_raw().chunks_exact(2).flat_map(|p| [upper(p[0]); 3]).collect(),
        DynamicImage::ImageRgb16(image) => image.into_raw().into_iter().map(upper).collect(),
        DynamicImage::ImageRgba16(image) => {
            image.into_raw().chunks_exact(4).flat_map(|p| [upper(p[0]), upper(p[1]), upper(p[2])]).collect()
        }
        other => return Err(Error::data(format!("its pixels are {:?}, wanted 8 or 16 bits a channel", other.color()))),
    };
    Picture::new(width as usize, height as usize, rgb)
}

fn damaged(error: &image::ImageError) -> Error {
    Error::data(format!("the PNG is damaged: {error}"))
}

fn upper(value: u16) -> u8 {
    value.to_be_bytes()[0]
}

fn cut(value: u16) -> u8 {
    value.saturating_as::<u8>()
}
