//! Reader of `qrels`: relevance judgements, as lines of TREC or as JSON lists of relevant items.
//!
//! JSON: Chun et al., "ECCV Caption: Correcting False Negatives by Collecting Machine-and-Human-verified Image-Caption
//! Associations for MS-COCO", ECCV 2022, whose files also hold the positives of Crisscrossed Captions.

mod settings;
mod read;
mod relevant_lists;

pub(super) use read::run;
pub use settings::QrelsFiles;
