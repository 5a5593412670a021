//! Schemas of the tables that stages exchange, one file for each table.
//!
//! The columns of a table are defined here only; `docs/reference/tables.md` is generated from them.

pub mod images;
pub mod captions;
pub mod ratings;
pub mod published;
pub mod qrels;
pub mod features;
pub mod regions;
pub mod region_boxes;
pub mod caption_ngrams;
pub mod scene_graphs;
pub mod caption_similarity;
pub mod spice_scores;
pub mod concepts;
pub mod data_order;
pub mod samples;
pub mod memory_bank;
pub mod history;
pub mod auxiliary_losses;
pub mod loss_scalars;
pub mod validation;
pub mod image_embeddings;
pub mod caption_embeddings;
pub mod scored_captions;
pub mod attention;
pub mod scores;
pub mod rankings;
pub mod hubs;
pub mod metrics;
pub mod summary;
pub mod significance_tests;
pub mod correlations;
mod column;
pub mod halves;

use arrow::datatypes::Schema;
use column::cutoffs;
pub use column::{
    Column, ColumnValues, DEFAULT_CUTOFFS, ListColumn, Nullable, Table, VectorColumn, batch, batch_of_rows,
    column_type, float_column, int_column, list_array, repeated, text_column, vector_array, vector_column, vector_type,
};
pub use halves::{from_halves, half_schema, to_halves};

/// Returns all tables, in the order of the stages that write them. Tables with a column for each cut-off have the
/// default cut-offs.
#[must_use]
pub fn all() -> Vec<Table> {
    vec![
        images::table(),
        captions::table(),
        ratings::table(),
        published::table(),
        qrels::table(),
        features::table(),
        regions::table(),
        region_boxes::table(),
        caption_ngrams::table(),
        scene_graphs::table(),
        caption_similarity::table(),
        spice_scores::table(),
        concepts::table(),
        data_order::table(),
        samples::table(),
        memory_bank::table(),
        history::table(),
        auxiliary_losses::table(),
        loss_scalars::table(),
        validation::table(),
        image_embeddings::table(),
        caption_embeddings::table(),
        scores::table(),
        scored_captions::table(),
        attention::table(),
        rankings::table(&DEFAULT_CUTOFFS),
        hubs::table(&DEFAULT_CUTOFFS),
        metrics::table(),
        summary::table(&DEFAULT_CUTOFFS),
        significance_tests::table(),
        correlations::table(),
    ]
}

/// Returns the table `name` with columns for the cut-offs of a stored table's schema.
#[must_use]
pub fn described(name: &str, schema: &Schema) -> Option<Table> {
    match name {
        "rankings" => Some(rankings::table(&rankings::cutoffs(schema))),
        "hubs" => Some(hubs::table(&hubs::cutoffs(schema))),
        "summary" => Some(summary::table(&summary::cutoffs(schema))),
        _ => all().into_iter().find(|table| table.name == name),
    }
}
