//! Decoding of images to RGB pixels, equal to `PIL.Image.open(…).convert("RGB")`.
//!
//! ```text
//! bytes ─► decode: which format? ─┬─► jpeg (libjpeg-turbo's decoder) ─┬─► DecodedImage
//!                                 └─► png  (the png crate)           ─┘
//! ```
//!
//! As in PIL, the format is detected from the content and not from the name of the file, EXIF orientation and colour
//! profiles are ignored, and truncated images are refused.

mod image_file;
mod picture_digest;
mod decode;
mod jpeg;
mod decoded_image;
mod decoding_memory;
mod png;
mod encoded_images;

pub use decode::{IMAGE_EXTENSIONS, decode, extension, image_size, strip_image_extension};
pub use decoded_image::{DecodedImage, MAX_PIXELS};
pub use decoding_memory::HeldImage;
pub use encoded_images::EncodedImages;
pub use image_file::read_image_file;
pub use picture_digest::{picture_digest, picture_digests};
