//! `hugging_face`: Parquet or Arrow files with a column of images and one of captions.

mod settings;
mod run;
#[cfg(test)]
mod tests;

pub(super) use run::run;
pub use settings::HuggingFace;
