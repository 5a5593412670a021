//! Images: decoding to pixels, thumbnails, and fetching from URLs. The only crate with image codecs.
//!
//! - [`image`]: bytes to pixels, with the pixels of PIL. Open it first.
//! - [`thumbnail`]: small JPEGs for pages. [`http_images`]: images at URLs and in buckets, at a polite pace.
//!
//! **Invariant:** of URLs, only public addresses are asked, and a decoder is given no more memory than its limit.

pub mod http_images;
pub mod image;
pub mod thumbnail;
