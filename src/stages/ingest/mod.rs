//! `ingest`: files of a data set → `images`, `captions` (and `features` or `regions`, if the data set has them), or
//! `ratings`, or `qrels`, or the rows that papers print (`published`), or the `image_embeddings` and `caption_embeddings` of another
//! program.
//!
//! For every format:
//! - images are in the order of the data set; the captions of an image are adjacent and in their order;
//! - white space around a caption is removed; a caption is not changed otherwise;
//! - a duplicate identifier, an empty caption, an unknown split, bytes that are not UTF-8, or a name that leads out of
//!   the image folder is an error. The error names file and line, and lists all mistakes of the file.

mod settings;
mod part_rows;
mod on_missing;
mod separator;
mod run;
mod karpathy;
mod flickr;
mod coco;
mod precomp;
mod caption_rows;
mod image_folder;
mod captions;
mod ratings;
mod published;
mod qrels;
mod embeddings;
mod picture_rows;
mod webdataset;
mod hugging_face;
mod image_urls;
mod synthetic;
mod listing;
mod listed_images;
mod writer;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod url_names_tests;

pub use embeddings::{EmbeddingColumns, PrecomputedEmbeddings};
pub use hugging_face::HuggingFace;
pub use image_folder::{ImageFolder, ImageFolderColumns, ImageSplit, SplitFractions};
pub use image_urls::{ImageUrlColumns, ImageUrls};
pub use on_missing::OnMissing;
pub use qrels::QrelsFiles;
pub use ratings::{RatingForm, RatingTable};
pub use settings::{CaptionTable, Coco, CocoFile, Flickr, Ingest, Karpathy, Precomp, PrecompTest, SyntheticScenes};
pub use webdataset::{CaptionMember, WebDataset};
