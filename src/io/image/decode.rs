//! Finds the format of an encoded picture by its content, and decodes it.

use super::{Picture, jpeg, png};
use crate::error::{Error, Result};

/// Decodes a JPEG or PNG picture to RGB.
///
/// Grey becomes three equal channels, a palette its colours, and alpha is dropped. Memory: the pixels, and as much again
/// for pictures that are not 8-bit RGB.
///
/// # Errors
/// Bytes that are no JPEG or PNG, a damaged or truncated picture, or one of more than [`super::MAX_PIXELS`].
pub fn decode(bytes: &[u8]) -> Result<Picture> {
    match bytes {
        [] => Err(Error::data("it is empty (0 bytes)")),
        [0xff, 0xd8, 0xff, ..] => jpeg::decode(bytes),
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => png::decode(bytes),
        _ => Err(Error::data(format!("it is {}, wanted JPEG or PNG", named(bytes)))),
    }
}

/// What the first bytes look like, for a message.
fn named(bytes: &[u8]) -> String {
    let name = match bytes {
        [b'G', b'I', b'F', b'8', ..] => "a GIF picture",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "a WebP picture",
        [b'B', b'M', ..] => "a BMP picture",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => "a TIFF picture",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "a HEIF, AVIF or MP4 file",
        [b'<', ..] => "a text file (HTML, XML or SVG)",
        _ => return format!("of an unknown format (first bytes {:02x?})", &bytes[..bytes.len().min(8)]),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_it_got_instead_of_a_picture() {
        for (bytes, wanted) in [
            (&b""[..], "it is empty (0 bytes)"),
            (b"GIF89a...", "it is a GIF picture, wanted JPEG or PNG"),
            (b"<html>not found", "it is a text file (HTML, XML or SVG), wanted JPEG or PNG"),
            (b"\x00\x01", "it is of an unknown format (first bytes [00, 01]), wanted JPEG or PNG"),
        ] {
            assert_eq!(decode(bytes).unwrap_err().to_string(), wanted);
        }
    }
}
