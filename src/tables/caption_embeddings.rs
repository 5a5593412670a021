//! `caption_embeddings`: captions in the joint space.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per caption: its vector in the joint space.
    "caption_embeddings" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image that the caption describes.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Tokeniser of the captions: `ptb`, `treebank`, `whitespace`, `python3_bytes` or `clip` (byte pairs);
        /// `unknown` for vectors that another program computed.
        tokenizer: StringArray,
        /// Vector in the joint space, f32, with unit L2 norm, except from `ingest` with `normalize = false`.
        embedding: VectorColumn,
    }
}
