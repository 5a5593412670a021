//! `ingest`: files of a data set → `images`, `captions` (and `features` or `regions`, when the data set comes with them), or
//! `ratings`, or the `image_embeddings` and `caption_embeddings` of another program.
//!
//! Whatever the form, and so for everything downstream:
//! - images come in the order of the data set, the captions of an image together and in their order;
//! - white space around a caption is removed, and nothing else is changed in it;
//! - an identifier that comes twice, an empty caption, a split of unknown name, bytes that are not UTF-8, or a name that
//!   leads out of the image folder is an error that names file and line, together with all others of that file.

mod settings;
mod parts;
mod missing;
mod run;
mod karpathy;
mod flickr;
mod coco;
mod precomp;
mod captions;
mod ratings;
mod embeddings;
mod scenes;
mod listing;
mod rows;
#[cfg(test)]
mod testing;

pub use embeddings::{EmbeddingColumns, Embeddings};
pub use missing::OnMissing;
pub use settings::{CaptionTable, Coco, CocoFile, Flickr, Ingest, Karpathy, Precomp, PrecompTest, RatingTable, Scenes};
