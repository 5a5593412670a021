//! `concepts`: words that captions have in common, and how often they occur together.

use arrow::array::{Int64Array, StringArray};

use super::VectorColumn;
use super::column::table;

table! {
    /// One row per concept, in the order of its number.
    "concepts" {
        /// Number of the concept, from 0.
        concept_id: Int64Array,
        /// Lemma of its words.
        lemma: StringArray,
        /// Category: `object` (nouns), `property` (adjectives) or `motion` (verbs).
        category: StringArray,
        /// Words that name it, separated by blanks: `dog dogs`.
        words: StringArray,
        /// Number of training captions that hold it.
        n_captions: Int64Array,
        /// Number of training captions that hold it and each concept, in the order of their numbers.
        co_occurrences: VectorColumn,
    }
}
