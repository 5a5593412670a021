//! `ratings`: what people say of pairs of captions and images.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::values::table;

table! {
    /// One row a pair of caption and image that people rated.
    "ratings" {
        /// The caption.
        caption_id: Int64Array,
        /// The image.
        image_id: Int64Array,
        /// What people gave, the mean of all of them: 0 to 5 in Crisscrossed Captions.
        rating: Float64Array,
        /// Why the pair was rated: `c2i_original` is a caption with its own image.
        sampling: StringArray,
    }
}
