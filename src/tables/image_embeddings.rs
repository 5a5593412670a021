//! `image_embeddings`: images in the joint space.

use arrow::array::{Int64Array, StringArray};

use super::Vectors;
use super::values::table;

table! {
    /// One row an image: its vector in the joint space.
    "image_embeddings" {
        /// The image.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// Vector in the joint space, f32, unit L2 norm but for `ingest` with `normalize = false`.
        embedding: Vectors,
    }
}
