//! `samples`: what a training reads, in the order in which its plan counts.

use arrow::array::Int64Array;
use arrow::datatypes::Int32Type;

use super::Lists;
use super::values::table;

table! {
    /// One row a training sample, a caption with its image, in the order in which the plan of the epochs counts.
    "samples" {
        /// The data set, from 0: the first is `features` and `captions`.
        data_set: Int64Array,
        /// Number of the sample in its data set, from 0.
        sample: Int64Array,
        /// The caption.
        caption_id: Int64Array,
        /// The image.
        image_id: Int64Array,
        /// The shard (part) of the features that holds the image.
        shard: Int64Array,
        /// The row of the image in that shard.
        row: Int64Array,
        /// Numbers of the words of the caption, `<start>` and `<end>` among them.
        words: Lists<Int32Type>,
    }
}
