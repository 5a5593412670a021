//! `ingest`: files of a data set → `images`, `captions` (and `features`, when the data set comes with them).

mod settings;

pub use settings::{Coco, Flickr, Ingest, Karpathy, OnMissing, Precomp, PrecompTest, Scenes};
