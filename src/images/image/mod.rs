//! Decoding of images to RGB pixels, equal to `PIL.Image.open(…).convert("RGB")`.
//!
//! ```text
//! bytes ─► decode: which format? ─┬─► jpeg (libjpeg-turbo's decoder) ─┬─► DecodedImage
//!                                 └─► png  (the png crate)           ─┘
//! ```
//!
//! As in PIL, the format is detected from the content and not from the name of the file, EXIF orientation and colour
//! profiles are ignored, and truncated images are refused.

use pairloom_base::error::{Error, Result};

pub use decoding_memory::HeldImage;
pub use encoded_images::{EncodedImages, picture_digest, picture_digests, read_image_file};

mod jpeg;
mod decoding_memory;
mod png;
mod encoded_images;

/// Decodes a JPEG or PNG image to RGB.
///
/// Grey becomes three equal channels, a palette its colours, and alpha is dropped. Memory: the pixels, twice for images
/// that are not 8-bit RGB.
///
/// # Errors
/// The bytes are not JPEG or PNG, are damaged or truncated, or have more than [`self::MAX_PIXELS`] pixels.
pub fn decode(bytes: &[u8]) -> Result<DecodedImage> {
    match Format::of(bytes)? {
        Format::Jpeg => jpeg::decode(bytes),
        Format::Png => png::decode(bytes),
    }
}

/// Returns the width and height of a JPEG or PNG image in pixels, from its header. The pixels may be damaged.
///
/// # Errors
/// The bytes are not JPEG or PNG, the header is damaged, or it claims more than [`self::MAX_PIXELS`] pixels.
pub fn image_size(bytes: &[u8]) -> Result<(usize, usize)> {
    match Format::of(bytes)? {
        Format::Jpeg => jpeg::size(bytes),
        Format::Png => png::size(bytes),
    }
}

/// Usual extension of the format of an encoded image; `None` if it is neither JPEG nor PNG.
#[must_use]
pub fn extension(bytes: &[u8]) -> Option<&'static str> {
    match Format::of(bytes) {
        Ok(Format::Jpeg) => Some("jpg"),
        Ok(Format::Png) => Some("png"),
        Err(_) => None,
    }
}

/// Extensions of the names of images, in lower case.
pub const IMAGE_EXTENSIONS: [&str; 3] = ["jpg", "jpeg", "png"];

/// Name without the extension of an image, in letters of any case; `None` if it has none.
#[must_use]
pub fn strip_image_extension(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    IMAGE_EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)).then_some(stem)
}

/// Format of an encoded image.
enum Format {
    Jpeg,
    Png,
}

impl Format {
    /// Detects the format from the first bytes.
    fn of(bytes: &[u8]) -> Result<Self> {
        match bytes {
            [] => Err(Error::data("it is empty (0 bytes)")),
            [0xff, 0xd8, 0xff, ..] => Ok(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Self::Png),
            _ => Err(Error::data(format!("it is {}, expected JPEG or PNG", format_name(bytes)))),
        }
    }
}

/// Name of the format that the first bytes suggest, for messages.
fn format_name(bytes: &[u8]) -> String {
    let name = match bytes {
        [b'G', b'I', b'F', b'8', ..] => "a GIF image",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "a WebP image",
        [b'B', b'M', ..] => "a BMP image",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => "a TIFF image",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "a HEIF, AVIF or MP4 file",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', b'h', ..] => "a pointer of Git LFS (run `git lfs pull`)",
        [b'<', ..] => "a text file (HTML, XML or SVG)",
        _ if is_text(&bytes[..bytes.len().min(64)]) => "a text file",
        _ => return format!("of an unknown format (first bytes {:02x?})", &bytes[..bytes.len().min(8)]),
    };
    name.to_owned()
}

fn is_text(start: &[u8]) -> bool {
    start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Maximum number of pixels of an image: PIL's limit for decompression bombs (a quarter of 1 GiB of RGB).
pub const MAX_PIXELS: u64 = 89_478_485;

/// Decoded RGB image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedImage {
    /// Width in pixels, at least 1.
    pub width: usize,
    /// Height in pixels, at least 1.
    pub height: usize,
    /// Pixels in row-major order from the top left, three bytes each: red, green, blue.
    pub rgb: Vec<u8>,
}

impl DecodedImage {
    /// Creates an image of a size and its pixels.
    ///
    /// # Errors
    /// The number of pixels is not `width` × `height`, or is zero.
    fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Self> {
        if rgb.is_empty() || rgb.len() != width * height * 3 {
            return Err(Error::data(format!("{} bytes of pixels, expected {width} × {height} × 3", rgb.len())));
        }
        Ok(Self { width, height, rgb })
    }
}

/// Checks the size in a file's header before memory is allocated for it.
///
/// # Errors
/// The image has more than [`MAX_PIXELS`] pixels, or none.
fn check_size(width: u64, height: u64) -> Result<()> {
    let pixels = width.saturating_mul(height);
    if pixels == 0 {
        return Err(Error::data(format!("it has no pixels ({width} × {height})")));
    }
    if pixels > MAX_PIXELS {
        return Err(Error::data(format!("it has {width} × {height} = {pixels} pixels, expected at most {MAX_PIXELS}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_format_of_other_files() {
        for (bytes, expected) in [
            (&b""[..], "it is empty (0 bytes)"),
            (b"GIF89a...", "it is a GIF image, expected JPEG or PNG"),
            (b"version https://git-lfs", "it is a pointer of Git LFS (run `git lfs pull`), expected JPEG or PNG"),
            (b"<html>not found", "it is a text file (HTML, XML or SVG), expected JPEG or PNG"),
            (b"a dog\n", "it is a text file, expected JPEG or PNG"),
            (b"\x00\x01", "it is of an unknown format (first bytes [00, 01]), expected JPEG or PNG"),
        ] {
            assert_eq!(decode(bytes).unwrap_err().to_string(), expected);
        }
    }
}
