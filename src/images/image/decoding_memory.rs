//! Memory for decoding images, which all threads of the process share: large images wait for one another.
//!
//! A thread holds one image at a time, so an image that waits is waited for by no other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::DecodedImage;
use super::{decode, image_size};
use pairloom_base::error::Result;

/// Memory of the process. An image that needs more is decoded while no other is.
static PROCESS_MEMORY: DecodingMemory = DecodingMemory::new(1 << 30);

/// Bytes for each pixel while an image is decoded: three of RGB, and at most nine of the decoder, for the coefficients of
/// a progressive JPEG or the 16-bit values of a PNG.
const BYTES_PER_PIXEL: u64 = 12;

/// Memory that images share.
#[derive(Debug)]
pub(super) struct DecodingMemory {
    limit: u64,
    used: Mutex<u64>,
    released: Condvar,
}

/// Share of an image, which ends with the value.
#[derive(Debug)]
struct MemoryShare {
    memory: &'static DecodingMemory,
    bytes: u64,
}

/// Decoded image with its share of the memory of all images.
#[derive(Debug)]
pub struct HeldImage {
    image: DecodedImage,
    _share: Option<MemoryShare>,
}

impl DecodingMemory {
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, used: Mutex::new(0), released: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a share. Waits while it does not fit beside those of others.
    fn take(&'static self, bytes: u64) -> MemoryShare {
        let is_full = |used: &mut u64| *used > 0 && used.saturating_add(bytes) > self.limit;
        let mut used = self.released.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_add(bytes);
        drop(used);
        MemoryShare { memory: self, bytes }
    }
}

impl MemoryShare {
    /// Gives all but `bytes` back.
    fn shrink_to(&mut self, bytes: u64) {
        let returned = self.bytes.saturating_sub(bytes);
        self.bytes -= returned;
        *self.memory.lock() -= returned;
        self.memory.released.notify_all();
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl HeldImage {
    /// Decodes an image as [`decode`], once its share of the memory of the process is free.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::decode_within(&PROCESS_MEMORY, bytes)
    }

    fn decode_within(memory: &'static DecodingMemory, bytes: &[u8]) -> Result<Self> {
        // Decoding says what is wrong with a header that cannot be read.
        let pixels = image_size(bytes).map_or(0, |(width, height)| (width as u64).saturating_mul(height as u64));
        let mut share = memory.take(pixels.saturating_mul(BYTES_PER_PIXEL));
        let image = decode(bytes)?;
        share.shrink_to(image.rgb.len() as u64);
        Ok(Self { image, _share: Some(share) })
    }

    /// The same image without its share, for a keeper that has a limit of its own.
    #[must_use]
    pub fn without_share(self) -> Self {
        Self { image: self.image, _share: None }
    }
}

impl From<DecodedImage> for HeldImage {
    fn from(image: DecodedImage) -> Self {
        Self { image, _share: None }
    }
}

impl std::ops::Deref for HeldImage {
    type Target = DecodedImage;

    fn deref(&self) -> &DecodedImage {
        &self.image
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::atomic::{AtomicU64, Ordering};

    use image::{ImageFormat, RgbImage};

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        RgbImage::from_pixel(width, height, image::Rgb([1, 2, 3])).write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    /// Images of 100 × 100 pixels need 120,000 bytes while they are decoded and 30,000 after it; the limit is that of two
    /// and a half.
    #[test]
    fn the_images_of_all_threads_together_stay_within_the_limit() {
        static MEMORY: DecodingMemory = DecodingMemory::new(300_000);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let picture = png(100, 100);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let image = HeldImage::decode_within(&MEMORY, &picture).unwrap();
                        let now = held.fetch_add(30_000, Ordering::SeqCst) + 30_000;
                        most.fetch_max(now.max(*MEMORY.lock()), Ordering::SeqCst);
                        assert_eq!((image.width, image.height, image.rgb.len()), (100, 100, 30_000));
                        std::thread::yield_now();
                        held.fetch_sub(30_000, Ordering::SeqCst);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((30_000..=300_000).contains(&most), "{most}");
        assert_eq!(*MEMORY.lock(), 0, "all is given back");
    }

    #[test]
    fn an_image_waits_for_the_memory_of_another_and_a_larger_one_is_alone() {
        static MEMORY: DecodingMemory = DecodingMemory::new(300_000);
        let first = HeldImage::decode_within(&MEMORY, &png(200, 200)).unwrap();
        assert_eq!(*MEMORY.lock(), 120_000, "3 bytes a pixel");
        std::thread::scope(|scope| {
            // 480,000 bytes, which never fit.
            let second = scope.spawn(|| HeldImage::decode_within(&MEMORY, &png(200, 200)).unwrap().rgb.len());
            // 120,000 bytes, which fit.
            HeldImage::decode_within(&MEMORY, &png(100, 100)).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!second.is_finished(), "it waits");
            drop(first.without_share());
            assert_eq!(second.join().unwrap(), 120_000);
        });
        assert!(HeldImage::decode_within(&MEMORY, b"no image").is_err());
        assert_eq!(*MEMORY.lock(), 0);
    }
}
