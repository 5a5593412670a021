//! Settings of `qrels`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::part_rows::QRELS_PART_ROWS;
use pairloom_stage::{Problem, SourceRef, StageInput, StageOutput};
use pairloom_tables as tables;

/// Relevance judgements of queries and items (qrels), one file for each direction of retrieval, at least one.
///
/// A file is one of:
/// - TREC's text form: lines `query iteration item grade`, also compressed by gzip;
/// - a JSON object that maps each query to the list of its relevant items, as ECCV Caption and its form of Crisscrossed
///   Captions are published.
///
/// Queries and items have the identifiers of the tables `images` and `captions`, or of the embeddings.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QrelsFiles {
    /// Judged captions of images, such as `eccv_image_to_caption.json`.
    pub i2t: Option<SourceRef>,
    /// Judged images of captions, such as `eccv_caption_to_image.json`.
    pub t2i: Option<SourceRef>,
}

impl QrelsFiles {
    /// The given files: direction, name of the input, and file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &'static str, &SourceRef)> {
        let files = [("i2t", "qrels.i2t", &self.i2t), ("t2i", "qrels.t2i", &self.t2i)];
        files.into_iter().filter_map(|(direction, input, file)| Some((direction, input, file.as_ref()?)))
    }

    pub(in super::super) fn inputs(&self) -> Vec<StageInput> {
        self.files().map(|(_, input, file)| StageInput::source(input, file)).collect()
    }

    pub(in super::super) fn outputs() -> Vec<StageOutput> {
        vec![StageOutput::table("qrels", tables::qrels::table().schema(), QRELS_PART_ROWS)]
    }

    pub(in super::super) fn check(&self) -> Option<Problem> {
        let problem = || Problem::new("qrels", "got no file, wanted `i2t`, `t2i` or both");
        self.files().next().is_none().then(problem)
    }
}
