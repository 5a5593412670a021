//! `caption_embeddings`: captions in the joint space.

use arrow::array::{Int64Array, StringArray};

use super::Vectors;
use super::values::table;

table! {
    /// One row a caption: its vector in the joint space.
    "caption_embeddings" {
        /// The caption.
        caption_id: Int64Array,
        /// The image that it describes.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`; `unknown` of vectors
        /// that another program computed.
        tokenizer: StringArray,
        /// Vector in the joint space, f32, unit L2 norm but for `ingest` with `normalize = false`.
        embedding: Vectors,
    }
}
