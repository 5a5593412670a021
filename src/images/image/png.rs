//! PNG to RGB.
//!
//! PIL reduces 16-bit values to their upper 8 bits in images with colour or alpha, but clamps them to 255 in plain grey.
//! This module does the same, so that features agree with torchvision's.

use std::io::Cursor;

use az::SaturatingAs;
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::{DecodedImage, MAX_PIXELS, check_size};
use pairloom_base::error::{Error, Result};

/// Chunks that a file of any size may have.
const MAX_SMALL_CHUNKS: usize = 10_000;
/// Bytes of a file for which it may have one chunk more. Encoders write the pixels in chunks of kilobytes.
const CHUNK_BYTES: usize = 1024;
/// Bytes of the largest pixel (16-bit RGBA).
const MAX_PIXEL_BYTES: u64 = 8;

/// Decodes a PNG image. Its colour profile and its texts are not decompressed.
///
/// # Errors
/// The image is damaged, truncated or too large.
pub(super) fn decode(bytes: &[u8]) -> Result<DecodedImage> {
    check_chunks(bytes)?;
    let mut decoder = decoder(bytes);
    let (width, height) = header_size(&mut decoder)?;
    let mut reader = decoder.read_info().map_err(|error| damaged(&error))?;
    let (colours, depth) = reader.output_color_type();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap_or(0)];
    reader.next_frame(&mut pixels).map_err(|error| damaged(&error))?;
    // With transparency, the decoder adds alpha to plain grey.
    let is_plain_grey = reader.info().color_type == ColorType::Grayscale;
    DecodedImage::new(width, height, to_rgb(pixels, colours, depth, is_plain_grey))
}

/// Checks that the file does not have many small chunks. Each takes time.
fn check_chunks(bytes: &[u8]) -> Result<()> {
    let most = MAX_SMALL_CHUNKS + bytes.len() / CHUNK_BYTES;
    let (mut rest, mut chunks) = (bytes.get(8..).unwrap_or_default(), 0);
    // A length, a type, the content and its checksum.
    while let Some(length) = rest.first_chunk() {
        chunks += 1;
        if rest.get(4..8) == Some(b"IEND") {
            break;
        }
        rest = rest.get(12 + u32::from_be_bytes(*length) as usize..).unwrap_or_default();
    }
    if chunks > most {
        return Err(Error::data(format!("the PNG has {chunks} chunks, expected at most {most} for its size")));
    }
    Ok(())
}

/// Width and height of a PNG in pixels, from its header.
pub(super) fn size(bytes: &[u8]) -> Result<(usize, usize)> {
    header_size(&mut decoder(bytes))
}

/// Decoder of whole bytes a channel, with the colours of a palette. It may allocate as much as the largest image needs.
fn decoder(bytes: &[u8]) -> Decoder<Cursor<&[u8]>> {
    let limits = Limits { bytes: (MAX_PIXELS * MAX_PIXEL_BYTES).saturating_as() };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_ignore_text_chunk(true);
    decoder
}

/// Reads the header and checks the size in it.
fn header_size(decoder: &mut Decoder<Cursor<&[u8]>>) -> Result<(usize, usize)> {
    let header = decoder.read_header_info().map_err(|error| damaged(&error))?;
    let (width, height) = (header.width, header.height);
    check_size(u64::from(width), u64::from(height))?;
    Ok((width as usize, height as usize))
}

/// RGB of pixels, of which 16-bit values begin with their upper byte. Those of plain grey are clamped.
fn to_rgb(pixels: Vec<u8>, colours: ColorType, depth: BitDepth, is_plain_grey: bool) -> Vec<u8> {
    let bytes = if depth == BitDepth::Sixteen { 2 } else { 1 };
    let pixel = |channels: usize| pixels.chunks_exact(channels * bytes);
    match colours {
        ColorType::Rgb if bytes == 1 => pixels,
        ColorType::Grayscale | ColorType::GrayscaleAlpha if bytes == 2 && is_plain_grey => {
            pixel(colours.samples()).flat_map(|value| [clamp(value); 3]).collect()
        }
        ColorType::Grayscale => pixel(1).flat_map(|value| [value[0]; 3]).collect(),
        ColorType::GrayscaleAlpha => pixel(2).flat_map(|value| [value[0]; 3]).collect(),
        ColorType::Rgba => pixel(4).flat_map(|value| [value[0], value[bytes], value[2 * bytes]]).collect(),
        // The decoder replaces indices by the colours of the palette.
        ColorType::Rgb | ColorType::Indexed => {
            pixel(3).flat_map(|value| [value[0], value[bytes], value[2 * bytes]]).collect()
        }
    }
}

fn damaged(error: &DecodingError) -> Error {
    Error::data(format!("the PNG is damaged: {error}"))
}

/// 16-bit value, at most 255.
fn clamp(value: &[u8]) -> u8 {
    if value[0] == 0 { value[1] } else { u8::MAX }
}

#[cfg(test)]
mod tests {
    use image::{ExtendedColorType, ImageEncoder as _, codecs::png::PngEncoder};

    use super::*;

    /// PNG of these pixels, with a chunk after its header any number of times.
    fn with_chunk(pixels: &[u8], size: [u32; 2], colours: ExtendedColorType, chunk: &[u8], times: usize) -> Vec<u8> {
        let mut content = Vec::new();
        PngEncoder::new(&mut content).write_image(pixels, size[0], size[1], colours).unwrap();
        // The first chunk, the header, ends after 8 bytes of signature and 25 of its own.
        let rest = content.split_off(33);
        let mut checksum = flate2::Crc::new();
        checksum.update(chunk);
        let length = u32::try_from(chunk.len() - 4).unwrap();
        let chunk = [&length.to_be_bytes(), chunk, &checksum.sum().to_be_bytes()].concat();
        [content, chunk.repeat(times), rest].concat()
    }

    /// A colour profile of 8 MiB of zeros.
    #[test]
    fn a_colour_profile_is_not_decompressed() {
        let mut chunk = b"iCCPprofile\0\0".to_vec();
        let mut encoder = flate2::write::ZlibEncoder::new(&mut chunk, flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &vec![0; 8 << 20]).unwrap();
        encoder.finish().unwrap();
        let whole = with_chunk(&[1, 2, 3, 4, 5, 6], [2, 1], ExtendedColorType::Rgb8, &chunk, 1);
        let profile = |decoder: Decoder<Cursor<&[u8]>>| decoder.read_info().unwrap().info().icc_profile.clone();
        assert_eq!(profile(Decoder::new(Cursor::new(&whole))).unwrap().len(), 8 << 20);
        assert_eq!(profile(decoder(&whole)), None);
        assert_eq!(decode(&whole).unwrap().rgb, [1, 2, 3, 4, 5, 6]);
    }

    /// Pixels of PIL: of plain grey, 16-bit values are clamped, with and without a transparent one (here 7).
    #[test]
    fn plain_grey_of_16_bits_is_clamped() {
        let pixels = [7u16, 255, 256, 60_000].map(u16::to_ne_bytes).concat();
        for times in [0, 1] {
            let content = with_chunk(&pixels, [4, 1], ExtendedColorType::L16, b"tRNS\0\x07", times);
            let expected = [[7; 3], [255; 3], [255; 3], [255; 3]].concat();
            assert_eq!(decode(&content).unwrap().rgb, expected);
        }
    }

    #[test]
    fn a_file_of_many_small_chunks_is_refused() {
        let pixels = [1, 2, 3];
        let with = |times| decode(&with_chunk(&pixels, [1, 1], ExtendedColorType::Rgb8, b"teSt", times));
        assert_eq!(with(10_000).unwrap().rgb, pixels);
        let message = with(10_200).unwrap_err().to_string();
        // What follows the last chunk is no part of the image.
        let padded = [with_chunk(&pixels, [1, 1], ExtendedColorType::Rgb8, b"teSt", 0), vec![0; 200_000]].concat();
        assert_eq!(decode(&padded).unwrap().rgb, pixels);
        assert!(message.contains("the PNG has 10203 chunks, expected at most 10119 for its size"), "{message}");
    }
}
