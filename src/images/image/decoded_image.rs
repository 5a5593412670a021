//! Decoded image and its maximum size.

use pairloom_base::error::{Error, Result};

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
    pub(super) fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Self> {
        if rgb.is_empty() || rgb.len() != width * height * 3 {
            return Err(Error::data(format!("{} bytes of pixels, wanted {width} × {height} × 3", rgb.len())));
        }
        Ok(Self { width, height, rgb })
    }
}

/// Checks the size in a file's header before memory is allocated for it.
///
/// # Errors
/// The image has more than [`MAX_PIXELS`] pixels, or none.
pub(super) fn check_size(width: u64, height: u64) -> Result<()> {
    let pixels = width.saturating_mul(height);
    if pixels == 0 {
        return Err(Error::data(format!("it has no pixels ({width} × {height})")));
    }
    if pixels > MAX_PIXELS {
        return Err(Error::data(format!("it has {width} × {height} = {pixels} pixels, wanted at most {MAX_PIXELS}")));
    }
    Ok(())
}
