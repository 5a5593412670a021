//! A decoded picture, and how large one may be.

use crate::error::{Error, Result};

/// Pixels above which a picture is refused: where PIL warns of a decompression bomb (a quarter of 1 GiB of RGB).
pub const MAX_PIXELS: u64 = 89_478_485;

/// Pixels of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row, at least 1.
    pub width: usize,
    /// Rows, at least 1.
    pub height: usize,
    /// Rows from the top, pixels from the left, three bytes each: red, green, blue.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Joins a size and its pixels.
    ///
    /// # Errors
    /// The pixels are not `width` × `height`, or there are none.
    pub(super) fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Self> {
        if rgb.is_empty() || rgb.len() != width * height * 3 {
            return Err(Error::data(format!("{} bytes of pixels, wanted {width} × {height} × 3", rgb.len())));
        }
        Ok(Self { width, height, rgb })
    }
}

/// Refuses sizes that a file can claim and memory cannot hold.
///
/// # Errors
/// More pixels than [`MAX_PIXELS`], or none.
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
