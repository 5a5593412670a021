//! Decoding of images, whose format is detected from their content.

use super::{DecodedImage, jpeg, png};
use pairloom_base::error::{Error, Result};

/// Decodes a JPEG or PNG image to RGB.
///
/// Grey becomes three equal channels, a palette its colours, and alpha is dropped. Memory: the pixels, twice for images
/// that are not 8-bit RGB.
///
/// # Errors
/// The bytes are not JPEG or PNG, are damaged or truncated, or have more than [`super::MAX_PIXELS`] pixels.
pub fn decode(bytes: &[u8]) -> Result<DecodedImage> {
    match Format::of(bytes)? {
        Format::Jpeg => jpeg::decode(bytes),
        Format::Png => png::decode(bytes),
    }
}

/// Returns the width and height of a JPEG or PNG image in pixels, from its header. The pixels may be damaged.
///
/// # Errors
/// The bytes are not JPEG or PNG, the header is damaged, or it claims more than [`super::MAX_PIXELS`] pixels.
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
            _ => Err(Error::data(format!("it is {}, wanted JPEG or PNG", format_name(bytes)))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_format_of_other_files() {
        for (bytes, wanted) in [
            (&b""[..], "it is empty (0 bytes)"),
            (b"GIF89a...", "it is a GIF image, wanted JPEG or PNG"),
            (b"version https://git-lfs", "it is a pointer of Git LFS (run `git lfs pull`), wanted JPEG or PNG"),
            (b"<html>not found", "it is a text file (HTML, XML or SVG), wanted JPEG or PNG"),
            (b"a dog\n", "it is a text file, wanted JPEG or PNG"),
            (b"\x00\x01", "it is of an unknown format (first bytes [00, 01]), wanted JPEG or PNG"),
        ] {
            assert_eq!(decode(bytes).unwrap_err().to_string(), wanted);
        }
    }
}
