//! `image_embeddings`: images in the joint space.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per image: its vector in the joint space.
    "image_embeddings" {
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Vector in the joint space, f32, with unit L2 norm, except from `ingest` with `normalize = false`.
        embedding: VectorColumn,
    }
}
