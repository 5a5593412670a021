//! `spice_scores`: SPICE with its precision, recall and sub-scores.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::Optional;
use super::values::table;

table! {
    /// One row a pair of image and caption: SPICE and what it is made of. A score of no tuples is missing.
    "spice_scores" {
        /// The image, whose captions are the references.
        image_id: Int64Array,
        /// The caption.
        caption_id: Int64Array,
        /// F-score of all tuples: φ.
        f: Float64Array,
        /// Share of the caption's tuples that the references have.
        precision: Float64Array,
        /// Share of the references' tuples that the caption has.
        recall: Float64Array,
        /// F-score of the objects alone.
        object: Optional<Float64Array>,
        /// F-score of the attributes alone.
        attribute: Optional<Float64Array>,
        /// F-score of the relations alone.
        relation: Optional<Float64Array>,
        /// F-score of the attributes that are colours.
        color: Optional<Float64Array>,
        /// F-score of the attributes that are numbers.
        count: Optional<Float64Array>,
        /// F-score of the attributes that are sizes.
        size: Optional<Float64Array>,
        /// How captions were cut into words: `ptb`, `treebank`, `whitespace`, `python3_bytes`.
        tokenizer: StringArray,
    }
}
