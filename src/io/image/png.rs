//! PNG to RGB.
//!
//! PIL reduces 16-bit values to their upper 8 bits in images with colour or alpha, but clamps them to 255 in plain grey.
//! This module does the same, so that features agree with torchvision's.

use std::io::Cursor;

use az::SaturatingAs;
use image::codecs::png::PngDecoder;
use image::{DynamicImage, ImageDecoder, Limits};

use super::DecodedImage;
use super::decoded_image::{MAX_PIXELS, check_size};
use crate::error::{Error, Result};

/// Bytes of the largest pixel (16-bit RGBA).
const MAX_PIXEL_BYTES: u64 = 8;

/// Decodes a PNG image.
///
/// # Errors
/// The image is damaged, truncated or too large.
pub(super) fn decode(bytes: &[u8]) -> Result<DecodedImage> {
    let mut decoder = read_header(bytes)?;
    let (width, height) = decoder.dimensions();
    decoder.set_limits(limits()).map_err(|e| damaged(&e))?;
    let rgb = match DynamicImage::from_decoder(decoder).map_err(|e| damaged(&e))? {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        DynamicImage::ImageLuma8(image) => image.into_raw().into_iter().flat_map(|v| [v; 3]).collect(),
        DynamicImage::ImageLumaA8(image) => image.into_raw().chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        DynamicImage::ImageRgba8(image) => image.into_raw().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        DynamicImage::ImageLuma16(image) => image.into_raw().into_iter().flat_map(|v| [clamp(v); 3]).collect(),
        DynamicImage::ImageLumaA16(image) => {
            image.into_raw().chunks_exact(2).flat_map(|p| [upper_byte(p[0]); 3]).collect()
        }
        DynamicImage::ImageRgb16(image) => image.into_raw().into_iter().map(upper_byte).collect(),
        DynamicImage::ImageRgba16(image) => image
            .into_raw()
            .chunks_exact(4)
            .flat_map(|p| [upper_byte(p[0]), upper_byte(p[1]), upper_byte(p[2])])
            .collect(),
        other => return Err(Error::data(format!("its pixels are {:?}, wanted 8 or 16 bits a channel", other.color()))),
    };
    DecodedImage::new(width as usize, height as usize, rgb)
}

/// Width and height of a PNG in pixels, from its header.
pub(super) fn size(bytes: &[u8]) -> Result<(usize, usize)> {
    let (width, height) = read_header(bytes)?.dimensions();
    Ok((width as usize, height as usize))
}

/// Reads the header and checks the size in it.
fn read_header(bytes: &[u8]) -> Result<PngDecoder<Cursor<&[u8]>>> {
    let decoder = PngDecoder::with_limits(Cursor::new(bytes), limits()).map_err(|e| damaged(&e))?;
    let (width, height) = decoder.dimensions();
    check_size(u64::from(width), u64::from(height))?;
    Ok(decoder)
}

/// Memory that the decoder may allocate.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_PIXELS * MAX_PIXEL_BYTES);
    limits
}

fn damaged(error: &image::ImageError) -> Error {
    Error::data(format!("the PNG is damaged: {error}"))
}

fn upper_byte(value: u16) -> u8 {
    value.to_be_bytes()[0]
}

fn clamp(value: u16) -> u8 {
    value.saturating_as::<u8>()
}
