//! images

pub mod http_images;
pub mod image;
pub mod thumbnail;
