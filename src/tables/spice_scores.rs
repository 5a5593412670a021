//! `spice_scores`: SPICE with its precision, recall and sub-scores.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Nullable;
use super::column::table;

table! {
    /// One row per image-caption pair: SPICE with its precision, recall and sub-scores. A sub-score without tuples is
    /// missing.
    "spice_scores" {
        /// Identifier of the image, whose captions are the references.
        image_id: Int64Array,
        /// Identifier of the caption.
        caption_id: Int64Array,
        /// F-score of all tuples, which is φ.
        f: Float64Array,
        /// Precision: share of the caption's tuples that the references have.
        precision: Float64Array,
        /// Recall: share of the references' tuples that the caption has.
        recall: Float64Array,
        /// F-score of the objects alone.
        object: Nullable<Float64Array>,
        /// F-score of the attributes alone.
        attribute: Nullable<Float64Array>,
        /// F-score of the relations alone.
        relation: Nullable<Float64Array>,
        /// F-score of the attributes that are colours.
        color: Nullable<Float64Array>,
        /// F-score of the attributes that are numbers.
        count: Nullable<Float64Array>,
        /// F-score of the attributes that are sizes.
        size: Nullable<Float64Array>,
        /// Tokeniser of the captions: `ptb`, `treebank`, `whitespace` or `python3_bytes`.
        tokenizer: StringArray,
    }
}
