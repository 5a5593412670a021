//! `qrels`: relevance judgements of queries and items. The name is TREC's, short for query relevance.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::column::table;

table! {
    /// One row per judged pair of a query and an item, in either direction of retrieval.
    "qrels" {
        /// Direction of retrieval: `i2t` if a caption is judged for an image, `t2i` if an image is judged for a caption.
        direction: StringArray,
        /// Identifier of the query: `image_id` (i2t) or `caption_id` (t2i).
        query_id: Int64Array,
        /// Identifier of the item: `caption_id` (i2t) or `image_id` (t2i).
        item_id: Int64Array,
        /// Grade of relevance; 1 for all items of files that list relevant items without grades.
        grade: Float64Array,
    }
}
