//! `webdataset`: tar files with images and their captions.

mod settings;
mod run;
#[cfg(test)]
mod tests;

pub(super) use run::run;
pub use settings::{CaptionMember, WebDataset};
