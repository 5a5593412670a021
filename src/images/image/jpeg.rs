//! JPEG to RGB by the decoder of libjpeg-turbo, as in PIL (through mozjpeg, which has the same decoder).
//!
//! On 991 photographs every pixel equals PIL's, before and after resizing. The pure Rust decoders differ by up to 14
//! (zune-jpeg) or 4 (jpeg-decoder) grey levels before resizing, and by up to 5 or 3 after it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use az::SaturatingAs;
use mozjpeg::{ColorSpace, Decompress};

use super::{DecodedImage, MAX_PIXELS, check_size};
use pairloom_base::error::{Error, Result};

/// Largest number of scans. Encoders write some ten in a progressive image. Each one passes over all pixels, so a file of
/// many small ones takes minutes.
const MAX_SCANS: usize = 200;
/// Largest number of pixels that all scans pass over together: a few seconds. Nothing ends the decoder in between.
const MAX_SCANNED_PIXELS: u64 = 20 * MAX_PIXELS;

/// Decodes a JPEG image.
///
/// # Errors
/// The image is damaged, truncated or too large, or has too many scans.
pub(super) fn decode(bytes: &[u8]) -> Result<DecodedImage> {
    let scans = scans(bytes)?;
    if scans > MAX_SCANS {
        return Err(Error::data(format!("the JPEG has {scans} scans, expected at most {MAX_SCANS}")));
    }
    // libjpeg reports errors by a non-local exit from C, which the crate turns into unwinding without the panic hook.
    caught(|| pixels(bytes, scans as u64))
}

/// Width and height of a JPEG in pixels, from its header.
pub(super) fn size(bytes: &[u8]) -> Result<(usize, usize)> {
    caught(|| read_header(bytes).map(|header| header.size()))
}

/// Result of `work`, or the error that libjpeg ends with, which is a panic.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(payload) => {
            let reason = payload.downcast_ref::<String>().map_or("libjpeg gave up", String::as_str);
            let reason = reason.strip_prefix("libjpeg fatal error: ").unwrap_or(reason);
            Err(Error::data(format!("the JPEG is damaged: {reason}")))
        }
    }
}

fn damaged(error: std::io::Error) -> Error {
    Error::data(format!("the JPEG is damaged: {error}"))
}

/// Reads the header and checks the size in it.
fn read_header(bytes: &[u8]) -> Result<Decompress<&[u8]>> {
    let header = Decompress::new_mem(bytes).map_err(damaged)?;
    let (width, height) = header.size();
    check_size(width as u64, height as u64)?;
    Ok(header)
}

fn pixels(bytes: &[u8], scans: u64) -> Result<DecodedImage> {
    let header = read_header(bytes)?;
    let (width, height) = header.size();
    let most = MAX_SCANNED_PIXELS / (width as u64 * height as u64);
    if scans > most {
        return Err(Error::data(format!(
            "the JPEG has {scans} scans, expected at most {most} of its {width} × {height} pixels"
        )));
    }
    let four = matches!(header.color_space(), ColorSpace::JCS_CMYK | ColorSpace::JCS_YCCK);
    let expected = if four { ColorSpace::JCS_CMYK } else { ColorSpace::JCS_RGB };
    let mut rows = header.to_colorspace(expected).map_err(damaged)?;
    let values: Vec<u8> = rows.read_scanlines().map_err(damaged)?;
    rows.finish().map_err(damaged)?;
    let rgb = if four { values.chunks_exact(4).flat_map(inverted_cmyk).collect() } else { values };
    DecodedImage::new(width, height, rgb)
}

/// Converts a CMYK pixel to RGB as PIL does. JPEG files store CMYK inverted, as Adobe does.
fn inverted_cmyk(pixel: &[u8]) -> [u8; 3] {
    let light = u32::from(pixel[3]);
    [pixel[0], pixel[1], pixel[2]].map(|ink| {
        // ink · light / 255, rounded.
        let product = (255 - u32::from(ink)) * light + 128;
        light.saturating_sub((product + (product >> 8)) >> 8).saturating_as::<u8>()
    })
}

/// Number of scans before the end-of-image marker.
///
/// libjpeg fills a truncated image with grey and only warns; PIL refuses it. Segments are skipped by their length,
/// because a thumbnail in a segment has an end marker of its own. Reserved markers are refused. libjpeg refuses them too,
/// but where it expects a restart marker, it looks for the next marker within their segment: scans there would not be
/// counted here.
///
/// # Errors
/// There is no end-of-image marker, or a reserved marker before it.
fn scans(bytes: &[u8]) -> Result<usize> {
    let truncated =
        || Error::data(format!("the JPEG is truncated: its {} bytes have no end-of-image marker", bytes.len()));
    const START: u8 = 0xd8;
    const END: u8 = 0xd9;
    const SCAN: u8 = 0xda;
    let (mut at, mut scans) = (2, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == 0xff)) {
        at += found + 1;
        match bytes.get(at) {
            Some(&END) => return Ok(scans),
            // A stuffed zero, a fill byte, a restart marker or another marker without a segment.
            Some(0x00 | 0xff | 0x01 | 0xd0..=0xd7 | &START) => {}
            Some(marker @ 0x02..=0xbf) => {
                return Err(Error::data(format!("the JPEG is damaged: reserved marker 0x{marker:02x} at byte {at}")));
            }
            Some(&marker) => {
                scans += usize::from(marker == SCAN);
                let Some(&[high, low]) = bytes.get(at + 1..at + 3) else { return Err(truncated()) };
                at += 1 + usize::from(u16::from_be_bytes([high, low]));
            }
            None => return Err(truncated()),
        }
    }
    Err(truncated())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_many_scans_is_refused_before_it_is_decoded() {
        let file = |count: usize| [&[0xff, 0xd8][..], &[0xff, 0xda, 0, 2].repeat(count), &[0xff, 0xd9]].concat();
        let message = |count: usize| decode(&file(count)).unwrap_err().to_string();
        assert_eq!(message(20_000), "the JPEG has 20000 scans, expected at most 200");
        assert!(message(200).contains("damaged"), "{}", message(200));
        // With restart markers, libjpeg would look into the segment of a reserved marker.
        let hidden = [&[0xff, 0xd8, 0xff, 0x02, 0, 6][..], &[0xff, 0xda, 0, 2], &[0xff, 0xd9]].concat();
        let message = decode(&hidden).unwrap_err().to_string();
        assert_eq!(message, "the JPEG is damaged: reserved marker 0x02 at byte 3");
        // Few scans of many pixels: a grey progressive image.
        let file = |edge: u16, count: usize| {
            let [high, low] = edge.to_be_bytes();
            let frame = [0xff, 0xc2, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0];
            let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0];
            [&[0xff, 0xd8][..], &frame, &scan.repeat(count), &[0xff, 0xd9]].concat()
        };
        let message = |edge, count| decode(&file(edge, count)).err().map(|error| error.to_string());
        assert_eq!(message(9000, 23).unwrap(), "the JPEG has 23 scans, expected at most 22 of its 9000 × 9000 pixels");
        assert!(message(3000, 198).is_none_or(|message| !message.contains("expected at most")));
        assert_eq!(
            message(3000, 199).unwrap(),
            "the JPEG has 199 scans, expected at most 198 of its 3000 × 3000 pixels"
        );
        assert!(message(900, 200).is_none_or(|message| !message.contains("expected at most")));
    }
}
