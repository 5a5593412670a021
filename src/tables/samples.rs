//! `samples`: training samples, in the order of their numbers.

use arrow::array::Int64Array;
use arrow::datatypes::Int32Type;

use super::ListColumn;
use super::column::table;

table! {
    /// One row per training sample: a caption with its image. Rows are in the order of `data_set` and `sample`.
    "samples" {
        /// Number of the data set, from 0: data set 0 is that of `features` and `captions`.
        data_set: Int64Array,
        /// Number of the sample in its data set, from 0.
        sample: Int64Array,
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// Identifier of the image.
        image_id: Int64Array,
        /// Number of the shard (part) of the features that holds the image.
        shard: Int64Array,
        /// Row of the image in that shard.
        row: Int64Array,
        /// Token ids of the caption, with `<start>` and `<end>`.
        token_ids: ListColumn<Int32Type>,
    }
}
