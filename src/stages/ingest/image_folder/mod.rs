//! Folder of images with a table of captions, as Hugging Face's `imagefolder`.

mod settings;
mod fractions;
mod run;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod bucket_tests;

pub(super) use run::run;
pub use settings::{ImageFolder, ImageFolderColumns, ImageSplit, SplitFractions};
