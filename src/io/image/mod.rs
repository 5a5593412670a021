//! Encoded pictures to RGB pixels, as `PIL.Image.open(…).convert("RGB")` gives them.
//!
//! ```text
//! bytes ─► decode: which format? ─┬─► jpeg (libjpeg-turbo's decoder) ─┬─► Picture
//!                                 └─► png  (the png crate)           ─┘
//! ```
//!
//! What PIL does is done: the content tells the format and not the name of the file, an EXIF orientation is not applied,
//! colour profiles are not applied, and a picture that ends too early is refused.

mod below;
mod decode;
mod jpeg;
mod picture;
mod png;
mod rows;

pub use below::read_below;
pub use decode::decode;
pub use picture::{MAX_PIXELS, Picture};
pub use rows::Pictures;
