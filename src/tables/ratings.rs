//! `ratings`: human ratings of image-caption pairs.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Nullable;
use super::column::table;

table! {
    /// One row per rating of a caption and an image. A pair has several rows if several people rated it and the source has
    /// their ratings one by one.
    "ratings" {
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image.
        image_id: Int64Array,
        /// Human rating of the pair: of one person, as in Flickr8k-Expert, from 1 to 4; or the mean of several, as in
        /// Crisscrossed Captions, from 0 to 5.
        rating: Float64Array,
        /// Sampling method that selected the pair: `c2i_original` of Crisscrossed Captions pairs a caption with its own image,
        /// as `own_image` does of Flickr8k-Expert.
        sampling: StringArray,
        /// Person who gave the rating. Missing if the source does not name people.
        rater: Nullable<StringArray>,
    }
}
