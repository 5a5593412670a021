//! `image_urls`: a table of URLs of images with their captions.

mod settings;
mod run;
#[cfg(test)]
mod tests;

pub(super) use run::run;
pub use settings::{ImageUrlColumns, ImageUrls};
